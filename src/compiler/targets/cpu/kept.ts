// How a library keeps the plan's parameters: as panels for the products that read them, as floats where no product reads
// codes, or as vectors. How many bytes that takes is said here, where they lie in layout.ts; driver_model.h brings them there.

import {
  type CodecName,
  dtypeOf,
  floatBytes,
  type GroupCodec,
  groupCodecs,
  isGroupCodec,
} from "../../../runtime/format.ts"
import type { ParameterId, Plan } from "../../plan.ts"

/** What the library makes of a parameter on its way in. */
export interface Kept {
  /** A vector is floats in order; a bias stands in the order of its matrix's panels. */
  as: "MATRIX" | "EXPANDED" | "VECTOR" | "BIAS"
  panels: Panels // of a bias: those of its matrix
  stored: Panels // as it comes in
}

export interface Panels {
  rows: number
  columns: number
  /** Rows of the first half of a paired matrix, or 0. */
  pair: number
  codec: CodecName
}

/** By parameter. */
export function keptParameters(plan: Plan): Kept[] {
  const plain = (id: ParameterId): Panels => ({ ...plan.parameters[id]!, pair: 0 })
  const kept = plan.parameters.map((parameter, id): Kept => {
    const panels = plain(id)
    return { as: parameter.columns === 1 ? "VECTOR" : "MATRIX", panels, stored: panels }
  })
  for (const step of plan.steps) {
    if (step.op === "embed") kept[step.table]!.as = "MATRIX"
    if (step.op !== "matmul") continue
    const { input, epilogue } = step
    const weight = plain(step.weight)
    const panels = { ...weight, pair: epilogue.kind === "gated" ? weight.rows / 2 : 0 }
    kept[step.weight] = { as: "MATRIX", panels, stored: weight }
    if (step.bias !== undefined) kept[step.bias] = { as: "BIAS", panels, stored: plain(step.bias) }
    // Products of unrounded activations read floats: the codes are expanded once, on the way in.
    if (input.kind === "float" && isGroupCodec(weight.codec)) {
      panels.codec = dtypeOf(weight.codec)
      kept[step.weight]!.as = "EXPANDED"
    }
  }
  return kept
}

/** Weights that a matrix unit takes as planes of bf16 (float_tiles.h). */
export const isHalves = ({ codec }: Panels) => codec === "f16" || codec === "bf16"

export const panelsCount = ({ rows, pair }: Panels) =>
  pair ? Math.ceil(pair / 16) : Math.ceil(rows / PANEL)

const PANEL = 32
const LINE = 64

/** panels_bytes of panels.h: codes of 3 bits are nibbles; scales stand behind each group, or those of a block in front of it. */
export function keptBytes({ as, panels, stored }: Kept): number {
  const { columns, codec } = panels
  if (as === "VECTOR") return stored.rows * 4
  const count = panelsCount(panels)
  if (as === "BIAS") return count * PANEL * 4
  if (!isGroupCodec(codec)) return count * columns * PANEL * floatBytes[codec]
  const { bits, group, minimums, dtype, sixBits, block }: GroupCodec = groupCodecs[codec]
  const lines = sixBits ? (group * 3) / 16 : group / (bits === 8 ? 4 : 8)
  const groups = Math.ceil(columns / group)
  const rows = PANEL * (minimums ? 2 : 1)
  const scales = block
    ? Math.ceil(groups / block) * (4 + block) * rows
    : groups * floatBytes[dtype] * rows
  return count * (groups * lines * 2 * LINE + scales)
}
