// Functions of attention, in files of their own. Their shape is known when they are compiled, or told when they are run: a generic
// library's, and that of heads so narrow that any model is quick with them.

import type { numbers } from "./kinds.ts"
import type { Unit } from "./products.ts"

/** The struct that each is handed, where a shape that is told stands in it, and what is done with a shape `a`. */
const units = {
  attention: {
    loop: "attention_loop",
    told: "loop->attention",
    unused: "",
    call: "attention_item(loop, a, index, thread);",
  },
  pieces: {
    loop: "pieces_loop",
    told: "loop->items.attention",
    unused: "a.latent = 0, a.buckets = 0;",
    call: "attention_piece_item(loop, a, index, thread);",
  },
  indexer: {
    loop: "indexer_loop",
    told: "loop->items.attention",
    unused: "",
    call: "indexer_item(loop, a, index);",
  },
} as const

export type AttentionUnit = keyof typeof units
export const attentionUnits = Object.keys(units) as AttentionUnit[]

/** @param shape a struct attention in C */
export function knownUnit(unit: AttentionUnit, shape: string): Unit {
  return unitOf(unit, [`const struct attention a = ${shape};`])
}

/** @param number what keys and values are kept in */
export function toldUnit(unit: AttentionUnit, number: (typeof numbers)[number]): Unit {
  const { told, unused } = units[unit]
  const lines = [`struct attention a = *${told};`, `a.number = ${number};`]
  return unitOf(unit, unused ? [...lines, unused] : lines)
}

function unitOf(unit: AttentionUnit, shape: readonly string[]): Unit {
  const { loop, call } = units[unit]
  const lines = [`const struct ${loop} *loop = context;`, ...shape, call]
  const begin = "void NAME(void *context, int64_t index, int32_t thread) {"
  return { body: [begin, ...lines.map((line) => `  ${line}`), "}"] }
}
