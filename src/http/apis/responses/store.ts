// Responses that are kept, in memory alone: for an hour, and as long as there is room. Who has another key sees none of them.
// The oldest make room, first those of the key that brings more than its share.

import type { Json } from "../../json.ts"

export interface Kept {
  id: string
  scope: string
  /** The response as its client has it. */
  response: Json
  /** What it was asked, without what it went on from. */
  input: readonly Json[]
  /** What a next one goes on from: all input and output. */
  history: readonly Json[]
  size: number // characters, as `sizeOf` counts those of the history and the response
}

/** About as many characters as its JSON has, which would take long to write: images are megabytes. */
export function sizeOf(value: Json | undefined): number {
  if (typeof value === "string") return value.length + QUOTES
  if (typeof value !== "object" || value === null) return SMALL
  const own = Object.entries(value).map(([name, member]) => name.length + sizeOf(member as Json))
  return own.reduce((sum, size) => sum + size + QUOTES, QUOTES)
}

const QUOTES = 2 // and brackets, and what stands between members
const SMALL = 8

const MAX_SIZE = 96 * 1024 * 1024 // characters: at two bytes, 192 MiB
const MAX_SIZE_OF_ONE = MAX_SIZE / 3 // of one key: a body of 20 MiB of images, in Base64
const MAX_AGE = 3_600_000 // milliseconds

export class ResponseStore {
  readonly #kept = new Map<string, Kept & { until: number }>() // oldest first
  readonly #now: () => number

  constructor(now = () => performance.now()) {
    this.#now = now
  }

  /** One that is larger than a key's share is not kept. */
  add(kept: Kept): void {
    this.#forgetOld()
    if (kept.size > MAX_SIZE_OF_ONE) return
    this.#kept.set(kept.id, { ...kept, until: this.#now() + MAX_AGE })
    this.#makeRoom(MAX_SIZE_OF_ONE, ({ scope }) => scope === kept.scope)
    this.#makeRoom(MAX_SIZE, () => true)
  }

  find(id: string, scope: string): Kept | undefined {
    this.#forgetOld()
    const kept = this.#kept.get(id)
    return kept?.scope === scope ? kept : undefined
  }

  /** An item that some response has said, by its id. */
  findItem(id: string, scope: string): Json | undefined {
    this.#forgetOld()
    for (const { scope: owner, history } of this.#kept.values()) {
      if (owner !== scope) continue
      const item = history.find((each) => (each as { id?: Json }).id === id)
      if (item) return item
    }
    return undefined
  }

  delete(id: string): void {
    this.#kept.delete(id)
  }

  #forgetOld(): void {
    for (const [id, { until }] of this.#kept) {
      if (until > this.#now()) return
      this.#kept.delete(id)
    }
  }

  #makeRoom(most: number, counts: (kept: Kept) => boolean): void {
    const counted = [...this.#kept.values()].filter(counts)
    let size = counted.reduce((sum, kept) => sum + kept.size, 0)
    for (const kept of counted) {
      if (size <= most) return
      size -= kept.size
      this.#kept.delete(kept.id)
    }
  }
}
