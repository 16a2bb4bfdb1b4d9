// What is done to a value by itself, in one table: how the reference computes it, what the cpu's kernels call it
// (cpu/kernels/functions.h) and how a GPU's kernels spell it (gpu/kernels/numbers.ts), operation for operation, so that the bits
// are equal. A function that takes a number beside the value is written `cap(30)` in graphs and plans. Those of `activations`
// can end a product, too, as its gate.

import type { Builder, Value } from "../targets/gpu/ir/builder.ts"
import * as gpu from "../targets/gpu/kernels/numbers.ts"
import {
  above,
  cap,
  clip,
  expGap,
  exponential,
  gelu,
  geluTanh,
  inverseRoot,
  quickGelu,
  relu2,
  scale,
  sigmoid,
  silu,
  softplus,
} from "../targets/reference/arithmetic.ts"

export const elementwise = {
  silu: { js: silu, c: (x) => `vec_silu(${x})`, gpu: gpu.silu },
  gelu: { js: gelu, c: (x) => `vec_gelu(${x})`, gpu: gpu.gelu },
  gelu_tanh: { js: geluTanh, c: (x) => `vec_gelu_tanh(${x})`, gpu: gpu.geluTanh },
  quick_gelu: { js: quickGelu, c: (x) => `vec_quick_gelu(${x})`, gpu: gpu.quickGelu },
  relu2: { js: relu2, c: (x) => `vec_relu2(${x})`, gpu: gpu.relu2 },
  exp_gap: { js: expGap, c: (x) => `vec_exp_gap(${x})`, gpu: gpu.expGap },
  exp: { js: exponential, c: (x) => `vec_exponential(${x})`, gpu: gpu.exponential },
  softplus: {
    js: (x) => Math.fround(softplus(x) + x * 0), // which shows what is no number
    c: (x) => `vec_softplus(${x})`,
    gpu: (k, x) => gpu.softplus(k, x).add(x.mul(0)),
  },
  sigmoid: { js: sigmoid, c: (x) => `vec_sigmoid(${x})`, gpu: gpu.sigmoid },
  above: { js: above, c: (x, by) => `vec_above(${x}, ${by})`, gpu: gpu.above },
  clip: { js: clip, c: (x, by) => `vec_clip(${x}, ${by})`, gpu: gpu.clip },
  cap: { js: cap, c: (x, by) => `vec_cap(${x}, ${by})`, gpu: gpu.cap },
  inverse_root: {
    js: inverseRoot,
    c: (x, by) => `vec_inverse_root(${x}, ${by})`,
    gpu: gpu.inverseRoot,
  },
  scale: { js: scale, c: (x, by) => `vec_mul(${x}, vec_set(${by}))`, gpu: gpu.scale },
} as const satisfies Record<
  string,
  {
    /** Of a float, to a float. */
    js: (x: number, by: number) => number
    /** Of a vector's name, and of `by` as a float literal. */
    c: (x: string, by: string) => string
    /** Of a value in a kernel. */
    gpu: (k: Builder, x: Value, by: number) => Value
  }
>

export type ElementwiseName = keyof typeof elementwise

/** Those that a gated product may end with, as `enum epilogue` of kernels/operands.h names them. */
export const activations = ["silu", "gelu", "gelu_tanh", "quick_gelu", "relu2"] as const

export type Activation = (typeof activations)[number]
