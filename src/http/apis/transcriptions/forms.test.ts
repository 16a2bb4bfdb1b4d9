// Forms over HTTP, which transcriptions alone take: damaged ones, ones that never end, and whose pages may send one.

import { once } from "node:events"
import { connect } from "node:net"
import { expect, test } from "vitest"
import { formOf, rawForm } from "../../../../test/forms.ts"
import { parrot, saying } from "../../../../test/parrot.ts"
import type { ChatRequest } from "../../../chat/conversation.ts"
import type { HttpOptions } from "../../service.ts"

const bytes = Buffer.from(Array.from({ length: 1000 }, (_, i) => (i * 7) % 256))

/** Numbers that are the same in every run. */
function dice(seed: number) {
  let state = seed
  return (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

test("eight hundred damaged forms get an answer that says what is wrong, or a reply", async () => {
  const { server, service } = parrot()
  Object.assign(service.model, { hears: true })
  const fields = { model: "tiny", stream: "false", "include[]": "logprobs", temperature: "0" }
  const { payload, headers } = await formOf({ ...fields, file: new Blob([bytes]) })
  const next = dice(5)
  const statuses = new Map<number, number>()
  for (let round = 0; round < 800; round++) {
    const damaged = Buffer.from(payload)
    for (let edits = 1 + next(3); edits > 0; edits--) damaged[next(damaged.length)] = next(256)
    const cut = next(4) === 0 ? damaged.subarray(0, next(damaged.length)) : damaged
    const answer = await server.inject({
      method: "POST",
      url: "/v1/audio/transcriptions",
      headers,
      payload: cut,
    })
    statuses.set(answer.statusCode, (statuses.get(answer.statusCode) ?? 0) + 1)
    expect([200, 400, 404], `${cut.toString("latin1")} → ${answer.body}`).toContain(
      answer.statusCode,
    )
    if (answer.statusCode !== 200) {
      const { message } = answer.json().error
      expect(message.split("\n")).toHaveLength(1)
      expect(message.length).toBeLessThan(1000)
    }
  }
  expect(statuses.get(200)).toBeGreaterThan(50)
  expect(statuses.get(400)).toBeGreaterThan(200)
})

test("a form of many pieces, and one beyond the limit, over a socket", async () => {
  const { port, service, asked } = parrot(saying("x"), { maxBody: 100_000 })
  Object.assign(service.model, { hears: true })
  const url = `http://127.0.0.1:${await port()}/v1/audio/transcriptions`
  const send = async (size: number) => {
    const { payload, headers } = await formOf({
      model: "tiny",
      file: new Blob([bytes.subarray(0, size)]),
    })
    const body = new ReadableStream({
      start(controller) {
        for (let at = 0; at < payload.length; at += 10)
          controller.enqueue(payload.subarray(at, at + 10))
        controller.close()
      },
    })
    return fetch(url, { method: "POST", headers, body, duplex: "half" } as RequestInit)
  }
  expect((await send(1000)).status).toBe(200)
  const [{ messages }] = asked as [ChatRequest]
  expect(messages[0]!.parts![0]).toEqual({ audio: bytes, field: "file" })
  const { payload, headers } = await formOf({
    model: "tiny",
    file: new Blob([Buffer.alloc(200_000)]),
  })
  const large = await fetch(url, { method: "POST", headers, body: payload })
  expect(large.status).toBe(413)
})

test("a form whose rest never comes is answered 408", async () => {
  const open = parrot(saying("x"), {
    timeouts: { header: 1000, body: 200, idle: 1000, write: 1000, keepAlive: 1000 },
  })
  Object.assign(open.service.model, { hears: true })
  const socket = connect(await open.port(), "127.0.0.1")
  const { payload, headers } = rawForm(
    '--b\nContent-Disposition: form-data; name="model"\n\ntiny\n',
  )
  socket.write(
    `POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${headers["content-type"]}\r\nContent-Length: 1000\r\n\r\n`,
  )
  socket.write(payload)
  const [answer] = await once(socket, "data")
  expect(String(answer)).toMatch(/^HTTP\/1.1 408 /)
  socket.destroy()
})

const cors = (origins: string[], methods = ["*"]) => ({
  cors: { credentials: false, origins, methods, headers: ["*"] },
})

// What a browser adds to a page's own request cannot be changed by the page (Fetch standard, "forbidden request-header").
test.each<[string, Record<string, string>, Partial<HttpOptions>, number]>([
  ["no page", {}, {}, 200],
  ["Node's fetch", { "sec-fetch-mode": "cors" }, {}, 200],
  ["our own page", { origin: "http://localhost:8000", "sec-fetch-site": "same-origin" }, {}, 200],
  [
    "our own, of another name to a proxy",
    { origin: "https://a.example", "sec-fetch-site": "same-origin" },
    {},
    200,
  ],
  ["our own, in a browser that does not say so", { origin: "http://localhost:8000" }, {}, 200],
  ["another port's, in such a browser", { origin: "http://localhost:9000" }, {}, 403],
  ["another's, in such a browser", { origin: "https://a.example" }, {}, 403],
  ["another's", { origin: "https://a.example", "sec-fetch-site": "cross-site" }, {}, 403],
  ["another port's", { origin: "http://localhost:9000", "sec-fetch-site": "same-site" }, {}, 403],
  ["one without an origin", { origin: "null", "sec-fetch-site": "cross-site" }, {}, 403],
  ["one that tells no origin", { "sec-fetch-site": "cross-site" }, {}, 403],
  [
    "one that CORS allows",
    { origin: "https://a.example", "sec-fetch-site": "cross-site" },
    cors(["https://a.example"]),
    200,
  ],
  ["one that it allows among all", { origin: "https://a.example" }, cors(["*"]), 200],
  ["one that it does not", { origin: "https://b.example" }, cors(["https://a.example"]), 403],
  ["one that may not post", { origin: "https://a.example" }, cors(["*"], ["GET"]), 403],
])("a form of %s", async (_, page, options, status) => {
  const { server, service, asked } = parrot(saying("x"), options)
  Object.assign(service.model, { hears: true })
  const { payload, headers } = await formOf({ model: "tiny", file: new Blob([bytes]) })
  const answer = await server.inject({
    method: "POST",
    url: "/v1/audio/transcriptions",
    headers: { host: "localhost:8000", ...headers, ...page },
    payload,
  })
  expect(answer.statusCode, answer.body).toBe(status)
  expect(asked).toHaveLength(status === 200 ? 1 : 0)
  if (status === 403) {
    const origin = page.origin ?? page["sec-fetch-site"]
    expect(answer.json().error).toMatchObject({
      code: "origin_refused",
      message: `A form from a page of "${origin}" is not taken; start the server with --allowed-origins to add that origin.`,
    })
  }
})

test("a form that is compressed is 415, and so is one where JSON belongs", async () => {
  const { server, post, service } = parrot()
  Object.assign(service.model, { hears: true })
  const { payload, headers } = await formOf({ model: "tiny", file: new Blob([bytes]) })
  const url = "/v1/audio/transcriptions"
  const zipped = { ...headers, "content-encoding": "gzip" }
  expect((await server.inject({ method: "POST", url, headers: zipped, payload })).statusCode).toBe(
    415,
  )
  expect((await post({ model: "tiny", file: "x" }, {}, url)).statusCode).toBe(415)
})
