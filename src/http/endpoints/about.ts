// What the server says of itself: health, and the API's documents.

import { readFileSync } from "node:fs"
import { type Answer, type Exchange, json } from "../exchange.ts"

const page = readFileSync(new URL("../page.html", import.meta.url), "utf8")

export function health({ state }: Exchange): Answer {
  if (state.draining) return json('{"status":"draining"}', 503)
  return state.service ? json('{"status":"ok"}') : json('{"status":"loading"}', 503)
}

export function live(): Answer {
  return json('{"status":"ok"}')
}

/** The page is one file that needs nothing from anywhere else. */
export function docsPage(): Answer {
  return { type: "text/html; charset=utf-8", text: page }
}
