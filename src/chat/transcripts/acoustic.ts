// Recordings become transcripts by a model that names tokens for rows of its encoder (Parakeet): no prompt, no window that waits for another, and a time
// for each token. A long recording is heard piece by piece, and its words are told as they are found.
//
// A segment is a sentence, or what stands between pauses of a second, or ends with a piece. As in transformers (processing_parakeet.py) a token
// that says itself how long it goes on ends there, and punctuation behind it has no length.

import type { FrameDecoder, Said } from "../../engine/frame-decoder.ts"
import { problem } from "../../errors.ts"
import type { Caller } from "../../worker/lane.ts"
import type {
  TranscriptReply,
  TranscriptRequest,
  TranscriptSegment,
  Transcripts,
  TranscriptWord,
} from "../conversation.ts"
import { Detokenizer } from "../detokenizer.ts"
import { MAX_AUDIO, tooManyBytes } from "../media.ts"
import type { Tokenizer } from "../tokenizer.ts"
import { replyOf } from "./reply.ts"
import { compressionRatio } from "./tries.ts"

/** What hears: the pieces of a recording, one after the other. */
export interface PieceListener {
  /** @throws a Problem where it is no recording, or too long */
  listen(bytes: Uint8Array, field: string, caller: Caller): Promise<Pieces>
}

export interface Pieces {
  /** Of the recording's bytes. */
  hash: string
  samples: number // at 16 kHz
  /** Each begins where the one before it ends. */
  pieces: readonly { rows: number; read(caller: Caller): Promise<Float32Array> }[]
}

export interface AcousticOptions {
  decoder: FrameDecoder
  tokenizer: Tokenizer
  listener: PieceListener
}

const RATE = 16_000
const ROWS = 12.5 // of a second
const PAUSE = 1 // seconds
const HUNDREDTHS = 100

/** Those that have no length of their own. */
const PUNCTUATION = new Set(["?", "'", "¡", "¿", "-", ":", ",", "%", "/", ".", "!"])
const ENDS = /[.?!。？！]$/

/** A token that was said: its text as it follows on those before it, and when in seconds. */
interface Spoken {
  token: number
  text: string
  start: number
  end: number
  logprob: number
}

export function createAcousticTranscriber({
  decoder,
  tokenizer,
  listener,
}: AcousticOptions): Transcripts {
  async function transcribe(
    request: TranscriptRequest,
    signal: AbortSignal,
    client = request.scope,
  ): Promise<TranscriptReply> {
    const { audio, field } = request
    assertPlain(request)
    if (audio.length > MAX_AUDIO) throw tooManyBytes(field, audio.length, "audio")
    const caller = { client, signal }
    const { samples, pieces } = await listener.listen(audio, field, caller)
    const usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 }
    const told = { segments: [] as TranscriptSegment[], words: [] as TranscriptWord[] }
    const texts = said(pieces, { caller, usage, ...told })
    return { seconds: samples / RATE, language: undefined, events: replyOf(texts, usage), ...told }
  }

  /** Token by token, piece by piece; what is known of segments and words is told behind each piece. */
  async function* said(
    pieces: Pieces["pieces"],
    { caller, usage, segments, words }: Telling,
  ): AsyncGenerator<string> {
    const text = new Detokenizer(tokenizer, true)
    let first = 0 // row of the recording
    for (const piece of pieces) {
      const heard = await piece.read(caller)
      const spoken: Spoken[] = []
      usage.promptTokens += piece.rows
      for await (const each of decoder.decode(heard, caller)) {
        const own = text.push(each.token)
        const isBlank = spoken.length === 0 && first === 0 && own.trim() === "" // ahead of all text
        if (!(isBlank || tokenizer.special.has(each.token)))
          spoken.push(timed(each, { text: own, first, before: spoken.at(-1) }))
        usage.completionTokens++
        if (own !== "") yield own
      }
      const own = wordsOf(spoken)
      words.push(...own.map(wordOf).filter((word) => word.text !== ""))
      segments.push(...segmentsOf(own, spoken, (first / ROWS) * HUNDREDTHS))
      first += piece.rows
    }
    const rest = text.flush()
    if (rest !== "") yield rest
  }

  function timed(
    { token, row, rows, logprob }: Said,
    { text, first, before }: { text: string; first: number; before: Spoken | undefined },
  ): Spoken {
    const own = { token, text, logprob }
    if (decoder.tellsDurations && before && PUNCTUATION.has(text))
      return { ...own, start: before.end, end: before.end }
    return { ...own, start: (first + row) / ROWS, end: (first + row + rows) / ROWS }
  }

  return { transcribe, close: async () => {} } // its decoder is its program's
}

interface Telling {
  caller: Caller
  usage: Parameters<typeof replyOf>[1]
  segments: TranscriptSegment[]
  words: TranscriptWord[]
}

/** What a Whisper is told and this is not. */
function assertPlain({ language, prompt, task, sampling }: TranscriptRequest): void {
  const refusals = [
    [
      "model",
      task === "translate",
      "This model translates nothing; POST /v1/audio/transcriptions writes down what is said.",
    ],
    [
      "language",
      language !== undefined,
      "language: the model hears by itself which language is spoken, and cannot be told; leave it out.",
    ],
    ["prompt", prompt !== undefined, "prompt: the model goes on from no text; leave it out."],
    [
      "temperature",
      sampling.temperature > 0,
      "temperature: the model's likeliest words are taken; leave it out, or say 0.",
    ],
  ] as const
  for (const [field, isAsked, words] of refusals)
    if (isAsked) throw problem("unsupported_value", { problem: words }, field)
}

/** A word begins with a blank. */
function wordsOf(spoken: readonly Spoken[]): Spoken[][] {
  const words: Spoken[][] = []
  for (const each of spoken) {
    const last = words.at(-1)
    if (last && !each.text.startsWith(" ")) last.push(each)
    else words.push([each])
  }
  return words
}

const textOf = (spoken: readonly Spoken[]) => spoken.map(({ text }) => text).join("")

const wordOf = (word: readonly Spoken[]): TranscriptWord => ({
  text: textOf(word).trim(),
  start: word[0]!.start,
  end: word.at(-1)!.end,
})

/** Of a piece. */
function segmentsOf(
  words: readonly Spoken[][],
  all: readonly Spoken[],
  seek: number,
): TranscriptSegment[] {
  const segments: Spoken[][] = []
  for (const word of words) {
    const last = segments.at(-1)
    const isOver = !last || ENDS.test(textOf(last)) || word[0]!.start - last.at(-1)!.end >= PAUSE
    if (isOver) segments.push([...word])
    else last.push(...word)
  }
  const judged = {
    seek: Math.round(seek),
    temperature: 0,
    averageLogprob: all.reduce((sum, { logprob }) => sum + logprob, 0) / Math.max(1, all.length),
    compressionRatio: compressionRatio(textOf(all)),
    noSpeech: 0,
  }
  return segments.map((segment) => ({
    start: segment[0]!.start,
    end: segment.at(-1)!.end,
    text: textOf(segment),
    tokens: segment.map(({ token }) => token),
    ...judged,
  }))
}
