// Copies of KV blocks are asked for in order, and a device makes all of a list at once. The engine's lists have no block that
// is written and stands in them again; one that has is cut, so that whatever the list says is what happens.

/** Some pairs of a list, up to but without `end`. */
export interface Pairs {
  first: number
  end: number
}

/** A list of copies as pieces of it: made one after the other, each of them all at once, they are the list's in order. */
export function independentPairs(from: ArrayLike<number>, to: ArrayLike<number>): Pairs[] {
  const pieces: Pairs[] = []
  const read = new Set<number>()
  const written = new Set<number>()
  for (let pair = 0; pair < from.length; pair++) {
    const [source, target] = [from[pair]!, to[pair]!]
    if (pair === 0 || written.has(source) || written.has(target) || read.has(target)) {
      pieces.push({ first: pair, end: pair })
      read.clear()
      written.clear()
    }
    read.add(source)
    written.add(target)
    pieces.at(-1)!.end = pair + 1
  }
  return pieces
}
