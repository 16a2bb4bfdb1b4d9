// POST /v1/embeddings, and what Ollama's endpoints that embed share with it.

import type { Embedded, EmbeddingRequest } from "../../../chat/conversation.ts"
import { type Answer, bodyOf, type Exchange, serviceOf } from "../../exchange.ts"
import type { Service } from "../../service.ts"
import { inTurns } from "../../turns.ts"
import { readingPrompts } from "../completions/request.ts"
import { reportIgnored } from "../ignored.ts"
import { whole } from "../whole.ts"
import { EmbeddingsRequest } from "./schema.ts"

const MAX_TEXTS = 2048

export async function embeddings(exchange: Exchange): Promise<Answer> {
  const body = await bodyOf(exchange, EmbeddingsRequest)
  const service = await serviceOf(exchange, body.model)
  reportIgnored(exchange, EmbeddingsRequest)
  const texts = await inTurns(readingPrompts(body.input, service.model, "input", MAX_TEXTS))
  const dimensions = body.dimensions ?? undefined
  const promptName = body.prompt_name ?? undefined
  const asked = { texts, field: "input", truncate: false, dimensions, promptName }
  const { vectors, tokens } = await embedded(exchange, service, asked)
  const write = body.encoding_format === "base64" ? base64 : floats
  const name = body.model ?? null
  const usage = { prompt_tokens: tokens, total_tokens: tokens }
  return whole(
    exchange,
    (async function* () {
      yield '{"object":"list","data":['
      for (const [index, vector] of vectors.entries()) {
        const embedding = write(vector)
        yield `${index > 0 ? "," : ""}{"object":"embedding","index":${index},"embedding":${embedding}}`
      }
      yield `],"model":${JSON.stringify(name)},"usage":${JSON.stringify(usage)}}`
    })(),
  )
}

/** What any API asks to be embedded. */
export async function embedded(
  { id, scope, signal, client, metrics, account }: Exchange,
  { chat }: Service,
  asked: Omit<EmbeddingRequest, "id" | "scope">,
): Promise<Embedded> {
  const result = await chat.embed({ id, scope, ...asked }, signal, client)
  metrics.embedded(result.tokens, account)
  return result
}

/** As JSON: floats of 32 bits, which nine digits tell apart. */
export function floats(vector: Float64Array): string {
  return `[${Array.from(vector, (value) => Number(Math.fround(value).toPrecision(9))).join(",")}]`
}

function base64(vector: Float64Array): string {
  const bytes = Buffer.alloc(vector.length * 4)
  for (const [index, value] of vector.entries()) bytes.writeFloatLE(value, index * 4)
  return JSON.stringify(bytes.toString("base64"))
}
