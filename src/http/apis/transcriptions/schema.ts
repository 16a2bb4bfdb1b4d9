// A recording, and what is said in it. The request is a form.

import type { Static } from "typebox"
import { MAX_AUDIO } from "../../../chat/media.ts"
import { Type } from "../../type.ts"
import { flag, optional, text } from "../fields.ts"

/** json and text, and those that tell when something is said. */
const FORMATS = ["json", "text", "verbose_json", "srt", "vtt"] as const

const prompt = optional(
  text,
  "A text whose style and spelling the transcript follows, or that it goes on from. Told to the model.",
)

export const TranscriptionRequest = Type.Object(
  {
    file: Type.Unsafe<Uint8Array>({
      type: "string",
      format: "binary",
      description: `The recording: WAV, MP3, FLAC, Ogg, WebM, MP4 (M4A) or AAC of at most ${MAX_AUDIO / 2 ** 20} MiB. What it is called does not count.`,
    }),
    model: Type.String({
      description: "One of the names that GET /v1/models lists, of a model that hears.",
    }),
    language: optional(
      text,
      "The language that is spoken, as a code (ISO 639-1): en. Told to the model; Whisper finds it out where it is left out, and Parakeet always; Moonshine knows one.",
    ),
    prompt,
    response_format: optional(
      Type.Enum([...FORMATS]),
      "text: the transcript alone, as text/plain. A stream's events are JSON in either. The others tell when something is said, which only Whisper and Parakeet do.",
      "json",
    ),
    timestamp_granularities: optional(
      Type.Array(Type.Enum(["word", "segment"])),
      "What times verbose_json tells, which alone takes this: of segments, of words, or of both. In the form it is called timestamp_granularities[].",
      ["segment"],
    ),
    temperature: optional(
      Type.Number({ minimum: 0, maximum: 1 }),
      "Lower is less random; 0 always takes the likeliest token. A Whisper's words that are unlikely then, or repeat themselves, it tries again with 0.2 and so on up to 1.",
      0,
    ),
    stream: optional(
      flag,
      "Whether to send the transcript piece by piece, as server-sent events.",
      false,
    ),
    include: optional(
      Type.Array(Type.Literal("logprobs")),
      "logprobs tells each token's log probability; not with the format text, unless streamed. In the form it is called include[].",
    ),
  },
  { title: "TranscriptionRequest" },
)
export type TranscriptionRequest = Static<typeof TranscriptionRequest>

const logprobs = Type.Optional(
  Type.Array(
    Type.Object({
      token: text,
      bytes: Type.Array(Type.Integer(), {
        description: "The token's true bytes; none of a token that shows as nothing.",
      }),
      logprob: Type.Number({
        description: "Of the model's own distribution, -9999 at the least.",
      }),
    }),
    { description: "Where include asks for them." },
  ),
)

/** What of a transcription a translation into English takes, too. */
export const TranslationRequest = Type.Object(
  {
    ...{ file: TranscriptionRequest.properties.file },
    model: Type.String({
      description: "One of the names that GET /v1/models lists, of a Whisper.",
    }),
    prompt,
    response_format: TranscriptionRequest.properties.response_format,
    temperature: TranscriptionRequest.properties.temperature,
  },
  { title: "TranslationRequest" },
)
export type TranslationRequest = Static<typeof TranslationRequest>

const duration = Type.Object({
  type: Type.Literal("duration"),
  seconds: Type.Integer({ description: "Of the recording, rounded up." }),
})

const ofTokens = Type.Object({
  type: Type.Literal("tokens"),
  input_tokens: Type.Integer(),
  input_token_details: Type.Object({
    audio_tokens: Type.Integer({ description: "Of the recording." }),
    text_tokens: Type.Integer({ description: "All others, those of the template included." }),
  }),
  output_tokens: Type.Integer(),
  total_tokens: Type.Integer(),
})

const usage = Type.Union([ofTokens, duration], {
  description:
    "Of a Whisper, a Parakeet or a Moonshine the recording's seconds, of other models tokens.",
})

const seconds = Type.Number({ description: "In seconds." })

/** Of verbose_json. */
const segment = Type.Object({
  id: Type.Integer(),
  seek: Type.Integer({ description: "Where its window begins, in hundredths of a second." }),
  start: seconds,
  end: seconds,
  text,
  tokens: Type.Array(Type.Integer()),
  temperature: Type.Number({ description: "Of the try that wrote its window." }),
  avg_logprob: Type.Number({
    description: "Of the tokens of its window, its end included, among those that might have come.",
  }),
  compression_ratio: Type.Number({ description: "Of its window's text, by zlib." }),
  no_speech_prob: Type.Number({ description: "That nobody speaks in its window." }),
})

/** Of verbose_json. */
const word = Type.Object({
  word: Type.String({ description: "With the punctuation that belongs to it." }),
  start: seconds,
  end: seconds,
})

export const TranscriptionResponse = Type.Object(
  {
    text,
    logprobs,
    usage,
    task: Type.Optional(
      Type.Enum(["transcribe", "translate"], {
        description: "This and what follows: of verbose_json.",
      }),
    ),
    language: Type.Optional(
      Type.String({ description: "Its name in English. A Parakeet does not say." }),
    ),
    duration: Type.Optional(seconds),
    segments: Type.Optional(
      Type.Array(segment, {
        description: "Unless timestamp_granularities asks for words alone.",
      }),
    ),
    words: Type.Optional(
      Type.Array(word, { description: "Where timestamp_granularities asks for them." }),
    ),
  },
  { title: "TranscriptionResponse" },
)

export const TranscriptionEvent = Type.Union(
  [
    Type.Object({ type: Type.Literal("transcript.text.delta"), delta: text, logprobs }),
    Type.Object({ type: Type.Literal("transcript.text.done"), text, logprobs, usage }),
  ],
  { title: "TranscriptionEvent" },
)
