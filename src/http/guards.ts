// Who may ask: only requests for a name this server has, and only with the key where one is set.

import { createHash, timingSafeEqual } from "node:crypto"
import type { IncomingHttpHeaders, IncomingMessage } from "node:http"
import { problem } from "../errors.ts"
import { cut } from "./check.ts"
import type { HttpOptions } from "./service.ts"

/**
 * Throws `host_refused` unless a server on loopback is called by a loopback name or an allowed one. A web page can make
 * its own name point to 127.0.0.1 (DNS rebinding); the Host header then still says that name.
 */
export function assertHost(
  { host, allowedHosts }: Pick<HttpOptions, "host" | "allowedHosts">,
  { headers, httpVersion }: Pick<IncomingMessage, "headers" | "httpVersion">,
): void {
  if (headers.host === undefined) {
    if (httpVersion === "1.0") return // no browser speaks it
    throw problem("invalid_http", { problem: "it has no Host header." })
  }
  if (!isLoopback(host) && allowedHosts.length === 0) return
  const name = headers.host.replace(/:\d*$/, "").toLowerCase()
  const isAllowed = allowedHosts.some(
    (allowed) => allowed === "*" || allowed.toLowerCase() === name,
  )
  if (!isAllowed && !isLoopback(name)) {
    throw problem("host_refused", { host: JSON.stringify(cut(headers.host, 100)) })
  }
}

function isLoopback(name: string): boolean {
  return (
    /^(.+\.)?localhost$/.test(name) ||
    /^127(\.\d{1,3}){3}$/.test(name) ||
    name === "::1" ||
    name === "[::1]"
  )
}

/**
 * The scope of a request: what it may share with others, one for each key. Throws `invalid_api_key` when keys are set
 * and none of them came, as a bearer token or as the password that a browser asks for.
 */
export function readScope(keys: readonly string[], { authorization }: IncomingHttpHeaders): string {
  if (keys.length === 0) return ""
  const given = digest(tokenOf(authorization ?? ""))
  const match = keys.map(digest).find((key) => timingSafeEqual(key, given))
  if (!match) throw problem("invalid_api_key", {})
  return match.toString("hex")
}

function tokenOf(authorization: string): string {
  const [, scheme = "", credentials = ""] = /^(\w+) +(.*)$/.exec(authorization.trim()) ?? []
  if (scheme.toLowerCase() === "bearer") return credentials
  if (scheme.toLowerCase() !== "basic") return ""
  return Buffer.from(credentials, "base64")
    .toString("utf8")
    .replace(/^[^:]*:/, "")
}

// Digests have one length, so comparing them tells nothing about the key; and a scope in a log is not the key.
function digest(key: string): Buffer {
  return createHash("sha256").update(key).digest()
}
