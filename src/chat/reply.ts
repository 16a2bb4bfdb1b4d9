// The way out: the tokens of all choices become one stream of events, in the order in which they happen. Each choice goes
// through the same stations: bytes to text, thinking from answer, calls from text, stop strings; each station holds back
// what it cannot decide yet. Streams and whole answers are both made of these events, so they cannot differ.

import type { EndEvent, Generation, GenerationEvent, TokenEvent } from "../engine/generation.ts"
import type { ReplyEvent, TokenLogprob } from "./conversation.ts"
import { Detokenizer } from "./detokenizer.ts"
import { characters, type Echo, offsetsOf } from "./echo.ts"
import { CallReader, type Format } from "./formats/formats.ts"
import type { CallPiece } from "./formats/input.ts"
import { type Markers, type Piece, ReasoningSplitter } from "./reasoning.ts"
import { Stops } from "./stops.ts"
import type { Tokenizer } from "./tokenizer.ts"

export interface Reading {
  tokenizer: Tokenizer
  stop: readonly string[]
  logprobs: boolean
  /** The reply goes on with a text that the prompt began. */
  continues: boolean
  /** What every choice begins with; undefined: with the reply. */
  echo?: Echo | undefined
  /**
   * How thinking is marked, and whether the reply begins inside it; undefined: it is not looked for. `inline` leaves it in
   * the content as it is written, where stop strings and calls still are not looked for.
   */
  reasoning: { markers: Markers; inside: boolean; inline: boolean } | undefined
  /** How calls are written, and which may be made; undefined: they are not looked for. */
  calls: CallReading | undefined
}

export interface CallReading {
  format: Format
  names: ReadonlySet<string>
  /** The reply ends after this many calls. */
  most: number
  id: (choice: number, index: number) => string
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
    if (choice.finished) leave(choice.ledger.reported)
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
  /** Asks this choice for no more; its first `used` tokens are the reply. */
  leave: (used: number) => void
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
  const leave = (index: number, used?: number) => {
    if (running.delete(index)) void choices[index]!.return?.(used)
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
        yield { index, event: result.value, leave: (used) => leave(index, used) }
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
  readonly ledger: Ledger
  readonly #index: number
  readonly #reading: Reading
  readonly #text: Detokenizer
  readonly #thinking: ReasoningSplitter | undefined
  readonly #calls: CallReader | undefined
  readonly #stops: Stops
  #made = 0 // calls that were announced
  #calling = false // the last of them goes on
  #broken = false
  #echo: Echo | undefined // until it is sent
  readonly #scores: TokenLogprob[] = []
  #offset: number

  constructor(index: number, reading: Reading) {
    const { tokenizer, continues, echo, reasoning, calls, stop } = reading
    this.#index = index
    this.#reading = reading
    this.#text = new Detokenizer(tokenizer, continues, visibleTokens(reading))
    this.#thinking = reasoning && new ReasoningSplitter(reasoning.markers, reasoning.inside)
    this.#calls = calls && new CallReader(calls.format, calls.names)
    this.#stops = new Stops(stop)
    this.#echo = echo
    this.#offset = characters(echo?.text ?? "")
    this.ledger = new Ledger(echo?.scored ?? false)
  }

  *take(event: GenerationEvent): Generator<ReplyEvent, void, undefined> {
    if (event.kind === "scored") {
      this.#scores.push(this.#told(event, 0))
      return
    }
    const failed = event.kind === "end" && event.reason === "error"
    if (this.#echo && !failed) yield this.#repeat(this.#echo)
    if (event.kind === "token") {
      const text = this.#text.push(event.token)
      this.ledger.add(this.#logprobOf(event), text.length, this.#text.midCharacter)
      this.#offset += characters(text)
      yield* this.#think(text)
      if (this.finished) yield this.#finish({ kind: "end", reason: "stop" })
      return
    }
    yield* this.#think(this.#text.flush())
    yield* this.#flush()
    yield* this.#listRest(event)
    yield this.#finish(this.finished ? { kind: "end", reason: "stop" } : event)
    this.finished = true
  }

  /** The prompt, once all of it is scored. */
  #repeat(echo: Echo): ReplyEvent {
    this.#echo = undefined
    const choice = this.#index
    if (!echo.scored) return { kind: "content", choice, text: echo.text, logprobs: [] }
    const first = { token: echo.tokens[0]!, logprob: undefined, top: [] }
    const offsets = offsetsOf(echo, this.#reading.tokenizer)
    const logprobs = [this.#told(first, 0), ...this.#scores].map((told, index) => ({
      ...told,
      offset: offsets[index]!,
    }))
    return { kind: "content", choice, text: echo.text, logprobs }
  }

  *#think(text: string): Generator<ReplyEvent, void, undefined> {
    if (text === "") return
    yield* this.#sort(this.#thinking?.push(text) ?? [{ kind: "content", text }])
  }

  *#sort(pieces: readonly Piece[]): Generator<ReplyEvent, void, undefined> {
    for (const { kind, text } of pieces) {
      if (this.finished) return
      if (kind === "content") yield* this.#answer(text)
      else yield* this.#send(kind, text)
    }
  }

  *#answer(text: string): Generator<ReplyEvent, void, undefined> {
    if (this.#calls) yield* this.#call(this.#calls.push(text))
    else yield* this.#say(text)
  }

  *#call(pieces: readonly CallPiece[]): Generator<ReplyEvent, void, undefined> {
    const choice = this.#index
    for (const piece of pieces) {
      if (this.finished) return
      if (piece.kind === "text") {
        yield* this.#say(piece.text)
        continue
      }
      // No stop string reaches into a call.
      yield* this.#send("content", this.#stops.flush())
      this.ledger.settle(piece.length, { thought: false, sent: false })
      switch (piece.kind) {
        case "call": {
          const index = this.#made++
          this.#calling = true
          const id = this.#reading.calls!.id(choice, index)
          yield { kind: "call", choice, index, id, name: piece.name }
          break
        }
        case "arguments":
          yield { kind: "arguments", choice, index: this.#made - 1, text: piece.text }
          break
        case "end":
          this.#calling = false
          if (this.#made === this.#reading.calls!.most) this.#cut()
          break
        case "broken":
          this.#broken = true
      }
    }
  }

  *#say(text: string): Generator<ReplyEvent, void, undefined> {
    const { text: certain, stopped } = this.#stops.push(text)
    yield* this.#send("content", certain)
    if (stopped) this.#cut()
  }

  /** What the stations still hold, when nothing more comes. */
  *#flush(): Generator<ReplyEvent, void, undefined> {
    if (!this.finished && this.#thinking) yield* this.#sort(this.#thinking.flush())
    if (!this.finished && this.#calls) yield* this.#call(this.#calls.flush())
    if (!this.finished) yield* this.#send("content", this.#stops.flush())
  }

  /** Where every token is told, those at the end that show as nothing are, and the one that ended the reply. */
  *#listRest({ token, logprob, top = [] }: EndEvent): Generator<ReplyEvent, void, undefined> {
    if (this.finished || !this.#reading.echo?.scored) return
    const logprobs = this.ledger.rest()
    if (token !== undefined) logprobs.push(this.#told({ token, logprob, top }, this.#offset))
    if (logprobs.length > 0) yield { kind: "content", choice: this.#index, text: "", logprobs }
  }

  #cut(): void {
    this.ledger.cut()
    this.finished = true
  }

  *#send(kind: Piece["kind"], text: string): Generator<ReplyEvent, void, undefined> {
    if (text === "") return
    const thought = kind !== "content"
    const shown = thought && this.#reading.reasoning?.inline ? "content" : kind
    const logprobs = this.ledger.settle(text.length, { thought, sent: shown !== "nothing" })
    if (shown !== "nothing") yield { kind: shown, choice: this.#index, text, logprobs }
  }

  #finish({ reason, problem }: EndEvent): ReplyEvent {
    const choice = this.#index
    if (reason === "error") {
      return { kind: "finish", choice, reason, ...(problem && { problem }) }
    }
    if (reason === "length" && (this.#calling || this.#made === 0)) {
      return { kind: "finish", choice, reason }
    }
    if (this.#broken) return { kind: "finish", choice, reason: "error" }
    return { kind: "finish", choice, reason: this.#made > 0 ? "tool_calls" : "stop" }
  }

  #logprobOf(event: TokenEvent): TokenLogprob | undefined {
    return this.#reading.logprobs ? this.#told(event, this.#offset) : undefined
  }

  #told({ token, logprob, top }: Told, offset: number): TokenLogprob {
    const named = (id: number) => {
      const bytes = this.#reading.tokenizer.bytes.of(id)
      return { token: UTF8.decode(bytes), bytes }
    }
    return {
      ...named(token),
      offset,
      logprob,
      top: top.map((other) => ({ ...named(other.token), logprob: other.logprob })),
    }
  }
}

/** What the engine tells of a token. */
type Told = Pick<TokenEvent, "token" | "top"> & { logprob: number | undefined }

/** Special tokens that mark something which is read here; all others show as nothing. */
function visibleTokens({ tokenizer, reasoning, calls }: Reading): ReadonlySet<number> {
  const { open, close } = reasoning?.markers ?? {}
  const marks = [open, close, ...(calls?.format.marks ?? [])]
  return new Set(marks.map((mark) => tokenizer.control(mark ?? "") ?? -1))
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
  readonly #all: boolean
  readonly #open: Entry[] = [] // tokens of which nothing is settled, or the last one partly

  /** @param all whether tokens that show as nothing are listed, too */
  constructor(all: boolean) {
    this.#all = all
  }

  /** A token that adds `length` characters, and the beginning of one more. */
  add(logprob: TokenLogprob | undefined, length: number, midCharacter: boolean): void {
    const from = this.#heard
    this.#heard += length
    this.reported++
    this.#open.push({ from, to: this.#heard + (midCharacter ? 1 : 0), logprob })
  }

  /**
   * The next characters are decided: whether they were thought, and whether they are sent as text. Returns the tokens that
   * are sent with them and were not before.
   */
  settle(length: number, { thought, sent }: { thought: boolean; sent: boolean }): TokenLogprob[] {
    const end = this.#settled + length
    const listed: TokenLogprob[] = []
    while (this.#open.length > 0 && this.#open[0]!.from < end) {
      const entry = this.#open[0]!
      if (thought && entry.from >= this.#settled) this.reasoning++
      if (sent && entry.logprob && (this.#all || entry.to > entry.from)) {
        listed.push(entry.logprob)
        entry.logprob = undefined
      }
      if (entry.to > end) break
      this.#open.shift()
    }
    this.#settled = end
    return listed
  }

  /** The tokens that were not listed, when nothing more comes. */
  rest(): TokenLogprob[] {
    return this.#open.splice(0).flatMap(({ logprob }) => logprob ?? [])
  }

  /** Nothing after the settled characters counts: a stop string begins there. */
  cut(): void {
    this.reported -= this.#open.filter(({ from }) => from >= this.#settled).length
  }
}
