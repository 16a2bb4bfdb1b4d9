// What an opened library of the target cpu takes, known before it is built: the start-up table counts with it. These are
// driver.h's place_weights and lay_out in TypeScript; test/model/sizes.test.ts holds them to what a library really takes.

import { floatBytes, groupCodecs, isGroupCodec } from "../../../runtime/format.ts"
import type { ProgramBytes } from "../../../runtime/manifest.ts"
import type { Buffer, Codes, Plan } from "../../plan.ts"
import { type Keeper, keepers, padded, planesColumns } from "./emit.ts"

/** For the manifest: weights as the kernels keep them, and everything else but KV blocks. */
export function cpuBytes(plan: Plan): ProgramBytes {
  const rowBytes = bufferBytes(plan)
  const rowsOf = (capacity: Buffer["capacity"]) =>
    plan.buffers.reduce(
      (sum, each, id) => sum + (each.capacity === capacity ? rowBytes[id]! : 0),
      0,
    )
  const planes = planesBytes(plan)
  return {
    weights: keepers(plan).reduce((sum, keeper) => sum + onLines(keptBytes(keeper)), 0),
    perToken: rowsOf("tokens") + ROW_SETS * ROW_BYTES + planes,
    perRow: rowsOf("logits"),
    perThread: scratchBytes(plan) + samplerBytes(plan.shapes.vocabulary),
    // All rows are whole lines, so what begins behind them does on a line.
    fixed: plan.buffers.length * SLACK + ROWS_BEHIND * rowsOf("tokens") + PLANES_BEHIND * planes,
  }
}

const LINE = 64
const SLACK = 256
const ROWS_BEHIND = 4
const PLANES_BEHIND = 16
/** What the driver knows of a row of each of its four sets, three of which have room for all tokens. */
const ROW_SETS = 4
const ROW_BYTES = 20

const onLines = (bytes: number) => Math.ceil((bytes + SLACK) / LINE) * LINE
const upTo = (n: number, unit: number) => Math.ceil(n / unit) * unit

/** A row of the widest product that a matrix unit takes as planes (float_tiles.h): two numbers of 16 bits for each float. */
function planesBytes(plan: Plan): number {
  const columns = planesColumns(plan)
  const bytes = upTo(columns, 32) * 4
  return columns && bytes % 2048 === 0 ? bytes + LINE : bytes
}

/** panels_bytes of panels.h: panels of 32 rows, codes of 3 bits as nibbles, a line of scales for each group. */
function keptBytes({ kept, panels, stored }: Keeper): number {
  const { rows, columns, pair, codec } = panels
  if (kept === "VECTOR") return stored.rows * 4
  const count = pair ? Math.ceil(pair / 16) : Math.ceil(rows / 32)
  if (kept === "BIAS") return count * 32 * 4
  if (!isGroupCodec(codec)) return count * columns * 32 * floatBytes[codec]
  const { bits, group, minimums, dtype } = groupCodecs[codec]
  const lines = group / (bits === 8 ? 4 : 8)
  return (
    count *
    Math.ceil(columns / group) *
    (lines * 2 * LINE + 32 * floatBytes[dtype] * (minimums ? 2 : 1))
  )
}

/** Of each of the plan's buffers, bytes of a row. Scales lie behind their row's codes. */
function bufferBytes(plan: Plan): number[] {
  const bytes = plan.buffers.map(({ dtype, columns }) =>
    dtype === "f32" ? 4 * padded(columns) : 0,
  )
  for (const { output } of plan.steps.filter((step) => step.op === "quantize"))
    bytes[output.codes] = Math.max(bytes[output.codes]!, quantizedBytes(output))
  return bytes
}

/** quantized_bytes of the kernels: codes, a scale and a first sum for each group. */
function quantizedBytes({ columns, group }: Codes): number {
  return upTo(upTo(upTo(columns, group), 4) + Math.ceil(columns / group) * 8, LINE)
}

/**
 * item_scratch of attention_tiles.h, enough for either way: in vectors sums, largest and total of 12 positions of one KV
 * head's queries; on the matrix unit tiles of 1 KiB, for eight tiles of rows.
 */
function scratchBytes({ kv, shapes: { heads, kvHeads, headDim } }: Plan): number {
  const group = heads / kvHeads
  const vectors = upTo(12 * group * (upTo(headDim, 16) + 2) * 4, LINE)
  if (kv === "f32") return vectors
  const rows = Math.ceil((group < 128 ? Math.floor(128 / group) * group : group) / 16)
  const [pairs, width] = [Math.ceil(headDim / 32), Math.ceil(headDim / 16)]
  const query = rows * pairs * 2
  const step = pairs * 2 * 4 + 2 * 2 * width + 4 * 4
  const sums = rows * width + rows + Math.ceil((rows * 16 * 4) / 1024)
  return Math.max(vectors, 1024 * (query + step + sums))
}

/** sampler_bytes of sampler.h: a score and an id for each token, and a float for each 64. */
function samplerBytes(vocabulary: number): number {
  return upTo((vocabulary + 64) * 9, LINE)
}
