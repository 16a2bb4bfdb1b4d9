import { expect, test } from "vitest"
import { LruMap } from "./lru.ts"

test("of three where there is room for two, the one used longest ago is gone", () => {
  const kept = new LruMap<{ name: string }>(2)
  const [a, b, c] = ["a", "b", "c"].map((name) => kept.put(name, { name }))
  expect([kept.get("a"), kept.get("b"), kept.get("c")]).toEqual([undefined, b, c])
  kept.get("b")
  kept.put("a", a!)
  expect([kept.get("a"), kept.get("b"), kept.get("c")]).toEqual([a, b, undefined])
})
