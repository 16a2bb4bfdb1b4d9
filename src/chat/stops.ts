// Stop strings, exactly: the text ends before the first character of the stop string that completes first (of two that
// complete together, the longer one), wherever tokens begin and end. Only text that may still become a stop string waits.

/** The stop strings of one request, prepared once for all its choices. */
export class StopTable {
  readonly patterns: readonly Pattern[]

  constructor(stops: readonly string[]) {
    this.patterns = stops.map((stop) => ({ stop, fallback: fallbacksOf(stop) }))
  }
}

/** Looks for them in the text of one choice. */
export class Stops {
  readonly #patterns: readonly Pattern[]
  readonly #matched: Int32Array // [patterns]  how many of each one's characters the text so far ends with
  #waiting = ""
  /** The stop string that ended the text. */
  found: string | undefined

  constructor({ patterns }: StopTable) {
    this.#patterns = patterns
    this.#matched = new Int32Array(patterns.length)
  }

  /** The text that may be sent now, and whether a stop string ends it here. */
  push(text: string): { text: string; stopped: boolean } {
    if (this.#patterns.length === 0) return { text, stopped: false }
    const all = this.#waiting + text
    for (let at = this.#waiting.length; at < all.length; at++) {
      const length = this.#step(all[at]!)
      if (length > 0) {
        this.#waiting = ""
        return { text: all.slice(0, at + 1 - length), stopped: true }
      }
    }
    const kept = Math.max(...this.#matched)
    this.#waiting = all.slice(all.length - kept)
    return { text: all.slice(0, all.length - kept), stopped: false }
  }

  /** What waited, when nothing more comes. */
  flush(): string {
    const rest = this.#waiting
    this.#waiting = ""
    this.#matched.fill(0)
    return rest
  }

  /** The length of the longest stop string that this character completes; 0: none. */
  #step(character: string): number {
    let longest = ""
    for (const [i, { stop, fallback }] of this.#patterns.entries()) {
      let matched = this.#matched[i]!
      while (matched > 0 && stop[matched] !== character) matched = fallback[matched - 1]!
      if (stop[matched] === character) matched++
      this.#matched[i] = matched
      if (matched === stop.length && matched > longest.length) longest = stop
    }
    if (longest !== "") this.found = longest
    return longest.length
  }
}

interface Pattern {
  stop: string
  fallback: Int32Array
}

/** Knuth, Morris and Pratt: the longest proper prefix of stop[0..i] that is its suffix, too. */
function fallbacksOf(stop: string): Int32Array {
  const fallback = new Int32Array(stop.length)
  for (let i = 1, matched = 0; i < stop.length; i++) {
    while (matched > 0 && stop[matched] !== stop[i]) matched = fallback[matched - 1]!
    if (stop[matched] === stop[i]) matched++
    fallback[i] = matched
  }
  return fallback
}

/** How many characters at the end of `text` begin `marker`. */
export function overlap(text: string, marker: string): number {
  for (let length = Math.min(text.length, marker.length - 1); length > 0; length--) {
    if (text.endsWith(marker.slice(0, length))) return length
  }
  return 0
}
