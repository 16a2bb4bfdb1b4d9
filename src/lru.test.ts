import { expect, test } from "vitest"
import { LruMap } from "./lru.ts"

const kept = <T extends object>(map: LruMap<T>, keys: string) =>
  keys
    .split("")
    .filter((key) => map.get(key) !== undefined)
    .join("")

test("who was used longest ago is forgotten first", () => {
  const map = new LruMap<object>(2)
  map.put("a", {})
  map.put("b", {})
  map.get("a")
  map.put("c", {})
  expect(kept(map, "abc")).toBe("ac")
})

test("sizes count where there are some, and one alone may have any", () => {
  const map = new LruMap<{ size: number }>(10, ({ size }) => size)
  for (const key of "abc") map.put(key, { size: 3 })
  map.put("a", { size: 4 }) // in the place of the other
  expect(kept(map, "bca")).toBe("bca")
  map.put("d", { size: 7 })
  expect(kept(map, "abcd")).toBe("d")
  map.put("e", { size: 50 })
  expect(kept(map, "de")).toBe("e")
  map.delete("e")
  map.put("f", { size: 10 })
  expect(kept(map, "ef")).toBe("f")
})
