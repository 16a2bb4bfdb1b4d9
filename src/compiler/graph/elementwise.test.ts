// The reference's functions of single elements against the formulas they stand for, in doubles. The C kernels are held to
// the same by test/device/kernels.c, and to these bit by bit by test/model/cpu.test.ts.

import { expect, test } from "vitest"
import { type ElementwiseName, elementwise } from "./elementwise.ts"

const BY = 5.5

/** The integral of e^(-t^2) by Simpson's rule: JavaScript has no erf. */
function erf(x: number): number {
  const n = 2000
  const f = (i: number) =>
    Math.exp(-(((x * i) / n) ** 2)) * (i === 0 || i === n ? 1 : i % 2 ? 4 : 2)
  const sum = Array.from({ length: n + 1 }, (_, i) => f(i)).reduce((a, b) => a + b)
  return ((2 / Math.sqrt(Math.PI)) * sum * x) / n / 3
}

const exact: Record<ElementwiseName, (x: number) => number> = {
  silu: (x) => x / (1 + Math.exp(-x)),
  gelu: (x) => (x * (1 + erf(x / Math.SQRT2))) / 2,
  gelu_tanh: (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  quick_gelu: (x) => x / (1 + Math.exp(-1.702 * x)),
  relu2: (x) => Math.max(x, 0) ** 2,
  above: (x) => Math.max(x - BY, 0),
  clip: (x) => Math.max(-BY, Math.min(x, BY)),
  exp_gap: (x) => (x < 0 ? Math.expm1(x) - x : 0),
  exp: (x) => Math.exp(x),
  softplus: (x) => Math.log1p(Math.exp(x)),
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  cap: (x) => BY * Math.tanh(x / BY),
  inverse_root: (x) => 1 / Math.sqrt(x + BY),
  scale: (x) => x * BY,
}

test.each(Object.entries(elementwise))("%s", (name, { js }) => {
  for (let at = -12; at < 12; at += 0.173) {
    const x = Math.fround(at)
    const wanted = exact[name as ElementwiseName](x)
    const size = Math.abs(x) + 1
    const sizes: Partial<Record<string, number>> = {
      relu2: size ** 2,
      scale: size ** 2,
      exp: wanted,
    }
    if (Number.isNaN(wanted)) expect(js(x, BY)).toBeNaN()
    else expect(Math.abs(js(x, BY) - wanted) / (sizes[name] ?? size)).toBeLessThan(4e-7)
  }
  for (const x of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
    expect(Number.isFinite(js(x, BY))).toBe(false)
})
