// Requests to the hub, and to whatever it redirects to: the only place of this program that opens connections to other machines.
// A redirect is followed by hand, so that the token goes to the hub's own origin and to no other, and never from https to http.
// Proxies as the environment names them; what Node 20 has of its own knows none.

import { readFileSync } from "node:fs"
import type { IncomingHttpHeaders, IncomingMessage } from "node:http"
import type { RequestOptions } from "node:https"
import { isIP, type Socket } from "node:net"
import { join } from "node:path"
import { addAbortSignal } from "node:stream"
import { setTimeout as sleep } from "node:timers/promises"
import tls from "node:tls"
import { problem } from "../errors.ts"
import { http, https } from "../node-http.ts"
import { version } from "../version.ts"
import { type Environment, expanded, hubHome } from "./cache.ts"
import { isLoopback } from "./names.ts"
import { proxyAuthorization, proxyFor } from "./proxy.ts"

const DEFAULT_ENDPOINT = "https://huggingface.co"
const SILENCE_MS = 30_000 // a server that says nothing for so long is asked again
const MAX_REDIRECTS = 5
const MAX_REPLY = 64 << 20 // bytes of a listing

export interface ClientOptions {
  env: Environment
  signal?: AbortSignal | undefined
  /** How long to wait before another try, in milliseconds. */
  wait?: (milliseconds: number) => Promise<unknown>
  /** How long a server may say nothing, in milliseconds. */
  silence?: number
}

/** The last answer of a chain of redirects. */
export interface Answer {
  status: number
  /** Who gave it. */
  origin: string
  /** Of all answers on the way, the first one's counting: what the hub says of a file stands in its redirect. */
  headers: IncomingHttpHeaders
  body: IncomingMessage
}

export class Client {
  readonly endpoint: URL
  readonly env: Environment
  readonly wait: (milliseconds: number) => Promise<unknown>
  readonly #signal: AbortSignal | undefined
  readonly #silence: number
  readonly #token: { text: string; source: string } | undefined
  readonly #agents = {
    "http:": new http.Agent({ keepAlive: true }),
    "https:": new https.Agent({ keepAlive: true }),
  }

  constructor({ env, signal, wait, silence = SILENCE_MS }: ClientOptions) {
    this.env = env
    this.endpoint = endpointOf(env)
    this.wait = wait ?? ((milliseconds) => sleep(milliseconds, undefined, { signal }))
    this.#signal = signal
    this.#silence = silence
    const isPrivate = this.endpoint.protocol === "https:" || isLoopback(this.endpoint.hostname)
    this.#token = isPrivate ? tokenOf(env) : undefined // everybody on the way could read it
  }

  /** Where the token is from that the hub is sent; undefined: it is sent none. */
  get tokenSource(): string | undefined {
    return this.#token?.source
  }

  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy()
  }

  /** An address on the hub; the parts are escaped. */
  at(...parts: string[]): URL {
    const base = this.endpoint.href.replace(/\/$/, "")
    return new URL(`${base}/${parts.map(encodeURIComponent).join("/")}`)
  }

  /**
   * Asks, and follows redirects to other hosts, or everywhere if `follow` says so.
   * @throws the system's errors, where nobody answers
   */
  async get(
    url: URL,
    headers: Record<string, string> = {},
    follow: "all" | "none" = "all",
  ): Promise<Answer> {
    let said: IncomingHttpHeaders = {}
    for (let hops = 0; ; hops++) {
      const body = await this.#send(url, headers)
      const status = body.statusCode!
      said = { ...body.headers, ...pick(said, LINKED) }
      const { location } = body.headers
      if (
        follow === "none" ||
        location === undefined ||
        status < 300 ||
        status > 399 ||
        status === 304
      )
        return { status, origin: url.origin, headers: said, body }
      body.resume()
      if (hops === MAX_REDIRECTS) throw refused(url, "it redirects in circles")
      url = nextOf(url, location)
    }
  }

  /** The whole of a short answer. */
  async text({ body }: Answer): Promise<string> {
    const pieces: Buffer[] = []
    let length = 0
    for await (const piece of body as AsyncIterable<Buffer>) {
      length += piece.length
      if (length > MAX_REPLY) throw refused(this.endpoint, "its answer is longer than any listing")
      pieces.push(piece)
    }
    return Buffer.concat(pieces).toString("utf8")
  }

  async #send(url: URL, extra: Record<string, string>): Promise<IncomingMessage> {
    const headers: Record<string, string> = {
      "user-agent": `sinter/${version}`,
      "accept-encoding": "identity",
      ...extra,
    }
    if (this.#token && url.origin === this.endpoint.origin)
      headers.authorization = `Bearer ${this.#token.text}`
    const proxy = proxyFor(url, this.env)
    const { protocol } = url
    if (!proxy)
      return this.#request({ ...hostOf(url), headers, agent: this.#agents[protocol as "https:"] })
    if (protocol === "http:") {
      const through = { host: url.host, ...proxyAuthorization(proxy) }
      return this.#request({
        ...hostOf(proxy),
        path: url.href,
        headers: { ...headers, ...through },
      })
    }
    const secure = await this.#secured(await this.#tunnel(proxy, url), url)
    return this.#request({ ...hostOf(url), headers, agent: false, createConnection: () => secure })
  }

  #request(options: RequestOptions): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const { request } = options.protocol === "https:" ? https : http
      const asking = request({ ...options, ...this.#ending() }, resolve)
      asking.setTimeout(this.#silence, () => asking.destroy(silent(this.#silence)))
      asking.on("error", reject).end()
    })
  }

  #ending(): { signal?: AbortSignal } {
    return this.#signal ? { signal: this.#signal } : {}
  }

  /** A connection to `url`'s host through the proxy, which sees where it leads and nothing of what it carries. */
  #tunnel(proxy: URL, url: URL): Promise<Socket> {
    const target = `${url.hostname}:${url.port || 443}`
    const { request } = proxy.protocol === "https:" ? https : http
    return new Promise((resolve, reject) => {
      const asking = request({
        ...hostOf(proxy),
        method: "CONNECT",
        path: target,
        headers: { host: target, ...proxyAuthorization(proxy) },
        ...this.#ending(),
      })
      asking.setTimeout(this.#silence, () => asking.destroy(silent(this.#silence)))
      asking.on("connect", ({ statusCode }, socket: Socket) => {
        if (statusCode === 200) return resolve(socket)
        socket.destroy()
        reject(new Error(`the proxy ${proxy.host} answers ${statusCode}`))
      })
      asking.on("response", ({ statusCode }) => {
        asking.destroy()
        reject(new Error(`the proxy ${proxy.host} answers ${statusCode}`))
      })
      asking.on("error", reject).end()
    })
  }

  /** A tunnel's end, once the other side has shown its certificate: no request hears of it when that is wrong. */
  #secured(socket: Socket, url: URL): Promise<tls.TLSSocket> {
    return new Promise((resolve, reject) => {
      const secure = tls.connect({ socket, ...serverName(url) })
      const giveUp = () => secure.destroy(silent(this.#silence))
      secure.setTimeout(this.#silence, giveUp)
      secure.once("secureConnect", () => {
        secure.setTimeout(0, giveUp)
        resolve(secure)
      })
      secure.on("error", reject)
      if (this.#signal) addAbortSignal(this.#signal, secure)
    })
  }
}

/** What the hub says of a file, in the answer that redirects to it. */
const LINKED = [
  "x-linked-etag",
  "x-linked-size",
  "x-repo-commit",
  "x-error-code",
  "x-error-message",
]

function pick(headers: IncomingHttpHeaders, names: readonly string[]): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => names.includes(name)))
}

function silent(milliseconds: number): Error {
  const error = new Error(`no word for ${milliseconds / 1000} seconds`)
  return Object.assign(error, { code: "ETIMEDOUT" })
}

function nextOf(from: URL, location: string): URL {
  let next: URL
  try {
    next = new URL(location, from)
  } catch {
    throw refused(from, "it redirects to what is no address")
  }
  const isSafe =
    next.protocol === "https:" || (next.protocol === "http:" && from.protocol === "http:")
  if (!isSafe)
    throw refused(from, `it redirects to ${next.protocol}//${next.host}, which is not https`)
  return next
}

function refused(url: URL, what: string): Error {
  return problem("hub_refused", { host: url.host, what: `GET ${url.pathname}`, problem: what })
}

/** Of an address all that a request needs, without a password: Node would send that on as one for the other side. */
function hostOf({ protocol, hostname, port, pathname, search }: URL): RequestOptions {
  const path = `${pathname}${search}`
  return { protocol, hostname: bare(hostname), path, ...(port ? { port } : {}) }
}

const bare = (hostname: string) => hostname.replace(/^\[|\]$/g, "")

/** A name is checked against the certificate; an address has none to be asked for. */
function serverName({ hostname }: URL): { servername?: string; host: string } {
  const host = bare(hostname)
  return isIP(host) ? { host } : { host, servername: host }
}

function endpointOf(env: Environment): URL {
  const text = env.HF_ENDPOINT || DEFAULT_ENDPOINT
  let url: URL | undefined
  try {
    url = new URL(text)
  } catch {}
  if (url && /^https?:$/.test(url.protocol) && !url.username && !url.password) return url
  throw problem("option_invalid", { option: "HF_ENDPOINT", problem: "expected https://HOST." })
}

/** HF_TOKEN, or what signing in has left in a file. */
function tokenOf(env: Environment): { text: string; source: string } | undefined {
  const named = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"].find((name) => env[name]?.trim())
  if (named) return { text: cleanToken(env[named]!, named), source: named }
  if (/^(1|on|yes|true)$/i.test(env.HF_HUB_DISABLE_IMPLICIT_TOKEN ?? "")) return undefined
  const file = env.HF_TOKEN_PATH ? expanded(env.HF_TOKEN_PATH) : join(hubHome(env), "token")
  let text = ""
  try {
    text = readFileSync(file, "utf8")
  } catch {}
  return text.trim() === "" ? undefined : { text: cleanToken(text, file), source: file }
}

function cleanToken(text: string, source: string): string {
  const token = text.trim()
  if (/^[\x21-\x7e]+$/.test(token)) return token
  throw problem("option_invalid", {
    option: source,
    problem: "expected a token, which is one word of plain letters.",
  })
}

export function isOffline(env: Environment): boolean {
  return /^(1|on|yes|true)$/i.test(env.HF_HUB_OFFLINE || env.TRANSFORMERS_OFFLINE || "")
}
