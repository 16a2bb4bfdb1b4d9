import { expect, test } from "vitest"
import { Lane, type LaneLimits } from "./lane.ts"

/** A lane whose work ends when it is told to. */
function lane(limits: LaneLimits = {}) {
  const made = new Lane(limits)
  const begun: string[] = []
  const ends: (() => void)[] = []
  const ask = (name: string, size: number, client: string, signal?: AbortSignal) =>
    made.run(
      () => {
        begun.push(name)
        return new Promise<string>((resolve) => ends.push(() => resolve(name)))
      },
      size,
      { client, signal },
    )
  /** Lets everything that comes be done. */
  const run = async () => {
    for (;;) {
      await new Promise(setImmediate)
      const end = ends.shift()
      if (!end) return
      end()
    }
  }
  return { lane: made, begun, ask, run }
}

test("one client's things are done in order, one at a time", async () => {
  const { begun, ask, run } = lane()
  const asked = [ask("a", 5, ""), ask("b", 1, ""), ask("c", 3, "")]
  expect(begun).toEqual(["a"])
  await run()
  expect(await Promise.all(asked)).toEqual(["a", "b", "c"])
  expect(begun).toEqual(["a", "b", "c"])
})

test("a crowd of one client is one client", async () => {
  const { begun, ask, run } = lane()
  for (let i = 0; i < 5; i++) void ask(`crowd ${i}`, 10, "crowd")
  for (let i = 0; i < 2; i++) void ask(`other ${i}`, 10, "other")
  await run()
  expect(begun.slice(0, 5)).toEqual(["crowd 0", "crowd 1", "other 0", "crowd 2", "other 1"])
})

test("what is small is not behind all the large things of many clients, and they still come", async () => {
  const { begun, ask, run } = lane()
  for (let i = 0; i < 60; i++) void ask(`large ${i}`, 420, `client ${i}`)
  void ask("small", 10, "small")
  await run()
  expect(begun.indexOf("small")).toBe(1)
  const stream = lane()
  void stream.ask("first", 10, "stream")
  void stream.ask("large", 420, "large")
  for (let i = 0; i < 100; i++) void stream.ask("next", 10, "stream")
  await stream.run()
  expect(stream.begun.indexOf("large")).toBeLessThan(45)
})

test("who leaves is let go at once; what has not begun never does, and what has keeps its place", async () => {
  const { begun, ask, run } = lane()
  const leaving = [new AbortController(), new AbortController()]
  const asked = leaving.map(({ signal }, i) => ask(`left ${i}`, 1, "", signal))
  const stays = ask("stays", 1, "")
  for (const each of leaving) each.abort(new Error("gone"))
  for (const each of asked) await expect(each).rejects.toThrow("gone")
  expect(begun).toEqual(["left 0"])
  await run()
  expect(await stays).toBe("stays")
  expect(begun).toEqual(["left 0", "stays"])
  await expect(ask("late", 1, "", leaving[0]!.signal)).rejects.toThrow("gone")
})

test("too much is refused, and of whom: the one who has most waiting", async () => {
  const { begun, ask, run } = lane({ size: 30 })
  void ask("running", 100, "crowd")
  const crowd = [ask("1", 10, "crowd"), ask("2", 10, "crowd"), ask("3", 10, "crowd")]
  const refused = expect(crowd[2]).rejects.toMatchObject({ code: "queue_full", status: 429 })
  const other = ask("other", 10, "other")
  await refused
  await expect(ask("4", 10, "crowd")).rejects.toMatchObject({ code: "queue_full" })
  await run()
  expect(await other).toBe("other")
  expect(begun).toEqual(["running", "1", "other", "2"])
})

test("only so many wait, whatever their size", async () => {
  const { ask, run } = lane({ count: 2 })
  const asked = [1, 2, 3].map((name) => ask(`${name}`, 1, ""))
  await expect(ask("4", 1, "")).rejects.toMatchObject({ code: "queue_full" })
  await run()
  expect(await Promise.all(asked)).toEqual(["1", "2", "3"])
})

test("something larger than may wait is done when nothing else waits", async () => {
  const { ask, run } = lane({ size: 30 })
  void ask("running", 1, "")
  const huge = ask("huge", 100, "huge")
  await run()
  expect(await huge).toBe("huge")
})

test("closed, it begins nothing", async () => {
  const { lane: made, begun, ask, run } = lane()
  const running = ask("running", 1, "")
  const waiting = expect(ask("waiting", 1, "")).rejects.toMatchObject({ code: "server_closing" })
  made.close()
  await waiting
  await run()
  expect(await running).toBe("running")
  expect(begun).toEqual(["running"])
  await expect(ask("late", 1, "")).rejects.toMatchObject({ code: "server_closing" })
})
