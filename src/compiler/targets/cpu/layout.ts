// Where everything of an opened library lies: the one place that decides it. Two memories, weights and what steps work on,
// are regions one behind the other; keys and values are blocks. How many tokens, rows and threads there will be is known
// only when a library is opened, so an offset is a constant and so many bytes for each of them. emit.ts writes the offsets
// into the C as tables, which driver_model.h evaluates; the manifest's bytes are where the memories end.
//
// What a row, a panel, a head or a workspace is like inside is the affair of its kernels. That each fits into what is kept
// for it here is tested: test/device/layout.test.ts asks the kernels.

import { type GroupCodecName, groupCodecs } from "../../../runtime/format.ts"
import {
  type KvShape,
  type KvType,
  type Manifest,
  type ProgramBytes,
  stateBytes,
} from "../../../runtime/manifest.ts"
import { BLOCK } from "../../../runtime/program.ts"
import { type RowSet, rowSets } from "../../../runtime/step-rows.ts"
import { type Attention, valueDim } from "../../graph/graph.ts"
import type { Codes, ParameterId, Plan, ProductInput, View } from "../../plan.ts"
import { isHalves, keptBytes, keptParameters } from "./kept.ts"

/** Bytes: a constant, and so many for each token and each row of logits in a step, and for each thread. */
export type Extent = Readonly<Record<"fixed" | "token" | "row" | "thread", number>>

const nothing: Extent = { fixed: 0, token: 0, row: 0, thread: 0 }
export const extentKeys = Object.keys(nothing) as (keyof Extent)[]

export interface Region {
  name: string
  at: Extent
  bytes: Extent
  /** What `at` is a multiple of, whatever the limits. */
  alignment: number
}

/** What is allocated in one piece. */
export interface Memory {
  regions: readonly Region[]
  end: Extent
}

export interface Layout {
  /** A region for each parameter. */
  weights: Memory
  /** What the keys and values of each KV group lie in: each is allocated by itself. */
  kv: readonly KvStorage[]
  /** Regions by the names that `bufferName` and `tableName` give, and the three below. */
  work: Memory
}

export interface KvStorage {
  name: string
  /** From one block to the next. */
  blockBytes: number
  isState: boolean
}

export const SCRATCH = "scratch" // [threads] of attention
export const SCORES = "scores" // [threads] of attention in pieces, and of indexers
export const SAMPLERS = "samplers" // [threads]
export const PLANES = "planes" // [tokens, or slots] rows of a product as a matrix unit takes them

/** What experts work on: slots, so many for each token, and tables of them. See struct expert_memory. */
export const expertRegions = ["rows", "hidden", "rounded", "made"] as const
export const expertTables = ["starts", "used", "row_of", "of_row"] as const
export const expertName = (what: string) => `experts.${what}`

export const bufferName = (id: number) => `b${id}`
/** What the driver knows of every row of a set, and in how many bytes: see struct row_set. */
export const rowTables = { token: 4, wanted: 4, runs: 12 } as const
export const tableName = (rows: RowSet, table: keyof typeof rowTables) => `${rows}.${table}`
/** What it knows of every token: its sequence, and which wanted row it is. */
export const tokenTables = ["sequence_of", "wanted_of"] as const

/** As the kernels are written for them: layoutAssertions of emit.ts has the compiler compare. */
export const LINE = 64
export const ROWS_BEHIND = 4
export const PLANES_BEHIND = 16
/** Regions are read in whole vectors, and fetched ahead: a little beyond their end. */
const SLACK = 256

export function layoutOf(plan: Plan): Layout {
  return { weights: weights(plan), kv: keysAndValues(plan), work: work(plan) }
}

/** In the order of their use; a product fetches some lines beyond its end. */
function weights(plan: Plan): Memory {
  return placed(
    keptParameters(plan).map((kept, id) => ({
      name: plan.parameters[id]!.name,
      bytes: { ...nothing, fixed: upTo(keptBytes(kept) + SLACK, LINE) },
      alignment: LINE,
    })),
  )
}

function keysAndValues({ groups, kv }: Plan): KvStorage[] {
  return groups.map((group) => ({
    name: `layers ${group.layers.join(" ")}`,
    blockBytes: blockBytes(group, kv),
    isState: group.state !== undefined,
  }))
}

function work(plan: Plan): Memory {
  const lines = (name: string, { fixed = 0, ...bytes }: Partial<Extent>) => ({
    name,
    bytes: { ...nothing, ...bytes, fixed: fixed + SLACK },
    alignment: LINE,
  })
  const words = (name: string, bytes: Partial<Extent>) => ({
    name,
    bytes: { ...nothing, ...bytes },
    alignment: 4,
  })
  const buffers = bufferRows(plan).flatMap((row, id) => {
    if (row === undefined) return []
    const { capacity } = plan.buffers[id]!
    return lines(
      bufferName(id),
      capacity === "logits" ? { row } : { token: row, fixed: ROWS_BEHIND * row },
    )
  })
  const planes = planesBytes(plan)
  const slots = slotBytes(plan)
  const tables = { starts: "fixed", used: "fixed", row_of: "token", of_row: "token" } as const
  return placed([
    ...buffers,
    lines(SCRATCH, { thread: scratchBytes(plan) }),
    lines(SCORES, { thread: scoreBytes(plan) }),
    lines(SAMPLERS, { thread: samplerBytes(plan.shapes.vocabulary) }),
    lines(PLANES, { token: planes, fixed: PLANES_BEHIND * planes }),
    ...expertRegions.map((what) =>
      lines(expertName(what), {
        token: slots.active * slots[what],
        fixed: ROWS_BEHIND * slots[what],
      }),
    ),
    ...expertTables.map((what) =>
      words(
        expertName(what),
        tables[what] === "token" ? { token: 4 * slots.active } : { fixed: 4 * (slots.count + 1) },
      ),
    ),
    ...tokenTables.map((name) => words(name, { token: 4 })),
    ...rowSets.flatMap((rows) =>
      Object.entries(rowTables).map(([table, bytes]) =>
        words(
          tableName(rows, table as keyof typeof rowTables),
          rows === "logits" ? { row: bytes } : { token: bytes },
        ),
      ),
    ),
  ])
}

/** One behind the other. What begins on a line comes before what need not, so nothing is rounded up between them. */
function placed(wanted: readonly Omit<Region, "at">[]): Memory {
  let end = nothing
  const regions = wanted.map((region) => {
    const at = end
    if (extentKeys.some((key) => at[key] % region.alignment !== 0))
      throw new Error(`internal: ${region.name} lies across lines`)
    end = mapExtent((key) => at[key] + region.bytes[key])
    return { ...region, at }
  })
  return { regions, end }
}

const mapExtent = (value: (key: keyof Extent) => number) =>
  Object.fromEntries(extentKeys.map((key) => [key, value(key)])) as Extent

/** What a library is opened for: of each part of an extent, how many. */
export type Amounts = Readonly<Record<Exclude<keyof Extent, "fixed">, number>>

export function bytesOf(extent: Extent, amounts: Amounts): number {
  const all = { ...amounts, fixed: 1 }
  return extentKeys.reduce((sum, key) => sum + extent[key] * all[key], 0)
}

export function regionOf({ regions }: Memory, name: string): Region {
  const region = regions.find((each) => each.name === name)
  if (!region) throw new Error(`internal: there is no region ${name}`)
  return region
}

// ------------------------------------------------------------------ the manifest's figures

export function programBytes({ weights, work }: Layout): ProgramBytes {
  const { fixed, token, row, thread } = work.end
  return {
    weights: weights.end.fixed,
    perToken: token,
    perRow: row,
    perThread: thread,
    fixed,
  }
}

/** What keys and values are kept in, and what a block of each group takes: every figure of them comes from here. */
export function kvOf(plan: Plan): Manifest["kv"] {
  const groups = keysAndValues(plan).map(({ blockBytes }, group) => ({
    ...plan.groups[group]!,
    bytesPerBlock: blockBytes,
  }))
  return { dtype: plan.kv, groups }
}

// ------------------------------------------------------------------ rows

/** Rows that lie a multiple of 2 KiB apart would share the few places that a cache has for such addresses. */
export function paddedColumns(columns: number): number {
  const whole = upTo(columns, 32)
  return whole % 512 === 0 ? whole + 32 : whole
}

/** Floats from one row of a buffer to the next: whole panels, so that products need no tails. */
export const strideOf = (plan: Plan, { buffer }: View) =>
  paddedColumns(plan.buffers[buffer]!.columns)

/** quantized_bytes of operands.h: codes, a scale and a first sum for each group. */
export function quantizedBytes({ columns, group }: Pick<Codes, "columns" | "group">): number {
  return upTo(upTo(upTo(columns, group), 4) + Math.ceil(columns / group) * 8, LINE)
}

/** Of each of the plan's buffers, bytes of a row; undefined for scales, which lie behind their row's codes. */
function bufferRows(plan: Plan): (number | undefined)[] {
  const bytes = plan.buffers.map(({ dtype, columns }) =>
    dtype === "f32" ? 4 * paddedColumns(columns) : undefined,
  )
  for (const { output } of plan.steps.filter((step) => step.op === "quantize"))
    bytes[output.codes] = Math.max(bytes[output.codes] ?? 0, quantizedBytes(output))
  return bytes
}

/** The most that any mixture takes: bytes of what a slot holds, and how many slots a token has. */
function slotBytes(plan: Plan) {
  const most = { active: 0, count: 0, rows: 0, hidden: 0, rounded: 0, made: 0 }
  for (const step of plan.steps) {
    if (step.op !== "experts") continue
    const { experts, input, output } = step
    const { rounded, intermediate, up } = experts
    // Rows that are some columns of a buffer are as far apart as its own.
    const rowBytes = (read: ProductInput) =>
      read.kind === "float" ? 4 * strideOf(plan, read.view) : quantizedBytes(read.codes)
    const own = {
      active: experts.active,
      count: experts.count,
      rows: Math.max(rowBytes(input), up ? rowBytes(up.input) : 0), // gates' first, then the others
      hidden: 4 * paddedColumns(intermediate),
      rounded: rounded ? roundedBytes(intermediate, rounded) : 0,
      made: 4 * paddedColumns(output.columns),
    }
    for (const key of Object.keys(own) as (keyof typeof own)[])
      most[key] = Math.max(most[key], own[key])
  }
  return most
}

/** Of a row that experts round between their products. */
export function roundedBytes(columns: number, codec: GroupCodecName): number {
  return quantizedBytes({ columns, group: groupCodecs[codec].group })
}

/**
 * planes_bytes of float_tiles.h, for the widest product that a matrix unit may take: two numbers of 16 bits for each float.
 * 0: there is none.
 */
function planesBytes(plan: Plan): number {
  const kept = keptParameters(plan)
  const widest = (weights: readonly ParameterId[]) => {
    const halves = weights.map((weight) => kept[weight]!.panels).filter(isHalves)
    const bytes = upTo(Math.max(0, ...halves.map(({ columns }) => columns)), 32) * 4
    return bytes > 0 && bytes % 2048 === 0 ? bytes + LINE : bytes
  }
  const all = plan.steps.map((step) => {
    if (step.op === "matmul") return widest([step.weight])
    if (step.op !== "experts") return 0
    const { active, gateUp, up, down } = step.experts
    return active * widest([gateUp, ...(up ? [up.weight] : []), down])
  })
  return Math.max(0, ...all)
}

// ------------------------------------------------------------------ keys, values and workspaces

/** Of every layer; a plan without layers remembers nothing. */
export const attentions = ({ steps }: Pick<Plan, "steps">): Attention[] =>
  steps.flatMap((step) => (step.op === "attend" ? [step.attention] : []))

/** block_bytes of attention.h. */
function blockBytes(group: KvShape, kv: KvType): number {
  if (group.state !== undefined) return stateBytes(group)
  const { layers, kvHeads, headDim } = group
  const { key, value } = headDim
  const numbers = BLOCK * (key + upTo(value, 16))
  const scales = BLOCK * (value === 0 ? 1 : 2) * 4 // for each key and value
  const head = kv === "q8" ? numbers + scales : numbers * (kv === "f32" ? 4 : 2)
  return layers.length * kvHeads * head
}

/**
 * item_scratch of attention_tiles.h, enough for any layer and for either way: in vectors sums, largest and total of 12
 * positions of one KV head's queries, and what is packed where it is sparse; on the matrix unit tiles of 1 KiB, for eight tiles of rows.
 */
function scratchBytes(plan: Plan): number {
  return Math.max(0, ...attentions(plan).map((attention) => itemBytes(attention, plan.kv)))
}

/** Of a thread: attention that would need more is not taken in pieces. */
const MAX_SCORES = 4 << 20

/**
 * Whether threads may share one KV head's context (attention_pieces.h): where all of it is seen, and values do not lie in keys.
 */
export const isInPieces = ({ latent, bidirectional, window }: Attention) =>
  latent === undefined && window === undefined && !bidirectional

/** Whether threads may share one KV head's query heads (attention_loop): where values lie in keys, so that pieces of a context cannot. */
export const isInShares = ({ latent, kvHeads }: Attention) => latent !== undefined && kvHeads === 1

/** As much for each thread as one KV head's queries have scores of a whole context; for an indexer as much as a row has. */
function scoreBytes(plan: Plan): number {
  const positions = upTo(plan.shapes.context, 64)
  const bytes = attentions(plan)
    .filter(isInPieces)
    .map(({ heads, kvHeads }) => (heads / kvHeads) * positions * 4)
  const ofRow = plan.steps.some(({ op }) => op === "indexer") ? positions * 4 : 0
  return Math.max(ofRow, Math.min(MAX_SCORES, Math.max(0, ...bytes)))
}

function itemBytes(attention: Attention, kv: Plan["kv"]): number {
  const { heads, kvHeads, headDim, latent, value, sparse } = attention
  const group = heads / kvHeads
  const width = upTo(valueDim(attention), 16)
  const turned = latent === undefined ? 0 : 64 * width
  const packed = sparse ? 64 * (headDim + 1 + group) : 0
  const vectors = upTo((12 * group * (width + 2) + turned + packed) * 4, LINE)
  if (kv === "f32" || latent !== undefined || value !== undefined) return vectors
  const rows = Math.ceil((group < 128 ? Math.floor(128 / group) * group : group) / 16)
  const [pairs, columns] = [Math.ceil(headDim / 32), Math.ceil(headDim / 16)]
  const query = rows * pairs * 2
  const step = pairs * 2 * 4 + 2 * 2 * columns + 4 * 4
  const sums = rows * columns + rows + Math.ceil((rows * 16 * 4) / 1024)
  return Math.max(vectors, 1024 * (query + step + sums))
}

/** sampler_bytes of sampler.h: a score and an id for each token, and a float for each 64. */
const samplerBytes = (vocabulary: number) => upTo((vocabulary + 64) * 9, LINE)

const upTo = (n: number, unit: number) => Math.ceil(n / unit) * unit
