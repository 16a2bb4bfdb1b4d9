// How a library keeps the plan's parameters: as panels for the products that read them, as floats where no product reads
// codes, or as vectors. How many bytes that takes is said here, where they lie in layout.ts; driver_model.h brings them there.

import {
  type CodecName,
  dtypeOf,
  floatBytes,
  type GroupCodec,
  groupCodecs,
  isGroupCodec,
  isIntegerCodec,
} from "../../../runtime/format.ts"
import { type ParameterId, type Plan, type ProductInput, rowsOfGateUp } from "../../plan.ts"

/** What the library makes of a parameter on its way in. */
export interface Kept {
  /** A vector is floats in order; a bias stands in the order of its matrix's panels. */
  as: "MATRIX" | "EXPANDED" | "VECTOR" | "BIAS"
  panels: Panels // of a bias: those of its matrix
  stored: Panels // as it comes in
  /** So many matrices or biases one behind the other, which come in as one; `panels` are those of each. */
  matrices: number
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
    const as = parameter.columns === 1 ? "VECTOR" : "MATRIX"
    return { as, panels, stored: panels, matrices: 1 }
  })
  const keep = (id: ParameterId, { rounded, paired, matrices }: Multiplied): Panels => {
    const stored = plain(id)
    const rows = stored.rows / matrices
    // Products of unrounded activations read floats: codes are expanded once, on the way in, but those that are floats.
    const expands = !rounded && isIntegerCodec(stored.codec)
    const codec = expands ? dtypeOf(stored.codec) : stored.codec
    const panels = { ...stored, rows, pair: paired ? rows / 2 : 0, codec }
    kept[id] = { as: expands ? "EXPANDED" : "MATRIX", panels, stored, matrices }
    return panels
  }
  const keepBias = (id: ParameterId, panels: Panels, matrices: number) => {
    kept[id] = { as: "BIAS", panels, stored: plain(id), matrices }
  }
  for (const step of plan.steps) {
    if (step.op === "embed") kept[step.table]!.as = "MATRIX"
    if (step.op === "matmul") {
      const { input, epilogue, weight, bias } = step
      const paired = epilogue.kind === "gated"
      const panels = keep(weight, { rounded: input.kind === "int8", paired, matrices: 1 })
      if (bias !== undefined) keepBias(bias, panels, 1)
    }
    if (step.op === "experts") {
      const { gateUp, up, down, biases, rounded, count: matrices } = step.experts
      const keepStack = (
        id: ParameterId,
        bias: ParameterId | undefined,
        read: Omit<Multiplied, "matrices">,
      ) => {
        const panels = keep(id, { ...read, matrices })
        if (bias !== undefined) keepBias(bias, panels, matrices)
      }
      const isRounded = ({ kind }: ProductInput) => kind === "int8"
      keepStack(gateUp, biases?.gateUp, {
        rounded: isRounded(step.input),
        paired: rowsOfGateUp(step.experts) > 1,
      })
      if (up) keepStack(up.weight, biases?.up, { rounded: isRounded(up.input), paired: false })
      keepStack(down, biases?.down, { rounded: rounded !== undefined, paired: false })
    }
    if (step.op === "headMatmul") keep(step.weight, { rounded: false, paired: false, matrices: 1 })
  }
  return kept
}

/** How a product reads a matrix. */
interface Multiplied {
  rounded: boolean
  paired: boolean
  matrices: number
}

/** Weights that a matrix unit takes as planes of bf16 (float_tiles.h). */
export const isHalves = ({ codec }: Panels) => codec === "f16" || codec === "bf16"

export const panelsCount = ({ rows, pair }: Panels) =>
  pair ? Math.ceil(pair / 16) : Math.ceil(rows / PANEL)

const PANEL = 32
const LINE = 64

export function keptBytes({ as, panels, stored, matrices }: Kept): number {
  if (as === "VECTOR") return stored.rows * 4
  return matrices * (as === "BIAS" ? panelsCount(panels) * PANEL * 4 : matrixBytes(panels))
}

/** panels_bytes of panels.h: codes of 3 bits are nibbles; scales stand behind each group, or those of a block in front of it. */
export function matrixBytes(panels: Panels): number {
  const { columns, codec } = panels
  const count = panelsCount(panels)
  if (!isGroupCodec(codec)) return count * columns * PANEL * floatBytes[codec]
  const { bits, group, minimums, dtype, sixBits, block }: GroupCodec = groupCodecs[codec]
  const lines = sixBits ? (group * 3) / 16 : group / (bits === 8 ? 4 : 8)
  const groups = Math.ceil(columns / group)
  const rows = PANEL * (minimums ? 2 : 1)
  const scales = block
    ? Math.ceil(groups / block) * (2 + block) * rows
    : groups * floatBytes[dtype] * rows
  return count * (groups * lines * 2 * LINE + scales)
}
