// One allocation of a driver in pieces, because drivers take few allocations, and long over each. The first gap that is large
// enough is taken; gaps that touch are one.

/** Every piece begins at a multiple of it, and is one long. */
export const PIECE = 256 // bytes

export class Arena {
  readonly bytes: number
  #gaps: { at: number; bytes: number }[]

  /** @param bytes a multiple of PIECE */
  constructor(bytes: number) {
    this.bytes = bytes
    this.#gaps = [{ at: 0, bytes }]
  }

  get isEmpty(): boolean {
    return this.#gaps[0]?.bytes === this.bytes
  }

  hasRoom(bytes: number): boolean {
    return this.#gaps.some((gap) => gap.bytes >= bytes)
  }

  /**
   * Where a piece begins, if there is room for it.
   * @param bytes a multiple of PIECE, as in giveBack
   */
  take(bytes: number): number | undefined {
    const gap = this.#gaps.find((gap) => gap.bytes >= bytes)
    if (!gap) return undefined
    const { at } = gap
    gap.at += bytes
    gap.bytes -= bytes
    if (gap.bytes === 0) this.#gaps = this.#gaps.filter((other) => other !== gap)
    return at
  }

  giveBack(at: number, bytes: number): void {
    const before = this.#gaps.find((gap) => gap.at + gap.bytes === at)
    const after = this.#gaps.find((gap) => gap.at === at + bytes)
    const joined = {
      at: before?.at ?? at,
      bytes: (before?.bytes ?? 0) + bytes + (after?.bytes ?? 0),
    }
    const others = this.#gaps.filter((gap) => gap !== before && gap !== after)
    this.#gaps = [...others, joined].sort((a, b) => a.at - b.at)
  }
}
