// The gated delta rule, and selective state spaces, as plan.ts says them, in two kernels: one that brings queries and keys of each
// token to unit length and finds what each head's state is multiplied with, token by token at once, or a run of rows does so that
// stands before it; and one that takes a sequence's tokens in order. Of that one a thread has a column of a head's value: its column
// of the state stays with it, in variables, from the step's first token to its last, and every sum runs over the columns of the key in
// their order.

import { NO_STATE } from "../../../../runtime/gpu/regions.ts"
import { type Delta, deltaColumns } from "../../../graph/graph.ts"
import type { Plan, Step } from "../../../plan.ts"
import {
  type Builder,
  type Elements,
  f32,
  fma,
  kernel,
  type Operable,
  once,
  type Value,
} from "../ir/builder.ts"
import type { Binding, Launch } from "../launch.ts"
import { strideOf } from "../layout.ts"
import { exp, inTurns, LaneSums, softplus } from "./numbers.ts"

export type DeltaStep = Extract<Step, { op: "delta" }>

/** Of a kernel that takes a sequence's tokens. */
const COLUMNS = 32
/** Of a kernel that has a token. */
const THREADS = 256
const AT_ONCE = 4

type Shape = Omit<Delta, "layer"> & {
  /** Numbers from a row to the next. */
  strides: Record<"input" | "decays" | "output", number> &
    Record<"shares" | "keys", number | undefined>
}

/**
 * Of a token in memory between the kernels: a unit of each key head's query, of each key, and each value head's decay if it is not
 * given; of a selective state space, whose queries and keys stay as they are, each head's decay and behind them its share, but by number
 * nothing.
 */
const unitStride = ({ keyDim }: Shape) => upToFour(keyDim)
const decaysFrom = (shape: Shape) => (shape.selective ? 0 : 2 * shape.keyHeads * unitStride(shape))
const sharesFrom = (shape: Shape) =>
  decaysFrom(shape) + (shape.given || shape.by ? 0 : upToFour(shape.valueHeads))
const tokenStride = (shape: Shape) =>
  sharesFrom(shape) + (shape.selective && !shape.by ? upToFour(shape.valueHeads) : 0)

/** @param isReady whether the units are made before it */
export function deltaLaunches(plan: Plan, step: DeltaStep, isReady = false): Launch[] {
  const { input, decays, shares, keys, decay, bias, skip, output, place } = step
  const shape = shapeOf(plan, step)
  const { valueHeads, valueDim } = shape
  const rows = ({ buffer, from }: { buffer: number; from: number }): Binding => ({
    kind: "buffer",
    buffer,
    from,
  })
  const vector = (parameter: number): Binding => ({ kind: "weight", parameter, part: "values" })
  const units = shape.by ? [] : [unitsBinding(plan, step)]
  const count = (of: "tokens" | "sequences"): Binding => ({
    kind: "step",
    region: { name: "count", of },
  })
  const rule: Launch = {
    kernel: deltaRule(shape),
    operands: [
      count("sequences"),
      { kind: "step", region: { name: "starts" } },
      { kind: "step", region: { name: "states", group: place.group } },
      rows(input),
      shares ? rows(shares) : vector(skip!),
      ...(shape.given || shape.by ? [rows(decays)] : []),
      ...(keys ? [vector(decay!), rows(keys)] : units),
      { kind: "kv", place },
      rows(output),
    ],
    groups: [valueHeads * Math.ceil(valueDim / COLUMNS), { count: "sequences", per: 1 }, 1],
  }
  if (isReady || shape.by) return [rule]
  return [
    {
      kernel: deltaUnits(shape),
      operands: [
        count("tokens"),
        rows(input),
        ...(shape.given ? [] : [rows(decays), vector(decay!), vector(bias!)]),
        ...units,
      ],
      groups: [{ rows: "tokens", per: 1 }, 1, 1],
    },
    rule,
  ]
}

function shapeOf(
  { buffers }: Plan,
  { input, decays, shares, keys, output, delta }: DeltaStep,
): Shape {
  const { layer: _, ...heads } = delta
  const stride = ({ buffer }: { buffer: number }) => strideOf(buffers[buffer]!)
  const strides = {
    input: stride(input),
    decays: stride(decays),
    shares: shares && stride(shares),
    keys: keys && stride(keys),
    output: stride(output),
  }
  return { ...heads, strides }
}

/** Where the units of a step's tokens lie. */
export function unitsBinding(plan: Plan, step: DeltaStep): Binding {
  const perToken = 4 * tokenStride(shapeOf(plan, step))
  return { kind: "scratch", name: "units", bytes: { perToken } }
}

/** A token's numbers, and where its units go. */
interface UnitsOf {
  token: Value
  /** Whether there is one. */
  isThere: Value
  sums: LaneSums
  /** By their columns in the step's views. */
  input: (column: Value) => Value
  /** Undefined: they are given. */
  states: { decays: (head: Value) => Value; decay: Elements; bias: Elements } | undefined
  units: Elements
}

/** The units of a token, by a whole group of threads. */
export function writeUnits(k: Builder, plan: Plan, step: DeltaStep, of: UnitsOf): void {
  writeUnitsOf(k, shapeOf(plan, step), of)
}

const deltaUnits = once((shape: Shape) =>
  kernel(`${nameOf(shape)}_units`, THREADS, (k) => {
    const { strides, given } = shape
    const count = k.buffer("count", "u32", "read")
    const rows = k.buffer("rows", "f32", "read")
    const [decays, decay, bias] = given
      ? []
      : ["decays", "decay", "bias"].map((name) => k.buffer(name, "f32", "read"))
    const units = k.buffer("units", "f32", "write")
    const token = k.group(0)
    const isThere = k.let(token.lt(count.load(0)))
    const row = k.let(token.mul(strides.input))
    writeUnitsOf(k, shape, {
      ...{ token, isThere, sums: new LaneSums(k, isThere), units },
      input: (column) => rows.load(row.add(column)),
      states: decays && {
        decays: (head) => decays.load(token.mul(strides.decays).add(head)),
        decay: decay!,
        bias: bias!,
      },
    })
  }),
)

function writeUnitsOf(k: Builder, shape: Shape, of: UnitsOf): void {
  const { keyHeads, valueHeads, keyDim, selective } = shape
  const { token, isThere, sums, input, states, units } = of
  const own = k.let(token.mul(tokenStride(shape)))
  if (states)
    k.if(isThere, () =>
      k.each(valueHeads, (head) => {
        const [input, added] = [k.let(states.decays(head)), k.let(states.bias.load(head))]
        const to = k.let(own.add(decaysFrom(shape)).add(head))
        units.store(to, decayOf(k, states.decay.load(head), input, added))
        if (!selective) return
        const share = softplus(k, k.let(input.add(added)))
        units.store(to.add(sharesFrom(shape) - decaysFrom(shape)), share)
      }),
    )
  if (selective) return
  const heads = 2 * keyHeads
  const threads = LaneSums.threads(keyDim)
  const atOnce = k.threads / threads
  const [number, thread] = [k.let(k.lane.div(threads)), k.let(k.lane.rem(threads))]
  const some = (first: Operable) => {
    const head = k.let(number.add(first))
    // Who has no head helps with the last one's sum for nothing, since all come to the barriers.
    const begin = k.let(head.min(heads - 1).mul(keyDim))
    const squares = sums.sums(keyDim, (i) => {
      const x = input(begin.add(i))
      return (before) => fma(x, x, before)
    })
    const square = squares.div(keyDim).mul(keyDim).add(1e-6)
    // Of queries over the root of their length.
    const width = k.variable(f32(1))
    k.if(head.lt(keyHeads), () => width.set(keyDim))
    const scale = k.let(f32(1).div(square.mul(width.now).sqrt()))
    const to = k.let(own.add(head.mul(unitStride(shape))))
    const turns = { count: keyDim, step: threads, most: AT_ONCE }
    k.if(isThere.and(head.lt(heads)), () =>
      inTurns(k, thread, turns, (columns) => {
        for (const i of columns) units.store(to.add(i), input(begin.add(i)).mul(scale))
      }),
    )
  }
  if (heads <= atOnce) some(0)
  else {
    sums.enterLoop()
    k.for(0, heads, atOnce, some)
  }
}

/** As `decayOf` of reference/kernels.ts. */
function decayOf(k: Builder, decay: Value, input: Value, bias: Value): Value {
  const x = k.let(input.add(bias))
  return exp(k, exp(k, decay).mul(softplus(k, x)).neg()).add(x.mul(0))
}

const deltaRule = once((shape: Shape) =>
  kernel(`${nameOf(shape)}_rule`, COLUMNS, (k) => {
    const { keyHeads, valueHeads, keyDim, valueDim, tiled, selective, by, strides } = shape
    const count = k.buffer("count", "u32", "read")
    const starts = k.buffer("starts", "u32", "read")
    const states = k.buffer("states", "u32", "read")
    const rows = k.buffer("rows", "f32", "read")
    const shares = k.buffer(selective ? "skip" : "shares", "f32", "read")
    const decays = shape.given || by ? k.buffer("decays", "f32", "read") : undefined
    const units = k.buffer(by ? "rates" : "units", "f32", "read")
    const keyed = by ? k.buffer("keys", "f32", "read") : rows
    const state = k.buffer("state", "f32", "readwrite")
    const out = k.buffer("out", "f32", "write")
    const parts = Math.ceil(valueDim / COLUMNS)
    const sequence = k.group(1)
    const head = k.let(k.group(0).div(parts))
    const column = k.let(k.group(0).rem(parts).mul(COLUMNS).add(k.lane))
    k.if(sequence.lt(count.load(0)).and(column.lt(valueDim)), () => {
      const place = (block: Value) =>
        k.let(
          block
            .mul(upToFour(valueHeads * keyDim * valueDim)) // blocks are whole fours: kv.ts
            .add(head.mul(keyDim * valueDim))
            .add(column),
        )
      const own = Array.from({ length: keyDim }, () => k.variable(f32(0)))
      const before = k.let(states.load(sequence.mul(2)))
      k.if(before.ne(NO_STATE), () => {
        const from = place(before)
        for (const [i, cell] of own.entries()) cell.set(state.load(from.add(i * valueDim)))
      })
      const keyHead = k.let(tiled ? head.rem(keyHeads) : head.div(valueHeads / keyHeads))
      const value = k.let(head.mul(valueDim).add(column))
      const columns = deltaColumns(shape)
      const rates = by ? own.map((_, i) => k.let(units.load(value.mul(keyDim).add(i)))) : []
      /** What a row of the state is multiplied with. @param first where the token's units begin */
      const decayAt = (first: Value, token: Value): ((i: number) => Value) => {
        if (decays) {
          const begin = k.let(token.mul(strides.decays).add(head.mul(keyDim)))
          return (i) => decays.load(begin.add(i))
        }
        const all = units.load(first.add(decaysFrom(shape)).add(head))
        return () => all
      }
      const selectiveAt = (first: Value, token: Value) => {
        if (!by) {
          const share = units.load(first.add(sharesFrom(shape)).add(head))
          return { decay: decayAt(first, token), share, skip: shares.load(head) }
        }
        const step = k.let(decays!.load(token.mul(strides.decays).add(value)))
        const decay = (i: number) => exp(k, k.let(step.mul(rates[i]!)))
        return { decay, share: step, skip: shares.load(value) }
      }
      k.for(starts.load(sequence), starts.load(sequence.add(1)), 1, (token) => {
        const first = k.let(token.mul(tokenStride(shape)))
        const row = k.let(token.mul(strides.input))
        const given = k.let(rows.load(row.add(columns.values).add(value)))
        if (selective) {
          const { decay, share, skip } = selectiveAt(first, token)
          const added = k.let(given.mul(share))
          const keyRow = by ? k.let(token.mul(strides.keys!)) : row
          const [key, query] = [columns.keys, columns.queries].map((at) =>
            k.let(keyRow.add(at).add(keyHead.mul(keyDim))),
          ) as [Value, Value]
          const read = k.variable(f32(0))
          for (const [i, cell] of own.entries()) {
            cell.set(fma(keyed.load(key.add(i)), added, cell.now.mul(decay(i))))
            read.set(fma(keyed.load(query.add(i)), cell.now, read.now))
          }
          out.store(token.mul(strides.output).add(value), fma(skip, given, read.now))
          return
        }
        const decay = decayAt(first, token)
        const unit = (head: Value) => {
          const begin = k.let(first.add(head.mul(unitStride(shape))))
          let four: readonly Value[] = []
          return (i: number) => {
            if (i >= keyDim - (keyDim % 4)) return units.load(begin.add(i)) // there is no whole four
            if (i % 4 === 0) four = units.loadFour(begin.div(4).add(i / 4))
            return four[i % 4]!
          }
        }
        const known = k.variable(f32(0))
        const key = unit(k.let(keyHead.add(keyHeads)))
        for (const [i, cell] of own.entries()) {
          const keyed = key(i)
          cell.set(cell.now.mul(decay(i)))
          known.set(fma(keyed, cell.now, known.now))
        }
        const share = shares.load(token.mul(strides.shares!).add(head))
        const correction = k.let(given.sub(known.now).mul(share))
        const read = k.variable(f32(0))
        const [query, again] = [unit(keyHead), unit(k.let(keyHead.add(keyHeads)))]
        for (const [i, cell] of own.entries()) {
          const [asked, keyed] = [query(i), again(i)]
          cell.set(fma(keyed, correction, cell.now))
          read.set(fma(asked, cell.now, read.now))
        }
        out.store(token.mul(strides.output).add(value), read.now)
      })
      const to = place(k.let(states.load(sequence.mul(2).add(1))))
      for (const [i, cell] of own.entries()) state.store(to.add(i * valueDim), cell.now)
    })
  }),
)

const nameOf = ({ selective, by }: Shape) => (by ? "scan" : selective ? "selective" : "delta")

function upToFour(n: number): number {
  return Math.ceil(n / 4) * 4
}
