// What only a socket shows: clients that leave, that are slow, that talk nonsense, that never stop.

import { once } from "node:events"
import { Agent, request } from "node:http"
import { type AddressInfo, connect, type Socket } from "node:net"
import { networkInterfaces } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import { expect, test } from "vitest"
import { hi, parrot, type Script, saying, usage } from "../../test/parrot.ts"
import { defaultTimeouts } from "./service.ts"

const timeouts = (some: Partial<typeof defaultTimeouts>) => ({
  timeouts: { ...defaultTimeouts, ...some },
})

/** Speaks for ever, a piece each time round the loop. */
const endless = (piece: string, seen: { pieces: number; ended: boolean }): Script =>
  async function* (_, signal) {
    try {
      while (!signal.aborted) {
        await sleep(0)
        seen.pieces++
        yield { kind: "content", choice: 0, text: piece, logprobs: [] }
      }
    } finally {
      seen.ended = true
    }
  }

/** Says nothing until the client leaves. */
const silent: Script = async function* (_, signal) {
  if (!signal.aborted) await once(signal, "abort").catch(() => {})
  yield* []
}

const ask = (body: object) => {
  const text = JSON.stringify(body)
  return `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
}

test("without keys a connection is one client, and another one another", async () => {
  const { port, clients } = parrot()
  const listening = await port()
  const talk = async (body: object) => {
    const { socket, received } = await dial(listening, ask(body))
    while (!received().includes("finish_reason")) await once(socket, "data")
    socket.write(ask(body))
    while (received().split("finish_reason").length < 3) await once(socket, "data")
    socket.destroy()
  }
  await talk(hi)
  await talk(hi)
  const [first, again, ...other] = clients
  expect(first).toMatch(/./)
  expect(again).toBe(first)
  expect(other).toEqual([other[0], other[0]])
  expect(other[0]).not.toBe(first)
})

const ipv6 = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ address }) => address === "::1"),
)
const why = ipv6 ? "" : " (skipped: no IPv6 is here)"

// However getaddrinfo(3) and inet_aton(3) read loopback.
test.each(["LOCALHOST", "127.1"])("--host %s is loopback, as what it binds is", answersAsLoopback)
test.skipIf(!ipv6).each(["0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"])(
  `--host %s is loopback, as what it binds is${why}`,
  answersAsLoopback,
)

async function answersAsLoopback(host: string) {
  const { server, listen } = parrot(saying("x"), { host })
  await listen(0)
  for (const [name, status] of [
    ["localhost:8000", 200],
    ["evil.example", 403],
  ] as const) {
    const answer = await server.inject({ url: "/v1/models", headers: { host: name } })
    expect(answer.statusCode, name).toBe(status)
  }
}

/** `stays`: the client does not end when the server does. */
async function dial(
  port: number,
  text: string,
  stays = false,
): Promise<{ socket: Socket; received: () => string }> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: stays })
  socket.on("error", () => {})
  let received = ""
  socket.setEncoding("utf8").on("data", (piece: string) => {
    received += piece
  })
  await once(socket, "connect")
  socket.write(text)
  return { socket, received: () => received }
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(5)
}

test.each(["destroy", "end"] as const)(
  "a client that leaves by %s ends its generation",
  async (way) => {
    for (const stream of [true, false]) {
      const seen = { pieces: 0, ended: false }
      const { server, port, signals } = parrot(endless("word ", seen))
      let told: number | undefined // pieces until the system told the server; how soon it does is not the server's
      const note = () => (told ??= seen.pieces)
      server.server.once("connection", (theirs) => theirs.once("end", note).once("close", note))
      const { socket } = await dial(await port(), ask({ ...hi, stream }))
      await until(() => seen.pieces > 3)
      socket[way]()
      await until(() => seen.ended)
      expect(seen.pieces - told!).toBeLessThan(5) // turns of the event loop
      expect(signals[0]!.aborted).toBe(true)
      socket.destroy()
    }
  },
)

test("a client that leaves before the first word is noticed at once", async () => {
  const { port, signals } = parrot(silent)
  const { socket } = await dial(await port(), ask(hi))
  await until(() => signals.length === 1)
  socket.destroy()
  await until(() => signals[0]!.aborted)
})

test("a good request ends with its signal untouched, and the connection stays", async () => {
  const { port, signals } = parrot()
  const { socket, received } = await dial(await port(), ask(hi))
  await until(() => received().includes("usage"))
  socket.write(ask({ ...hi, stream: true }))
  await until(() => received().includes("[DONE]"))
  expect(signals.map((signal) => signal.aborted)).toEqual([false, false])
  socket.destroy()
})

test("every event is one write, complete in itself", async () => {
  const { port } = parrot(saying("a", "b", "c"))
  const { socket, received } = await dial(await port(), ask({ ...hi, stream: true }))
  await until(() => received().includes("[DONE]"))
  const body = received().slice(received().indexOf("\r\n\r\n") + 4)
  const chunks = [...body.matchAll(/([0-9a-f]+)\r\n([\s\S]*?)\r\n(?=[0-9a-f]+\r\n)/g)]
  expect(chunks).toHaveLength(5) // three words, the finish and the end marker
  for (const [, , text] of chunks) expect(text).toMatch(/^data: [^\n]+\n\n$/)
  socket.destroy()
})

test("a slow reader pauses its generation, costs bounded memory, and others go on", async () => {
  const seen = { pieces: 0, ended: false }
  const { port } = parrot((asked, signal) =>
    "messages" in asked && asked.messages[0]!.content === "flood"
      ? endless("x".repeat(16_384), seen)(asked, signal)
      : saying("quick")(asked, signal),
  )
  const number = await port()
  const flood = { ...hi, stream: true, messages: [{ role: "user", content: "flood" }] }
  const { socket } = await dial(number, ask(flood))
  socket.pause()
  let before = 0
  do {
    before = seen.pieces
    await sleep(200)
  } while (before === 0 || seen.pieces !== before) // until it stands still
  expect(seen.pieces * 16_384).toBeLessThan(16 * 2 ** 20) // the kernel's own buffers and 256 KiB
  const quick = await fetch(`http://127.0.0.1:${number}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(hi),
  })
  expect(quick.status).toBe(200)
  socket.resume()
  await until(() => seen.pieces > before + 10) // and goes on when the reader does
  socket.destroy()
  await until(() => seen.ended)
})

test("a whole answer goes out as its choices end, no faster than its client takes it", async () => {
  const choices = 128
  const text = "x".repeat(2 ** 18)
  let begun = 0
  const { port } = parrot(async function* () {
    for (let choice = 0; choice < choices; choice++) {
      await sleep(0)
      begun++
      yield { kind: "content", choice, text, logprobs: [] }
      yield { kind: "finish", choice, reason: "stop" }
    }
    yield { kind: "usage", usage }
  })
  const { socket, received } = await dial(await port(), ask({ ...hi, n: choices }))
  socket.pause()
  let before = 0
  do {
    before = begun
    await sleep(200)
  } while (before === 0 || begun !== before) // until it stands still
  expect(begun * text.length).toBeLessThan(16 * 2 ** 20) // the kernel's own buffers and 256 KiB
  socket.resume()
  await until(() => received().endsWith("\r\n0\r\n\r\n"))
  socket.destroy()
  const body = received().slice(received().indexOf("\r\n\r\n") + 4)
  const whole = JSON.parse(body.replace(/(^|\r\n)[0-9a-f]+\r\n/g, ""))
  expect(whole.choices.length).toBe(choices)
  expect(whole.choices[127]).toMatchObject({ index: 127, finish_reason: "stop" })
  expect(whole.usage.total_tokens).toBe(5)
})

test("a whole answer that breaks off when it has begun is cut, not ended", async () => {
  const { port } = parrot(function* () {
    yield { kind: "content", choice: 0, text: "x".repeat(2 ** 20), logprobs: [] }
    yield { kind: "finish", choice: 0, reason: "stop" }
    throw new Error("gone")
  })
  const { socket, received } = await dial(await port(), ask(hi))
  await once(socket, "close")
  expect(received()).toMatch(/^HTTP\/1.1 200 /)
  expect(received().endsWith("0\r\n\r\n")).toBe(false)
})

test("a client that takes nothing is cut after the write timeout", async () => {
  const seen = { pieces: 0, ended: false }
  const { port } = parrot(endless("x".repeat(65_536), seen), timeouts({ write: 200 }))
  const { socket } = await dial(await port(), ask({ ...hi, stream: true }))
  socket.pause()
  await until(() => seen.ended)
  socket.destroy()
})

test("silence is broken in the dialect's own form", async () => {
  const quiet: Script = async function* (asked, signal) {
    await sleep(120)
    yield* saying("late")(asked, signal)
  }
  const { port } = parrot(quiet, timeouts({ keepAlive: 30 }))
  const number = await port()
  const read = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${number}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...hi, stream: true }),
    })
    return (await answer.text()).split("\n\n")
  }
  const openai = await read("/openai/v1/chat/completions")
  expect(openai[0]).toBe(": waiting")
  const native = await read("/v1/chat/completions")
  const { choices } = JSON.parse(native[0]!.slice("data: ".length))
  expect(choices[0]).toMatchObject({
    delta: { role: "assistant", content: "" },
    finish_reason: null,
  })
  expect(native.join("")).not.toContain(": waiting")
})

test("headers that never end, and a body that never ends, are cut", async () => {
  const { port } = parrot(saying("x"), timeouts({ header: 300, body: 300 }))
  const number = await port()
  const header = await dial(number, "GET /live HTTP/1.1\r\nHost: localhost\r\nX-")
  const body = await dial(number, `${ask(hi).slice(0, -5)}`)
  await Promise.all([once(header.socket, "close"), once(body.socket, "close")])
  expect(header.received()).toMatch(/^HTTP\/1.1 408 [\s\S]*"code":"header_timeout"/)
  expect(body.received()).toMatch(/^HTTP\/1.1 408 [\s\S]*"code":"body_timeout"/)
})

test.each([
  ["GARBAGE\r\n\r\n", 400],
  ["GET / HTTP/9.9\r\n\r\n", 400],
  ["GET /live HTTP/1.1\r\n\r\n", 400],
  ["GET /live HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400],
  ["GET /live HTTP/1.1\r\nHost: localhost\r\nX-Header: host\r\n\r\n", 200],
  ["GET http://localhost:8000/live HTTP/1.1\r\nHost: localhost\r\n\r\n", 200],
  ["GET http://evil.example/live HTTP/1.1\r\nHost: localhost\r\n\r\n", 403],
  ["GET http://localhost@evil.example/live HTTP/1.1\r\nHost: localhost\r\n\r\n", 403],
  ["ANNOUNCE * RTSP/1.0\r\nHost: localhost\r\n\r\n", 400],
  ["DESCRIBE /live RTSP/1.0\r\nHost: localhost\r\n\r\n", 400],
  [`GET /live HTTP/1.1\r\nHost: localhost\r\nX-Long: ${"a".repeat(20_000)}\r\n\r\n`, 431],
  ["POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400],
  ["GET /v1/models/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400],
  ["PROPFIND /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 405],
  ["BREW /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 400],
  ["CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", 404],
])("%j is answered %i, as JSON", async (text, status) => {
  const { port, lines } = parrot()
  const { socket, received } = await dial(await port(), text)
  await until(() => received().includes(status === 200 ? '"status":"ok"' : '"object":"error"'))
  expect(received()).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  expect(received()).toMatch(/\r\nx-request-id: \S+\r\n[\s\S]*x-api-dialect: native\r\n/)
  socket.destroy()
  const [, id] = /x-request-id: (\S+)/.exec(received())!
  if (status !== 200) await expect.poll(() => lines).toMatchObject([{ request: id, status }])
})

// RFC 9110, 15.5.22. Codex goes on over HTTP at once where it reads 426, and tries seven times where it reads 405.
test("a WebSocket is answered 426, with what is spoken instead, and the connection ends", async () => {
  const { port } = parrot()
  const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
  const get = `GET /v1/responses HTTP/1.1\r\nHost: localhost\r\n${upgrade}\r\n`
  const { socket, received } = await dial(await port(), get)
  await until(() => socket.destroyed) // by no doing of its own
  expect(received()).toMatch(/^HTTP\/1.1 426 [\s\S]*"code":"websocket_unsupported"/)
  for (const header of [
    "upgrade: HTTP/1.1",
    "connection: upgrade, close",
    "allow: POST, OPTIONS",
  ]) {
    expect(received()).toContain(`\r\n${header}\r\n`)
  }
})

test("a request that its client ends too early is told so", async () => {
  const { port } = parrot()
  const { socket, received } = await dial(await port(), ask(hi).slice(0, -5))
  socket.end()
  await until(() => received().includes("it ended before it was whole"))
})

test("an expectation nobody knows is left unmet, and the request answered", async () => {
  const { port } = parrot(saying("x"))
  const text = ask(hi).replace("\r\n", "\r\nExpect: a miracle\r\n")
  const { socket, received } = await dial(await port(), text)
  await until(() => received().includes('"content":"x"'))
  expect(received()).toMatch(/^HTTP\/1.1 200 /)
  socket.destroy()
})

test("a body far beyond the limit is answered 413, which its client can read, and the next one is served", async () => {
  const { port } = parrot(saying("x"), { maxBody: 10_000 })
  const number = await port()
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  for (const chunked of [true, false]) {
    const body = Buffer.alloc(8 * 2 ** 20, 0x20)
    const sent = request({
      port: number,
      host: "127.0.0.1",
      agent,
      method: "POST",
      path: "/v1/chat/completions",
      headers: {
        "content-type": "application/json",
        ...(chunked ? { "transfer-encoding": "chunked" } : { "content-length": body.length }),
      },
    })
    sent.end(body)
    const [answer] = await once(sent, "response")
    expect(answer.statusCode).toBe(413)
    answer.resume()
    await once(answer, "end")
  }
  const again = request({ port: number, host: "127.0.0.1", agent, path: "/live" })
  again.end()
  const [answer] = await once(again, "response")
  expect(answer.statusCode).toBe(200)
  agent.destroy()
})

const begun = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n{"

test.each([
  [200, `GET /live HTTP/1.1\r\n${begun}`],
  [200, "GET /live HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"],
  [400, `POST /v1/chat/completions HTTP/1.1\r\nx-api-dialect: klingon\r\n${begun}`],
  [403, `POST /v1/chat/completions HTTP/1.1\r\n${begun.replace("localhost", "evil")}`],
  [404, `POST /nothing HTTP/1.1\r\n${begun}`],
  [405, `POST /live HTTP/1.1\r\n${begun}`],
  [413, `POST /v1/chat/completions HTTP/1.1\r\n${begun.replace("9000", "90000")}`],
  [415, `POST /v1/chat/completions HTTP/1.1\r\n${begun.replace("/json", "/xml\r\nOrigin: null")}`],
])("after an early answer %i a body that never ends costs its connection", async (status, text) => {
  const { port } = parrot(saying("x"), { maxBody: 10_000, ...timeouts({ body: 150 }) })
  const { socket, received } = await dial(await port(), text, true)
  const drop = text.includes("chunked") ? "1\r\n \r\n" : " "
  const dripping = setInterval(() => socket.write(drop), 20)
  await until(() => socket.destroyed) // by no doing of its own
  clearInterval(dripping)
  expect(received()).toMatch(
    new RegExp(`^HTTP/1.1 ${status} [\\s\\S]*\r\nconnection: close\r\n`, "i"),
  )
})

test("after an early answer a body that does end leaves its connection whole", async () => {
  const { port } = parrot()
  const body = "x".repeat(100_000)
  const head = `POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n`
  const { socket, received } = await dial(await port(), head)
  socket.write(body)
  await until(() => received().includes("route_not_found"))
  expect(received()).toMatch(/\r\nConnection: keep-alive\r\n/)
  socket.write("GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
  await until(() => received().includes('{"version":"1.2.3"}'))
  socket.destroy()
})

test("one connection too many is told so, health checks aside, and served when there is room", async () => {
  const { port } = parrot(saying("x"), { maxConnections: 2 })
  const number = await port()
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`
  const first = await dial(number, get("/version"))
  const second = await dial(number, get("/version"))
  await until(() => second.received().includes("200 OK"))
  const third = await dial(number, get("/live") + get("/version"))
  await until(() => third.received().includes("too_many_connections"))
  expect(third.received()).toMatch(/^HTTP\/1.1 200 [\s\S]*HTTP\/1.1 503 [\s\S]*retry-after: 1\r\n/)
  await until(() => third.socket.destroyed)
  first.socket.destroy()
  const served = async () => {
    const { socket, received } = await dial(number, get("/version"))
    await until(() => received().includes('"version"') || received().includes("too_many"))
    socket.destroy()
    return received().includes("200 OK")
  }
  await expect.poll(served).toBe(true)
  second.socket.destroy()
})

test("a client that sends more requests than it is answered is cut before they cost much", async () => {
  const { port, asked } = parrot(saying("x"))
  const number = await port()
  const many = await dial(number, ask(hi).repeat(2000))
  await until(() => many.socket.destroyed)
  expect(asked.length).toBeLessThanOrEqual(16)
  const few = await dial(number, ask(hi).repeat(16))
  await until(() => few.received().split('"usage"').length === 17)
  few.socket.write(ask(hi)) // and as many again, once they are answered
  await until(() => few.received().split('"usage"').length === 18)
  few.socket.destroy()
})

test("both addresses of localhost are served alike", async () => {
  const { server } = parrot(saying("x"))
  await server.listen({ port: 0, host: "localhost" })
  for (const { address, port } of server.addresses() as AddressInfo[]) {
    const socket = connect(port, address)
    let received = ""
    socket.setEncoding("utf8").on("data", (piece: string) => {
      received += piece
    })
    socket.write("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
    await until(() => received.includes('"route_not_found"'))
    socket.destroy()
  }
})

test("far more connections than are served are cut", async () => {
  const { port, server } = parrot(saying("x"), { maxConnections: 1 })
  const number = await port()
  let dropped = 0
  server.server.on("drop", () => dropped++)
  const sockets = Array.from({ length: 80 }, () => connect(number, "127.0.0.1"))
  for (const socket of sockets) socket.on("error", () => {})
  await until(() => dropped === 80 - 65)
  for (const socket of sockets) socket.destroy()
})

test("connections outlive the idle time that they were promised", async () => {
  const { port, server } = parrot()
  const answer = await fetch(`http://127.0.0.1:${await port()}/live`)
  const [, promised] = /timeout=(\d+)/.exec(answer.headers.get("keep-alive")!)!
  expect(Number(promised) * 1000).toBeLessThan(server.server.keepAliveTimeout)
})

test("draining lets what runs end, and then resolves", async () => {
  let release = () => {}
  const held: Script = async function* (asked, signal) {
    await new Promise<void>((resolve) => {
      release = resolve
    })
    yield* saying("done")(asked, signal)
  }
  const { port, drain, asked } = parrot(held)
  const url = `http://127.0.0.1:${await port()}/v1/chat/completions`
  const init = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(hi),
  }
  const running = fetch(url, init)
  await until(() => asked.length === 1)
  let drained = false
  const draining = drain().then(() => {
    drained = true
  })
  expect((await fetch(url, init)).status).toBe(503)
  expect(drained).toBe(false)
  release()
  expect((await running).status).toBe(200)
  await draining
})

test("an answer that nobody waits for leaves nothing behind", async () => {
  let failed = false
  const failing: Script = async function* (_, signal) {
    yield { kind: "usage", usage }
    await once(signal, "abort").catch(() => {})
    failed = true
    throw new Error("internal: too late")
  }
  const { port, signals } = parrot(failing)
  const number = await port()
  const { socket } = await dial(number, ask({ ...hi, stream: true }))
  await until(() => signals.length === 1)
  socket.destroy()
  await until(() => failed)
  expect((await fetch(`http://127.0.0.1:${number}/live`)).status).toBe(200)
})
