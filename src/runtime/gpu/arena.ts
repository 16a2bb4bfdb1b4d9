// One allocation of a driver in pieces, because drivers take few allocations, and long over each. The first gap that is large
// enough is taken; gaps that touch are one.

import type { Place } from "./device.ts"

/** Every piece begins at a multiple of it, and is one long. */
const PIECE = 256 // bytes

/** What a place of so many bytes takes. */
export function pieceOf(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / PIECE)) * PIECE
}

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

/** What is smaller shares an allocation with others. */
const SHARED = 32 << 20 // bytes

/** A place in an allocation. */
export class Part<Allocation> implements Place {
  readonly bytes: number
  readonly of: Allocation
  /** Where it begins there. */
  readonly at: number

  constructor(bytes: number, of: Allocation, at: number) {
    this.bytes = bytes
    this.of = of
    this.at = at
  }
}

/** A driver's allocations, made as they are needed and freed once nothing in them is taken. */
export class Allocations<Allocation> {
  readonly #arenas = new Map<Allocation, Arena>()
  readonly #make: (bytes: number) => Allocation
  readonly #free: (allocation: Allocation) => void

  /** @param make throws where there is no memory */
  constructor(make: (bytes: number) => Allocation, free: (allocation: Allocation) => void) {
    this.#make = make
    this.#free = free
  }

  take(bytes: number): Part<Allocation> {
    const length = pieceOf(bytes)
    const of = this.#withRoom(length)
    return new Part(bytes, of, this.#arenas.get(of)!.take(length)!)
  }

  giveBack({ of, at, bytes }: Part<Allocation>): void {
    const arena = this.#arenas.get(of)!
    arena.giveBack(at, pieceOf(bytes))
    if (!arena.isEmpty) return
    this.#arenas.delete(of)
    this.#free(of)
  }

  freeAll(): void {
    for (const of of this.#arenas.keys()) this.#free(of)
    this.#arenas.clear()
  }

  #withRoom(length: number): Allocation {
    for (const [of, arena] of this.#arenas) if (arena.hasRoom(length)) return of
    const size = length > SHARED / 2 ? length : SHARED
    const made = this.#make(size)
    this.#arenas.set(made, new Arena(size))
    return made
  }
}
