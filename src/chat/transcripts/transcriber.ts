// Recordings become transcripts by a Whisper: its own way to be asked, which no template writes. What stands in a prompt is the rows of a
// window of 30 seconds, the text to go on from, and the tokens that say language and task. A longer recording is heard window after
// window, each of which begins where the last whole segment of the one before it ended.
//
// What transformers' `generate` does where nothing else is said: no window is told what the one before it said, none is tried again at
// another temperature, and none is left out because nobody seems to speak.

import { deflateSync } from "node:zlib"
import type { GenerationRequest, SamplingParams, TokenEvent } from "../../engine/generation.ts"
import { problem } from "../../errors.ts"
import { languageCode, languages } from "../../languages.ts"
import type { Caller } from "../../worker/lane.ts"
import type { ChatEngine } from "../admission.ts"
import type {
  ReplyEvent,
  TranscriptReply,
  TranscriptRequest,
  TranscriptSegment,
  Transcripts,
} from "../conversation.ts"
import { Detokenizer } from "../detokenizer.ts"
import { foreign } from "../jinja/text.ts"
import { MAX_AUDIO, MediaKeys, tooManyBytes } from "../media.ts"
import { FROM_REQUEST } from "../rendering.ts"
import type { Tokenizer } from "../tokenizer.ts"
import { oneOf, type SpeechTokens, TimedWords, Words } from "./rules.ts"
import { type Cut, segmentsIn } from "./segments.ts"

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

/** What the model's generation_config.json says, as far as it does. */
export interface SpeechAdvice {
  suppressed: readonly number[]
  suppressedFirst: readonly number[]
  mostInitial: number | undefined
  /** Undefined: its tokens say. */
  isMultilingual: boolean | undefined
}

export interface TranscriberOptions {
  engine: ChatEngine
  tokenizer: Tokenizer
  listener: Listener
  advice: SpeechAdvice
  vocabulary: number
  /** Positions of a prompt and its reply, rows of a window included. */
  context: number
}

const RATE = 16_000
const FRAMES = 100 // of a second
const WINDOW = 30 * FRAMES
const TIMES = 1501

interface Tokens extends SpeechTokens {
  start: number
  previous: number | undefined
  nobody: number | undefined
  transcribe: number | undefined
  translate: number | undefined
  /** By their codes; none: it knows English alone. */
  languages: ReadonlyMap<string, number>
}

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
  usage: { promptTokens: number; cachedTokens: number; completionTokens: number }
}

/** @throws `model_broken` where the tokenizer lacks what a Whisper is asked with. @param file its tokenizer's, for that */
export function createTranscriber(options: TranscriberOptions, file: string): Transcripts {
  const tokens = tokensOf(options, file)
  const keys = new MediaKeys()
  const { engine, tokenizer, listener, vocabulary } = options

  async function transcribe(
    request: TranscriptRequest,
    signal: AbortSignal,
    client = request.scope,
  ): Promise<TranscriptReply> {
    const came = performance.now()
    const { audio, field, task, prompt } = request
    if (audio.length > MAX_AUDIO) throw tooManyBytes(field, audio.length, "audio")
    const asked =
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
    const language = asked ?? (tokens.languages.size > 0 ? await spoken(first, hearing) : undefined)
    const isTimed = request.timed || recording.samples > 30 * RATE
    const behind = language === undefined ? [] : [tokens.languages.get(language)!, tokens[task]!]
    const own = { ...hearing, behind: isTimed ? behind : [...behind, tokens.noTimes] }
    const segments: TranscriptSegment[] = []
    const said = isTimed ? timed(own, first, segments) : plain(own, first)
    const name = language === undefined ? "english" : languages.get(language)!
    return {
      seconds: recording.samples / RATE,
      language: name,
      events: replyOf(said, usage),
      segments,
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
    const [event] = await told(
      ask({ ...hearing, before: [] }, 0, rows, likeliest, () => constraint, 1),
    )
    for (const [code, token] of tokens.languages) if (token === event?.token) return code
    throw new Error("internal: no language was drawn")
  }

  /** How likely the model thinks that nobody speaks in a window. */
  async function silence(rows: Float32Array, hearing: Hearing, frame: number): Promise<number> {
    if (tokens.nobody === undefined) return 0
    const constraint = oneOf([tokens.nobody], vocabulary)
    const sampling = { ...likeliest, topLogprobs: 0 }
    const alone = { ...hearing, behind: [] }
    const [event] = await told(ask(alone, frame, rows, sampling, () => constraint, 1))
    return event ? Math.exp(event.logprob) : 0
  }

  /** A reply's tokens as they come. Leaving ends it. */
  async function* ask(
    { request, recording, caller: { client, signal }, came, before, behind, usage }: Hearing,
    frame: number,
    rows: Float32Array,
    sampling: SamplingParams,
    constraint: GenerationRequest["constraint"],
    maxTokens: number | undefined,
  ): AsyncGenerator<TokenEvent> {
    const { id, scope, field } = request
    const soft = new Int32Array(listener.rows).fill(tokens.end) // rows stand in their place
    const prompt = Int32Array.from([...soft, ...before, tokens.start, ...behind])
    const hash = `${recording.hash} ${frame}`
    const generation = await engine.generate(
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
        ...(constraint && { constraint }),
      },
      signal,
    )
    usage.promptTokens += generation.promptTokens
    for await (const event of generation.choices[0]!) {
      if (event.kind === "end") {
        usage.cachedTokens += generation.cachedTokens
        if (event.problem) throw event.problem
        signal.throwIfAborted()
        return
      }
      usage.completionTokens++
      yield event
    }
    signal.throwIfAborted()
  }

  /** One window, without times. */
  async function* plain(hearing: Hearing, rows: Float32Array): AsyncGenerator<string> {
    const text = new Detokenizer(tokenizer, true)
    const { sampling } = hearing.request
    for await (const { token } of ask(
      hearing,
      0,
      rows,
      sampling,
      () => new Words(tokens),
      undefined,
    )) {
      const piece = token < tokens.end ? text.push(token) : ""
      if (piece !== "") yield piece
    }
    yield text.flush()
  }

  /** Segment after segment, window after window. */
  async function* timed(
    hearing: Hearing,
    first: Float32Array,
    segments: TranscriptSegment[],
  ): AsyncGenerator<string> {
    const { request, recording, caller } = hearing
    const { sampling, judged } = request
    const { frames } = recording
    for (let from = 0, rows = first; ; rows = await recording.rowsAt(from, caller)) {
      const noSpeech = judged ? await silence(rows, hearing, from) : 0
      const logprobs = { ...sampling, topLogprobs: 0 }
      const reply = await told(
        ask(hearing, from, rows, logprobs, () => new TimedWords(tokens), undefined),
      )
      const said = reply.map(({ token }) => token)
      const mean = reply.reduce((sum, { logprob }) => sum + logprob, 0) / Math.max(1, reply.length)
      const whole = { from, frames: Math.min(WINDOW, frames - from) }
      const { segments: cuts, next } = segmentsIn(said, tokens.firstTime, whole)
      const judgement = {
        seek: from,
        averageLogprob: mean,
        noSpeech,
        temperature: sampling.temperature,
      }
      for (const cut of cuts) {
        const segment = { ...segmentOf(cut), ...judgement }
        segments.push(segment)
        yield segment.text
      }
      from = next > from ? next : from + whole.frames // a model that says nothing of a window is not asked again
      if (from >= frames) return
    }
  }

  function segmentOf({ start, end, tokens: own }: Cut) {
    const detokenizer = new Detokenizer(tokenizer, true)
    const words = own.filter((token) => token < tokens.end)
    const text = words.map((token) => detokenizer.push(token)).join("") + detokenizer.flush()
    const bytes = Buffer.from(text)
    const compressionRatio = bytes.length / deflateSync(bytes).length
    return { start: start / FRAMES, end: end / FRAMES, text, tokens: own, compressionRatio }
  }

  return { transcribe }
}

const likeliest: SamplingParams = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  presencePenalty: 0,
  frequencyPenalty: 0,
  repetitionPenalty: 1,
  logitBias: new Map(),
  seed: 0n,
  topLogprobs: undefined,
}

async function told(events: AsyncIterable<TokenEvent>): Promise<TokenEvent[]> {
  const all: TokenEvent[] = []
  for await (const event of events) all.push(event)
  return all
}

/** Without blanks around all of it. */
async function* replyOf(
  texts: AsyncIterable<string>,
  usage: Hearing["usage"],
): AsyncGenerator<ReplyEvent> {
  let held = "" // blanks that may be the last
  let isBegun = false
  for await (const piece of texts) {
    const whole = isBegun ? held + piece : piece.trimStart()
    const text = whole.trimEnd()
    held = whole.slice(text.length)
    if (text === "") continue
    isBegun = true
    yield { kind: "content", choice: 0, text, logprobs: [] }
  }
  yield { kind: "finish", choice: 0, reason: "stop" }
  yield { kind: "usage", usage: { ...usage, reasoningTokens: 0 } }
}

function knownLanguage(asked: string, { languages: known }: Tokens): string | undefined {
  const code = languageCode(asked)
  if (known.has(code) || (known.size === 0 && code === "en"))
    return known.size === 0 ? undefined : code
  const all = known.size === 0 ? "en" : [...known.keys()].join(", ")
  const words = `language must be one that this model knows: ${all}.`
  throw problem("invalid_value", { problem: words }, "language")
}

/** By their names, which all of OpenAI's have; times are the last of the model's rows. */
function tokensOf({ tokenizer, advice, vocabulary }: TranscriberOptions, file: string): Tokens {
  const control = (name: string) => tokenizer.control(`<|${name}|>`)
  const needed = (name: string) => {
    const token = control(name)
    if (token !== undefined) return token
    const words = `it has no token <|${name}|>, which a Whisper is asked with`
    throw problem("model_broken", { file, problem: words })
  }
  const spoken = [...languages.keys()].flatMap((code) => {
    const token = control(code)
    return token === undefined ? [] : [[code, token] as const]
  })
  const [transcribe, translate] = [control("transcribe"), control("translate")]
  const noTimes = needed("notimestamps")
  const firstTime = noTimes + 1
  if (firstTime + TIMES > vocabulary)
    throw problem("model_broken", {
      file,
      problem: `behind <|notimestamps|>, number ${noTimes}, there is no room for ${TIMES} times among ${vocabulary} tokens`,
    })
  const isMultilingual = advice.isMultilingual ?? spoken.length > 1
  return {
    ...advice,
    vocabulary: firstTime + TIMES,
    start: needed("startoftranscript"),
    end: needed("endoftext"),
    noTimes,
    firstTime,
    previous: control("startofprev"),
    nobody: control("nospeech") ?? control("nocaptions"),
    transcribe,
    translate: isMultilingual ? translate : undefined,
    languages: new Map(isMultilingual ? spoken : []),
  }
}
