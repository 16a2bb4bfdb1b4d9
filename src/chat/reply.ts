// The way out: the tokens of all choices become one stream of events, in the order in which they happen. Each choice goes
// through the same stations: bytes to text, thinking from answer, stop strings; each station holds back what it cannot
// decide yet. Streams and whole answers are both made of these events, so they cannot differ.

import type { Generation, GenerationEvent, TokenEvent } from "../engine/generation.ts"
import type { ReplyEvent, TokenLogprob } from "./conversation.ts"
import { Detokenizer } from "./detokenizer.ts"
import { type Markers, type Piece, ReasoningSplitter } from "./reasoning.ts"
import { Stops } from "./stops.ts"
import type { Tokenizer } from "./tokenizer.ts"

export interface Reading {
  tokenizer: Tokenizer
  stop: readonly string[]
  logprobs: boolean
  /** The reply goes on with a text that the prompt began. */
  continues: boolean
  /** How thinking is marked, and whether the reply begins inside it; undefined: it is not looked for. */
  reasoning: { markers: Markers; inside: boolean } | undefined
}

/** Events of every choice, then the usage. Leaving the loop lets go of what is still running. */
export async function* replyEvents(
  generation: Generation,
  reading: Reading,
): AsyncGenerator<ReplyEvent, void, undefined> {
  const choices = generation.choices.map((_, index) => new ChoiceReader(index, reading))
  const events = merged(generation.choices)
  for await (const { index, event, leave } of events) {
    const choice = choices[index]!
    yield* choice.take(event)
    if (choice.finished) leave()
  }
  const sum = (count: (choice: ChoiceReader) => number) =>
    choices.reduce((total, choice) => total + count(choice), 0)
  yield {
    kind: "usage",
    usage: {
      promptTokens: generation.promptTokens,
      cachedTokens: generation.cachedTokens,
      completionTokens: sum(({ ledger }) => ledger.reported),
      reasoningTokens: sum(({ ledger }) => ledger.reasoning),
    },
  }
}

interface Merged {
  index: number
  event: GenerationEvent
  /** Asks this choice for no more. */
  leave: () => void
}

/** Several choices as one stream. Each is asked for one event at a time, so a slow reader slows them all. */
async function* merged(
  choices: readonly AsyncIterableIterator<GenerationEvent>[],
): AsyncGenerator<Merged, void, undefined> {
  const arrived: { index: number; next: Promise<IteratorResult<GenerationEvent>> }[] = []
  const running = new Set(choices.keys())
  let wake: () => void = () => {}
  const ask = (index: number) => {
    const next = choices[index]!.next()
    const arrive = () => {
      arrived.push({ index, next })
      wake()
    }
    next.then(arrive, arrive)
  }
  const leave = (index: number) => {
    if (running.delete(index)) void choices[index]!.return?.()
  }
  for (const index of choices.keys()) ask(index)
  try {
    while (running.size > 0) {
      if (arrived.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
      const { index, next } = arrived.shift()!
      const result = await next // has settled; throws what the engine threw
      if (result.done) running.delete(index)
      else {
        yield { index, event: result.value, leave: () => leave(index) }
        if (running.has(index)) ask(index)
      }
    }
  } finally {
    for (const index of running) leave(index)
  }
}

/** One choice's tokens, read into events. */
class ChoiceReader {
  finished = false
  readonly ledger = new Ledger()
  readonly #index: number
  readonly #reading: Reading
  readonly #text: Detokenizer
  readonly #thinking: ReasoningSplitter | undefined
  readonly #stops: Stops

  constructor(index: number, reading: Reading) {
    const { tokenizer, continues, reasoning, stop } = reading
    this.#index = index
    this.#reading = reading
    this.#text = new Detokenizer(tokenizer, continues)
    this.#thinking = reasoning && new ReasoningSplitter(reasoning.markers, reasoning.inside)
    this.#stops = new Stops(stop)
  }

  *take(event: GenerationEvent): Generator<ReplyEvent, void, undefined> {
    if (event.kind === "token") {
      const text = this.#text.push(event.token)
      this.ledger.add(this.#logprobOf(event), text.length, this.#text.midCharacter)
      yield* this.#read(this.#split(text))
      if (this.finished) yield this.#finish("stop")
      return
    }
    yield* this.#read(this.#split(this.#text.flush()))
    if (!this.finished && this.#thinking) yield* this.#read(this.#thinking.flush())
    if (!this.finished) yield* this.#send("content", this.#stops.flush())
    const reason = this.finished ? "stop" : event.reason
    this.finished = true
    yield this.#finish(reason, event)
  }

  #split(text: string): Piece[] {
    if (text === "") return []
    return this.#thinking ? this.#thinking.push(text) : [{ kind: "content", text }]
  }

  *#read(pieces: readonly Piece[]): Generator<ReplyEvent, void, undefined> {
    for (const { kind, text } of pieces) {
      if (kind !== "content") yield* this.#send(kind, text)
      else {
        const { text: certain, stopped } = this.#stops.push(text)
        yield* this.#send("content", certain)
        if (stopped) {
          this.ledger.cut()
          this.finished = true
          return
        }
      }
    }
  }

  *#send(kind: Piece["kind"], text: string): Generator<ReplyEvent, void, undefined> {
    if (text === "") return
    const logprobs = this.ledger.settle(text.length, kind)
    if (kind !== "nothing") yield { kind, choice: this.#index, text, logprobs }
  }

  #finish(
    reason: "stop" | "length" | "error",
    event?: Extract<GenerationEvent, { kind: "end" }>,
  ): ReplyEvent {
    const problem = reason === "error" ? event?.problem : undefined
    return { kind: "finish", choice: this.#index, reason, ...(problem && { problem }) }
  }

  #logprobOf({ token, logprob, top }: TokenEvent): TokenLogprob | undefined {
    if (!this.#reading.logprobs) return undefined
    const named = (id: number) => {
      const bytes = this.#reading.tokenizer.bytes.of(id)
      return { token: UTF8.decode(bytes), bytes }
    }
    return {
      ...named(token),
      logprob,
      top: top.map((other) => ({ ...named(other.token), logprob: other.logprob })),
    }
  }
}

const UTF8 = new TextDecoder("utf-8", { ignoreBOM: true })

interface Entry {
  from: number
  to: number
  logprob: TokenLogprob | undefined
}

//  0 ────────────── settled ────────────── heard
//  │ sent, or dropped as nothing │ held back by a station │
//  Positions are characters of the whole reply, markers included.

/** Which tokens the text that was sent came from, so that they are listed and counted and no others. */
class Ledger {
  /** Tokens that count as the reply. */
  reported = 0
  /** Those of them that were thinking. */
  reasoning = 0
  #heard = 0
  #settled = 0
  readonly #open: Entry[] = [] // tokens of which nothing is settled, or the last one partly

  /** A token that adds `length` characters, and the beginning of one more. */
  add(logprob: TokenLogprob | undefined, length: number, midCharacter: boolean): void {
    const from = this.#heard
    this.#heard += length
    this.reported++
    this.#open.push({ from, to: this.#heard + (midCharacter ? 1 : 0), logprob })
  }

  /** The next characters are decided. Returns the tokens that are sent with them and were not before. */
  settle(length: number, kind: Piece["kind"]): TokenLogprob[] {
    const end = this.#settled + length
    const listed: TokenLogprob[] = []
    while (this.#open.length > 0 && this.#open[0]!.from < end) {
      const entry = this.#open[0]!
      if (kind !== "content" && entry.from >= this.#settled) this.reasoning++
      if (kind !== "nothing" && entry.logprob && entry.to > entry.from) {
        listed.push(entry.logprob)
        entry.logprob = undefined
      }
      if (entry.to > end) break
      this.#open.shift()
    }
    this.#settled = end
    return listed
  }

  /** Nothing after the settled characters counts: a stop string begins there. */
  cut(): void {
    this.reported -= this.#open.filter(({ from }) => from >= this.#settled).length
  }
}
