// Kernels that are made up, before any device sees them: that they are sound, and say enough.

import { expect, test } from "vitest"
import { twinOf } from "../../src/compiler/targets/gpu/check-device.ts"
import { checkKernel } from "../../src/compiler/targets/gpu/ir/check.ts"
import { randomCases } from "./random-kernels.ts"

test("kernels that a seed makes up are well formed, and sound in every order of threads", () => {
  const cases = randomCases(40)
  let numbers = 0
  for (const each of cases) {
    checkKernel(each.kernel)
    for (const output of twinOf(each).slice(-4)) numbers += new Set<number>(output).size
  }
  // A kernel that computes little hides much: these have 240 different numbers each.
  expect(numbers / cases.length).toBeGreaterThan(150)
  const text = JSON.stringify(cases.map(({ kernel }) => kernel.body))
  const kinds = new Set(Array.from(text.matchAll(/"(?:kind|name)":"(\w+)"/g), ([, kind]) => kind))
  const said = [
    ..."let variable assign load store atomicAdd for if barrier".split(" "), // statements
    ..."constant value operand lane group groups binary unary select fma".split(" "),
    ..."add sub mul div rem min max and or xor shl shr eq ne lt le mulHigh".split(" "),
    ..."neg abs sqrt not float whole i32 u32 f32 buffer shared".split(" "),
  ]
  expect(kinds).toEqual(new Set(said))
})
