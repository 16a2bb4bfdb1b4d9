// A checked form becomes a conversation: one message of the user, with the recording and behind it what is asked; or as the model was
// taught, where it was taught a form of its own for that.

import type { ChatRequest, TranscriptRequest } from "../../../chat/conversation.ts"
import { type Problem, problem } from "../../../errors.ts"
import { cut, fault, show } from "../../check.ts"
import type { OpenedTranscript, Service, TranscriptStyle } from "../../service.ts"
import { readSampling } from "../sampling.ts"
import type { TranscriptionRequest } from "./schema.ts"
import { isTimed } from "./timed.ts"

/** Where the model's own files say nothing else. */
export const INSTRUCTION = "Transcribe the input speech."

export function readTranscription(
  body: TranscriptionRequest,
  { model, defaults }: Service,
  { id, scope }: { id: string; scope: string },
): ChatRequest {
  const isTold = body.include?.includes("logprobs") ?? false
  if (isTimed(body.response_format)) throw untimed("response_format", "ask for json or text")
  if (body.timestamp_granularities?.length) throw untimed("timestamp_granularities", "leave it out")
  if (isTold && body.response_format === "text" && !body.stream)
    throw fault("include", "needs the response_format json, as a text has no place for logprobs")
  return {
    id,
    scope,
    ...askedFor(body, model.transcription ?? INSTRUCTION),
    choices: 1,
    maxTokens: undefined,
    stop: [],
    ignoreEos: false,
    sampling: {
      ...drawing(body, { model, defaults }),
      topLogprobs: isTold ? 0 : undefined,
    },
    templateArguments: {},
    reasoning: "split",
  }
}

/** The likeliest words, where nothing else is said. */
const drawing = (
  body: Pick<TranscriptionRequest, "temperature">,
  { model, defaults }: Pick<Service, "model" | "defaults">,
) => readSampling({ temperature: body.temperature ?? 0 }, model, defaults)

function untimed(field: string, cure: string): Problem {
  const words = `${field}: the model does not tell when something is said; ${cure}.`
  return problem("unsupported_value", { problem: words }, field)
}

/** What a model is asked that writes down what it hears and nothing else. */
export function readSpeech(
  body: TranscriptionRequest,
  task: TranscriptRequest["task"],
  service: Service,
  { id, scope }: { id: string; scope: string },
): TranscriptRequest {
  const { file, language, prompt, response_format: format, stream } = body
  if (body.include?.length)
    throw problem(
      "unsupported_value",
      { problem: "include: the model's tokens are not told; leave it out." },
      "include",
    )
  if (body.timestamp_granularities?.length && format !== "verbose_json")
    throw fault("timestamp_granularities", "needs the response_format verbose_json")
  if (stream && isTimed(format))
    throw fault("stream", `sends text without times; leave it out, or ask for json, not ${format}`)
  return {
    ...{ id, scope, audio: file, field: "file", task },
    language: language || undefined,
    prompt: prompt || undefined,
    timed: isTimed(format),
    worded: body.timestamp_granularities?.includes("word") ?? false,
    streamed: stream ?? false,
    judged: format === "verbose_json",
    sampling: { ...drawing(body, service), topLogprobs: undefined },
  }
}

/** The conversation, as the model was taught it. */
function askedFor(
  body: TranscriptionRequest,
  style: TranscriptStyle,
): Pick<ChatRequest, "messages" | "opening"> {
  const recording = { audio: body.file, field: "file" }
  if (typeof style === "string") {
    const content = instructionOf(body, style)
    return { messages: [{ role: "user", content, parts: [recording, { text: content }] }] }
  }
  const { prompt } = body
  if (prompt && !style.context)
    throw fault(
      "prompt",
      "is given to a model that was taught to transcribe without one; leave it out",
    )
  const opening = style.opening(body.language ? nameOf(body.language, style) : undefined)
  return {
    messages: [
      ...(prompt ? [{ role: "system" as const, content: prompt }] : []),
      { role: "user", content: "", parts: [recording] },
    ],
    ...(opening && { opening }),
  }
}

/** What the model calls a language, whatever its region or script. */
function nameOf(code: string, { languages }: OpenedTranscript): string {
  const [own] = code.toLowerCase().split("-") as [string]
  if (!languages) {
    languageOf(code)
    if (own.length === 2) return own
    throw fault("language", `must be a code of two letters, as en, not ${show(cut(code, 20))}`)
  }
  if (Object.hasOwn(languages, own)) return languages[own]!
  const known = Object.keys(languages).join(", ")
  throw fault("language", `must be one that this model knows, not ${show(cut(code, 20))}: ${known}`)
}

/** The whole of what the model reads beside the recording. */
function instructionOf(body: TranscriptionRequest, asked: string): string {
  const more = moreOf(body)
  if (more.length === 0) return asked
  return [/[.!?]$/.test(asked) ? asked : `${asked}.`, ...more].join(" ")
}

/** Sentences behind the instruction. */
export function moreOf({
  language,
  prompt,
}: Pick<TranscriptionRequest, "language" | "prompt">): string[] {
  return [
    ...(language ? [`The language is ${languageOf(language)}.`] : []),
    ...(prompt ? [`Follow the style and spelling of this text, or go on from it: ${prompt}`] : []),
  ]
}

/** In English, as what stands around it is. */
function languageOf(code: string): string {
  const isCode = /^[a-z]{2,3}(-[a-z]{4})?(-([a-z]{2}|\d{3}))?$/i.test(code)
  const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "none" })
  const name = isCode ? names.of(code) : undefined
  if (name !== undefined) return name
  throw fault("language", `must be the code of a language, as en, not ${show(cut(code, 20))}`)
}
