// One generation in progress. A sequence group is the choices of one request: they share a prompt, and what the first of them
// computes of it the others take over.
//
//  0 ──────────── computed ──────────────────── length
//  │ K and V in its blocks │ still to be computed │ the next token drawn takes position `length`, as `drafts` propose
//                          └── chunk ──┘ in the step being taken
//
// Where a draft was wrong, a sequence with states (states.ts) computes its last `replay` positions again in that step.
//
// Writing a reply and reading a prompt are the same thing: a sequence has tokens that are not computed yet. A running
// reply has one, a prompt many, and a sequence whose blocks were taken from it has all of them once more.

import { BLOCK } from "../runtime/program.ts"
import type { Constraint, GenerationRequest, PromptScores, Sight } from "./generation.ts"
import type { Outbox } from "./outbox.ts"
import { TokenCounts } from "./token-counts.ts"

/** Tokens that may lie unread before a sequence gets no more steps; it goes on when half of them are read. */
const MAX_UNREAD = 256

/** Whoever asks under one name: a key, or a connection. */
export interface Client {
  name: string | undefined
  sequenceGroups: SequenceGroup[] // by arrival
  /** Its live sequences. */
  size: number
}

export class SequenceGroup {
  readonly request: GenerationRequest
  /** Sequence groups are numbered as they come. */
  readonly arrival: number
  readonly deadline: number
  /** Sequences that have not ended, in the order of the choices. */
  readonly live: Sequence[] = []
  /** Who asks; there once it is admitted. */
  client!: Client
  /** Whether one of them ever ran. */
  begun = false
  /** When it came, and when its first step began, for logs. */
  readonly arrivedAt: number
  steppedAt: number | undefined
  /** Called when the last of them has ended. */
  onEnd: () => void = () => {}
  /** Prompt tokens that somebody has computed, and how many of them were somebody else's. */
  reached = 0
  cached = 0
  /** How many of the prompt's tokens have told how likely the next one was; all of them where nobody wants to know. */
  scored: number
  /** There from the first of them on. */
  scores: PromptScores | undefined

  /** The most positions that prompt and reply may take. */
  readonly end: number
  /** What the prompt's blocks are known by: its tokens, but where a row of a medium stands, which row of which; and what all of it is, where that counts. */
  readonly promptKeys: Int32Array
  /** At each of its positions the row that stands there, or NO_ROW; absent: it has no media. */
  readonly rowAt: Int32Array | undefined

  constructor(
    request: GenerationRequest,
    context: number,
    arrival: number,
    arrivedAt: number,
    timeout: number,
  ) {
    this.request = request
    this.end = Math.min(request.prompt.length + (request.maxTokens ?? context), context)
    this.arrival = arrival
    this.arrivedAt = arrivedAt
    this.deadline = arrivedAt + timeout - (request.waited ?? 0)
    this.scored = request.scorePrompt ? 0 : request.prompt.length - 1
    const { prompt, media } = request
    this.promptKeys = media ? prompt.slice() : prompt
    this.rowAt = media && new Int32Array(prompt.length).fill(NO_ROW)
    media?.at.forEach((position, row) => {
      this.promptKeys[position] = media.keys[row]!
      this.rowAt![position] = row
    })
    if (media?.promptKey !== undefined) this.promptKeys[0] = media.promptKey
  }

  /** Rows that stand before all tokens, which cross-attention alone reads. */
  get front(): number {
    const { media } = this.request
    return media?.sights ? media.at.length : 0
  }

  get isScored(): boolean {
    return this.scored >= this.promptTokens - 1 // the last one's next token is drawn
  }

  get promptTokens(): number {
    return this.request.prompt.length
  }
}

/** Of a position at which a token stands for itself. */
export const NO_ROW = -1

/** What a sequence holds of one KV group. */
export interface Holding {
  /** Block ids in position order; those of [sink blocks, gone) have slid out of the window, or lie before all tokens, and are not held. */
  readonly blocks: number[]
  gone: number
  /** A borrowed block behind the others, for drafts. */
  spare: number | undefined
  /** Blocks that slid away before anybody could vouch for them, and to whom they belonged then; by their number. */
  readonly left: Map<number, { block: number; edition: number }>
  /** Of a group of states, and then the fields above say nothing. */
  readonly states: StateHolding
}

/** Of the states of one group (states.ts). */
export interface StateHolding {
  /** The state behind the first `at` positions; undefined: there are none. */
  from: number | undefined
  at: number
  /** What the step leaves behind `next` positions. */
  to: number | undefined
  next: number
  /** What the step behind that one leaves, where it was handed over before that one's tokens were known. */
  ahead: number | undefined
  /** What was left at the end of block number `at`, until that may be shared. */
  kept: { state: number; at: number } | undefined
}

export const noStates = (): StateHolding => ({
  from: undefined,
  at: 0,
  to: undefined,
  next: 0,
  ahead: undefined,
  kept: undefined,
})

export class Sequence {
  readonly sequenceGroup: SequenceGroup
  readonly choice: number
  readonly outbox: Outbox
  readonly constraint: Constraint | undefined
  readonly counts = new TokenCounts()

  /** waiting: has no place in the steps, yet may hold blocks. leaving: its reader went while a step computes it. */
  state: "waiting" | "running" | "leaving" | "ended" = "waiting"
  /** How many live siblings come before it. */
  turn = 0
  /** Its place in the order of turns (turns.ts), and when that was looked up. */
  rank = 0
  crowd = 0
  ranked = -1

  tokens: Int32Array // [≥ length]  prompt and reply; the request's own prompt until the first token is drawn
  keys: Int32Array // [≥ length]  what its blocks are known by: see `promptKeys`; without media the tokens themselves
  length: number
  computed = 0
  /** The last of those that are computed once more, since its states were left behind them with drafts that were wrong. */
  replay = 0
  /** Positions whose rows were seen to be finite: their blocks may be shared. */
  verified = 0
  /** The most that was ever computed: everything below is recomputation. */
  reached = 0
  chunk = 0
  /** Tokens that may be drawn next, to be computed with the last one; how many were wished for. */
  readonly drafts: number[] = []
  wish = 0
  /** When its first token was drawn, for traces. */
  firstAt: number | undefined

  /** Of each KV group, and of the trail where that is none of them, blocks of the same positions. */
  readonly held: readonly Holding[]
  /** How many of the trail's first blocks stand in the prefix cache. */
  shared = 0

  /** What its constraint threw behind so many drafted tokens; the sequence fails when that row is drawn. */
  fault: { behind: number; error: unknown } | undefined

  /** The one by which its prefix is found (memory.ts). */
  readonly trail: Holding

  constructor(
    sequenceGroup: SequenceGroup,
    choice: number,
    outbox: Outbox,
    { behindMedia, trail }: { behindMedia: readonly boolean[]; trail: number },
  ) {
    const { prompt, constraint } = sequenceGroup.request
    this.sequenceGroup = sequenceGroup
    this.choice = choice
    this.outbox = outbox
    this.constraint = constraint?.()
    this.length = prompt.length
    this.tokens = prompt
    this.keys = sequenceGroup.promptKeys
    this.held = behindMedia.map((isBehind) => ({
      blocks: [],
      gone: isBehind ? Math.floor(sequenceGroup.front / BLOCK) : 0,
      spare: undefined,
      left: new Map(),
      states: noStates(),
    }))
    this.trail = this.held[trail]!
  }

  /** Of the program's group that looks furthest back: what drafters go by. */
  get widest(): Holding {
    return this.held[0]!
  }

  /** Where its next step begins. */
  get from(): number {
    return this.computed - this.replay
  }

  get remaining(): number {
    return this.length - this.computed
  }

  /** Logits rows wanted from the step: the last `rows` of its tokens, those that score the prompt first. */
  get rows(): number {
    return this.scores + this.draws
  }

  /** Rows that tokens are drawn from: the last token's, and one for each draft. */
  get draws(): number {
    if (this.sequenceGroup.request.readHidden) return 0
    return this.chunk > 0 && this.chunk === this.remaining ? 1 + this.drafts.length : 0
  }

  /** Rows that tell how likely the prompt's own next token was. */
  get scores(): number {
    const { promptTokens, scored } = this.sequenceGroup
    const end = Math.min(this.computed + this.chunk, promptTokens - 1)
    return Math.max(0, end - Math.max(this.computed, scored))
  }

  /** The row of its media that stands at a position, or NO_ROW. */
  rowAt(position: number): number {
    return this.sequenceGroup.rowAt?.[position] ?? NO_ROW
  }

  /** Whether what stands at a position sees what is behind it: a row of an image, or any of a prompt that is seen both ways. */
  isMutual(position: number): boolean {
    const { promptTokens, request } = this.sequenceGroup
    const { heard, promptKey } = request.media ?? {}
    if (promptKey !== undefined) return position < promptTokens
    const row = this.rowAt(position)
    return row !== NO_ROW && !heard?.[row]
  }

  /** Where those end that see each other, of which one stands at a position; elsewhere the position behind it. */
  mutualEnd(position: number): number {
    if (!this.isMutual(position)) return position + 1
    const { promptTokens, request } = this.sequenceGroup
    if (request.media?.promptKey !== undefined) return promptTokens
    let end = position + 1
    while (this.isMutual(end)) end++
    return end
  }

  /** The positions that cross-attention sees from a position on; undefined: none. */
  sightAt(position: number): Sight | undefined {
    return this.sequenceGroup.request.media?.sights?.findLast(({ at }) => at <= position)
  }

  get isTurnedByCoordinates(): boolean {
    return this.sequenceGroup.request.media?.coordinates !== undefined
  }

  /** Time, height or width of the token at a position; the position itself where nothing is said of them. */
  coordinateAt(position: number, axis: number): number {
    const { request, promptTokens } = this.sequenceGroup
    const { coordinates } = request.media ?? {}
    if (!coordinates) return position
    if (position >= promptTokens) return position - coordinates.behind
    return coordinates.ofPrompt[axis * promptTokens + position]!
  }

  /** Its own token at a position, or the one that is proposed there. */
  tokenAt(position: number): number {
    return position < this.length ? this.tokens[position]! : this.drafts[position - this.length]!
  }

  get replyTokens(): number {
    return this.length - this.sequenceGroup.promptTokens
  }

  /** Whether its reader is too far behind for more. One that was paused waits until half is read. */
  get isBehind(): boolean {
    return this.isBehindWith(0)
  }

  /** Whether it is with so many more that are being drawn. */
  isBehindWith(more: number): boolean {
    const most = this.state === "running" ? MAX_UNREAD : MAX_UNREAD / 2
    return this.outbox.unread + more >= most
  }

  append(token: number): void {
    if (this.length === this.tokens.length) {
      const isOne = this.keys === this.tokens
      this.tokens = this.#longer(this.tokens)
      this.keys = isOne ? this.tokens : this.#longer(this.keys)
    }
    this.keys[this.length] = token
    this.tokens[this.length++] = token
    this.counts.add(token)
  }

  #longer(all: Int32Array): Int32Array {
    const longer = new Int32Array(this.length + Math.max(64, this.replyTokens))
    longer.set(all)
    return longer
  }
}
