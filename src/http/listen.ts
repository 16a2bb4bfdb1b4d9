// Binding the address. What cannot be had is said as a sentence about the option that asked for it.

import type { AddressInfo } from "node:net"
import type { FastifyInstance } from "fastify"
import { problem } from "../errors.ts"

/**
 * @returns the port, which matters when 0 was asked for
 * @throws `option_invalid` naming --host or --port
 */
export async function listen(server: FastifyInstance, host: string, port: number): Promise<number> {
  try {
    await server.listen({ host, port })
  } catch (error) {
    throw unavailable(error as NodeJS.ErrnoException, host, port)
  }
  return (server.server.address() as AddressInfo).port
}

function unavailable(error: NodeJS.ErrnoException, host: string, port: number): Error {
  const refuse = (option: string, why: string) =>
    problem("option_invalid", { option, problem: why })
  switch (error.code) {
    case "EADDRINUSE":
      return refuse("--port", `${port} on ${host} is in use; choose another, or 0 for a free one.`)
    case "EACCES":
      return refuse("--port", `${port} needs rights that this user lacks; choose one above 1023.`)
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return refuse(
        "--host",
        host.startsWith("[")
          ? `${host} is no address; one of IPv6 stands without brackets here.`
          : `${host} is no address of this machine; 0.0.0.0 means all of them.`,
      )
    default:
      if (!error.syscall) return error
      return refuse(
        "--host",
        `${host} cannot be listened on (${error.code}); an address of this machine can, and one that begins with fe80 takes its interface, as in fe80::1%eth0.`,
      )
  }
}
