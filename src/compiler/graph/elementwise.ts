// What is done to a value by itself, in one table: how the reference computes it and what the cpu's kernels call it
// (kernels/functions.h, operation for operation, so that the bits are equal). A function that takes a number beside the
// value is written `cap(30)` in graphs and plans. Those of `activations` can end a product, too, as its gate.

import {
  cap,
  gelu,
  geluTanh,
  relu2,
  scale,
  sigmoid,
  silu,
} from "../targets/reference/arithmetic.ts"

export const elementwise = {
  silu: { js: silu, c: (x) => `vec_silu(${x})` },
  gelu: { js: gelu, c: (x) => `vec_gelu(${x})` },
  gelu_tanh: { js: geluTanh, c: (x) => `vec_gelu_tanh(${x})` },
  relu2: { js: relu2, c: (x) => `vec_relu2(${x})` },
  sigmoid: { js: sigmoid, c: (x) => `vec_sigmoid(${x})` },
  cap: { js: cap, c: (x, by) => `vec_cap(${x}, ${by})` },
  scale: { js: scale, c: (x, by) => `vec_mul(${x}, vec_set(${by}))` },
} as const satisfies Record<
  string,
  {
    /** Of a float, to a float. */
    js: (x: number, by: number) => number
    /** Of a vector's name, and of `by` as a float literal. */
    c: (x: string, by: string) => string
  }
>

export type ElementwiseName = keyof typeof elementwise

/** Those that a gated product may end with, as `enum epilogue` of kernels/operands.h names them. */
export const activations = ["silu", "gelu", "gelu_tanh", "relu2"] as const

export type Activation = (typeof activations)[number]
