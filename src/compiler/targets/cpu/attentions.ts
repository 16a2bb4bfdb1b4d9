// Attention whose shape is told when it is run: a generic library's, and that of heads so narrow that any model is quick with them.

import type { numbers } from "./kinds.ts"
import type { Unit } from "./products.ts"

/** What is compiled for it, whatever the shape: the struct that it is handed, where the shape stands in that, and what it does. */
const told = {
  attention: {
    loop: "attention_loop",
    at: "loop->attention",
    lines: ["attention_item(loop, a, index, thread);"],
  },
  pieces: {
    loop: "pieces_loop",
    at: "loop->items.attention",
    lines: ["a.latent = 0, a.buckets = 0;", "attention_piece_item(loop, a, index, thread);"],
  },
  indexer: {
    loop: "indexer_loop",
    at: "loop->items.attention",
    lines: ["indexer_item(loop, a, index);"],
  },
} as const

export type AttentionUnit = keyof typeof told
export const attentionUnits = Object.keys(told) as AttentionUnit[]

/** @param number what keys and values are kept in */
export function toldUnit(unit: AttentionUnit, number: (typeof numbers)[number]): Unit {
  const { loop, at, lines } = told[unit]
  return {
    body: [
      "void NAME(void *context, int64_t index, int32_t thread) {",
      `  const struct ${loop} *loop = context;`,
      `  struct attention a = *${at};`,
      `  a.number = ${number};`,
      ...lines.map((line) => `  ${line}`),
      "}",
    ],
  }
}
