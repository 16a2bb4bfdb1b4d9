// Who may ask: only requests for a name this server has, and only with the key where one is set; forms only from pages that may.

import { timingSafeEqual } from "node:crypto"
import type { IncomingHttpHeaders, IncomingMessage } from "node:http"
import { BlockList, isIP } from "node:net"
import { problem } from "../errors.ts"
import { cut } from "./check.ts"
import { allowsPost } from "./cors.ts"
import { digest, type Keys } from "./keys.ts"
import type { CorsOptions } from "./service.ts"

/**
 * Throws `host_refused` unless a server on loopback is called by a loopback name or an allowed one. A web page can make
 * its own name point to 127.0.0.1 (DNS rebinding); the Host header then still says that name. What stands before this server
 * may go by one of two Host headers and we by the other, so that two are no request at all.
 * @param address that is bound
 */
export function assertHost(
  address: string,
  allowedHosts: readonly string[],
  {
    url = "",
    rawHeaders,
    httpVersion,
  }: Pick<IncomingMessage, "url" | "rawHeaders" | "httpVersion">,
): void {
  const given = valuesOf("host", rawHeaders)
  if (given.length > 1)
    throw problem("invalid_http", { problem: "it has more than one Host header." })
  if (given.length === 0 && httpVersion !== "1.0") {
    throw problem("invalid_http", { problem: "it has no Host header." }) // no browser speaks 1.0
  }
  if (!isLoopback(address) && allowedHosts.length === 0) return
  const [, authority] = /^[a-z]+:\/\/([^/?#]*)/i.exec(url) ?? [] // as requests to a proxy begin
  for (const called of authority === undefined ? given : [...given, authority]) {
    const name = called.replace(/^.*@/, "").replace(/:\d*$/, "").toLowerCase()
    const isAllowed = allowedHosts.some(
      (allowed) => allowed === "*" || allowed.toLowerCase() === name,
    )
    if (!isAllowed && !isLoopback(name)) {
      throw problem("host_refused", { host: JSON.stringify(cut(called, 100)) })
    }
  }
}

/** All values of a header; Node keeps one of some. */
function valuesOf(name: string, rawHeaders: readonly string[]): string[] {
  return rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name)
}

const loopback = new BlockList()
loopback.addSubnet("127.0.0.0", 8) // in IPv6's notation, too
loopback.addAddress("::1", "ipv6")

/** Of a name, or an address however it is written. */
export function isLoopback(name: string): boolean {
  const address = name.replace(/^\[(.*)\]$/, "$1")
  const version = isIP(address)
  if (version === 0) return /^(.+\.)?localhost$/.test(name)
  return loopback.check(address, version === 4 ? "ipv4" : "ipv6")
}

/** Browsers say where a page that posts comes from. Node's fetch sends one of their other headers, `Sec-Fetch-Mode`. */
export function isOfPage(headers: IncomingHttpHeaders): boolean {
  return "origin" in headers || "sec-fetch-site" in headers
}

/**
 * Throws `origin_refused` where a page of another origin posts a form, unless CORS lets it: browsers send forms anywhere and ask
 * nobody first. Of a page of our own they say so, but to addresses that are neither loopback nor https, for which the origin is
 * compared with what the server was called by.
 */
export function assertFormOrigin(
  cors: CorsOptions | undefined,
  { headers, socket }: Pick<IncomingMessage, "headers" | "socket">,
): void {
  if (!isOfPage(headers)) return
  const { origin, host, "sec-fetch-site": site } = headers
  if (origin !== undefined && cors && allowsPost(cors, origin)) return
  const isOurs = site === undefined ? isOfHost(origin, host, socket) : site === "same-origin"
  if (!isOurs)
    throw problem("origin_refused", { origin: JSON.stringify(cut(origin ?? site!, 100)) })
}

function isOfHost(origin = "", host = "", socket: object): boolean {
  const isSecure = "encrypted" in socket
  const [, scheme, authority] = /^(https?):\/\/(.+)$/.exec(origin.toLowerCase()) ?? []
  return authority === host.toLowerCase() && (!isSecure || scheme === "https")
}

/**
 * The scope of a request: what it may share with others, one for each key. Throws `invalid_api_key` when keys are set
 * and none of them came: as a bearer token, as the password that a browser asks for, or as Anthropic's clients send it. Digests
 * have one length, so comparing them tells nothing about the key; and a scope in a log is not the key.
 */
export function readScope({ digests }: Keys, headers: IncomingHttpHeaders): string {
  if (digests.length === 0) return ""
  const { authorization, "x-api-key": key } = headers
  const texts = [String(key ?? ""), tokenOf(authorization ?? "")]
  const given = texts.filter((text) => text !== "").flatMap(digestsOf)
  const match = digests.find((known) => given.some((each) => timingSafeEqual(known, each)))
  if (!match) throw problem("invalid_api_key", {})
  return match.toString("hex")
}

/** Node reads a header's bytes as Latin-1, as some clients write them; others write UTF-8. */
function digestsOf(text: string): Buffer[] {
  return [digest(text), digest(Buffer.from(text, "latin1"))]
}

function tokenOf(authorization: string): string {
  const [, scheme = "", credentials = ""] = /^(\w+) +(.*)$/.exec(authorization.trim()) ?? []
  if (scheme.toLowerCase() === "bearer") return credentials
  if (scheme.toLowerCase() !== "basic") return ""
  return Buffer.from(credentials, "base64")
    .toString("utf8")
    .replace(/^[^:]*:/, "")
}

const connections = new WeakMap<object, string>()
let connectionsSeen = 0

/** The same for all requests of a connection, and for no others. */
export function connectionName(socket: object): string {
  const name = connections.get(socket) ?? `connection ${++connectionsSeen}`
  connections.set(socket, name)
  return name
}
