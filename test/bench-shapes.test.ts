// The benchmark's shapes: each is a model that opens, and a mixture is set beside the dense shape of the weights that a token meets.

import { expect, test } from "vitest"
import { limitedBy } from "../bench/contenders/engine.ts"
import { denseOf, graphOf, type ShapeName, shapes } from "../bench/shapes.ts"
import { planOf } from "../src/app/plan.ts"
import { targets } from "../src/compiler/targets/targets.ts"

const planFor = (shape: ShapeName) =>
  planOf({ graph: graphOf(shape) }, "q4f16_1", {}, targets.cpu.traits)

test.each(Object.keys(shapes) as ShapeName[])("%s can be compiled", (shape) => {
  const { architecture, shapes: made } = planFor(shape)
  const { model_type, vocab_size } = shapes[shape]
  expect([architecture, made.vocabulary]).toEqual([model_type, vocab_size])
})

test("what a token meets of a mixture is the dense shape and the routers", () => {
  const mixture = limitedBy(planFor("0.6B-of-8"))
  const dense = limitedBy(planFor(denseOf("0.6B-of-8")))
  const { num_hidden_layers, num_experts, hidden_size } = shapes["0.6B-of-8"]
  const routers = num_hidden_layers * num_experts * hidden_size
  expect(mixture.operations - dense.operations).toBe(2 * routers)
  expect(mixture.weightBytes - dense.weightBytes).toBe(4 * routers) // floats
  expect([mixture.isMixture, dense.isMixture]).toEqual([true, false])
  expect(() => denseOf("1B")).toThrow("no dense shape")
})

test("half of Qwen3-30B-A3B has as many weights as its name says", () => {
  const { operations } = limitedBy(planFor("16B-A2B"))
  expect(operations / 2e9).toBeCloseTo(1.36, 1) // beside 0.62 of the vocabulary's
})
