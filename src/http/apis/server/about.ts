// What the server says of itself: health, and the API's documents.

import { readFileSync } from "node:fs"
import { codeRoot } from "../../../code-root.ts"
import { type Answer, type Exchange, json } from "../../exchange.ts"
import { writeJson } from "../../json.ts"
import { vllmNames } from "../../metrics-compat.ts"
import { PROMETHEUS_TYPE } from "../../prometheus.ts"

const read = (name: string) => readFileSync(new URL(`http/apis/server/${name}`, codeRoot), "utf8")
const docs = read("docs.html")
const chat = read("chat.html")

export function health({ state }: Exchange): Answer {
  if (state.draining) return json('{"status":"draining"}', 503)
  return state.models.length > 0 ? json('{"status":"ok"}') : json('{"status":"loading"}', 503)
}

export function live(): Answer {
  return json('{"status":"ok"}')
}

export function version({ options }: Exchange): Answer {
  return json(writeJson({ version: options.version }))
}

export function metricsPage({ metrics, options, state }: Exchange): Answer {
  const page = metrics.print()
  const [first] = state.models
  const isAliased = first && options.metricsCompat === "vllm"
  const adapters = state.models.flatMap(({ card }) => (card.parent === undefined ? [] : card.names))
  const names = isAliased ? vllmNames(page, first.card.names[0], adapters) : ""
  return { type: PROMETHEUS_TYPE, text: page + names }
}

export function docsPage(exchange: Exchange): Answer {
  return page(exchange, docs)
}

export function chatPage(exchange: Exchange): Answer {
  return page(exchange, chat)
}

/** A page is one file that needs nothing from anywhere else, and may reach nothing but this server. */
function page({ setHeader }: Exchange, text: string): Answer {
  setHeader("content-security-policy", PAGE_POLICY)
  return { type: "text/html; charset=utf-8", text }
}

const PAGE_POLICY =
  "default-src 'none'; connect-src 'self'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
