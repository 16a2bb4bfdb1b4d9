import { expect, test } from "vitest"
import { Blocks } from "./blocks.ts"
import { PrefixCache } from "./prefix-cache.ts"

const tokens = Int32Array.from({ length: 64 }, (_, i) => i)

function setUp(total: number) {
  const cache = new PrefixCache(total)
  return { cache, blocks: new Blocks(total, cache) }
}

test("a block is free again when the last who holds it lets go", () => {
  const { blocks } = setUp(2)
  const block = blocks.take()
  blocks.hold(block)
  blocks.letGo(block)
  expect(blocks.used).toBe(1)
  blocks.audit([[block]])
  blocks.letGo(block)
  expect(blocks.free).toBe(2)
  blocks.audit([])
  expect(() => blocks.letGo(block)).toThrow(/internal/)
})

test("worthless blocks are taken first, then those let go longest ago, and then they are forgotten", () => {
  const { blocks, cache } = setUp(3)
  const [first, second, third] = [blocks.take(), blocks.take(), blocks.take()]
  expect(() => blocks.take()).toThrow(/no free block/)
  const root = cache.root("")
  cache.enter(root, tokens, 0, first)
  cache.enter(root, tokens, 16, second)
  for (const block of [second, first, third]) blocks.letGo(block)
  expect([blocks.take(), blocks.take()]).toEqual([third, second])
  expect(cache.find(root, tokens, 16)).toBeUndefined()
  expect(cache.find(root, tokens, 0)).toBe(first)
})

test("a block that others hold or may find is not written into", () => {
  const { blocks, cache } = setUp(2)
  const block = blocks.take()
  expect(blocks.isWritable(block)).toBe(true)
  blocks.hold(block)
  expect(blocks.isWritable(block)).toBe(false)
  blocks.letGo(block)
  cache.enter(cache.root(""), tokens, 0, block)
  expect(blocks.isWritable(block)).toBe(false)
})

test("the audit finds what nobody lists and what is listed once too often", () => {
  const { blocks } = setUp(2)
  const block = blocks.take()
  expect(() => blocks.audit([])).toThrow(/1 owners, 0 hold it/)
  expect(() => blocks.audit([[block], [block]])).toThrow(/1 owners, 2 hold it/)
})
