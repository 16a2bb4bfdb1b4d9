// What crosses from a plan into C, in both ways in which it does: as text, in the C of a library that is compiled for its
// model, and as words of a tape, which a generic library reads. A kind of value says both, and the C that reads its words; a
// struct is a kind that names its fields once. So the two libraries cannot disagree about what a field means.

import { type GroupCodec, groupCodecs, isGroupCodec } from "../../../runtime/format.ts"
import type { EmbeddedBy } from "../../graph/graph.ts"
import type { BufferId, ParameterId, View } from "../../plan.ts"
import type { Panels } from "./kept.ts"
import { double, float, initialiser, longInitialiser } from "./literals.ts"

export interface Kind<T> {
  /** How many it takes of a tape. */
  words: number
  /** Undefined: no field of a compiled library. */
  c(value: T, names: Names): string | undefined
  tape(value: T, lists: Lists): number[]
  /** C that reads the value from the array `w`, from word number `at` on. */
  read(at: number): string
}

/** What functions that steps share call that in which the steps differ. */
export interface Names {
  weight(id: ParameterId): string
  layer(layer: number): string
  table(numbers: readonly number[]): string
}

/** Lists of numbers lie on a tape by themselves; who has one has its place. */
export interface Lists {
  place(numbers: readonly number[]): number
}

const word = <T>(c: Kind<T>["c"], toWord: (value: T) => number, read: Kind<T>["read"]) =>
  ({ words: 1, c, tape: (value) => [toWord(value)], read }) satisfies Kind<T>

export const int: Kind<number> = word(String, Number, (at) => `(int64_t)w[${at}]`)
export const single: Kind<number> = word(float, Number, (at) => `(float)w[${at}]`)
export const long: Kind<number> = word(double, Number, (at) => `w[${at}]`)

/** One of C's names. */
const oneOf = <Name extends string>(...names: readonly Name[]): Kind<Name> =>
  word(
    (name) => name,
    (name) => names.indexOf(name),
    (at) => `((const int[]){${names.join(", ")}})[(int)w[${at}]]`,
  )

/** What is told when it is run, or is known before. */
export interface Shape<T> {
  shape: T
  isTold: boolean
}

/** What only a generic library asks for. */
const onTape = <T>(kind: Kind<T>): Kind<T> => ({ ...kind, c: () => undefined })

// ------------------------------------------------------------------ of a row

/** A row of a view; at another place than the loop's own where `at` says so. */
export interface RowOf {
  view: View
  stride: number
  at?: "token" | "loop->set->wanted[row]"
}

const places: readonly RowOf["at"][] = [undefined, "token", "loop->set->wanted[row]"]

export const row: Kind<RowOf> = {
  words: 4,
  c: ({ view: { buffer, from }, at = "row" }) => `b${buffer}(${at})${from ? ` + ${from}` : ""}`,
  tape: ({ view, stride, at }) => [view.buffer, stride, view.from, places.indexOf(at)],
  read: (at) => `row_at(loop, w + ${at}, row)`,
}

/** A row of codes. */
export const codes: Kind<{ buffer: BufferId; bytes: number }> = {
  words: 2,
  c: ({ buffer, bytes }) => `b${buffer}(row, ${bytes})`,
  tape: ({ buffer, bytes }) => [buffer, bytes],
  read: (at) => `m->buffers[(int)w[${at}]] + row * (int64_t)w[${at + 1}]`,
}

export const weight: Kind<ParameterId> = word(
  (id, names) => names.weight(id),
  (id) => id + 1,
  (at) => `w[${at}] ? (void *)m->weights[(int)w[${at}] - 1] : NULL`,
)

export const layer: Kind<number> = { ...int, c: (value, names) => names.layer(value) }

export const list: Kind<readonly number[]> = {
  words: 1,
  c: (numbers, names) => names.table(numbers),
  tape: (numbers, lists) => [lists.place(numbers)],
  read: (at) => `m->plan.lists + (int64_t)w[${at}]`,
}

/** What stands in the C as it is, and is the same for every plan. */
export const said = (text: string): Kind<true> => ({
  words: 0,
  c: () => text,
  tape: () => [],
  read: () => text,
})

/** What names a row of a table, and the row of a token that one is taken in for. */
export interface Embedded {
  by: EmbeddedBy
  instead?: number | undefined
}

const embeddedBy: readonly EmbeddedBy[] = [
  "token",
  "position",
  "time",
  "height",
  "width",
  "adapter",
]

export const embedded: Kind<Embedded> = {
  words: 2,
  c: ({ by, instead = -1 }) => `embedded(m->step, token, ${embeddedBy.indexOf(by)}, ${instead})`,
  tape: ({ by, instead = -1 }) => [embeddedBy.indexOf(by), instead],
  read: (at) => `embedded(m->step, token, (int)w[${at}], (int64_t)w[${at + 1}])`,
}

/** A row that came in, so many columns wide. */
export const hiddenIn: Kind<number> = word(
  (columns) => `m->step->hidden_in + token * ${columns}`,
  Number,
  (at) => `m->step->hidden_in + token * (int64_t)w[${at}]`,
)

// ------------------------------------------------------------------ structs

type Fields = Readonly<Record<string, Kind<never>>>
/** A field that is left out is zero. */
export type ValueOf<F extends Fields> = {
  [Name in keyof F]?: (F[Name] extends Kind<infer T> ? T : never) | undefined
}

export interface Named<T> extends Kind<T> {
  name: string
  /** The same as `read`, where it is read in the midst of what knows rows. */
  literal(at: number): string
}

export interface Struct<F extends Fields> extends Named<ValueOf<F>> {
  fields: F
}

export function struct<F extends Fields>(name: string, fields: F): Struct<F> {
  const kinds = Object.entries(fields) as [keyof F & string, Kind<unknown>][]
  let words = 0
  const places = kinds.map(([field, kind]) => {
    const at = words
    words += kind.words
    return { field, kind, at }
  })
  return {
    name,
    fields,
    words,
    c(value, names) {
      const texts = kinds.map(([field, kind]) => [
        field,
        value[field] === undefined ? undefined : kind.c(value[field], names),
      ])
      return longInitialiser(Object.fromEntries(texts), "        ")
    },
    tape: (value, lists) =>
      kinds.flatMap(([field, kind]) =>
        value[field] === undefined
          ? new Array<number>(kind.words).fill(0)
          : kind.tape(value[field], lists),
      ),
    read: (at) => `read_${name}(w + ${at})`,
    literal: (at) =>
      `(struct ${name})${initialiser(
        Object.fromEntries(places.map(({ field, kind, at: own }) => [field, kind.read(at + own)])),
      )}`,
  }
}

/** C's function that reads a struct. */
export function reader(of: Named<never>): string {
  return `static struct ${of.name} read_${of.name}(const double *w) { return ${of.literal(0)}; }`
}

export const extent = struct("extent", { fixed: int, token: int, row: int, thread: int })

/** In the order of C's enum number. */
export const numbers = ["F32", "F16", "BF16", "Q8"] as const
export const number = oneOf(...numbers)

const panelsStruct = struct("panels", {
  rows: int,
  columns: int,
  pair: int,
  grouped: int,
  codes: oneOf(
    "CODES_3",
    "CODES_4",
    "CODES_8",
    "CODES_6",
    "CODES_E4M3",
    "CODES_IQ2",
    "CODES_IQ3_XXS",
    "CODES_IQ3_S",
    "CODES_IQ4",
    "CODES_E2M1",
  ),
  group: int,
  zero: int,
  minimums: int,
  block: int,
  part: int,
  number,
})

/** What of a struct panels the codec decides. */
export function codecFields(codec: Panels["codec"]) {
  if (!isGroupCodec(codec)) return { number: codec.toUpperCase() as "F32" }
  const { bits, group, zero, minimums, dtype, sixBits, floats, block, part, table }: GroupCodec =
    groupCodecs[codec]
  return {
    grouped: 1,
    codes: `CODES_${floats ? "E4M3" : (table ?? (sixBits ? 6 : bits))}` as const,
    group,
    zero: zero || undefined,
    minimums: minimums ? 1 : undefined,
    block,
    part,
    number: dtype.toUpperCase() as "F32",
  } as const
}

/** Of a struct panels, without what is zero; how many columns it has may be an expression. */
export function panelsText({
  rows,
  columns,
  pair,
  codec,
}: Omit<Panels, "columns"> & { columns: number | string }): string {
  const shape = { rows: rows || undefined, columns, pair: pair || undefined }
  return initialiser({ ...shape, ...codecFields(codec) })
}

export const panels: Named<Panels> = {
  ...panelsStruct,
  c: panelsText,
  tape: ({ codec, rows, columns, pair }: Panels, lists) =>
    panelsStruct.tape({ rows, columns, pair, ...codecFields(codec) }, lists),
}

export const attention = struct("attention", {
  heads: int,
  kv_heads: int,
  head_dim: int,
  layers: int,
  latent: int,
  value: int,
  window: int,
  chunked: int,
  sinks: int,
  bidirectional: int,
  mutual: int,
  cross: int,
  number,
  scale: single,
  cap: single,
  distances: int,
  buckets: int,
  sparse: int,
})

export const routing = struct("routing", {
  count: int,
  active: int,
  sigmoid: int,
  normalized: int,
  factor: single,
  groups: int,
  open: int,
  two_largest: int,
  biased_logits: int,
  sparse: single,
})

export const parameter = struct("parameter", {
  kept: oneOf("MATRIX", "EXPANDED", "VECTOR", "BIAS"),
  at: int,
  panels,
  stored: panels,
})

// ------------------------------------------------------------------ steps

export interface Body {
  name: string
  /** Of the generic library's products. */
  product: number
}

const body: Kind<Body> = word(
  ({ name }) => name,
  ({ product }) => product,
  (at) => `product_bodies[(int)w[${at}]]`,
)

export const epilogues = [
  "STORE",
  "ADD",
  "GATED_SILU",
  "GATED_GELU",
  "GATED_GELU_TANH",
  "GATED_QUICK_GELU",
  "GATED_RELU2",
  "UNDER_SILU",
  "UNDER_GELU",
  "UNDER_GELU_TANH",
  "UNDER_QUICK_GELU",
  "UNDER_RELU2",
  "ACTIVATED_SILU",
  "ACTIVATED_GELU",
  "ACTIVATED_GELU_TANH",
  "ACTIVATED_QUICK_GELU",
  "ACTIVATED_RELU2",
] as const
const optional: Kind<ParameterId | "NO_WEIGHT"> = word(
  String,
  (id) => (id === "NO_WEIGHT" ? -1 : id),
  (at) => int.read(at),
)

export const productStep = struct("product_step", {
  input: int,
  from: int,
  row_bytes: int,
  in_stride: int,
  weight: int,
  panels: int,
  columns: int,
  halves: int,
  out_stride: int,
  bias: optional,
  limit: single,
  epilogue: oneOf(...epilogues),
  output: int,
  far: onTape(int),
  zero: onTape(int),
})

export const expertsStep = struct("experts_step", {
  count: int,
  active: int,
  weights: int,
  weights_from: int,
  weights_stride: int,
  apart: int,
  gate: productStep,
  gate_body: body,
  gate_bytes: int,
  up: productStep,
  up_body: body,
  up_bytes: int,
  round: word<string>(
    (name) => name,
    () => 1,
    (at) => `w[${at}] ? round_generic : NULL`,
  ),
  rounded_for: onTape(panels),
  down: productStep,
  down_body: body,
  down_bytes: int,
  out_columns: int,
})

export const headKind = struct("head_kind", {
  weights: panels,
  rows: int,
  kept: int,
  in_stride: int,
  out_stride: int,
})

export const headStep = struct("head_step", {
  input: int,
  from: int,
  weight: int,
  panels: int,
  output: int,
  kind: onTape(headKind),
})

/** The function of a compiled library; a generic one has one for each number that keys and values may be. */
const piecesBody: Kind<{ name: string; number: (typeof numbers)[number] }> = word(
  ({ name }) => name,
  ({ number }) => numbers.indexOf(number) + 1,
  (at) => `w[${at}] ? pieces_bodies[(int)w[${at}] - 1] : NULL`,
)

/** Of a compiled library only what is told. */
const attentionShape: Kind<Shape<ValueOf<typeof attention.fields>>> = {
  ...attention,
  c: ({ shape, isTold }, names) => (isTold ? attention.c(shape, names) : undefined),
  tape: ({ shape }, lists) => attention.tape(shape, lists),
}

export const attentionStep = struct("attention_step", {
  query: int,
  from: int,
  query_stride: int,
  kv_heads: int,
  group: int,
  layer: int,
  most_shares: int,
  heads_of_kv: int,
  vectors: int,
  pieces: piecesBody,
  sink_logits: optional,
  biases: optional,
  by_query: int,
  by_key: int,
  by_query_from: int,
  by_query_stride: int,
  by_key_from: int,
  by_key_stride: int,
  chosen: int,
  chosen_stride: int,
  output: int,
  out_stride: int,
  attention: attentionShape,
})

export const indexerStep = struct("indexer_step", {
  query: int,
  from: int,
  query_stride: int,
  weights: int,
  weights_from: int,
  weights_stride: int,
  group: int,
  layer: int,
  top: int,
  output: int,
  out_stride: int,
  blocks: int,
  attention: attentionShape,
})

export const deltaStep = struct("delta_step", {
  input: int,
  from: int,
  in_stride: int,
  decays: int,
  decays_from: int,
  decays_stride: int,
  shares: int,
  shares_from: int,
  shares_stride: int,
  keys: int,
  keys_from: int,
  keys_stride: int,
  decay: int,
  bias: int,
  skip: int,
  selective: int,
  by_number: int,
  given: int,
  key_heads: int,
  value_heads: int,
  tiled: int,
  key_dim: int,
  value_dim: int,
  group: int,
  layer: int,
  output: int,
  out_stride: int,
})

/** All of which a tape is made, each behind those that it is made of. */
export const structs = [
  extent,
  panels,
  attention,
  parameter,
  productStep,
  expertsStep,
  headKind,
  headStep,
  attentionStep,
  indexerStep,
  deltaStep,
] as const satisfies readonly Named<never>[]
