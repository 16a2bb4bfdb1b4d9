// Node's server, before anything of ours sees a request: its times, how many connections there may be, how many requests one
// of them may have open, and what never becomes a request. Fastify asks for one server, or for two where a name has two
// addresses (localhost); both keep one count.

import type { IncomingMessage, Server, ServerOptions, ServerResponse } from "node:http"
import type { Server as TlsServer } from "node:https"
import type { Socket } from "node:net"
import { problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { http, https } from "../node-http.ts"
import type { DialectName } from "./apis/chat/dialects/choose.ts"
import { type Certificate, watchCertificate } from "./certificate.ts"
import { answerBrokenHttp, answerConnect } from "./connection.ts"
import type { HttpOptions } from "./service.ts"
import type { Watched } from "./watched.ts"

type Handler = (request: IncomingMessage, response: ServerResponse) => void

/** Some connections beyond the bound are still let in, to be told why they are not served; the others are cut. */
const TOLD = 64

// Node parses and hands over whatever a client has sent ahead of its answers: a thousand requests in one turn. The first of
// a turn is taken at once and the others after it, so that those beyond the bound are seen before the work is done.
const MAX_UNANSWERED = 16 // requests of one connection

// An idle connection outlives what its Keep-Alive header promised, so that none is closed under a client about to write.
const IDLE_GRACE = 5_000 // milliseconds

type Options = Pick<HttpOptions, "timeouts" | "maxConnections" | "tls">

export class Servers {
  readonly #options: Options
  readonly #dialect: DialectName
  readonly #log: Log
  readonly #certificate: Watched<Certificate> | undefined
  readonly #secure: TlsServer[] = []
  readonly #surplus = new WeakSet<Socket>()
  readonly #unanswered = new WeakMap<Socket, number>()
  #open = 0
  #isFull = false

  /**
   * @param dialect of answers to what is no request
   * @throws `option_invalid` for a certificate that cannot be used
   */
  constructor(options: Options, dialect: DialectName, log: Log) {
    this.#options = options
    this.#dialect = dialect
    this.#log = log
    this.#certificate =
      options.tls &&
      watchCertificate(options.tls, log, (next) => {
        for (const server of this.#secure) server.setSecureContext(next)
      })
  }

  create(handler: Handler): Server {
    const server = this.#listening((request, response) => this.#take(request, response, handler))
    server.maxConnections = this.#options.maxConnections + TOLD
    // Over TLS a request's socket is not the connection's own, and is there once both sides have greeted.
    const arrival = this.#certificate ? "secureConnection" : "connection"
    server.on(arrival, (socket: Socket) => this.#connected(socket))
    server.on("drop", () => this.#refuse())
    const answering = { dialect: this.#dialect, log: this.#log }
    server.on("clientError", (error, socket) => answerBrokenHttp(error, socket, answering))
    server.on("connect", ({ url = "" }, socket) => answerConnect(url, socket, answering))
    // An expectation nobody knows may be left unmet; Node's own answer would be a bare 417.
    server.on("checkExpectation", (request, response) => {
      server.emit("request", request, response)
    })
    return server
  }

  #listening(take: Handler): Server {
    const { header, body, idle } = this.#options.timeouts
    const options: ServerOptions = {
      headersTimeout: header,
      requestTimeout: header + body + IDLE_GRACE, // the body's own timer comes first
      keepAliveTimeout: idle + IDLE_GRACE,
      connectionsCheckingInterval: 1000,
      requireHostHeader: false, // refused later, in our own body
      keepAlive: true, // finds clients that vanished without a word
      keepAliveInitialDelay: 30_000,
    }
    if (!this.#certificate) return http.createServer(options, take)
    const secured = { ...options, ...this.#certificate.value, handshakeTimeout: header }
    const server = https.createServer(secured, take)
    this.#secure.push(server)
    return server
  }

  /** Stops looking after the certificate. */
  close(): void {
    this.#certificate?.close()
  }

  /** Throws `too_many_connections` for one that came when there was no room. */
  assertServed(socket: Socket): void {
    if (!this.#surplus.has(socket)) return
    throw problem("too_many_connections", { most: this.#options.maxConnections })
  }

  #connected(socket: Socket): void {
    const most = this.#options.maxConnections
    if (++this.#open > most) {
      this.#surplus.add(socket)
      this.#refuse()
    }
    socket.once("close", () => {
      if (--this.#open < most) this.#isFull = false
    })
  }

  #refuse(): void {
    const { maxConnections: connections } = this.#options
    if (!this.#isFull) this.#log.warn({ connections }, "no more connections are served")
    this.#isFull = true
  }

  #take(request: IncomingMessage, response: ServerResponse, handler: Handler): void {
    const { socket } = request
    if (socket.destroyed) return
    const unanswered = (this.#unanswered.get(socket) ?? 0) + 1
    if (unanswered > MAX_UNANSWERED) {
      socket.destroy()
      return
    }
    this.#unanswered.set(socket, unanswered)
    response.once("close", () => {
      setImmediate(() => this.#unanswered.set(socket, this.#unanswered.get(socket)! - 1))
    })
    if (unanswered === 1) handler(request, response)
    else setImmediate(() => socket.destroyed || handler(request, response))
  }
}
