// POST /v1/audio/transcriptions: what is said in a recording, by a model that hears. It is a chat of one message, but of a Whisper,
// which was made for this and for POST /v1/audio/translations, and for nothing else.

import type {
  ChatRequest,
  TokenNames,
  TranscriptRequest,
  Transcripts,
} from "../../../chat/conversation.ts"
import { type Problem, problem } from "../../../errors.ts"
import { cut } from "../../check.ts"
import {
  type Answer,
  bodyOf,
  type Exchange,
  modelOf,
  type State,
  serviceOf,
} from "../../exchange.ts"
import type { Service } from "../../service.ts"
import { COMMENT } from "../../sse.ts"
import { reportIgnored } from "../ignored.ts"
import { assertLogprobsFit, MAX_LOGPROBS_AT_ONCE } from "../logprob-budget.ts"
import { refuse } from "../refusals.ts"
import { stream } from "../stream.ts"
import { whole } from "../whole.ts"
import { headless, plainTranscript, transcriptEvents, wholeTranscript } from "./reply.ts"
import { readSpeech, readTranscription } from "./request.ts"
import { TranscriptionRequest, TranslationRequest } from "./schema.ts"
import { subtitles, verboseTranscript } from "./timed.ts"

export async function transcriptions(exchange: Exchange): Promise<Answer> {
  refuse(exchange.body, "transcriptions")
  const body = await bodyOf(exchange, TranscriptionRequest)
  assertHears(exchange, body.model) // before it is loaded
  const service = await serviceOf(exchange, body.model)
  if (service.transcripts) {
    reportIgnored(exchange, TranscriptionRequest)
    return speech(exchange, body, "transcribe", service, service.transcripts)
  }
  const request = readTranscription(body, service, exchange)
  const logprobs = request.sampling.topLogprobs !== undefined
  if (logprobs) {
    assertLogprobsFit({
      ...{ field: "include", top: 0, choices: 1, tokens: service.model.contextLength, echoed: 0 },
      stream: false, // its last event repeats them all
      most: MAX_LOGPROBS_AT_ONCE,
      cure: "or leave it out",
    })
  }
  reportIgnored(exchange, TranscriptionRequest)
  const reply = await service.chat.reply(request, exchange.signal, exchange.client)
  const watched = exchange.metrics.watch(reply.events, [reply], exchange.account)
  const header = headerOf(request, service)
  const events = header === undefined ? watched : headless(watched, header)
  const shape = { names: reply.names, logprobs, heard: reply.mediaTokens ?? 0 }
  if (body.stream) return stream(exchange, transcriptEvents(events, shape), () => COMMENT)
  if (body.response_format !== "text") return whole(exchange, wholeTranscript(events, shape))
  return { type: "text/plain; charset=utf-8", text: await plainTranscript(events) }
}

/** What is said in a recording, in English. */
export async function translations(exchange: Exchange): Promise<Answer> {
  refuse(exchange.body, "transcriptions")
  const body = await bodyOf(exchange, TranslationRequest)
  assertHears(exchange, body.model)
  if (!modelOf(exchange, body.model).card.onlyTranscribes) {
    const words = `The model ${JSON.stringify(cut(body.model, 100))} is no Whisper, which alone was made to translate recordings; ask it in POST /v1/chat/completions.`
    throw problem("unsupported_value", { problem: words }, "model")
  }
  const service = await serviceOf(exchange, body.model)
  reportIgnored(exchange, TranslationRequest)
  const known = Object.entries(body).filter(([name]) => name in TranslationRequest.properties)
  const own = Object.fromEntries(known) as TranslationRequest // what is ignored has no effect, though transcriptions know it
  return speech(exchange, own, "translate", service, service.transcripts!)
}

async function speech(
  exchange: Exchange,
  body: TranscriptionRequest,
  task: TranscriptRequest["task"],
  service: Service,
  transcripts: Transcripts,
): Promise<Answer> {
  const request = readSpeech(body, task, service, exchange)
  const reply = await transcripts.transcribe(request, exchange.signal, exchange.client)
  const { seconds } = reply
  const admitted = { promptTokens: 0, prompt: NOTHING, media: { image: 0, audio: 1 } }
  const watched = { ...admitted, events: reply.events, names: NAMELESS }
  const events = exchange.metrics.watch(reply.events, [watched], exchange.account)
  const shape = { names: NAMELESS, logprobs: false, heard: 0, seconds }
  if (body.stream) return stream(exchange, transcriptEvents(events, shape), () => COMMENT)
  const format = body.response_format ?? "json"
  if (format === "verbose_json") {
    const granularities = body.timestamp_granularities ?? undefined
    return whole(exchange, verboseTranscript(events, reply, task, granularities))
  }
  if (format === "json") return whole(exchange, wholeTranscript(events, shape))
  const text =
    format === "text" ? await plainTranscript(events) : await subtitles(events, reply, format)
  return { type: `text/${format === "vtt" ? "vtt" : "plain"}; charset=utf-8`, text }
}

const NOTHING = new Int32Array(0)

/** No token is told. */
const NAMELESS: TokenNames = {
  text: () => "",
  bytes: () => new Uint8Array(0),
  isSilent: () => true,
}

/** What stands before the transcript, where the model is left to find the language. */
function headerOf({ opening }: ChatRequest, { model }: Service): string | undefined {
  const { transcription } = model
  return typeof transcription === "object" && !opening ? transcription.header : undefined
}

/** A recording need not be read where nobody would hear it. */
export function assertSomebodyHears({ models }: State): void {
  if (models.some(({ card }) => card.hears)) return
  throw deaf("No model of this server hears", "serve one that does")
}

function assertHears(exchange: Exchange, name: string): void {
  if (modelOf(exchange, name).card.hears) return
  const cure = "name one that has audio among its capabilities in GET /v1/models"
  throw deaf(`The model ${JSON.stringify(cut(name, 100))} does not hear`, cure)
}

function deaf(what: string, cure: string): Problem {
  const words = `${what}, and a transcript takes one that does; ${cure}.`
  return problem("unsupported_value", { problem: words }, "model")
}
