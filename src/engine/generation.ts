// What goes into the engine and what comes out: token ids both ways. The engine never sees text; a constraint is
// something that says which tokens may come next, wherever it got that from.

import type { Problem } from "../errors.ts"

/** One request: a prompt and `choices` answers to it. Every number has been checked by whoever built it. */
export interface GenerationRequest {
  id: string // for logs and traces
  prompt: Int32Array // [tokens] at least one
  /** What the client calls the prompt, for refusals. */
  field?: string
  /** Where its tokens stand for images or recordings; absent: nowhere. */
  media?: GenerationMedia
  /** Which of the model's adapters changes what it computes, from 1 on; absent: none. */
  adapter?: number
  choices: number // n
  maxTokens: number | undefined // undefined: as far as the context reaches; 0: the prompt is only read
  /** Whether the generation tells how likely the prompt's own tokens were. */
  scorePrompt?: boolean
  /**
   * Told the model's last row at each of the prompt's tokens, in order, `hidden` numbers each, as soon as some are computed: from a
   * position on, and once more from an earlier one where they had to be computed again. They are gone when it returns. Nothing is
   * taken over from others then, nothing is drawn, and the generation ends with the prompt.
   */
  readHidden?: (rows: Float32Array, from: number) => void
  /**
   * Told what the model hands out beside its last row (`Shapes.given`) at each of the reply's tokens that is read, in the same way; the
   * last token is not, where nothing is drawn behind it. Of one choice.
   */
  readGiven?: (rows: Float32Array, from: number) => void
  /** Tokens that end an answer; they are handed out in the `end`, never as tokens. */
  stopTokens: ReadonlySet<number>
  sampling: SamplingParams
  /** A fresh constraint for each choice; absent: anything goes. */
  constraint?: () => Constraint
  /** Milliseconds since it arrived, which are of its time; absent: it has just come. */
  waited?: number
  /** Prefixes are shared only within one scope: the API key. */
  scope: string
  /** Requests under one name take turns as one; absent: this one is a client of its own. */
  client?: string
}

/** Positions of a prompt at which the model reads rows that it is given, and none of its own embedding. */
export interface GenerationMedia {
  at: Int32Array // [rows]  positions, ascending
  /** What two prompts are compared by there, in place of their tokens: equal and negative where the rows are equal. */
  keys: Int32Array // [rows]
  rows: Float32Array // [rows, taken]  one of each position, as the model takes it
  /** [rows]  1 of a row of a recording, which sees what is before it also where rows of an image see each other; absent: all are of images. */
  heard?: Uint8Array
  /** What turns tokens in the place of their positions; absent: these do. */
  coordinates?: PromptCoordinates
  /**
   * All of the prompt's tokens see each other, so that what is computed of any is this prompt's alone: what it is known by, negative.
   * Absent: rows of an image do at the most.
   */
  promptKey?: number
  /** Where cross-attention reads them, which stand before all tokens: what tokens see of them, ascending; before the first they see nothing. */
  sights?: readonly Sight[]
}

/** From a position on, tokens see the rows at positions `from` to `to`. */
export interface Sight {
  at: number
  from: number
  to: number
}

/** Where a prompt's tokens are in time, and in its images' height and width. What stands before a token decides its own, so equal keys have equal ones. */
export interface PromptCoordinates {
  ofPrompt: Int32Array // [3, tokens]
  /** What a position behind the prompt differs by from all three of its coordinates. */
  behind: number
}

export interface SamplingParams {
  temperature: number
  topK: number // 0 = no limit
  topP: number
  minP: number
  presencePenalty: number
  frequencyPenalty: number
  repetitionPenalty: number // 1 = none
  logitBias: ReadonlyMap<number, number>
  seed: bigint // unsigned 64 bits
  /** undefined: no logprobs wanted; 0: the drawn token's alone. */
  topLogprobs: number | undefined
}

/** Draws from the model's own distribution, and tells no logprobs. */
export const plainSampling: Omit<SamplingParams, "seed"> = {
  temperature: 1,
  topK: 0,
  topP: 1,
  minP: 0,
  presencePenalty: 0,
  frequencyPenalty: 0,
  repetitionPenalty: 1,
  logitBias: new Map(),
  topLogprobs: undefined,
}

/** Which tokens may come next. What it says must depend on the accepted tokens alone. */
export interface Constraint {
  /** There until `mask` can be asked; its sequence draws nothing meanwhile, and others go on. It never rejects. */
  readonly pending?: Promise<void> | undefined
  /**
   * Fills `into` [ceil(vocabulary / 32)] with the tokens allowed now, end tokens included when the value may end here. Where a drafter
   * asks, the vocabulary is the drafter's, which may be padded to more rows or fewer.
   * @param after so many of the drafted tokens: 0 unless said otherwise, at most `drafted`
   */
  mask(into: Uint32Array, after?: number): void
  /** The mask [ceil(vocabulary / 32)], where it is the same whatever has been drawn. */
  readonly always?: Uint32Array
  /**
   * Takes tokens that must not come out of a mask that it has filled, now that the row's logits are known: whether it did, and the
   * token is to be drawn again. Such a reply is neither drafted nor chained, and reads all of its logits. Absent: masks say all.
   */
  narrow?(mask: Uint32Array, logits: Float32Array): boolean
  /** Moves on by a token that the mask allowed. By the next drafted one it goes without waiting, and the others stay drafted. */
  accept(token: number): void
  /** Looks ahead along tokens; `pending` until it is done. What was drafted before is forgotten. */
  draft?(tokens: readonly number[]): void
  /** How many tokens of the draft may come next, one after the other. Without a draft it runs along what is forced. */
  readonly drafted?: number
  /** Tokens that have to come, one after the other: each is the only one its mask allows. The last may be an end token. */
  readonly forced?: readonly number[]
  /** Its sequence has ended. */
  close?(): void
}

/** An admitted request. Its choices are consumed independently; leaving one frees what it holds. */
export interface Generation {
  readonly promptTokens: number
  /** Prompt tokens that had been computed for somebody else; known once the first token is out. */
  readonly cachedTokens: number
  /** Milliseconds from its arrival to its first step; undefined while it waits. */
  readonly queued?: number | undefined
  /** With `scorePrompt`: complete when the first of the choices has said anything but an error. */
  readonly scores?: PromptScores | undefined
  /** `return` may be given the number of tokens that were of use; what was drawn after them is as if nobody had read it. */
  readonly choices: readonly AsyncIterableIterator<GenerationEvent>[]
}

export type GenerationEvent = TokenEvent | EndEvent

export interface TokenEvent {
  kind: "token"
  token: number
  logprob: number // of the raw logits
  top: readonly { token: number; logprob: number }[] // best first, as many as were asked
}

/** With the end token that was drawn, when one was. */
export interface EndEvent extends Partial<Omit<TokenEvent, "kind">> {
  kind: "end"
  reason: "stop" | "length" | "error"
  problem?: Problem // when the reason is "error"
}

/** How likely the model thought each of a prompt's tokens but the first. There is one for all choices. */
export interface PromptScores {
  /** Alternatives told for each. */
  readonly top: number
  readonly logprobs: Float32Array // [tokens - 1]
  readonly topTokens: Int32Array // [tokens - 1, top]  best first
  readonly topLogprobs: Float32Array // [tokens - 1, top]
}
