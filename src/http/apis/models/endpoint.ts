// GET /v1/models and /v1/models/{id}.

import { type Answer, type Exchange, json, modelOf } from "../../exchange.ts"
import { writeJson } from "../../json.ts"
import type { ModelCard } from "../../service.ts"

export function listModels(exchange: Exchange): Answer {
  const data = exchange.state.models.flatMap(({ card }) =>
    card.names.map((name) => entry(name, card)),
  )
  const [first_id, last_id] = [data[0]!.id, data.at(-1)!.id]
  return json(writeJson({ object: "list", data, has_more: false, first_id, last_id }))
}

export function showModel(exchange: Exchange): Answer {
  const { card } = modelOf(exchange, exchange.parameter)
  return json(writeJson(entry(exchange.parameter, card)))
}

/** What can be asked of it, images and recordings among it. */
export function capabilitiesOf({ capabilities, sees, hears }: ModelCard): readonly string[] {
  return [...capabilities, ...(sees ? ["vision"] : []), ...(hears ? ["audio"] : [])]
}

function entry(id: string, card: ModelCard) {
  return {
    id,
    object: "model",
    type: "model",
    display_name: id,
    created_at: new Date(card.created * 1000).toISOString(),
    created: card.created,
    owned_by: "sinter",
    context_length: card.contextLength,
    max_model_len: card.contextLength, // the name that vLLM's clients look for
    max_input_tokens: card.contextLength, // this and the next two: what Anthropic's clients read
    max_tokens: card.contextLength,
    lifecycle: "active",
    ...(card.parent !== undefined && { parent: card.parent }),
    capabilities: capabilitiesOf(card),
    ...card.details,
  }
}
