import { expect, test } from "vitest"
import { PrefixCache, UNKNOWN } from "./prefix-cache.ts"

const tokens = Int32Array.from({ length: 48 }, (_, i) => i * i)
const other = tokens.with(20, 7)

test("a block is found by its parent and all its tokens", () => {
  const cache = new PrefixCache(8)
  const root = cache.root("key")
  expect(cache.enter(root, tokens, 0, 3)).toBe(3)
  expect(cache.enter(cache.serial(3), tokens, 16, 5)).toBe(5)
  expect(cache.find(root, tokens, 0)).toBe(3)
  expect(cache.find(cache.serial(3), tokens, 16)).toBe(5)
  expect(cache.find(root, tokens, 16)).toBeUndefined()
  expect(cache.find(cache.serial(3), other, 16)).toBeUndefined()
  expect(cache.size).toBe(2)
})

test("where all keys collide, tokens and parents still decide", () => {
  const cache = new PrefixCache(8, () => 1)
  const root = cache.root("key")
  cache.enter(root, tokens, 0, 3)
  expect(cache.find(root, tokens, 0)).toBe(3)
  expect(cache.find(root, tokens.with(15, 7), 0)).toBeUndefined()
  expect(cache.find(cache.root("another"), tokens, 0)).toBeUndefined()
  expect(cache.enter(root, tokens.with(0, 7), 0, 5)).toBe(5)
  expect(cache.find(root, tokens, 0)).toBeUndefined()
})

test("what is known already keeps its block", () => {
  const cache = new PrefixCache(8)
  const root = cache.root("")
  cache.enter(root, tokens, 0, 1)
  expect(cache.enter(root, tokens, 0, 2)).toBe(1)
  expect(cache.has(2)).toBe(false)
})

test("scopes share nothing", () => {
  const cache = new PrefixCache(8)
  cache.enter(cache.root("a"), tokens, 0, 1)
  expect(cache.find(cache.root("b"), tokens, 0)).toBeUndefined()
  expect(cache.find(cache.root("a"), tokens, 0)).toBe(1)
})

test("the children of a forgotten block are not found again, although it comes back", () => {
  const cache = new PrefixCache(8)
  const root = cache.root("")
  cache.enter(root, tokens, 0, 1)
  cache.enter(cache.serial(1), tokens, 16, 2)
  cache.forget(1)
  expect(cache.serial(1)).toBe(UNKNOWN)
  cache.enter(root, tokens, 0, 4)
  expect(cache.find(cache.serial(4), tokens, 16)).toBeUndefined()
  cache.enter(root, other.subarray(16), 0, 1) // nor where its block holds something else
  expect(cache.find(cache.serial(1), tokens, 16)).toBeUndefined()
})
