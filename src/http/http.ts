// The front door of the room. `createHttp` gives a server that can listen at once and answers 503 until `open` hands it
// models. Every request takes one way: it arrives (arrival.ts), is handled (handling.ts), and fails in one place
// (failing.ts). Fastify (framework.ts) routes and frames.

import type { AddressInfo } from "node:net"
import type { FastifyInstance } from "fastify"
import type { Log } from "../log.ts"
import { ResponseStore } from "./apis/responses/store.ts"
import { unreadDialect } from "./arrival.ts"
import { Bodies } from "./body.ts"
import { exposures } from "./exposure.ts"
import { newFastify } from "./framework.ts"
import { Keys } from "./keys.ts"
import { listen } from "./listen.ts"
import type { Room } from "./room.ts"
import { Running, type Watchers } from "./running.ts"
import { Servers } from "./server.ts"
import type { HttpOptions, ServedModel } from "./service.ts"

export interface Http {
  /** Takes injected requests in tests. */
  server: FastifyInstance
  /** @returns the port, which matters when 0 was asked for. */
  listen: (port: number) => Promise<number>
  /** From now on requests are answered. */
  open: (models: readonly ServedModel[]) => void
  /** From now on new requests are refused; resolves when those that run have ended. */
  drain: () => Promise<void>
  /** Cuts whatever connections there are. */
  close: () => Promise<void>
}

export function createHttp(options: HttpOptions, log: Log, watchers: Watchers = {}): Http {
  const room = openRoom(options, log, watchers)
  const server = newFastify(room)
  server.server.once("listening", () => {
    const { address } = server.server.address() as AddressInfo
    room.state.address = address
    for (const sentence of exposures(options, address)) log.warn(sentence) // not of an address that cannot be had
  })
  return {
    server,
    listen: (port) => listen(server, options.host, port),
    open: (models) => {
      room.state.models = models
    },
    drain: () => {
      room.state.draining = true
      return room.running.ended()
    },
    close: async () => {
      room.keys.close()
      room.servers.close()
      server.server.closeAllConnections()
      await server.close()
    },
  }
}

function openRoom(options: HttpOptions, log: Log, watchers: Watchers): Room {
  const state = { models: [], draining: false, address: options.host }
  const servers = new Servers(options, unreadDialect(options), log)
  const running = new Running(state, log, watchers)
  const keys = new Keys(options, log)
  const held = { bodies: new Bodies(), responses: new ResponseStore() }
  return { options, log, state, servers, keys, running, trace: watchers.trace, ...held }
}
