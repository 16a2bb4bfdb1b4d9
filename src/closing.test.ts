import { setImmediate as breathe } from "node:timers/promises"
import { expect, test } from "vitest"
import { Closing, openWhole } from "./closing.ts"

/** Parts that write down when their closing begins and when it ends. */
function parts() {
  const said: string[] = []
  const part = (name: string, failure?: Error) => ({
    async close() {
      said.push(`${name}…`)
      await breathe()
      said.push(name)
      if (failure) throw failure
    },
  })
  return { said, part }
}

test("the newest is closed first, and the next one when that is done", async () => {
  const { said, part } = parts()
  const closing = new Closing()
  const first = part("first")
  expect(closing.add(first)).toBe(first)
  closing.add(part("second"))
  closing.add({ close: () => void said.push("third") }) // at once
  await closing.close()
  expect(said).toEqual(["third", "second…", "second", "first…", "first"])
})

test("whoever closes again waits for the same end, and nothing is closed twice", async () => {
  const { said, part } = parts()
  const closing = new Closing()
  closing.add(part("only"))
  await Promise.all([closing.close(), closing.close()])
  await closing.close()
  expect(said).toEqual(["only…", "only"])
})

test("one that fails keeps none of the others open, and is told", async () => {
  const { said, part } = parts()
  const closing = new Closing()
  const failure = new Error("it would not close")
  for (const each of [part("a"), part("b", failure), part("c")]) closing.add(each)
  await expect(closing.close()).rejects.toBe(failure)
  expect(said.filter((name) => !name.endsWith("…"))).toEqual(["c", "b", "a"])
  await expect(closing.close()).rejects.toBe(failure)
})

test("of several that fail all are told", async () => {
  const { part } = parts()
  const closing = new Closing()
  const failures = [new Error("one"), new Error("two")]
  for (const failure of failures) closing.add(part(failure.message, failure))
  await expect(closing.close()).rejects.toMatchObject({ errors: failures.toReversed() })
})

test("what would never be closed is refused", async () => {
  const { part } = parts()
  const closing = new Closing()
  const closed = closing.close()
  expect(() => closing.add(part("late"))).toThrow("internal: ")
  await closed
})

test("a whole that fails half-way closes its parts and says why it failed", async () => {
  const { said, part } = parts()
  const why = new Error("there is no third")
  const failure = new Error("it would not close")
  const opening = openWhole(async (closing) => {
    closing.add(part("first"))
    closing.add(part("second", failure))
    await breathe()
    throw why
  })
  await expect(opening).rejects.toBe(why)
  expect(said).toEqual(["second…", "second", "first…", "first"])
  expect(why.cause).toBe(failure)
})

test("the parts of a whole that opens are its own to close", async () => {
  const { said, part } = parts()
  const whole = await openWhole(async (closing) => {
    closing.add(part("only"))
    return { close: () => closing.close() }
  })
  expect(said).toEqual([])
  await whole.close()
  expect(said).toEqual(["only…", "only"])
})
