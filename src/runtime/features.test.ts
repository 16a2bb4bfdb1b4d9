import { expect, test } from "vitest"
import { parseFeatures } from "./features.ts"

test("features of x86 and ARM, and only those that every core has", () => {
  const x86 = "model name\t: x\nflags\t\t: fpu avx2 fma\n\nflags\t\t: fpu avx2\n"
  expect([...parseFeatures(x86)]).toEqual(["fpu", "avx2"])
  expect(parseFeatures("Features\t: fp asimd asimddp\n").has("asimddp")).toBe(true)
  expect(parseFeatures("").size).toBe(0)
})
