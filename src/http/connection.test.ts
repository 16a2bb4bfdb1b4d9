// What only a socket shows: clients that leave, that are slow, that talk nonsense, that never stop.

import { once } from "node:events"
import { Agent, request } from "node:http"
import { connect, type Socket } from "node:net"
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

async function dial(
  port: number,
  text: string,
): Promise<{ socket: Socket; received: () => string }> {
  const socket = connect(port, "127.0.0.1")
  socket.on("error", () => {})
  let received = ""
  socket.setEncoding("utf8").on("data", (piece: string) => {
    received += piece
  })
  await once(socket, "connect")
  socket.write(text)
  return { socket, received: () => received }
}

async function until(condition: () => boolean, milliseconds = 5000): Promise<void> {
  const begun = performance.now()
  while (!condition()) {
    if (performance.now() - begun > milliseconds) throw new Error("it did not happen in time")
    await sleep(5)
  }
}

test.each(["destroy", "end"] as const)(
  "a client that leaves by %s ends its generation",
  async (way) => {
    for (const stream of [true, false]) {
      const seen = { pieces: 0, ended: false }
      const { port, signals } = parrot(endless("word ", seen))
      const { socket } = await dial(await port(), ask({ ...hi, stream }))
      await until(() => seen.pieces > 3)
      const left = performance.now()
      socket[way]()
      await until(() => seen.ended)
      expect(performance.now() - left).toBeLessThan(100)
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
  await until(() => signals[0]!.aborted, 250)
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
  [`GET /live HTTP/1.1\r\nHost: localhost\r\nX-Long: ${"a".repeat(20_000)}\r\n\r\n`, 431],
  ["POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400],
  ["PROPFIND /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 405],
  ["BREW /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 400],
  ["CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", 404],
])("%j is answered %i, as JSON", async (text, status) => {
  const { port } = parrot()
  const { socket, received } = await dial(await port(), text)
  await until(() => received().includes('"object":"error"'))
  expect(received()).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  expect(received()).toMatch(/\r\nx-request-id: \S+\r\n[\s\S]*x-api-dialect: native\r\n/)
  socket.destroy()
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

test("a body far beyond the limit is answered 413, with its connection whole", async () => {
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
  const failing: Script = async function* () {
    yield { kind: "usage", usage }
    await sleep(20)
    throw new Error("internal: too late")
  }
  const { port } = parrot(failing)
  const number = await port()
  const { socket } = await dial(number, ask({ ...hi, stream: true }))
  await sleep(10)
  socket.destroy()
  await sleep(50)
  expect((await fetch(`http://127.0.0.1:${number}/live`)).status).toBe(200)
})
