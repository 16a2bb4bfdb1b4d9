// The gated delta rule and selective state spaces on the slow twin, bit for bit the reference's: a sequence that goes on from a
// state and one that begins.

import { expect, test } from "vitest"
import { mulberry32 } from "../../../../../test/random.ts"
import { NO_STATE } from "../../../../runtime/gpu/regions.ts"
import { type Delta, decayColumns, keyHeadOf, ratesOfHead } from "../../../graph/graph.ts"
import type { Plan, Step } from "../../../plan.ts"
import * as reference from "../../reference/kernels.ts"
import { checkKernel } from "../ir/check.ts"
import { Memory, runKernel } from "../ir/run.ts"
import { strideOf } from "../layout.ts"
import { deltaLaunches } from "./delta.ts"

const STATES = 4
const starts = [0, 5, 6]
const TOKENS = 6
/** Of each sequence, the state before and behind it. */
const states = [
  [2, 0],
  [NO_STATE, 3],
]

test.each<Omit<Delta, "layer">>([
  { keyHeads: 1, valueHeads: 2, keyDim: 6, valueDim: 84 },
  { keyHeads: 3, valueHeads: 3, keyDim: 70, valueDim: 5 },
  { keyHeads: 10, valueHeads: 20, keyDim: 8, valueDim: 32 },
  { keyHeads: 2, valueHeads: 6, keyDim: 4, valueDim: 8, tiled: true },
  { given: true, keyHeads: 2, valueHeads: 4, keyDim: 6, valueDim: 40 },
  { given: true, keyHeads: 3, valueHeads: 3, keyDim: 70, valueDim: 5 },
  { selective: true, keyHeads: 1, valueHeads: 3, keyDim: 7, valueDim: 40 },
  { selective: true, keyHeads: 2, valueHeads: 4, keyDim: 16, valueDim: 6 },
  { selective: true, by: "number", keyHeads: 1, valueHeads: 3, keyDim: 16, valueDim: 40 },
  { selective: true, by: "number", keyHeads: 1, valueHeads: 4, keyDim: 5, valueDim: 6 },
])("%o", (heads) => {
  const { keyHeads, valueHeads, keyDim, valueDim, selective, by, given } = heads
  const next = mulberry32(keyDim)
  const floats = (length: number) =>
    Float32Array.from({ length }, () => (next() / 2 ** 31 - 1) * 2 ** (next() % 5))
  const ofKeys = 2 * keyHeads * keyDim
  const ofColumns = (by ? 0 : ofKeys) + valueHeads * valueDim
  const widths = [ofColumns, decayColumns(heads), by ? ofKeys : valueHeads]
  const shift = 3 // of the rows' first column
  const buffers = [...widths.map((width) => width + shift), valueHeads * valueDim].map(
    (columns) => ({ capacity: "tokens", columns, dtype: "f32" }),
  ) as Plan["buffers"]
  const view = (buffer: number) => ({ buffer, from: shift, columns: widths[buffer]! })
  const step = {
    rows: "tokens",
    op: "delta",
    input: view(0),
    decays: view(1),
    shares: selective ? undefined : view(2),
    keys: by ? view(2) : undefined,
    decay: given ? undefined : 0,
    bias: given || by ? undefined : 1,
    skip: selective ? 2 : undefined,
    delta: { layer: 0, ...heads },
    place: { group: 0, layer: 0 },
    output: { buffer: 3, from: 0, columns: valueHeads * valueDim },
  } satisfies Step
  const strides = buffers.map(strideOf)
  const rows = strides.map((stride) => floats(TOKENS * stride))
  rows[1]![strides[1]! + shift] = -60 // a share of next to nothing
  rows[1]![2 * strides[1]! + shift] = 60
  const each = ratesOfHead(heads)
  const vectors = [each.decay, 1, each.skip].map((ofHead) => floats(valueHeads * ofHead))
  const size = Math.ceil((valueHeads * keyDim * valueDim) / 4) * 4 // whole fours
  const before = floats(STATES * size)

  const out = new Memory(4 * TOKENS * strides[3]!)
  const state = Memory.of(before)
  const scratch = new Memory(1 << 20)
  for (const { kernel, operands, groups } of deltaLaunches({ buffers } as Plan, step)) {
    checkKernel(kernel)
    const memory = operands.map((binding) => {
      if (typeof binding === "number") return binding
      if (binding.kind === "buffer")
        return (binding.buffer === 3 ? out : Memory.of(rows[binding.buffer]!)).at(4 * binding.from)
      if (binding.kind === "weight") return Memory.of(vectors[binding.parameter]!)
      if (binding.kind === "kv") return state
      if (binding.kind === "scratch") return scratch
      if (binding.kind !== "step") throw new Error(binding.kind)
      const { region } = binding
      if (region.name === "count")
        return Memory.of(Uint32Array.of(region.of === "tokens" ? TOKENS : states.length))
      if (region.name === "starts") return Memory.of(Uint32Array.from(starts))
      if (region.name === "states") return Memory.of(Uint32Array.from(states.flat()))
      throw new Error(region.name)
    })
    const [x, y] = groups.map((each) => {
      if (typeof each === "number") return each
      return "rows" in each ? 8 : 4 // more than there are
    })
    runKernel(kernel, memory, [x!, y!, 1], { order: "shuffled" })
  }

  const expected = before.slice()
  const read = new Float32Array(TOKENS * strides[3]!)
  for (const [s, [from, to]] of states.entries())
    for (let head = 0; head < valueHeads; head++) {
      const at = (block: number) => block * size + head * keyDim * valueDim
      const own = expected.subarray(at(to!), at(to!) + keyDim * valueDim)
      if (from === NO_STATE) own.fill(0)
      else own.set(expected.subarray(at(from!), at(from!) + keyDim * valueDim))
      const key = keyHeadOf(heads, head) * keyDim
      for (let token = starts[s]!; token < starts[s + 1]!; token++) {
        const [row, decays, shares] = rows.map((all, i) =>
          all.subarray(token * strides[i]! + (i < 3 ? shift : 0)),
        ) as [Float32Array, Float32Array, Float32Array]
        const part = (from: number, length: number) => row.subarray(from, from + length)
        const outAt = token * strides[3]! + head * valueDim
        const [decay, bias, skip] = vectors.map((vector) => vector[head]!) as [
          number,
          number,
          number,
        ]
        const both = {
          decay: reference.decayOf(decay, decays[head]!, bias),
          out: read.subarray(outAt, outAt + valueDim),
        }
        const [keys, values] = [keyHeads * keyDim, valueHeads * valueDim]
        if (selective) {
          const keyed = by ? shares : row.subarray(values)
          const position = {
            ...{ ...both, share: reference.selectiveShare(decays[head]!, bias) },
            value: part(head * valueDim, valueDim),
            key: keyed.subarray(key, key + keyDim),
            query: keyed.subarray(keys + key, keys + key + keyDim),
          }
          const ofHead = (all: Float32Array, count: number) =>
            all.subarray(head * count, (head + 1) * count)
          if (by)
            reference.scannedState(own, position, {
              steps: ofHead(decays, valueDim),
              rates: ofHead(vectors[0]!, each.decay),
              skip: ofHead(vectors[2]!, each.skip),
            })
          else reference.selectiveState(own, position, skip)
          continue
        }
        reference.deltaRule(own, {
          ...{ ...both, share: shares[head]! },
          ...(given && { decay: decays.slice(head * keyDim, (head + 1) * keyDim) }),
          query: reference.unit(part(key, keyDim), keyDim),
          key: reference.unit(part(keys + key, keyDim), 1),
          value: part(2 * keys + head * valueDim, valueDim),
        })
      }
    }
  expect(state.f32()).toEqual(expected)
  for (let token = 0; token < TOKENS; token++) {
    const from = token * strides[3]!
    const columns = [from, from + valueHeads * valueDim] as const
    expect(out.f32().subarray(...columns)).toEqual(read.subarray(...columns))
  }
})
