// A recording, and what is said in it. The request is a form.

import type { Static } from "typebox"
import { MAX_AUDIO } from "../../../chat/media.ts"
import { Type } from "../../type.ts"
import { flag, optional, text } from "../fields.ts"

export const TranscriptionRequest = Type.Object(
  {
    file: Type.Unsafe<Uint8Array>({
      type: "string",
      format: "binary",
      description: `The recording: WAV, MP3, FLAC, Ogg or WebM of at most ${MAX_AUDIO / 2 ** 20} MiB. What it is called does not count.`,
    }),
    model: Type.String({
      description: "One of the names that GET /v1/models lists, of a model that hears.",
    }),
    language: optional(
      text,
      "The language that is spoken, as a code (ISO 639-1): en. Told to the model.",
    ),
    prompt: optional(
      text,
      "A text whose style and spelling the transcript follows, or that it goes on from. Told to the model.",
    ),
    response_format: optional(
      Type.Enum(["json", "text"]),
      "text: the transcript alone, as text/plain. A stream's events are JSON in either.",
      "json",
    ),
    temperature: optional(
      Type.Number({ minimum: 0, maximum: 1 }),
      "Lower is less random; 0 always takes the likeliest token.",
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

const usage = Type.Object({
  type: Type.Literal("tokens"),
  input_tokens: Type.Integer(),
  input_token_details: Type.Object({
    audio_tokens: Type.Integer({ description: "Of the recording." }),
    text_tokens: Type.Integer({ description: "All others, those of the template included." }),
  }),
  output_tokens: Type.Integer(),
  total_tokens: Type.Integer(),
})

export const TranscriptionResponse = Type.Object(
  { text, logprobs, usage },
  { title: "TranscriptionResponse" },
)

export const TranscriptionEvent = Type.Union(
  [
    Type.Object({ type: Type.Literal("transcript.text.delta"), delta: text, logprobs }),
    Type.Object({ type: Type.Literal("transcript.text.done"), text, logprobs, usage }),
  ],
  { title: "TranscriptionEvent" },
)
