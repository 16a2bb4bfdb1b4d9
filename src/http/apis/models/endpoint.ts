// GET /v1/models and /v1/models/{id}.

import { type Answer, type Exchange, json, serviceOf } from "../../exchange.ts"
import { type Json, writeJson } from "../../json.ts"
import type { ModelCard } from "../../service.ts"

export function listModels(exchange: Exchange): Answer {
  const data = exchange.state.models.flatMap(({ model }) =>
    model.names.map((name) => entry(name, model)),
  )
  return json(writeJson({ object: "list", data }))
}

export function showModel(exchange: Exchange): Answer {
  const { model } = serviceOf(exchange, exchange.parameter)
  return json(writeJson(entry(exchange.parameter, model)))
}

function entry(id: string, model: ModelCard): Json {
  return {
    id,
    object: "model",
    created: model.created,
    owned_by: "sinter",
    context_length: model.contextLength,
    max_model_len: model.contextLength, // the name that vLLM's clients look for
    capabilities: model.capabilities,
    ...model.details,
  }
}
