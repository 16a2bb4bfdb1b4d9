// The text of a free-form tool's call. The model writes it as JSON, `{"input":"…"}`, and a client reads the bare text, while it
// is written: an escape, or half a surrogate pair, that a piece ends within waits for its rest.

const HEAD = /^\s*\{\s*"input"\s*:\s*"/

// Plain characters, a short escape, a character in hexadecimals; of a pair the first half alone once something whole follows.
const WHOLE =
  /[^"\\]+|\\["\\/bfnrt]|\\u(?![dD][89abAB])[\da-fA-F]{4}|\\u[\da-fA-F]{4}(?=[^\\]|\\[^u]|\\u[\da-fA-F]{4})/y

export class Unwrapped {
  #rest = ""
  #isInside = false

  /** What another piece of the JSON adds to the text. */
  take(piece: string): string {
    this.#rest += piece
    if (!this.#isInside) {
      const head = HEAD.exec(this.#rest)
      if (!head) return ""
      this.#rest = this.#rest.slice(head[0].length)
      this.#isInside = true
    }
    let at = 0
    for (;;) {
      WHOLE.lastIndex = at
      if (!WHOLE.test(this.#rest)) break
      at = WHOLE.lastIndex
    }
    const whole = this.#rest.slice(0, at)
    this.#rest = this.#rest.slice(at)
    return JSON.parse(`"${whole}"`) as string
  }
}

/** The text of a call as far as it has come. */
export function unwrapped(json: string): string {
  return new Unwrapped().take(json)
}
