// What follows from a step's input, for whoever computes it: which token each row of a set stands for, where keys and values
// lie, and what there is to do in attention. Whole numbers in typed arrays, made once a step in memory that is used again,
// so that a target may hand them to a device as they are. (A library on the processor makes the same of the same input.)

import { BLOCK, blockIndex, type ProgramLimits, SEEN, type StepInput } from "./program.ts"

/**
 * Which rows a value has.
 *   tokens   all tokens of the step
 *   wanted   tokens whose logits or hidden row is wanted, each once, in order; and all that stand for no row that is taken in, where
 *            such rows are read by cross-attention alone (`Manifest.words`)
 *   logits   `logitRows`, in their order
 *   hidden   `hiddenRows`, in their order
 *   taken    tokens that stand for a row that is taken in, each once, in order: those whose keys cross-attention reads; none where
 *            nothing does
 */
export const rowSets = ["tokens", "wanted", "logits", "hidden", "taken"] as const
export type RowSet = (typeof rowSets)[number]

/** What a row of attention sees, and how its work is divided. */
export interface Visible {
  group: number
  window: number | undefined
  /** Whether it sees from the last multiple of the window on, and not as many as that. */
  chunked?: true | undefined
  sinks: number
  /** Whether it sees those after it, too. */
  bidirectional?: true | undefined
  /** Whether it sees as far as the step says. */
  mutual?: true | undefined
  /** Whether it sees the first so many positions alone. */
  cross?: number | undefined
  /** Positions that are one work item's, from one multiple to the next; absent: all of them. */
  span: number | undefined
}

/** Numbers of one work item: its first row, how many rows, their sequence, the span. */
export const ITEM = 4

const NOT_WANTED = -1

export class StepRows {
  readonly #sinks: number
  readonly #words: boolean
  readonly #all: Int32Array // [limits.tokens] 0, 1, 2, …
  readonly #sequences: Int32Array // [limits.tokens]
  readonly #slots: readonly Int32Array[] // of each KV group [limits.tokens]
  readonly #wanted: Int32Array // [limits.tokens]
  readonly #wantedRows: Int32Array // [limits.tokens]
  #wantedCount = 0
  readonly #taken: Int32Array // [limits.tokens]
  #takenCount = 0
  #items = new Int32Array(ITEM)
  #itemsEnd = 0
  #input!: StepInput

  /** @param sinks the manifest's, and its `words` */
  constructor(
    { tokens, blocks }: Pick<ProgramLimits, "tokens" | "blocks">,
    sinks: number,
    words = false,
  ) {
    this.#sinks = sinks
    this.#words = words
    this.#all = Int32Array.from({ length: tokens }, (_, token) => token)
    this.#sequences = new Int32Array(tokens)
    this.#slots = blocks.map(() => new Int32Array(tokens))
    this.#wanted = new Int32Array(tokens)
    this.#wantedRows = new Int32Array(tokens)
    this.#taken = new Int32Array(words ? tokens : 0)
  }

  /** Takes a step's input that has been checked. Arrays that were handed out for the last one change. */
  take(input: StepInput): void {
    this.#input = input
    const { starts, positions, tokens, logitRows, hiddenRows } = input
    for (let s = 0; s + 1 < starts.length; s++)
      for (let token = starts[s]!; token < starts[s + 1]!; token++) {
        this.#sequences[token] = s
        for (let group = 0; group < this.#slots.length; group++)
          this.#slots[group]![token] = this.slotOf(group, s, positions[token]!)
      }
    const rows = this.#wantedRows.fill(NOT_WANTED, 0, tokens.length)
    for (const token of logitRows) rows[token] = 0
    for (const token of hiddenRows) rows[token] = 0
    this.#takenCount = 0
    if (this.#words)
      for (const [token, id] of tokens.entries())
        if (id < SEEN) rows[token] = 0
        else this.#taken[this.#takenCount++] = token
    this.#wantedCount = 0
    for (let token = 0; token < tokens.length; token++) {
      if (rows[token] === NOT_WANTED) continue
      rows[token] = this.#wantedCount
      this.#wanted[this.#wantedCount++] = token
    }
  }

  /** Of each row of a set, its token. */
  tokensOf(set: RowSet): Int32Array {
    switch (set) {
      case "tokens":
        return this.#all.subarray(0, this.#input.tokens.length)
      case "wanted":
        return this.#wanted.subarray(0, this.#wantedCount)
      case "logits":
        return this.#input.logitRows
      case "hidden":
        return this.#input.hiddenRows
      case "taken":
        return this.#taken.subarray(0, this.#takenCount)
    }
  }

  /** Of each token, its row: among all, or among the wanted, where the others have -1. */
  rowsIn(set: "tokens" | "wanted"): Int32Array {
    const rows = set === "tokens" ? this.#all : this.#wantedRows
    return rows.subarray(0, this.#input.tokens.length)
  }

  /** Of each token, where its key and its value belong in a group's blocks: block * 16 + the position in it. */
  slotsIn(group: number): Int32Array {
    return this.#slots[group]!.subarray(0, this.#input.tokens.length)
  }

  /**
   * Of each token, where `count` positions lie in a group, those up to so many `ahead` of its own; -1 before the first and behind the step's
   * last of its sequence. Written to `out`.
   */
  lastSlots(
    group: number,
    { count, ahead }: Record<"count" | "ahead", number>,
    { positions, starts }: StepInput,
    out: Int32Array,
  ): Int32Array {
    for (const [token, position] of positions.entries()) {
      const sequence = this.#sequences[token]!
      const last = positions[starts[sequence + 1]! - 1]!
      for (let i = 0; i < count; i++) {
        const p = position + ahead - (count - 1) + i
        out[token * count + i] = p < 0 || p > last ? -1 : this.slotOf(group, sequence, p)
      }
    }
    return out.subarray(0, positions.length * count)
  }

  /** Of each token. */
  get sequences(): Int32Array {
    return this.#sequences.subarray(0, this.#input.tokens.length)
  }

  get sequenceCount(): number {
    return this.#input.starts.length - 1
  }

  /** Where a position of a sequence lies in a group's blocks, one that is kept there. */
  slotOf(group: number, sequence: number, position: number): number {
    const { blocks, blockStarts, visibleFrom } = this.#input
    const list = this.#listOf(group, sequence)
    const index = blockIndex(Math.floor(position / BLOCK), visibleFrom[list]!, this.#sinks)
    return blocks[blockStarts[list]! + index]! * BLOCK + (position % BLOCK)
  }

  #listOf(group: number, sequence: number): number {
    return group * (this.#input.starts.length - 1) + sequence
  }

  /** The first position that a token sees in a group, but for the sinks before it. */
  firstSeen(
    token: number,
    { group, window, chunked, mutual }: Pick<Visible, "group" | "window" | "chunked" | "mutual">,
  ): number {
    const { visibleFrom, positions, seenFrom } = this.#input
    const kept = visibleFrom[this.#listOf(group, this.#sequences[token]!)]!
    const visible = mutual && seenFrom ? Math.max(kept, seenFrom[token]!) : kept
    if (!window) return visible
    const position = positions[token]!
    return Math.max(visible, position - (chunked ? position % window : window - 1))
  }

  /** The last position that a token sees. */
  lastSeen(
    token: number,
    {
      window = Number.POSITIVE_INFINITY,
      bidirectional,
      mutual,
      cross = Number.POSITIVE_INFINITY,
    }: Partial<Pick<Visible, "window" | "bidirectional" | "mutual" | "cross">>,
  ): number {
    const { positions, starts, seenTo = positions } = this.#input
    if (mutual) return seenTo[token]!
    const position = positions[token]!
    if (!bidirectional) return Math.min(position, cross - 1)
    return Math.min(position + window - 1, positions[starts[this.#sequences[token]! + 1]! - 1]!)
  }

  /**
   * The work of attention over the rows of a set: at most `height` rows of one sequence, none of which sees less far than the one before, with one span of those between what the
   * first and what the last of them sees. Items of the same rows follow one another, spans ascending; together they hold all
   * that every row sees.
   * @returns [items, ITEM], good until the next call
   */
  attentionItems(set: "tokens" | "wanted", height: number, visible: Visible): Int32Array {
    const tokens = this.tokensOf(set)
    this.#itemsEnd = 0
    for (let row = 0; row < tokens.length; ) {
      const sequence = this.#sequences[tokens[row]!]!
      let next = row + 1
      const most = Math.min(tokens.length, row + height)
      while (next < most && this.#sequences[tokens[next]!] === sequence) {
        if (visible.mutual && this.#seesBack(tokens[next]!, tokens[next - 1]!)) break
        next++
      }
      this.#addItems(tokens, row, next, visible)
      row = next
    }
    return this.#items.subarray(0, this.#itemsEnd)
  }

  /** Whether a token's sight ends before that of the one before it, or begins before it: rows of an item see ever further. */
  #seesBack(token: number, before: number): boolean {
    const { seenFrom, seenTo } = this.#input
    const goesBack = (seen: Int32Array | undefined) => seen && seen[token]! < seen[before]!
    return Boolean(goesBack(seenTo) || goesBack(seenFrom))
  }

  /** Of the rows from `row` to before `next`: the spans of the sinks that they see, then the others. */
  #addItems(tokens: Int32Array, row: number, next: number, visible: Visible): void {
    const { sinks, span = Number.POSITIVE_INFINITY } = visible
    const first = tokens[row]!
    const last = tokens[next - 1]!
    const seen = this.firstSeen(first, visible)
    // The later a token, the more of the sinks lies before what it sees.
    const kept = Math.min(sinks, this.firstSeen(last, visible))
    const from = Math.floor(seen / span)
    const to = Math.floor(this.lastSeen(last, visible) / span)
    for (let n = 0; n * span < kept && n < from; n++) this.#addItem(row, next, first, n)
    for (let n = from; n <= to; n++) this.#addItem(row, next, first, n)
  }

  #addItem(row: number, next: number, first: number, span: number): void {
    const end = this.#itemsEnd
    this.#items = withRoom(this.#items, end + ITEM)
    this.#items[end] = row
    this.#items[end + 1] = next - row
    this.#items[end + 2] = this.#sequences[first]!
    this.#items[end + 3] = span
    this.#itemsEnd = end + ITEM
  }
}

function withRoom(array: Int32Array<ArrayBuffer>, length: number): Int32Array<ArrayBuffer> {
  if (length <= array.length) return array
  const longer = new Int32Array(2 * length)
  longer.set(array)
  return longer
}
