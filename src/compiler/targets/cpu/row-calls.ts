// Steps that look at nothing but their own row, as calls of C: which function, with which struct of what. One table, of which
// a compiled library has the calls of its plan and a generic one all of them.

import { dtypeOf, isGroupCodec } from "../../../runtime/format.ts"
import { type ElementwiseName, elementwise } from "../../graph/elementwise.ts"
import type { Place, Plan, Step, View } from "../../plan.ts"
import type { Kept } from "./kept.ts"
import {
  attention,
  codes,
  embedded,
  hiddenIn,
  int,
  type Kind,
  type Lists,
  layer,
  list,
  long,
  type Named,
  type Names,
  number,
  panels,
  type RowOf,
  routing,
  row,
  said,
  single,
  struct,
  type ValueOf,
  weight,
} from "./kinds.ts"
import { quantizedBytes, strideOf } from "./layout.ts"
import { float } from "./literals.ts"

type Fields = Parameters<typeof struct>[1]

interface RowCall<T> {
  function: string
  struct: Named<T>
  /** What stands in front of the struct. */
  first?: string | undefined
}

const call = <F extends Fields>(
  name: string,
  of: string,
  fields: F,
  first?: string,
): RowCall<ValueOf<F>> => ({ function: name, struct: struct(of, fields), first })

const norm = {
  input: row,
  columns: int,
  width: int,
  weight,
  bias: weight,
  each: int,
  epsilon: single,
  output: row,
}
const two = { input: row, other: row, columns: int, output: row }
const weighed = { ...two, other: weight }
const one = { input: row, columns: int, output: row }

const rowCalls = {
  embed: call("embed_row", "embed", {
    index: embedded,
    table: weight,
    panels,
    rounded: number,
    output: row,
  }),
  seen: call("seen_row", "seen", {
    index: embedded,
    taken: said("m->step->hidden_in"),
    taken_columns: int,
    columns: int,
    table: weight,
    panels,
    rounded: number,
    output: row,
  }),
  seenPart: call("seen_part_row", "seen_part", {
    index: said("m->step->tokens[token]"),
    taken: said("m->step->hidden_in"),
    taken_columns: int,
    from: int,
    columns: int,
    output: row,
  }),
  hiddenIn: call("copy_row", "elements", { input: hiddenIn, columns: int, output: row }),
  ropeTable: call("rope_table_row", "rope_table", {
    position: said("m->step->positions[token]"),
    frequencies: list,
    count: int,
    factor: long,
    beta: long,
    original: long,
    ahead: long,
    output: row,
  }),
  ropeAxes: call("rope_axes_row", "rope_axes", {
    step: said("m->step"),
    token: said("token"),
    frequencies: list,
    axes: list,
    count: int,
    factor: long,
    output: row,
  }),
  norm: call("norm_heads", "norm", norm),
  layerNorm: call("layer_norm_heads", "norm", norm),
  quantize: call("quantize", "quantized", { input: row, weights: panels, output: codes }),
  rope: call("rope_row", "rope", {
    row,
    columns: int,
    head_dim: int,
    rope_table: row,
    turned: int,
  }),
  storeKv: call(
    "store_kv_row",
    "stored_kv",
    { attention, group: int, layer, key: row, value: row, token: said("token") },
    "m",
  ),
  route: call("route_row", "routed", {
    routing,
    input: row,
    bias: weight,
    output: row,
  }),
  add: call("add_row", "elements", two),
  multiply: call("multiply_row", "elements", two),
  scale: call("scale_runs", "scaled", { ...two, width: int }),
  convolve: call(
    "convolve_row",
    "convolved",
    {
      attention,
      group: int,
      layer,
      taps: weight,
      count: int,
      ahead: int,
      token: said("token"),
      bias: weight,
      output: row,
    },
    "m",
  ),
  weigh: call("multiply_row", "elements", weighed),
  weighByOne: call("scale_row", "elements", weighed),
  bound: call("bound_row", "elements", weighed),
  reorder: call("reorder_row", "elements", weighed),
  copy: call("copy_row", "elements", one),
} satisfies Record<string, RowCall<never>>

type RowCalls = typeof rowCalls
type RowCallName = keyof RowCalls
const rowCallNames = Object.keys(rowCalls) as RowCallName[]
const elementwiseNames = Object.keys(elementwise) as ElementwiseName[]
/** What is done to each element by itself has its number beside the struct. */
const applied = struct("elements", one)

type Said =
  | {
      [Name in RowCallName]: {
        name: Name
        value: RowCalls[Name]["struct"] extends Kind<infer T> ? T : never
      }
    }[RowCallName]
  | { name: "apply"; function: ElementwiseName; by: number; value: ValueOf<typeof one> }

/** A step of rows, said to C. */
export function rowCallOf(step: Step, plan: Plan, kept: readonly Kept[]): Said {
  const rowOf = (view: View, at?: RowOf["at"]): RowOf => ({
    view,
    stride: strideOf(plan, view),
    ...(at && { at }),
  })
  switch (step.op) {
    case "embed": {
      const { panels, as } = kept[step.table]!
      const { codec } = panels
      const rounded = as === "MATRIX" && isGroupCodec(codec) ? dtypeOf(codec) : "f32"
      const value = {
        index: { by: step.by, instead: step.instead },
        table: step.table,
        panels,
        rounded: rounded.toUpperCase() as "F32",
        output: rowOf(step.output),
      }
      const { columns } = step.output
      return step.sees
        ? { name: "seen", value: { ...value, taken: true, taken_columns: step.sees, columns } }
        : { name: "embed", value }
    }
    case "seenPart": {
      const { taken, from, output } = step
      const { columns } = output
      const value = { index: true, taken: true, taken_columns: taken, from, columns } as const
      return { name: "seenPart", value: { ...value, output: rowOf(output) } }
    }
    case "hiddenIn": {
      const { columns } = step.output
      return { name: "hiddenIn", value: { input: columns, columns, output: rowOf(step.output) } }
    }
    case "ropeTable": {
      const {
        frequencies,
        factor,
        axes,
        growth = { beta: 0, original: 0, ahead: 0 },
      } = step.rotation
      const count = frequencies.length
      if (axes) {
        const value = { step: true, token: true, frequencies, axes, count, factor } as const
        return { name: "ropeAxes", value: { ...value, output: rowOf(step.output) } }
      }
      return {
        name: "ropeTable",
        value: {
          position: true,
          frequencies,
          count,
          factor,
          ...growth,
          output: rowOf(step.output),
        },
      }
    }
    case "norm": {
      const { kind, weight, bias, width, epsilon, input } = step
      return {
        name: kind === "rms" ? "norm" : "layerNorm",
        value: {
          input: rowOf(input),
          columns: input.columns,
          width,
          weight,
          bias,
          each: plan.parameters[weight]!.rows === width ? 0 : 1,
          epsilon,
          output: rowOf(step.output),
        },
      }
    }
    case "quantize": {
      const { codes, columns, codec } = step.output
      return {
        name: "quantize",
        value: {
          input: rowOf(step.input),
          weights: { rows: 0, columns, pair: 0, codec },
          output: { buffer: codes, bytes: quantizedBytes(step.output) },
        },
      }
    }
    case "rope":
      return {
        name: "rope",
        value: {
          row: rowOf(step.view),
          columns: step.view.columns,
          head_dim: step.headDim,
          rope_table: rowOf(step.ropeTable, "token"),
          turned: step.ropeTable.columns,
        },
      }
    case "storeKv": {
      // Without values these are the keys, and write_kv looks at keys alone.
      const latent = step.value ? undefined : step.key.columns
      return {
        name: "storeKv",
        value: {
          attention: { ...storageOf(plan, step.place), latent },
          group: step.place.group,
          layer: step.place.layer,
          key: rowOf(step.key),
          value: rowOf(step.value ?? step.key),
          token: true,
        },
      }
    }
    case "convolve": {
      const { place, taps, bias, count, ahead } = step
      return {
        name: "convolve",
        value: {
          attention: { ...storageOf(plan, place), latent: 1 }, // there are no values
          group: place.group,
          layer: place.layer,
          taps,
          count,
          ahead,
          token: true,
          bias,
          output: rowOf(step.output),
        },
      }
    }
    case "weigh": {
      const isOne = plan.parameters[step.weight]!.rows === 1
      return {
        name: isOne ? "weighByOne" : "weigh",
        value: {
          input: rowOf(step.input),
          other: step.weight,
          columns: step.output.columns,
          output: rowOf(step.output),
        },
      }
    }
    case "bound":
      return {
        name: "bound",
        value: {
          input: rowOf(step.input),
          other: step.bounds,
          columns: step.output.columns,
          output: rowOf(step.output),
        },
      }
    case "reorder":
      return {
        name: "reorder",
        value: {
          input: rowOf(step.input),
          other: step.order,
          columns: step.output.columns,
          output: rowOf(step.output),
        },
      }
    case "apply": {
      const { columns } = step.output
      const value = { input: rowOf(step.input), columns, output: rowOf(step.output) }
      return { name: "apply", function: step.function, by: step.by ?? 0, value }
    }
    case "route": {
      const { active, score, jitter, biased, normalized, factor, groups } = step.routing
      return {
        name: "route",
        value: {
          routing: {
            count: step.input.columns,
            active,
            sigmoid: score === "sigmoid" ? 1 : 0,
            normalized: normalized ? 1 : 0,
            factor,
            groups: groups?.count,
            open: groups?.open,
            two_largest: groups?.rank === "two largest" ? 1 : undefined,
            biased_logits: biased === "logits" ? 1 : undefined,
            sparse: jitter && 2 * jitter,
          },
          input: rowOf(step.input),
          bias: step.bias,
          output: rowOf(step.output),
        },
      }
    }
    case "add":
    case "multiply": {
      const { columns } = step.output
      const value = {
        input: rowOf(step.a),
        other: rowOf(step.b),
        columns,
        output: rowOf(step.output),
      }
      const width = columns / step.b.columns
      return width > 1 ? { name: "scale", value: { ...value, width } } : { name: step.op, value }
    }
    case "select": {
      const at: RowOf["at"] = step.from === "tokens" ? "token" : "loop->set->wanted[row]"
      const { columns } = step.output
      const { view, stride } = rowOf(step.input)
      const input = { ...view, from: view.from + (step.behind ?? 0) * stride }
      const value = { input: { view: input, stride, at }, columns, output: rowOf(step.output) }
      return { name: "copy", value }
    }
    case "copy": {
      const { columns } = step.output
      return {
        name: "copy",
        value: { input: rowOf(step.input), columns, output: rowOf(step.output) },
      }
    }
    default:
      throw new Error(`internal: ${step.op} is no step of rows`)
  }
}

/** How keys and values of a group lie in its blocks. */
export function storageOf({ groups, kv }: Plan, { group }: Place) {
  const { layers, kvHeads, headDim } = groups[group]!
  const { key, value } = headDim
  return {
    kv_heads: kvHeads,
    head_dim: key,
    value: value === key ? undefined : value || undefined,
    layers: layers.length,
    number: kv.toUpperCase() as "F32",
  }
}

/** The call in C. */
export function callText(said: Said, names: Names): string {
  if (said.name === "apply") {
    const result = elementwise[said.function].c("x", float(said.by))
    return `APPLY_ROW(${result}, (struct elements)${applied.c(said.value, names)})`
  }
  const { function: name, struct, first }: RowCall<never> = rowCalls[said.name]
  const values = `(struct ${struct.name})${struct.c(said.value as never, names)}`
  return `${name}(${first ? `${first}, ` : ""}${values})`
}

/** The call on a tape: its words, its number among calls of all kinds, and what it is given. */
export function callWords(said: Said, lists: Lists): number[] {
  const words =
    said.name === "apply"
      ? [
          rowCallNames.length + elementwiseNames.indexOf(said.function),
          said.by,
          ...applied.tape(said.value, lists),
        ]
      : [
          rowCallNames.indexOf(said.name),
          ...(rowCalls[said.name].struct as Named<never>).tape(said.value as never, lists),
        ]
  return [words.length + 1, ...words]
}

/** Cases of a switch over calls' numbers, in C that reads a call from `w`: its words, its number, what it is given. */
export function callCases(): string[] {
  const calls = rowCallNames.map((name, i) => {
    const { function: called, struct, first }: RowCall<never> = rowCalls[name]
    return [i, `${called}(${first ? `${first}, ` : ""}${struct.literal(2)})`] as const
  })
  const functions = elementwiseNames.map((name, i) => {
    const result = elementwise[name].c("x", "(float)w[2]")
    return [rowCallNames.length + i, `APPLY_ROW(${result}, ${applied.literal(3)})`] as const
  })
  return [...calls, ...functions].map(([i, text]) => `case ${i}: ${text}; break;`)
}
