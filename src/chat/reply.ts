// The way out: the tokens of all choices become one stream of events, in the order in which they happen. Each choice goes
// through the same stations: bytes to text, thinking from answer, calls from text, stop strings; each station holds back
// what it cannot decide yet. Streams and whole answers are both made of these events, so they cannot differ.

import type {
  EndEvent,
  Generation,
  GenerationEvent,
  PromptScores,
  TokenEvent,
} from "../engine/generation.ts"
import type { ReplyEvent, TokenLogprob, TokenNames } from "./conversation.ts"
import { Detokenizer } from "./detokenizer.ts"
import { characters, type Echo, EchoedTokens } from "./echo.ts"
import { CallReader, type Format, type Opening } from "./formats/formats.ts"
import type { CallPiece, Tools } from "./formats/input.ts"
import {
  asTokens,
  type Markers,
  type Piece,
  type Splitter,
  spellingOf,
  tokensOf,
  unread,
} from "./markers.ts"
import { merged } from "./merged.ts"
import { marksOf, splitterFor, type ThinkingAt } from "./reasoning.ts"
import { Stops, StopTable } from "./stops.ts"
import type { Tokenizer } from "./tokenizer.ts"

export interface Reading {
  tokenizer: Tokenizer
  stop: readonly string[]
  /** Before the reply has more tokens than this, stop strings are not looked for. */
  minTokens: number
  /** Whether events list the tokens. */
  logprobs: boolean
  /** The reply goes on with a text that the prompt began. */
  continues: boolean
  /** What every choice begins with; undefined: with the reply. */
  echo?: Echo | undefined
  /**
   * How thinking is marked, and whether the reply begins inside or behind it; undefined: it is not looked for. `inline` leaves it in
   * the content as it is written, where stop strings and calls still are not looked for.
   */
  reasoning: { markers: Markers; inside: boolean; over?: boolean; inline: boolean } | undefined
  /** How calls are written, and which may be made; undefined: they are not looked for. */
  calls: CallReading | undefined
}

export interface CallReading {
  format: Format
  tools: Tools
  /** What ends thinking, where its mark is a token of its own; undefined: a call in thinking is a thought. */
  opening?: Opening | undefined
  /** The reply ends after this many calls. */
  most: number
  id: (choice: number, index: number) => string
}

/** Events of every choice, then the usage. Leaving the loop lets go of what is still running. */
export async function* replyEvents(
  generation: Generation,
  reading: Reading,
): AsyncGenerator<ReplyEvent, void, undefined> {
  const stops = new StopTable(reading.stop)
  const scores = () => generation.scores
  const choices = generation.choices.map(
    (_, index) => new ChoiceReader(index, reading, stops, scores),
  )
  for await (const { index, value, leave } of merged(generation.choices)) {
    const choice = choices[index]!
    yield* choice.take(value)
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

/** One choice's tokens, read into events. */
class ChoiceReader {
  finished = false
  readonly ledger = new Ledger()
  readonly #index: number
  readonly #reading: Reading
  readonly #text: Detokenizer
  readonly #thinking: Splitter | undefined
  readonly #calls: CallReader | undefined
  readonly #mark: number | undefined // the token that opens a call in thinking
  readonly #marks: ReadonlySet<number> // tokens whose spelling is none of theirs
  readonly #stops: Stops
  #made = 0 // calls that were announced
  #broken = false
  #echo: Echo | undefined // until it is sent
  readonly #scores: () => PromptScores | undefined
  #offset: number
  #last: "content" | "reasoning" // what was sent last

  constructor(
    index: number,
    reading: Reading,
    stops: StopTable,
    scores: () => PromptScores | undefined,
  ) {
    const { tokenizer, continues, echo, reasoning, calls } = reading
    this.#index = index
    this.#reading = reading
    this.#text = new Detokenizer(tokenizer, continues, visibleTokens(reading))
    this.#mark = calls?.opening && tokenizer.control(calls.opening.mark)
    const opening = this.#mark === undefined ? undefined : calls?.opening
    const [ofThinking, ofCalls] = [
      tokensOf(tokenizer, reasoning?.markers),
      tokensOf(tokenizer, calls?.format),
    ]
    this.#marks = new Set([...ofThinking, ...ofCalls])
    this.#thinking =
      reasoning &&
      splitterFor(reasoning.markers, placeOf(reasoning), opening, spellingOf(ofThinking))
    this.#calls = calls && new CallReader(calls.format, calls.tools, spellingOf(ofCalls))
    this.#stops = new Stops(stops)
    this.#echo = echo
    this.#scores = scores
    this.#offset = characters(echo?.text ?? "")
    this.#last = reasoning?.inside && !reasoning.inline ? "reasoning" : "content"
  }

  *take(event: GenerationEvent): Generator<ReplyEvent, void, undefined> {
    const failed = event.kind === "end" && event.reason === "error"
    if (this.#echo && !failed) yield this.#repeat(this.#echo)
    if (event.kind === "token") {
      const text = this.#text.push(event.token)
      const { broken, midCharacter } = this.#text
      this.ledger.add(this.#logprobOf(event, broken), text.length, broken, midCharacter)
      this.#offset += characters(text)
      const read = this.#marks.has(event.token) ? asTokens(text) : text
      yield* this.#think(read, event.token === this.#mark)
      if (this.finished) yield this.#finish({ kind: "end", reason: "stop" })
      return
    }
    const rest = this.#text.flush()
    this.#offset += characters(rest)
    yield* this.#think(rest)
    yield* this.#flush()
    if (!this.finished) yield* this.#listRest(event)
    yield this.#finish(this.finished ? { kind: "end", reason: "stop" } : event)
    this.finished = true
  }

  /** The prompt, once all of it is scored. */
  #repeat(echo: Echo): ReplyEvent {
    this.#echo = undefined
    const scores = echo.scored ? this.#scores() : undefined
    const logprobs = scores ? new EchoedTokens(echo, scores, this.#reading.tokenizer) : []
    return { kind: "prompt", choice: this.#index, text: echo.text, logprobs }
  }

  *#think(text: string, isMark = false): Generator<ReplyEvent, void, undefined> {
    if (text === "") return
    yield* this.#sort(this.#thinking?.push(text, isMark) ?? [{ kind: "content", text }])
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
      yield* this.#pass("content", piece.length)
      switch (piece.kind) {
        case "call": {
          const index = this.#made++
          const id = this.#reading.calls!.id(choice, index)
          yield { kind: "call", choice, index, id, name: piece.name }
          break
        }
        case "arguments":
          yield { kind: "arguments", choice, index: this.#made - 1, text: piece.text }
          break
        case "end":
          if (this.#made === this.#reading.calls!.most) yield* this.#cut()
          break
        case "broken":
          this.#broken = true
      }
    }
  }

  *#say(text: string): Generator<ReplyEvent, void, undefined> {
    if (this.ledger.reported <= this.#reading.minTokens) {
      yield* this.#send("content", text)
      return
    }
    const { text: certain, stopped } = this.#stops.push(unread(text))
    yield* this.#send("content", certain)
    if (stopped) yield* this.#cut()
  }

  /** What the stations still hold, when nothing more comes. */
  *#flush(): Generator<ReplyEvent, void, undefined> {
    if (!this.finished && this.#thinking) yield* this.#sort(this.#thinking.flush())
    if (!this.finished && this.#calls) yield* this.#call(this.#calls.flush())
    if (!this.finished) yield* this.#send("content", this.#stops.flush())
  }

  /** The tokens at the end that show as nothing; with a prompt that was scored, the one that ended the reply as well. */
  *#listRest({ token, logprob, top = [] }: EndEvent): Generator<ReplyEvent, void, undefined> {
    const logprobs = this.ledger.rest(this.#last === "reasoning")
    if (this.#reading.echo?.scored && token !== undefined) {
      logprobs.push({ token, shows: false, offset: this.#offset, logprob, top })
    }
    yield* this.#tell(this.#last, logprobs)
  }

  /** A stop string begins here, or the last call has ended. */
  *#cut(): Generator<ReplyEvent, void, undefined> {
    this.finished = true
    yield* this.#tell(this.#last, this.ledger.cut())
  }

  *#send(kind: Piece["kind"], text: string): Generator<ReplyEvent, void, undefined> {
    if (text === "") return
    if (kind === "mark") {
      yield* this.#pass("content", text.length)
      return
    }
    const thought = kind !== "content"
    const shown = thought && this.#reading.reasoning?.inline ? "content" : kind
    if (shown === "nothing") {
      yield* this.#pass("reasoning", text.length)
      return
    }
    this.#last = shown
    const logprobs = this.ledger.settle(text.length, { thought, sent: true })
    yield { kind: shown, choice: this.#index, text: unread(text), logprobs }
  }

  /** Text that is not sent: a marker, or a call. Its tokens are told all the same. */
  *#pass(kind: "content" | "reasoning", length: number): Generator<ReplyEvent, void, undefined> {
    this.#last = kind
    const thought = kind === "reasoning"
    yield* this.#tell(kind, this.ledger.settle(length, { thought, sent: false }))
  }

  /** Tokens without text. */
  *#tell(
    kind: "content" | "reasoning",
    logprobs: TokenLogprob[],
  ): Generator<ReplyEvent, void, undefined> {
    if (logprobs.length > 0) yield { kind, choice: this.#index, text: "", logprobs }
  }

  #finish({ reason, problem, token }: EndEvent): ReplyEvent {
    const choice = this.#index
    const isUntold = token !== undefined && !this.#reading.echo?.scored
    const last = isUntold ? { token } : {}
    if (reason === "error") {
      return { kind: "finish", choice, reason, ...(problem && { problem }) }
    }
    // Also behind whole calls: nobody knows how many more there would have been.
    if (reason === "length") return { kind: "finish", choice, reason }
    if (this.#broken) return { kind: "finish", choice, reason: "error", ...last }
    const stop = this.#stops.found
    const ended = this.#made > 0 ? "tool_calls" : "stop"
    return { kind: "finish", choice, reason: ended, ...(stop !== undefined && { stop }), ...last }
  }

  #logprobOf(event: TokenEvent, broken: number): TokenLogprob | undefined {
    if (!this.#reading.logprobs) return undefined
    const { token, logprob, top } = event
    return { token, shows: true, offset: this.#offset + broken, logprob, top }
  }
}

function placeOf({ inside, over }: NonNullable<Reading["reasoning"]>): ThinkingAt {
  if (over) return "over"
  return inside ? "inside" : "ahead"
}

const MAX_TEXTS = 4096

/** What the tokens of a reading are called. */
export function tokenNames(reading: Reading): TokenNames {
  const { bytes, special } = reading.tokenizer
  const visible = visibleTokens(reading)
  const texts = new Map<number, string>() // the same few come again and again
  return {
    text: (token) => {
      const known = texts.get(token)
      if (known !== undefined) return known
      if (texts.size === MAX_TEXTS) texts.clear()
      const text = UTF8.decode(bytes.of(token))
      texts.set(token, text)
      return text
    },
    bytes: (token) => bytes.of(token),
    isSilent: (token) => special.has(token) && !visible.has(token),
  }
}

/** Special tokens that mark something which is read here; all others show as nothing. */
function visibleTokens({ tokenizer, reasoning, calls }: Reading): ReadonlySet<number> {
  const thinking = reasoning ? marksOf(reasoning.markers) : []
  const marks = [...thinking, ...(calls?.format.marks ?? [])]
  return new Set(marks.flatMap((mark) => tokenizer.control(mark) ?? []))
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

/** Which tokens the text that was sent came from, so that each is counted, and told with its text, once. */
class Ledger {
  /** Tokens that count as the reply. */
  reported = 0
  /** Those of them that were thinking. */
  reasoning = 0
  #heard = 0
  #settled = 0
  readonly #open: Entry[] = [] // tokens of which nothing is settled, or the last one partly

  /** A token that adds `length` characters, of which the first `broken` are not its own, and the beginning of one more. */
  add(
    logprob: TokenLogprob | undefined,
    length: number,
    broken: number,
    midCharacter: boolean,
  ): void {
    const from = this.#heard + broken
    this.#heard += length
    this.reported++
    const to = Math.max(from, this.#heard) + (midCharacter ? 1 : 0)
    this.#open.push({ from, to, logprob })
  }

  /**
   * The next characters are decided: whether they were thought, and whether they are sent as text. Returns the tokens to be
   * told with them: those that show in them and have not been told, and those that are over and never showed.
   */
  settle(length: number, { thought, sent }: { thought: boolean; sent: boolean }): TokenLogprob[] {
    const end = this.#settled + length
    const logprobs: TokenLogprob[] = []
    while (this.#open.length > 0 && this.#open[0]!.from < end) {
      const entry = this.#open[0]!
      if (thought && entry.from >= this.#settled) this.reasoning++
      if (sent || entry.to <= end) tell(entry, sent, logprobs)
      if (entry.to > end) break
      this.#open.shift()
    }
    this.#settled = end
    return logprobs
  }

  /** The tokens that were not told, when nothing more comes. */
  rest(thought: boolean): TokenLogprob[] {
    const logprobs: TokenLogprob[] = []
    for (const entry of this.#open.splice(0)) {
      if (thought && entry.from >= this.#settled) this.reasoning++
      tell(entry, false, logprobs)
    }
    return logprobs
  }

  /** Nothing after the settled characters counts. What began before and was not told is returned. */
  cut(): TokenLogprob[] {
    const logprobs: TokenLogprob[] = []
    for (const entry of this.#open.splice(0)) {
      if (entry.from < this.#settled) tell(entry, false, logprobs)
      else this.reported--
    }
    return logprobs
  }
}

function tell(entry: Entry, sent: boolean, logprobs: TokenLogprob[]): void {
  if (!entry.logprob) return
  logprobs.push({ ...entry.logprob, shows: sent && entry.to > entry.from })
  entry.logprob = undefined
}
