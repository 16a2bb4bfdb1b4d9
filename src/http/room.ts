// What the parts of one server share.

import type { Trace } from "../engine/trace.ts"
import type { Log } from "../log.ts"
import type { ResponseStore } from "./apis/responses/store.ts"
import type { Bodies } from "./body.ts"
import type { State } from "./exchange.ts"
import type { Keys } from "./keys.ts"
import type { Running } from "./running.ts"
import type { Servers } from "./server.ts"
import type { HttpOptions } from "./service.ts"

export interface Room {
  options: HttpOptions
  log: Log
  state: State
  servers: Servers
  keys: Keys
  bodies: Bodies
  responses: ResponseStore
  running: Running
  trace: Trace | undefined
}
