// What a row of the routes table says.

import type { TSchema } from "typebox"
import type { Api } from "./apis/api.ts"
import type { Answer, Exchange, State } from "./exchange.ts"

export interface Route {
  /** Whose it is; absent: OpenAI's, as the specification's endpoints are. */
  api?: Api
  method: "GET" | "POST" | "DELETE"
  path: string // parameters as {name}; the last one may hold slashes
  summary: string
  /** Answered without a key; "metrics": with --open-metrics. */
  open?: true | "metrics"
  /** Answered while the model is still loading and while the server drains, too. */
  early?: true
  /** Asked every few seconds by machines: its lines are for those who log at debug. */
  probe?: true
  /** Known, and answered 400 whatever is asked. */
  refused?: true
  body?: TSchema
  /** What a body comes as; absent: JSON. */
  takes?: "form"
  /** Refuses what no body could make right, before one is read. */
  assertUseful?: (state: State) => void
  answer: TSchema | "text" | "html"
  chunk?: TSchema // what a stream's events hold
  example?: object
  handle: (exchange: Exchange) => Promise<Answer> | Answer
}
