// How many threads the subgroups of a module must have: those who multiply tiles together hold eight elements of a product each.

const HEADER_WORDS = 5
const OP_CONSTANT = 43
const OP_TYPE_MATRIX = 4456
/** What a matrix is to a product: its sum. */
const SUMS = 2
const ELEMENTS = 8

/** @returns undefined where it has no tiles: any number will do */
export function subgroupOf(words: Uint32Array): number | undefined {
  const constants = new Map<number, number>()
  for (let at = HEADER_WORDS; at < words.length; ) {
    const [length, opcode] = [words[at]! >>> 16, words[at]! & 0xffff]
    if (opcode === OP_CONSTANT) constants.set(words[at + 2]!, words[at + 3]!)
    if (opcode === OP_TYPE_MATRIX) {
      const [rows, columns, use] = [4, 5, 6].map((i) => constants.get(words[at + i]!)!)
      if (use === SUMS) return (rows! * columns!) / ELEMENTS
    }
    at += length
  }
  return undefined
}
