// Cross-origin headers: which web pages may read answers. Behaves as Starlette's CORSMiddleware does, which the
// specification's options come from; test/golden/cors holds what that one answers.

import type { IncomingHttpHeaders } from "node:http"
import type { CorsOptions } from "./service.ts"

const EVERY_METHOD = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY"]
const SAFE_HEADERS = ["Accept", "Accept-Language", "Content-Language", "Content-Type"]
const KEPT_SECONDS = 600 // how long a browser remembers a preflight's answer

const PREFLIGHT_VARIES =
  "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, Access-Control-Request-Private-Network"

export interface Preflight {
  status: 200 | 400
  text: string
  headers: Record<string, string>
}

/**
 * Headers for an ordinary answer.
 * @param exposed which of its other headers pages may read, as Starlette's `expose_headers`
 */
export function corsHeaders(
  options: CorsOptions,
  { origin }: IncomingHttpHeaders,
  exposed: readonly string[] = [],
): Record<string, string> {
  const headers: Record<string, string> = { vary: "Origin" }
  if (origin === undefined) return headers
  if (options.credentials) headers["access-control-allow-credentials"] = "true"
  if (exposed.length > 0) headers["access-control-expose-headers"] = exposed.join(", ")
  if (allows(options, origin)) headers["access-control-allow-origin"] = named(options, origin)
  return headers
}

export function isPreflight(method: string, headers: IncomingHttpHeaders): boolean {
  return (
    method === "OPTIONS" &&
    headers.origin !== undefined &&
    headers["access-control-request-method"] !== undefined
  )
}

/** The answer to a browser that asks whether a page may send what it wants to send. */
export function preflight(options: CorsOptions, asked: IncomingHttpHeaders): Preflight {
  const origin = asked.origin ?? ""
  const methods = options.methods.includes("*") ? EVERY_METHOD : options.methods
  const everyHeader = options.headers.includes("*")
  const known = [...new Set([...SAFE_HEADERS, ...options.headers])].sort()
  const wanted = asked["access-control-request-headers"]
  const faults: string[] = []
  const headers: Record<string, string> = {
    vary: PREFLIGHT_VARIES,
    "access-control-allow-methods": methods.join(", "),
    "access-control-max-age": String(KEPT_SECONDS),
  }
  if (options.credentials) headers["access-control-allow-credentials"] = "true"
  if (!everyHeader) headers["access-control-allow-headers"] = known.join(", ")
  else if (wanted !== undefined) headers["access-control-allow-headers"] = wanted

  if (!allows(options, origin)) faults.push("origin")
  else headers["access-control-allow-origin"] = named(options, origin)
  if (!methods.includes(asked["access-control-request-method"] ?? "")) faults.push("method")
  if (!everyHeader && wanted !== undefined && !areKnown(wanted, known)) faults.push("headers")

  if (asked["access-control-request-private-network"] !== undefined) faults.push("private-network")
  if (faults.length === 0) return { status: 200, text: "OK", headers }
  return { status: 400, text: `Disallowed CORS ${faults.join(", ")}`, headers }
}

/** Credentials are only sent to servers that name the page's origin; a "*" would not do. */
function named({ origins, credentials }: CorsOptions, origin: string): string {
  return origins.includes("*") && !credentials ? "*" : origin
}

/** Whether pages of that origin may post what they like. */
export function allowsPost(options: CorsOptions, origin: string): boolean {
  const { methods } = options
  return allows(options, origin) && (methods.includes("*") || methods.includes("POST"))
}

function allows({ origins }: CorsOptions, origin: string): boolean {
  return origins.includes("*") || origins.includes(origin)
}

function areKnown(wanted: string, known: readonly string[]): boolean {
  const names = new Set(known.map((name) => name.toLowerCase()))
  return wanted.split(",").every((name) => names.has(name.trim().toLowerCase()))
}
