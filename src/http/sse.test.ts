import { EventEmitter } from "node:events"
import type { ServerResponse } from "node:http"
import { expect, test, vi } from "vitest"
import type { HttpOptions } from "./service.ts"
import { COMMENT, EventStream, event } from "./sse.ts"

test("an event is its data, and its name where it has one", () => {
  expect(event('{"a":1}')).toBe('data: {"a":1}\n\n')
  expect(event({ name: "response.created", data: "{}" })).toBe(
    "event: response.created\ndata: {}\n\n",
  )
})

test("a stream says that it lives after its interval of silence, however long it was busy before", async () => {
  vi.useFakeTimers()
  try {
    const written: string[] = []
    const raw = Object.assign(new EventEmitter(), {
      destroyed: false,
      writableLength: 0,
      writeHead: () => {},
      flushHeaders: () => {},
      write: (text: string) => written.push(text),
      end: () => {},
    }) as unknown as ServerResponse
    const options = { timeouts: { keepAlive: 100, write: 1000 } } as HttpOptions
    const stream = new EventStream(
      { takeOver: () => ({ raw, headers: {} }), options },
      () => COMMENT,
    )
    for (let i = 0; i < 10; i++) {
      await stream.send("{}")
      vi.advanceTimersByTime(60)
    }
    expect(written.filter((text) => text === COMMENT)).toEqual([])
    vi.advanceTimersByTime(40)
    expect(written.filter((text) => text === COMMENT)).toHaveLength(1)
    vi.advanceTimersByTime(250)
    expect(written.filter((text) => text === COMMENT)).toHaveLength(3)
    stream.end()
    raw.emit("finish")
    vi.advanceTimersByTime(1000)
    expect(written.filter((text) => text === COMMENT)).toHaveLength(3)
  } finally {
    vi.useRealTimers()
  }
})
