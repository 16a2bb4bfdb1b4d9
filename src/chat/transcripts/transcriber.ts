// Recordings become transcripts by a Whisper: its own way to be asked, which no template writes. What stands in a prompt is the rows of a
// window of 30 seconds, the text to go on from, and the tokens that say language and task. A longer recording is heard window after
// window, each of which begins where the last whole segment of the one before it ended.
//
// No window is told what the one before it said. One whose words are doubtful is tried again (tries.ts), but where they have been told as
// they came.

import { type Constraint, plainSampling, type SamplingParams } from "../../engine/generation.ts"
import { problem } from "../../errors.ts"
import { languages } from "../../languages.ts"
import type { Caller } from "../../worker/lane.ts"
import type { ChatEngine } from "../admission.ts"
import type {
  TranscriptReply,
  TranscriptRequest,
  TranscriptSegment,
  Transcripts,
  TranscriptWord,
} from "../conversation.ts"
import { Detokenizer } from "../detokenizer.ts"
import { foreign } from "../jinja/text.ts"
import { MAX_AUDIO, MediaKeys, tooManyBytes } from "../media.ts"
import { FROM_REQUEST } from "../rendering.ts"
import type { Tokenizer } from "../tokenizer.ts"
import { AlignThread } from "./align-thread.ts"
import type { AlignmentHeads } from "./alignment.ts"
import { asked, type Drawn } from "./asked.ts"
import { type CountedUsage, replyOf } from "./reply.ts"
import { oneOf, TimedWords, Words } from "./rules.ts"
import { type Cut, segmentsIn } from "./segments.ts"
import { knownLanguage, type SpeechAdvice, tokensOf } from "./speech-tokens.ts"
import {
  compressionRatio,
  isDoubtful,
  isSilent,
  isUnlikely,
  type Judged,
  triesOf,
} from "./tries.ts"
import { wordsOf } from "./words.ts"

/** What hears: recordings as its tower reads them. */
export interface Listener {
  /** Rows of a window. */
  rows: number
  /** @throws a Problem where it is no recording, or too long */
  listen(bytes: Uint8Array, field: string, caller: Caller): Promise<Recording>
}

export interface Recording {
  /** Of its bytes. */
  hash: string
  samples: number // at 16 kHz
  frames: number // 100 of a second
  /** What the tower makes of the window that begins at a frame. */
  rowsAt(frame: number, caller: Caller): Promise<Float32Array>
}

export interface TranscriberOptions {
  engine: ChatEngine
  tokenizer: Tokenizer
  listener: Listener
  advice: SpeechAdvice
  /** What words are timed by; or why they cannot be. */
  alignment: AlignmentHeads | { why: string }
  vocabulary: number
  /** Positions of a prompt and its reply, rows of a window included. */
  context: number
}

const RATE = 16_000
const FRAMES = 100 // of a second
const WINDOW = 30 * FRAMES
const FRAMES_OF_ROW = 2

/** Once for all windows of a recording. */
interface Hearing {
  request: TranscriptRequest
  recording: Recording
  caller: Caller & { signal: AbortSignal }
  /** When its request came: all of its windows are of one request's time. */
  came: number
  /** Before and behind the token with which a prompt begins. */
  before: readonly number[]
  behind: readonly number[]
  usage: CountedUsage
}

interface Window {
  /** Of the recording, with which it begins. */
  frame: number
  /** What the tower makes of it. */
  rows: Float32Array
}

interface Asked {
  sampling: SamplingParams
  constraint: () => Constraint
  /** Undefined: as far as the context reaches. */
  maxTokens?: number
  /** Told what is handed out beside a token of the reply, from number `from` on. */
  readGiven?: (given: Float32Array, from: number) => void
}

interface Attempt extends Judged {
  said: readonly number[]
  temperature: number
  /** What the alignment heads ask for at each token that was read, where that is wanted. */
  queries: readonly Float32Array[]
}

/** Of those windows that have been heard. */
interface Told {
  segments: TranscriptSegment[]
  words: TranscriptWord[]
}

/** @throws `model_broken` where the tokenizer lacks what a Whisper is asked with. @param file its tokenizer's, for that */
export function createTranscriber(options: TranscriberOptions, file: string): Transcripts {
  const tokens = tokensOf(options, file)
  const keys = new MediaKeys()
  const { engine, tokenizer, listener, vocabulary, alignment } = options
  const aligner = "why" in alignment ? undefined : new AlignThread(alignment)

  async function transcribe(
    request: TranscriptRequest,
    signal: AbortSignal,
    client = request.scope,
  ): Promise<TranscriptReply> {
    const came = performance.now()
    const { audio, field, task, prompt } = request
    if (audio.length > MAX_AUDIO) throw tooManyBytes(field, audio.length, "audio")
    if (request.worded && "why" in alignment) throw wordless(alignment.why)
    const named =
      request.language === undefined ? undefined : knownLanguage(request.language, tokens)
    if (task === "translate" && tokens.translate === undefined) {
      const words =
        "This model knows English alone, and translates nothing; POST /v1/audio/transcriptions writes down what is said."
      throw problem("unsupported_value", { problem: words }, "model")
    }
    const caller = { client, signal }
    const before = prompt ? await tokensBefore(prompt, caller) : []
    const recording = await listener.listen(audio, field, caller)
    const usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 }
    const hearing = { request, recording, caller, came, before, behind: [], usage }
    const first = await recording.rowsAt(0, caller)
    const language = named ?? (tokens.languages.size > 0 ? await spoken(first, hearing) : undefined)
    const isTimed = request.timed || recording.samples > 30 * RATE
    const behind = language === undefined ? [] : [tokens.languages.get(language)!, tokens[task]!]
    const own = { ...hearing, behind: isTimed ? behind : [...behind, tokens.noTimes] }
    const code = language ?? "en"
    const told: Told = { segments: [], words: [] }
    const windows = { ...own, language: task === "translate" ? "en" : code }
    const said = isTimed ? timed(windows, first, told) : plain(windows, first)
    return {
      seconds: recording.samples / RATE,
      language: languages.get(code)!,
      events: replyOf(said, usage),
      ...told,
    }
  }

  /** The last of a text's tokens, as many as there is room for beside as long a reply. */
  async function tokensBefore(prompt: string, caller: Caller): Promise<number[]> {
    const most = Math.floor((options.context - listener.rows) / 2) - 1
    const text = await tokenizer.encode(foreign(` ${prompt.trim()}`, FROM_REQUEST), caller)
    const words = text.filter((token) => token < tokens.end)
    return tokens.previous === undefined ? [] : [tokens.previous, ...words.slice(-most)]
  }

  /** The likeliest language, as a code. */
  async function spoken(rows: Float32Array, hearing: Hearing): Promise<string> {
    const constraint = oneOf([...tokens.languages.values()], vocabulary)
    const [event] = await drawn({ ...hearing, before: [] }, { frame: 0, rows }, one(constraint))
    for (const [code, token] of tokens.languages) if (token === event?.token) return code
    throw new Error("internal: no language was drawn")
  }

  /** How likely the model thinks that nobody speaks in a window. */
  async function silence(hearing: Hearing, window: Window): Promise<number> {
    if (tokens.nobody === undefined) return 0
    const constraint = oneOf([tokens.nobody], vocabulary)
    const [event] = await drawn({ ...hearing, behind: [] }, window, one(constraint))
    return event ? Math.exp(event.logprob!) : 0
  }

  function ask(
    { request, recording, caller: { client, signal }, came, before, behind, usage }: Hearing,
    { frame, rows }: Window,
    { sampling, constraint, maxTokens, readGiven }: Asked,
  ): AsyncGenerator<Drawn> {
    const { id, scope, field } = request
    const soft = new Int32Array(listener.rows).fill(tokens.end) // rows stand in their place
    const prompt = Int32Array.from([...soft, ...before, tokens.start, ...behind])
    const hash = `${recording.hash} ${frame}`
    return asked(
      engine,
      {
        ...{ id, scope, client, prompt, field, sampling, maxTokens },
        media: {
          at: soft.map((_, position) => position),
          keys: Int32Array.from(keys.of({ hash, rows: listener.rows })),
          rows,
          heard: new Uint8Array(listener.rows).fill(1),
        },
        choices: 1,
        waited: performance.now() - came,
        stopTokens: new Set([tokens.end]),
        constraint,
        ...(readGiven && { readGiven: (given, from) => readGiven(given, from - prompt.length) }),
      },
      { usage, signal },
    )
  }

  async function drawn(hearing: Hearing, window: Window, asked: Asked): Promise<Drawn[]> {
    const all: Drawn[] = []
    for await (const event of ask(hearing, window, asked)) all.push(event)
    return all
  }

  /**
   * @param isExact whether the average is among tokens that might have come; untimed, that takes a step's logits and a look at all of
   *   them, and words that are likely enough among all tokens are so among these
   */
  async function attempt(
    hearing: Hearing,
    window: Window,
    sampling: SamplingParams,
    { isTimed, isExact = isTimed }: { isTimed: boolean; isExact?: boolean },
  ): Promise<Attempt> {
    const shares: number[] = []
    const queries: Float32Array[] = []
    const readGiven = (given: Float32Array, from: number) => {
      const columns = queryColumns(alignment)
      for (let at = 0; at < given.length; at += columns)
        queries[from + at / columns] = given.slice(at, at + columns)
    }
    const all = await drawn(hearing, window, {
      sampling: { ...sampling, topLogprobs: 0 },
      constraint: () =>
        isTimed ? new TimedWords(tokens, shares) : new Words(tokens, isExact ? shares : undefined),
      ...(hearing.request.worded && { readGiven }),
    })
    const said = all.flatMap(({ kind, token }) => (kind === "token" ? [token!] : []))
    const sum = all.reduce((sum, { logprob }, i) => sum + logprob! - (shares[i] ?? 0), 0)
    const judged = {
      averageLogprob: sum / Math.max(1, all.length),
      compressionRatio: compressionRatio(textOf(said)),
    }
    if (isUnlikely(judged) && !isExact)
      return attempt(hearing, window, sampling, { isTimed, isExact: true })
    return { said, ...judged, temperature: sampling.temperature, queries }
  }

  /** What is said in a window: by the first try that is not doubtful, or by the last. Undefined: nothing is. */
  async function written(
    hearing: Hearing,
    window: Window,
    isTimed: boolean,
  ): Promise<(Attempt & { noSpeech: number }) | undefined> {
    const { judged, sampling } = hearing.request
    const tries = triesOf(sampling)
    let noSpeech = judged ? await silence(hearing, window) : undefined
    for (const [i, how] of tries.entries()) {
      const own = await attempt(hearing, window, how, { isTimed })
      if (isUnlikely(own)) {
        noSpeech ??= await silence(hearing, window)
        if (isSilent(noSpeech)) return undefined
      }
      if (!isDoubtful(own) || i === tries.length - 1) return { ...own, noSpeech: noSpeech ?? 0 }
    }
    throw new Error("internal: no window is tried less than once")
  }

  /** One window, without times. */
  async function* plain(hearing: Hearing, rows: Float32Array): AsyncGenerator<string> {
    const window = { frame: 0, rows }
    const { sampling, streamed } = hearing.request
    if (!streamed) {
      yield textOf((await written(hearing, window, false))?.said ?? [])
      return
    }
    const text = new Detokenizer(tokenizer, true)
    const words = { sampling, constraint: () => new Words(tokens) }
    for await (const { token } of ask(hearing, window, words)) {
      const piece = token! < tokens.end ? text.push(token!) : ""
      if (piece !== "") yield piece
    }
    yield text.flush()
  }

  /** Segment after segment, window after window. */
  async function* timed(
    hearing: Hearing & { language: string },
    first: Float32Array,
    told: Told,
  ): AsyncGenerator<string> {
    const { request, recording, caller } = hearing
    const { frames } = recording
    for (let from = 0, rows = first; ; rows = await recording.rowsAt(from, caller)) {
      const whole = { from, frames: Math.min(WINDOW, frames - from) }
      const own = await written(hearing, { frame: from, rows }, true)
      const { segments, next } = own
        ? segmentsIn(own.said, tokens.firstTime, whole)
        : { segments: [], next: from }
      const begins = own && request.worded ? await beginningsIn(own, whole, rows, caller) : []
      for (const cut of segments) {
        const { said: _, queries: __, ...judgement } = own!
        const text = textOf(cut.tokens)
        const [start, end] = [cut.start / FRAMES, cut.end / FRAMES]
        told.segments.push({ start, end, text, tokens: cut.tokens, seek: from, ...judgement })
        if (request.worded) told.words.push(...wordsIn(cut, begins, hearing.language))
        yield text
      }
      from = next > from ? next : from + whole.frames // a model that says nothing of a window is not asked again
      if (from >= frames) return
    }
  }

  /** Of each of a window's tokens the frame at which it begins. */
  async function beginningsIn(
    { said, queries }: Attempt,
    { from, frames }: { from: number; frames: number },
    rows: Float32Array,
    caller: Caller,
  ): Promise<number[]> {
    const heard = Math.floor(frames / FRAMES_OF_ROW)
    if (queries.length === 0 || heard === 0) return said.map(() => from)
    const columns = queryColumns(alignment)
    const all = new Float32Array(queries.length * columns)
    for (const [i, query] of queries.entries()) all.set(query, i * columns)
    const begins = await aligner!.begin({ rows, heard, queries: all }, caller)
    // Behind the last token of a reply that was cut off nothing was drawn, and so it was not read.
    return said.map((_, i) => from + FRAMES_OF_ROW * begins[Math.min(i, begins.length - 1)]!)
  }

  /** A word begins where the token before it does, and ends where its last one does: heads look at what they have just read. */
  function wordsIn({ tokens: own, at }: Cut, begins: readonly number[], language: string) {
    const places = own.flatMap((token, i) => (token < tokens.end ? [at + i] : []))
    const words = own.filter((token) => token < tokens.end)
    return wordsOf(words, textOf, language).flatMap(({ text, first, last }): TranscriptWord[] => {
      const start = begins[Math.max(0, places[first]! - 1)]! / FRAMES
      const end = begins[places[last]!]! / FRAMES
      return text.trim() === "" ? [] : [{ text: text.trim(), start, end }]
    })
  }

  /** Without times. */
  function textOf(some: readonly number[]): string {
    const text = new Detokenizer(tokenizer, true)
    const words = some.filter((token) => token < tokens.end)
    return words.map((token) => text.push(token)).join("") + text.flush()
  }

  return { transcribe, close: async () => aligner?.close() }
}

const queryColumns = (alignment: TranscriberOptions["alignment"]) =>
  "why" in alignment ? 0 : alignment.count * alignment.headDim

/** One token, the likeliest. */
const one = (constraint: Constraint): Asked => ({
  sampling: likeliest,
  constraint: () => constraint,
  maxTokens: 1,
})

const likeliest: SamplingParams = { ...plainSampling, temperature: 0, seed: 0n, topLogprobs: 0 }

function wordless(why: string) {
  const words = `timestamp_granularities: the model cannot tell when a word is said, since ${why}; ask for segment.`
  return problem("unsupported_value", { problem: words }, "timestamp_granularities")
}
