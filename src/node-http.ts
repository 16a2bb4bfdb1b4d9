// Node's modules of HTTP, as CommonJS has them. Whoever imports them as ECMAScript does asks for all that they export at once, and with
// that for WebSocket, for which Node 24 compiles its whole client of HTTP: 35 ms of a start that has 500.

import { createRequire } from "node:module"

const require = createRequire(import.meta.url)

export const http = require("node:http") as typeof import("node:http")
export const https = require("node:https") as typeof import("node:https")
