// Where a folder keeps the tensors that a graph asks for by llama's names. Folders have other names for them, join several,
// store them turned around, or less one; an architecture says so in a table of parts, and a source says it of one tensor.

import type { Biases } from "./biases.ts"

/** A stored tensor, and which of its rows, and what has to be done to them. */
export interface Source {
  tensor: string // as the folder names it
  /** Which of its rows are wanted; absent: all of them. */
  rows?: RowRuns
  /** It is a stack of so many matrices, or of biases, one for each expert: [stacked, rows of one, columns]. */
  stacked?: number
  /** A vector that is stored as filters of so many taps: [rows / taps, 1, taps]. */
  taps?: number
  /** They are [rows / taps, taps, 1], which are the same bytes. */
  tapsLastButOne?: true
  /**
   * It is stored in this shape, which are the same values in the same order: a table of one sequence, or a convolution's filters
   * [rows, channels, height, width], or with frames before the height, which MLX keeps with the channels last.
   */
  shape?: readonly number[]
  /** It is stored [columns, rows], and so is each matrix of a stack. */
  transposed?: true
  /**
   * Each run of its rows is stored as columns: row r of run n is column r of the stored rows of that run, of which there are
   * as many as the rows here have columns. `width`: the stored columns.
   */
  turnedRuns?: { width: number }
  /** Each of its rows is stored as a matrix [columns / this, this], and here its transpose is meant. */
  turnedColumns?: number
  /** Of these the first so many stay as they are, and those behind them are that matrix. */
  turnedFrom?: number
  /**
   * Neighbours of the first `turned` rows of each head are turned with each other; here the first half is with the second.
   * `last`: they are the last rows of a stored head; `halves`: stored, too, the first half is turned with the second; `quarters`: each
   * half of a stored head is turned by itself, its first half with its second; `byTurns`: each half of a stored head is turned by
   * itself, neighbours with each other, and here pairs of both take turns.
   */
  neighbours?: {
    headDim: number
    turned: number
    last?: true
    halves?: true
    quarters?: true
    byTurns?: true
  }
  /** Each of its rows stands here so many times, one copy behind the other. */
  repeated?: number
  /** It is stored as minus e to its power. */
  exponential?: true
  /** It is minus e to the power of what is stored. */
  raised?: true
  /** It is ln(1 + e to the power of what is stored). */
  softplus?: true
  /** It is the hyperbolic tangent of what is stored, or what that lacks of 1. */
  tanh?: "itself" | "what is left"
  /** Its values are multiplied with this, and then squared, or without their signs. */
  times?: number
  squared?: true
  absolute?: true
  /** Added to every value. */
  plus?: number
  /** A row of another tensor, which is added to each of its rows; `shape`: that tensor is this row, stored in this shape. */
  plusRow?: { tensor: string; row: number; shape?: readonly number[] }
  /** A row is made of this tensor's and of those of others of its shape, by turns `run` columns of each. In GGUF alone. */
  woven?: { others: readonly string[]; run: number }
  /** It is not stored: this is every value. */
  constant?: number
  /** It is not stored: this is on its diagonal, and zeros beside it. */
  diagonal?: number
  /** It is not stored: so many digits of a row's number and `shift`, each a one among as many zeros as there are others; below 0 there are none. */
  digits?: { base: number; count: number; shift: number }
  /** It is not stored: a row is the sines of its place, and behind them the cosines (`sinesOf`). */
  sines?: "closed" | "open"
  /** Rows of a table have gone through it, and through a bias of its name. */
  through?: Through
  /** It is made of a table that is stored, or of none: what scores have added by distance. */
  biases?: Biases
}

/** A table of so many rows, which are normed first where there is a norm. Of each head what comes of all rows, one behind the other. */
export interface Through {
  table: string
  rows: number
  heads: number
  norm: { name: string; epsilon: number } | undefined
}

/** `run` rows from `from` on, and as many again every `every` rows, of the `of` rows that the stored tensor has. */
export interface RowRuns {
  of: number
  from: number
  run: number
  every: number
}

/** Where the tensor lies that the graph calls `name`. */
export type Sources = (name: string) => Source

/** The same names, everything as it is. */
export const sameNames: Sources = (tensor) => ({ tensor })

/**
 * What an architecture calls a part, and how it keeps it. `plus`, `plusRow` and `transposed` are meant for its weight alone. Of an expert,
 * whose number is where the name has a *, or whose rows in a stack lie behind those of the one before it.
 */
export type Part = string | NamedPart

/**
 * `bare`: its weight is called by the name alone, and its bias by the name and _bias. `constants`: it is not stored, and these are all of
 * its values in one layer after the other. `ofTwo`: stored are two layers for one, and it is in that.
 */
export type NamedPart = Omit<Source, "tensor"> & {
  name: string
  bare?: true
  /** What stands before it is neither the root nor the head's, but `apart`. */
  apart?: true
  constants?: readonly number[]
  ofTwo?: "first" | "second"
}

export interface Naming {
  /** What may stand before all names but the head's: the first under which there is an embedding. */
  roots: readonly { root: string; head: string; apart?: string }[]
  /** What stands before the number of a layer, behind the root. */
  layers: string
  /** Of a second stack, where there is one: its first layer, and what stands before the number that it has there. */
  layersBehind?: { first: number; layers: string }
  /**
   * By llama's names, without what stands before them and without .weight and .bias; others are the same. A name with its ending
   * has another of its own.
   */
  parts: Readonly<Record<string, Part>>
  /**
   * Other parts, where the folder has that tensor in its layers, whose number comes first, and in that shape if one is given: some
   * are kept in several ways, of which the first that fits is meant.
   */
  instead?: readonly Instead[]
  /** Parts that MLX's converter calls otherwise, where it has stacked experts. */
  mlx?: Readonly<Record<string, Part>>
  /** MLX's converter multiplies weights with what the configuration says they are multiplied with, so its folders are not read. */
  foldedByMlx?: true
}

export interface Instead {
  stored: string
  /** Another that has to be there. */
  also?: string
  /** Undefined: any. */
  shape?: readonly (number | undefined)[]
  parts: Naming["parts"]
}

export const llamaNaming: Naming = {
  roots: [
    { root: "model.", head: "" },
    { root: "", head: "" }, // a model that was published to embed, without a head
    // The text model of one that also sees or hears, wherever the folder has put it.
    { root: "language_model.model.", head: "language_model." },
    { root: "model.language_model.", head: "" },
    { root: "model.text_model.", head: "" },
    { root: "thinker.model.", head: "thinker." },
    { root: "llm.model.", head: "llm." }, // of MiniCPM-V
    { root: "language_model.", head: "language_model." }, // of Idefics 3 and SmolVLM, as MLX has it
  ],
  layers: "layers.",
  parts: {},
}

/** The naming with other parts. */
export function withParts(naming: Naming, parts: Naming["parts"]): Naming {
  return { ...naming, parts: { ...naming.parts, ...parts } }
}

/** The table of a model whose head has fewer rows than are `stored`: those behind them are not read. */
export function storedTable(
  { stored, vocabulary }: Record<"stored" | "vocabulary", number>,
  name = "embed_tokens",
): Naming["parts"] {
  if (stored === vocabulary) return {}
  return { embed_tokens: { name, rows: { of: stored, from: 0, run: vocabulary, every: stored } } }
}

/** Weights that are all 1 and that nobody stores: they stand for a norm, a sum or a mean without any. */
export const unitParts = (...names: readonly string[]): Naming["parts"] =>
  Object.fromEntries(names.map((name) => [name, { name, constant: 1 }]))

/** `joined` rows in order, as `q`, `k` and `v` of one tensor: where each of them lies. */
export function joinedRows<Name extends string>(
  sizes: Readonly<Record<Name, number>>,
): Record<Name, RowRuns> {
  const entries = Object.entries(sizes) as [Name, number][]
  const of = entries.reduce((sum, [, size]) => sum + size, 0)
  let from = 0
  return Object.fromEntries(
    entries.map(([name, size]) => {
      const rows = { of, from, run: size, every: of }
      from += size
      return [name, rows]
    }),
  ) as Record<Name, RowRuns>
}

/** The names of experts that lie in one tensor each, or of one kind. */
export function expertNames(names: Record<"gate" | "up" | "down", string>): Naming["parts"] {
  return Object.fromEntries(
    Object.entries(names).map(([name, own]) => [`mlp.experts.*.${name}_proj`, own]),
  )
}

/** Of experts that are kept one by one, under llama's names. */
export const singleExperts = expertNames({
  gate: "mlp.experts.*.gate_proj",
  up: "mlp.experts.*.up_proj",
  down: "mlp.experts.*.down_proj",
})

/** The same of experts that are stacked, their gates' rows before their up rows, or each before its own. */
export function stackedExperts(
  { count, intermediate, hidden }: Record<"count" | "intermediate" | "hidden", number>,
  names: Record<"gateUp" | "down", string>,
  { alternate, bare, transposed }: { alternate?: true; bare?: true; transposed?: true } = {},
): Naming["parts"] {
  const { gate, up } = alternate
    ? alternating(intermediate)
    : joinedRows({ gate: intermediate, up: intermediate })
  const part = (name: string, { of, ...rows }: RowRuns) => ({
    name,
    ...(bare && { bare }),
    ...(transposed && { transposed }),
    stacked: count,
    rows: { ...rows, of: of * count },
  })
  return {
    "mlp.experts.*.gate_proj": part(names.gateUp, gate),
    "mlp.experts.*.up_proj": part(names.gateUp, up),
    "mlp.experts.*.down_proj": part(names.down, {
      of: hidden,
      from: 0,
      run: hidden,
      every: hidden,
    }),
  }
}

/**
 * The same of experts whose matrices lie one behind the other, without a shape of their own, and whose last has a row for each column of
 * what they project back: it is turned around.
 */
export function flatExperts(
  { count, intermediate, hidden }: Record<"count" | "intermediate" | "hidden", number>,
  names: { gate?: string; up: string; down: string },
): Naming["parts"] {
  const part = (name: string, run: number) => ({
    name,
    bare: true as const,
    stacked: count,
    shape: [count * intermediate, hidden],
    rows: { of: count * run, from: 0, run, every: run },
  })
  return {
    ...(names.gate && { "mlp.experts.*.gate_proj": part(names.gate, intermediate) }),
    "mlp.experts.*.up_proj": part(names.up, intermediate),
    "mlp.experts.*.down_proj": { ...part(names.down, hidden), transposed: true },
  }
}

function alternating(each: number): Record<"gate" | "up", RowRuns> {
  const rows = { of: 2 * each, run: 1, every: 2 }
  return { gate: { ...rows, from: 0 }, up: { ...rows, from: 1 } }
}

/** What stands before the names of a layer that guesses ahead, of its own and in a folder. */
const AHEAD = "mtp."

/** @param shapeOf of the folder's tensor of that name, if there is one */
export function sourcesOf(
  naming: Naming,
  shapeOf: (name: string) => readonly number[] | undefined,
): Sources {
  const { layers, instead = [] } = naming
  const embedding = partIn(naming.parts, "embed_tokens").name
  const match = naming.roots.find(({ root }) => shapeOf(`${root}${embedding}.weight`))
  const { root, head, apart = "" } = match ?? naming.roots[0]!
  const partsAt = (place: string) => {
    const other = instead.find(({ stored, also, shape }) => {
      if (also !== undefined && !shapeOf(`${place}${layers}${also}`)) return false
      const its = shapeOf(`${place}${layers}${stored}`)
      return its && (!shape || shape.every((n, i) => n === undefined || n === its[i]))
    })
    return { ...naming.parts, ...other?.parts }
  }
  // What guesses ahead stands beside the model, and its experts may be kept in another way.
  const model = { at: root, parts: partsAt(root) }
  const ahead = { at: head + AHEAD, parts: partsAt(head + AHEAD) }
  return (name) => {
    const [, inside, number, stem, kind] =
      /^(model\.|mtp\.)?(?:layers\.(\d+)\.)?(.+)\.(weight|bias|e_score_correction_bias)$/.exec(
        name,
      ) ?? []
    if (stem === undefined) return { tensor: name }
    const { at, parts } = inside === AHEAD ? ahead : model
    const partOf = (name: string) => partIn(parts, name)
    const [, ofHead, of] = /^(.+)(\.\d+)$/.exec(stem) ?? [] // a norm of one head
    const [, experts, expert, projection] = /^(.+\.experts)\.(\d+)\.(.+)$/.exec(stem) ?? []
    if (expert !== undefined) {
      const part = partOf(`${experts}.*.${projection}`)
      const { name: own, bare, transposed, ...rest } = part
      const { rows, stacked = 1 } = part
      const from = (rows?.from ?? 0) + ((rows?.of ?? 0) / stacked) * Number(expert)
      const tensor = `${at}${placeOf(naming, number!)}${own.replace("*", expert)}${ending(kind!, bare)}`
      const turned = kind === "weight" && transposed ? { transposed } : {}
      return { tensor, ...rest, ...turned, ...(rows && { rows: { ...rows, from } }) }
    }
    const place = inside ? at + (number === undefined ? "" : placeOf(naming, number)) : head
    const whole = `${stem}.${kind}`
    if (Object.hasOwn(parts, whole)) {
      const { name: own, bare: _, apart: isApart, plusRow, woven, ...rest } = partOf(whole)
      const added = plusRow && { plusRow: { ...plusRow, tensor: place + plusRow.tensor } }
      const others = woven?.others.map((other) => place + other)
      return {
        tensor: (isApart ? apart : place) + own,
        ...rest,
        ...added,
        ...(others && { woven: { ...woven!, others } }),
      }
    }
    const {
      name: own,
      bare,
      constants,
      ofTwo,
      plus,
      plusRow,
      transposed,
      through,
      ...rest
    } = partOf(ofHead ?? stem)
    const within = ofTwo ? `${at}${layers}${oneOfTwo(Number(number), ofTwo)}.` : place
    return {
      tensor: `${within}${own}${of ?? ""}${ending(kind!, bare)}`,
      ...rest,
      ...(constants && { constant: constants[Number(number)]! }),
      ...(through && { through: { ...through, ...placedAt(at, through) } }),
      ...(kind === "weight" && plus !== undefined ? { plus } : {}),
      ...(kind === "weight" && plusRow !== undefined
        ? { plusRow: { ...plusRow, tensor: `${place}${plusRow.tensor}.weight` } }
        : {}),
      ...(kind === "weight" && transposed ? { transposed } : {}),
    }
  }
}

/** Its table and its norm, which belong to no layer. */
const placedAt = (root: string, { table, norm }: Through) => ({
  table: `${root}${table}.weight`,
  norm: norm && { ...norm, name: root + norm.name },
})

/** What stands before the parts of a layer, behind the root. */
function placeOf({ layers, layersBehind: behind }: Naming, number: string): string {
  const layer = Number(number)
  if (behind && layer >= behind.first) return `${behind.layers}${layer - behind.first}.`
  return `${layers}${number}.`
}

const oneOfTwo = (layer: number, which: "first" | "second") =>
  2 * layer + (which === "first" ? 0 : 1)

export function partIn(parts: Naming["parts"], name: string): NamedPart {
  const part = Object.hasOwn(parts, name) ? parts[name]! : name
  return typeof part === "string" ? { name: part } : part
}

function ending(kind: string, bare: true | undefined): string {
  if (!bare) return `.${kind}`
  return kind === "weight" ? "" : `_${kind}`
}

/** The stored row that becomes row `row`. */
export function storedRow({ rows, neighbours, repeated = 1 }: Source, row: number): number {
  const own = Math.floor(row / repeated)
  const straight = neighbours ? neighbour(own, neighbours) : own
  if (!rows) return straight
  const { from, run, every } = rows
  return from + Math.floor(straight / run) * every + (straight % run)
}

function neighbour(
  row: number,
  { headDim, turned, last, halves, quarters, byTurns }: NonNullable<Source["neighbours"]>,
): number {
  const at = row % headDim
  if (quarters) return row - at + quarter(at, headDim / 4)
  if (byTurns) return row - at + byTurn(at, headDim / 2)
  if (at >= turned) return last ? row - turned : row
  const half = turned / 2
  const first = row - at + (last ? headDim - turned : 0)
  if (halves) return first + at
  return first + (at < half ? 2 * at : 2 * (at - half) + 1)
}

/** Pairs that stand in either half of the stored head, one after the other. */
function byTurn(at: number, half: number): number {
  const [second, pair] = [at < half ? 0 : 1, at % half]
  return (pair % 2) * half + 2 * Math.floor(pair / 2) + second
}

/** The two quarters in the middle stand in each other's place. */
function quarter(at: number, size: number): number {
  const place = Math.floor(at / size)
  return place === 1 ? at + size : place === 2 ? at - size : at
}
