// What bodies may take while they come; what they say is http.test.ts's.

import { once } from "node:events"
import { createServer, type IncomingMessage } from "node:http"
import { type AddressInfo, connect } from "node:net"
import { expect, onTestFinished, test } from "vitest"
import { Problem } from "../errors.ts"
import { Bodies, jsonBody } from "./body.ts"

/** A server that reads bodies and says what became of them. */
async function reader(
  bodies: Bodies,
  most: number,
  releases: (() => void)[] = [],
): Promise<number> {
  const server = createServer((message: IncomingMessage, response) => {
    const answered = (release: () => void) => void releases.push(release)
    bodies.read(message, jsonBody, most, 1000, answered).then(
      () => response.end("read"),
      (error: unknown) => response.end(error instanceof Problem ? error.code : String(error)),
    )
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

const HEAD = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"

/** Sends the beginning of a body in chunks of the given size; tells what is answered. */
function begin(port: number, text: string, size: number) {
  const socket = connect(port, "127.0.0.1")
  socket.on("error", () => {})
  const write = (some: string) => {
    for (let at = 0; at < some.length; at += size) {
      const chunk = some.slice(at, at + size)
      socket.write(`${chunk.length.toString(16)}\r\n${chunk}\r\n`)
    }
  }
  socket.write(`${HEAD}Transfer-Encoding: chunked\r\n\r\n`)
  write(text)
  const answer = new Promise<string>((resolve) => {
    let received = ""
    socket.setEncoding("utf8").on("data", (piece: string) => {
      received += piece
      const [, said] = /\r\n\r\n.*?(read|[a-z]+_[a-z]+)/s.exec(received) ?? []
      if (said) resolve(said)
    })
  })
  const end = (rest: string) => {
    write(rest)
    socket.write("0\r\n\r\n")
  }
  return { answer, end }
}

test("bodies that are being read hold a bounded number of bytes together", async () => {
  const port = await reader(new Bodies(1000), 900)
  const first = begin(port, `"${"x".repeat(800)}`, 400)
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect(await begin(port, `"${"x".repeat(300)}`, 400).answer).toBe("bodies_full")
  first.end('"')
  expect(await first.answer).toBe("read")
  const third = begin(port, `"${"x".repeat(800)}`, 400)
  third.end('"')
  expect(await third.answer).toBe("read")
})

test("large ones count until they are answered; one alone always fits, and small ones do", async () => {
  const releases: (() => void)[] = []
  const MiB = 2 ** 20
  const port = await reader(new Bodies(64 * MiB, 5 * MiB), 8 * MiB, releases)
  const sent = (size: number) => {
    const body = begin(port, `"${"x".repeat(size)}"`, 64 * 1024)
    body.end("")
    return body.answer
  }
  expect(await sent(6 * MiB)).toBe("read")
  expect(await sent(3 * MiB)).toBe("bodies_full")
  expect(await sent(1 * MiB)).toBe("read")
  for (const release of releases.splice(0)) release()
  expect([await sent(2.4 * MiB), await sent(2.4 * MiB)]).toEqual(["read", "read"])
  expect(await sent(2.4 * MiB)).toBe("bodies_full")
})

test("a body in ever so many pieces of a byte is refused, one that begins with small ones is not", async () => {
  const port = await reader(new Bodies(), 1_000_000)
  expect(await begin(port, `"${"x".repeat(10_000)}`, 1).answer).toBe("invalid_http")
  const slow = begin(port, `"${"x".repeat(3000)}`, 1)
  slow.end(`${"x".repeat(300_000)}"`)
  expect(await slow.answer).toBe("invalid_http")
  const good = begin(port, `"${"x".repeat(3000)}"`, 1)
  good.end("")
  expect(await good.answer).toBe("read")
})
