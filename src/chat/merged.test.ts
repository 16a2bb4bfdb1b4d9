import { expect, test } from "vitest"
import { merged } from "./merged.ts"

async function* count(to: number) {
  for (let i = 0; i < to; i++) yield i
}

/** Never says anything. */
const silent = { next: () => new Promise<never>(() => {}), return: async () => undefined }

test("values come as they happen, and who is left is told what was of use", async () => {
  const told: (number | undefined)[] = []
  const watched = (to: number) => {
    const values = count(to)
    return {
      next: () => values.next(),
      return: async (used?: number) => {
        told.push(used)
        return values.return()
      },
    }
  }
  const seen: [number, number][] = []
  for await (const { index, value, leave } of merged([watched(3), watched(100), watched(100)])) {
    seen.push([index, value])
    if (index === 1 && value === 1) leave(7)
    if (value === 5) break
  }
  expect(seen.filter(([index]) => index === 0).map(([, value]) => value)).toEqual([0, 1, 2])
  expect(seen.filter(([index]) => index === 1).map(([, value]) => value)).toEqual([0, 1])
  expect(told).toEqual([7, undefined])
})

test("what one of them throws ends them all", async () => {
  async function* broken(): AsyncGenerator<number> {
    yield 1
    throw new Error("gone")
  }
  let left = 0
  const other = {
    ...silent,
    return: async () => {
      left++
    },
  }
  const read = async () => {
    for await (const _ of merged<number>([other, broken()])) {
    }
  }
  await expect(read()).rejects.toThrow("gone")
  expect(left).toBe(1)
})

test("one alone is asked for each value in its turn, and left once", async () => {
  const told: (number | undefined)[] = []
  const watched = () => {
    const values = count(5)
    return {
      next: () => values.next(),
      return: async (used?: number) => {
        told.push(used)
        return values.return()
      },
    }
  }
  const seen: number[] = []
  for await (const { value } of merged([watched()])) seen.push(value)
  expect(seen).toEqual([0, 1, 2, 3, 4])
  expect(told).toEqual([])
  for await (const { value, leave } of merged([watched()])) if (value === 2) leave(7)
  for await (const { value } of merged([watched()])) if (value === 2) break
  expect(told).toEqual([7, undefined])
})
