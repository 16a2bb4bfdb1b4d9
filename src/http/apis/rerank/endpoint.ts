// POST /v1/rerank.

import { type Answer, bodyOf, type Exchange, json, serviceOf } from "../../exchange.ts"
import { writeJson } from "../../json.ts"
import { reportIgnored } from "../ignored.ts"
import { RerankRequest } from "./schema.ts"

export async function rerank(exchange: Exchange): Promise<Answer> {
  const body = await bodyOf(exchange, RerankRequest)
  const { chat } = await serviceOf(exchange, body.model)
  reportIgnored(exchange, RerankRequest)
  const { id, scope, signal, client, metrics, account } = exchange
  const documents = body.documents.map((each) => (typeof each === "string" ? each : each.text))
  const { scores, tokens } = await chat.rank(
    { id, scope, query: body.query, documents },
    signal,
    client,
  )
  metrics.embedded(tokens, account)
  const isTold = body.return_documents ?? true
  const results = scores
    .map((relevance_score, index) => ({
      index,
      relevance_score,
      ...(isTold ? { document: { text: documents[index]! } } : {}),
    }))
    .sort((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
    .slice(0, body.top_n ?? undefined)
  const usage = { prompt_tokens: tokens, total_tokens: tokens }
  return json(writeJson({ object: "list", model: body.model ?? null, results, usage }))
}
