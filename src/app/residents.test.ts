// Which of several are open, on values that only say what happens to them.

import { setImmediate as turn } from "node:timers/promises"
import { afterEach, expect, test, vi } from "vitest"
import { Residents, type ResidentsOptions } from "./residents.ts"

afterEach(() => void vi.useRealTimers())

interface Value {
  name: string
  close(): Promise<void>
}

function residents(options: Partial<ResidentsOptions> = {}) {
  const events: string[] = []
  const broken = { prepare: new Set<string>(), open: new Set<string>() }
  const stuck = new Set<string>()
  const source = (name: string) => ({
    prepare: async () => {
      if (broken.prepare.has(name)) throw new Error(`no ${name}`)
      return {
        open: async (): Promise<Value> => {
          await turn()
          if (broken.open.has(name)) throw new Error(`broken ${name}`)
          events.push(`+${name}`)
          const close = async () => {
            await turn()
            if (stuck.has(name)) throw new Error(`stuck ${name}`)
            events.push(`-${name}`)
          }
          return { name, close }
        },
        close: async () => {
          events.push(`given up ${name}`)
          await turn()
        },
      }
    },
  })
  const onError = (error: unknown) => {
    throw error
  }
  const settings = { most: 1, maxWaiting: 10, onError, ...options }
  const all = new Residents<Value>(["a", "b", "c"].map(source), settings)
  return { all, events, broken, stuck }
}

const settle = async () => {
  for (let i = 0; i < 10; i++) await turn()
}

test("the least recently used makes room", async () => {
  const { all, events } = residents({ most: 2 })
  for (const index of [0, 1, 0]) (await all.lease(index)).release()
  const { value, release } = await all.lease(2)
  expect(value.name).toBe("c")
  release()
  expect(events).toEqual(["+a", "+b", "-b", "+c"])
  expect([0, 1, 2].map((index) => all.at(index)?.name)).toEqual(["a", undefined, "c"])
})

test("one that is used is closed when it is used no more, and who comes for it then waits", async () => {
  const { all, events } = residents()
  const first = await all.lease(0)
  const second = all.lease(1)
  await settle()
  const third = all.lease(0)
  await settle()
  expect(events).toEqual(["+a"])
  first.release()
  first.release() // once is enough
  ;(await second).release()
  expect((await third).value.name).toBe("a")
  expect(events).toEqual(["+a", "-a", "+b", "-b", "+a"])
})

test("all who wait for one are served together", async () => {
  const { all, events } = residents()
  const held = await all.lease(0)
  const first = all.lease(1)
  await settle()
  const waiting = [first, ...[0, 1, 2, 1].map((index) => all.lease(index))]
  held.release()
  for (const lease of waiting) void lease.then(({ release }) => release())
  await Promise.all(waiting)
  expect(events).toEqual(["+a", "-a", "+b", "-b", "+a", "-a", "+c"])
})

test("nothing is closed for whoever has left", async () => {
  const { all, events } = residents()
  const held = await all.lease(0)
  const leaving = new AbortController()
  const left = all.lease(1, leaving.signal)
  await settle()
  const next = all.lease(0)
  leaving.abort(new Error("left"))
  await expect(left).rejects.toThrow("left")
  expect((await next).value).toBe(held.value)
  expect(events).toEqual(["+a", "given up b"])
  await expect(all.lease(1, leaving.signal)).rejects.toThrow("left")
})

test("who comes while another's wish is being given up is served all the same", async () => {
  const { all, events } = residents()
  const held = await all.lease(0)
  const leaving = new AbortController()
  const left = all.lease(1, leaving.signal)
  await settle()
  leaving.abort()
  await expect(left).rejects.toThrow()
  const again = all.lease(1)
  await settle()
  held.release()
  const { value, release } = await again
  expect(value.name).toBe("b")
  release()
  ;(await all.lease(0)).release()
  expect(events).toEqual(["+a", "given up b", "-a", "+b", "-b", "+a"])
})

test("what cannot be prepared closes no other, and what cannot be opened is not tried again at once", async () => {
  const { all, events, broken } = residents()
  ;(await all.lease(0)).release()
  broken.prepare.add("b")
  await expect(all.lease(1)).rejects.toThrow("no b")
  expect(events).toEqual(["+a"])
  broken.open.add("c")
  await expect(all.lease(2)).rejects.toThrow("broken c")
  expect(events.splice(0)).toEqual(["+a", "-a", "given up c"])
  broken.prepare.clear()
  broken.open.clear()
  await expect(all.lease(2)).rejects.toThrow("broken c")
  expect((await all.lease(1)).value.name).toBe("b")
  expect(events).toEqual(["+b"])
})

test("what nobody uses for long is closed, and opened again", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
  const { all, events } = residents({ idle: 1000 })
  const [one, two] = [await all.lease(0), await all.lease(0)]
  one.release()
  vi.advanceTimersByTime(2000)
  two.release()
  vi.advanceTimersByTime(999)
  ;(await all.lease(0)).release()
  vi.advanceTimersByTime(999)
  await settle()
  expect(events).toEqual(["+a"])
  vi.advanceTimersByTime(1)
  const again = all.lease(0) // while it is being closed
  expect((await again).value.name).toBe("a")
  expect(events).toEqual(["+a", "-a", "+a"])
})

test("only so many wait, and all of them are told of the end", async () => {
  const { all, events } = residents({ maxWaiting: 2 })
  await all.lease(0)
  const waiting = [all.lease(1), all.lease(2)]
  await expect(all.lease(1)).rejects.toMatchObject({ code: "queue_full" })
  for (const lease of waiting) lease.catch(() => {})
  await all.close()
  for (const lease of waiting) await expect(lease).rejects.toMatchObject({ code: "not_ready" })
  await expect(all.lease(0)).rejects.toMatchObject({ code: "not_ready" })
  expect(events.at(-1)).toBe("-a")
})

test("one that cannot be closed keeps no other open, at the end, and speaks against no other before", async () => {
  const { all, events, stuck } = residents()
  ;(await all.lease(0)).release()
  stuck.add("a")
  await expect(all.lease(1)).rejects.toThrow("stuck a")
  ;(await all.lease(1)).release() // its place is free
  expect(events.splice(0)).toEqual(["+a", "given up b", "+b"])
  const { all: two, stuck: both, events: told } = residents({ most: 2 })
  for (const index of [0, 1]) (await two.lease(index)).release()
  both.add("b")
  await expect(two.close()).rejects.toThrow("stuck b")
  expect(told).toEqual(["+a", "+b", "-a"])
})
