// GET /v1/models and /v1/models/{id}.

import { type Answer, type Exchange, json, modelOf } from "../../exchange.ts"
import { type Json, writeJson } from "../../json.ts"
import type { ModelCard } from "../../service.ts"

export function listModels(exchange: Exchange): Answer {
  const data = exchange.state.models.flatMap(({ card }) =>
    card.names.map((name) => entry(name, card)),
  )
  return json(writeJson({ object: "list", data }))
}

export function showModel(exchange: Exchange): Answer {
  const { card } = modelOf(exchange, exchange.parameter)
  return json(writeJson(entry(exchange.parameter, card)))
}

function entry(id: string, card: ModelCard): Json {
  return {
    id,
    object: "model",
    created: card.created,
    owned_by: "sinter",
    context_length: card.contextLength,
    max_model_len: card.contextLength, // the name that vLLM's clients look for
    capabilities: card.capabilities,
    ...card.details,
  }
}
