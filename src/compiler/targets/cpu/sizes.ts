// What an opened library of the target cpu takes, known before it is built: the start-up table counts with it. These are
// driver.h's place_weights and lay_out in TypeScript; test/model/sizes.test.ts holds them to what a library really takes.

import { availableParallelism } from "node:os"
import { floatBytes, formats, isGroupFormat } from "../../../runtime/format.ts"
import type { ProgramLimits } from "../../../runtime/program.ts"
import type { Codes, Plan } from "../../plan.ts"
import { type Keeper, keepers, padded, planesColumns } from "./emit.ts"

/** Bytes of the weights as the kernels keep them, and of everything else but KV blocks. */
export function cpuBytes(
  plan: Plan,
  threads: number = availableParallelism(),
): {
  weights: number
  buffers: (limits: Pick<ProgramLimits, "tokens" | "rows">) => number
} {
  const rowBytes = bufferBytes(plan)
  const { vocabulary } = plan.shapes
  const own = threads * (scratchBytes(plan) + samplerBytes(vocabulary))
  return {
    weights: keepers(plan).reduce((sum, keeper) => sum + onLines(keptBytes(keeper)), 0),
    buffers: ({ tokens, rows }) =>
      plan.buffers.reduce(
        (sum, { capacity }, id) =>
          sum + onLines(rowBytes[id]! * (capacity === "logits" ? rows : tokens + ROWS_BEHIND)),
        own + ROW_SETS * tokens * ROW_BYTES + planesBytes(plan, tokens),
      ),
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

/** Rows of the widest product that a matrix unit takes as planes (float_tiles.h): two numbers of 16 bits for each float. */
function planesBytes(plan: Plan, tokens: number): number {
  const columns = planesColumns(plan)
  const bytes = upTo(columns, 32) * 4
  return columns ? (bytes % 2048 ? bytes : bytes + LINE) * (tokens + PLANES_BEHIND) : 0
}

/** panels_bytes of panels.h: panels of 32 rows, codes of 3 bits as nibbles, a line of scales for each group. */
function keptBytes({ kept, panels, stored }: Keeper): number {
  const { rows, columns, pair, format } = panels
  if (kept === "VECTOR") return stored.rows * 4
  const count = pair ? Math.ceil(pair / 16) : Math.ceil(rows / 32)
  if (kept === "BIAS") return count * 32 * 4
  if (!isGroupFormat(format)) return count * columns * 32 * floatBytes[format]
  const { bits, group, dtype } = formats[format]
  const lines = group / (bits === 8 ? 4 : 8)
  return count * Math.ceil(columns / group) * (lines * 2 * LINE + 32 * floatBytes[dtype])
}

/** Of each of the plan's buffers, bytes of a row. Scales lie behind their row's codes. */
function bufferBytes(plan: Plan): number[] {
  const bytes = plan.buffers.map(({ columns }) => 4 * padded(columns))
  for (const step of plan.steps)
    if (step.op === "quantize") {
      bytes[step.output.codes] = quantizedBytes(step.output)
      bytes[step.output.scales] = 0
    }
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

/** sampler_bytes of sampler.h: a score, a share, a float, an id for each token, and a float for each 64. */
function samplerBytes(vocabulary: number): number {
  return upTo((vocabulary + 64) * 25, LINE)
}
