// What somebody may have meant who mistyped a name.

const LIKELY = 0.75 // of the letters

/** Whether nearly all letters are the same, in whatever order. */
export function isLikely(typed: string, meant: string): boolean {
  return likeness(typed, meant) >= LIKELY
}

/** The name that is most like what was typed, in words for a refusal; nothing where none is. */
export function suggestion(typed: string, names: readonly string[]): string {
  const likely = names.filter((name) => isLikely(typed, name))
  const [best] = likely.sort((a, b) => likeness(typed, b) - likeness(typed, a))
  return best === undefined ? "" : `; did you mean ${best}?`
}

function likeness(typed: string, meant: string): number {
  const letters = (text: string) => Array.from(text.replace(/^-+/, ""))
  const [given, left] = [letters(typed), letters(meant)]
  const longest = Math.max(given.length, left.length)
  const shared = given.filter((letter) => {
    const at = left.indexOf(letter)
    return at >= 0 && left.splice(at, 1).length > 0
  })
  return shared.length / longest
}
