// Which kernels compute a product of the plan, by how many rows it has. All of them compute the same bits.

import { isGroupCodec, isWideCodec } from "../../../../runtime/format.ts"
import type { ElementwiseName } from "../../../graph/elementwise.ts"
import type { Codes, Plan, Step, View } from "../../../plan.ts"
import { isReadBehind, viewsRead } from "../../runs.ts"
import { once } from "../ir/builder.ts"
import type { Kernel } from "../ir/ir.ts"
import type { Binding, Choice, Launch } from "../launch.ts"
import { PANEL, strideOf } from "../layout.ts"
import {
  canRound,
  type FewRows,
  fewProduct,
  halvesOf,
  type ProductEnd,
  type ProductKind,
} from "./products.ts"
import { isNarrow } from "./rows.ts"
import {
  isTiled,
  LAID,
  type Lying,
  laidRow,
  laidRows,
  type TiledRows,
  tiledProduct,
  widthOf,
} from "./tiled.ts"
import { TILE_COLUMNS, tileProduct, type Units } from "./tiles.ts"
import { weightBindings } from "./weights.ts"

const [few, tile, tiled] = [once(fewProduct), once(tileOf), once(tiledProduct)]

export type Matmul = Extract<Step, { op: "matmul" }>

/** Up to so many rows a product is one of a few rows at a time. */
export const MOST_FEW = 64

/**
 * Up to how many rows are taken a few at a time, and how many then. Beyond eight the matrix is read again, mostly from a cache,
 * by more groups than there are tiles: so few of those would leave most of a wide device idle.
 */
const FEW: readonly { most: number; rows: FewRows }[] = [
  { most: 1, rows: 1 },
  { most: 2, rows: 2 },
  { most: 4, rows: 4 },
  { most: MOST_FEW, rows: 8 },
]

/** @param units what a device may multiply codes with, the best first */
function tileOf(kind: ProductKind, rows: 32 | 64, [best, ...others]: readonly Units[]): Kernel {
  const made = tileProduct(kind, rows, best!)
  return others.length > 0 ? { ...made, otherwise: tileOf(kind, rows, others) } : made
}

/** What becomes of a product's rows instead of being stored: a function of them, which may be multiplied with other rows; or codes. */
export interface Ending {
  applied:
    | { function: ElementwiseName; by: number | undefined; times: View | undefined }
    | undefined
  to: View | Codes
}

/**
 * What the steps behind a product make of its rows, if nobody else reads these: of up to MOST_FEW rows the product does so itself.
 */
export function endingOf(plan: Plan, step: Matmul, behind: readonly Step[]): Ending | undefined {
  const { output, epilogue, rows } = step
  const last = behind.at(-1)
  if (behind.some((each) => each.rows !== rows) || epilogue.kind === "add") return undefined
  const applied =
    behind.length > 1 || last?.op === "apply" ? appliedOf(plan, step, behind) : undefined
  if (last?.op === "apply") {
    // A product that a run can take in leaves it to that.
    if (!applied || isNarrow(plan, step)) return undefined
    // Some groups of threads are done when others begin to read.
    const isGiven = viewsRead(step).some(({ buffer }) => buffer === last.output.buffer)
    return isGiven ? undefined : { applied, to: last.output }
  }
  if (last?.op !== "quantize" || (behind.length > 1 && !applied?.times)) return undefined
  if (isWideCodec(last.output.codec) || !canRound(last.output.group)) return undefined
  const rounded = applied ? (behind[1] as Step & { op: "multiply" }).output : output
  if (!isSame(last.input, rounded)) return undefined
  // The same of codes.
  const { input } = step
  const { codes, scales } = last.output
  if (input.kind !== "float" && (input.codes.codes === codes || input.codes.scales === scales))
    return undefined
  const isRead = isReadBehind(plan, plan.steps.indexOf(last), rounded)
  return isRead ? undefined : { applied, to: last.output }
}

/** What is applied to the rows of a product; and multiplied with others before a third step rounds them. */
function appliedOf(
  plan: Plan,
  { output, epilogue }: Matmul,
  [apply, multiply, ...others]: readonly Step[],
): Ending["applied"] {
  if (apply?.op !== "apply" || epilogue.kind !== "store" || !isSame(apply.input, output))
    return undefined
  const isReadLater = (step: Step, view: View) => isReadBehind(plan, plan.steps.indexOf(step), view)
  const { function: name, by } = apply
  if (!multiply) {
    const isLate = !isSame(apply.output, output) && isReadLater(apply, output)
    return isLate ? undefined : { function: name, by, times: undefined }
  }
  if (multiply.op !== "multiply" || others.length > 1) return undefined
  const { a, b } = multiply
  if (!isSame(a, apply.output) || b.columns !== a.columns) return undefined
  // What it is multiplied with was there before.
  if ([output, apply.output].some(({ buffer }) => buffer === b.buffer)) return undefined
  const at = plan.steps.indexOf(multiply)
  const isLate = isReadBehind(plan, at, apply.output) || isReadBehind(plan, at - 1, output)
  return isLate ? undefined : { function: name, by, times: b }
}

const isSame = (a: View, b: View) =>
  a.buffer === b.buffer && a.from === b.from && a.columns === b.columns

/**
 * @param units what the devices of the target may multiply codes with, the best first
 * @param ending what becomes of few rows
 */
export function matmulChoices(
  plan: Plan,
  step: Matmul,
  units: readonly Units[],
  ending?: Ending,
): Choice[] {
  const kind = kindOf(plan, step)
  const fewKind = kindOf(plan, step, ending)
  const { columns } = step.output
  const choice = (most: number | undefined, kernel: Kernel, width: number, per: number): Choice => {
    const operands = operandsOf(plan, step, most === undefined ? undefined : ending)
    const groups = [Math.ceil(columns / width), { rows: step.rows, per }, 1] as const
    return { most, launches: [{ kernel, operands, groups }] }
  }
  const fews = FEW.map(({ most, rows }) => choice(most, few(fewKind, rows), PANEL, rows))
  if (units[0] === "tiles" && isTiled(kind, columns)) {
    const tiles = (most: number | undefined, own: ProductKind, rows: TiledRows, lying: Lying) =>
      choice(most, tiled(own, rows, lying), widthOf(own, lying), rows)
    const laid = (most: number | undefined, own: ProductKind) => {
      // Of more than 32 times a panel, sums find no register.
      const rows = ((32 * PANEL) / (widthOf(own, "laid") * halvesOf(own))) as TiledRows
      return behindLaying(plan, step, tiles(most, own, rows, "laid"))
    }
    return [
      ...fews.slice(0, -1),
      tiles(16, fewKind, 16, "in rows"),
      laid(MOST_FEW, fewKind),
      laid(undefined, kind),
    ]
  }
  const hasCodes = step.input.kind !== "float"
  // Groups of unpacked floats leave no room in shared memory for the larger tile.
  const tileRows = !hasCodes && isGroupCodec(kind.codec) ? 32 : 64
  const tileUnits = hasCodes ? units : (["dots"] as const)
  return [
    ...fews,
    choice(undefined, tile(kind, tileRows, tileUnits), TILE_COLUMNS / halvesOf(kind), tileRows),
  ]
}

/** The rows of the input are laid first, and the product reads these. */
function behindLaying(plan: Plan, { input, weight, rows }: Matmul, choice: Choice): Choice {
  if (input.kind === "float") throw new Error("internal: floats are not laid")
  const { columns } = plan.parameters[weight]!
  const [product] = choice.launches
  const bytes = laidRow(columns)
  const { capacity } = plan.buffers[input.codes.codes]!
  const scratch = (name: "codes" | "scales"): Binding => {
    const each = bytes[name]
    const every = capacity === "tokens" ? { perToken: each } : { perRow: each }
    const fixed = (LAID.rows - 1) * each // rows are laid by so many
    return { kind: "scratch", name: `laid ${name}`, bytes: { fixed, ...every } }
  }
  const laid = [scratch("codes"), scratch("scales")]
  const [count, codes, scales, ...others] = product!.operands
  const strides = [input.codes.codes, input.codes.scales].map((of) => strideOf(plan.buffers[of]!))
  const laying: Launch = {
    kernel: laidRows(),
    operands: [count!, codes!, scales!, ...laid, bytes.groups, strides[0]! / 4, strides[1]!],
    groups: [Math.ceil(bytes.groups / LAID.groups), { rows, per: LAID.rows }, 1],
  }
  return { ...choice, launches: [laying, { ...product!, operands: [count!, ...laid, ...others] }] }
}

/** Of a product of one row that makes what it reads. */
export function madeKind(plan: Plan, step: Matmul, ending: Ending | undefined): ProductKind {
  const kind = kindOf(plan, step, ending)
  return kind.input === "aligned floats" ? { ...kind, input: "floats" } : kind
}

function kindOf(plan: Plan, step: Matmul, ending?: Ending): ProductKind {
  const { input, weight, bias, epilogue, output, parts } = step
  const { codec } = plan.parameters[weight]!
  const end = (): ProductEnd => {
    if (ending?.applied) {
      const { function: applied, by, times } = ending.applied
      return { applied, by, ...(times && { times: "to" }) }
    }
    if (epilogue.kind === "store") return "store"
    if (epilogue.kind === "gated") return { gated: epilogue.activation }
    const { buffer, from } = epilogue.to
    return buffer === output.buffer && from === output.from ? "add" : "add to"
  }
  const floats = (from: number) => (from % 4 === 0 ? "aligned floats" : "floats")
  return {
    input: input.kind === "float" ? floats(input.view.from) : input.kind,
    codec,
    bias: bias !== undefined,
    end: end(),
    parts,
    ...(ending && "codes" in ending.to && { rounds: ending.to.group }),
  }
}

/** Of a product of one row that makes what it reads: all but that. */
export const madeOperands = (plan: Plan, step: Matmul, ending: Ending | undefined) =>
  operandsOf(plan, step, ending, false)

/** In the order of productOperands. */
function operandsOf(plan: Plan, step: Matmul, ending?: Ending, isGiven = true): Binding[] {
  const { rows, input, weight, bias, epilogue, output } = step
  const of = (buffer: number, from: number): Binding => ({ kind: "buffer", buffer, from })
  const strideIn = (buffer: number) => strideOf(plan.buffers[buffer]!)
  const { end } = kindOf(plan, step)
  const to = end === "add to" && epilogue.kind === "add" ? epilogue.to : ending?.applied?.times
  const buffers: Binding[] = [{ kind: "step", region: { name: "count", of: rows } }]
  const strides: number[] = []
  if (!isGiven) {
    // It is in shared memory, or nowhere.
  } else if (input.kind !== "float") {
    const { codes, scales } = input.codes
    buffers.push(of(codes, 0), of(scales, 0))
    strides.push(strideIn(codes) / 4, strideIn(scales))
  } else {
    buffers.push(of(input.view.buffer, input.view.from))
    strides.push(strideIn(input.view.buffer))
  }
  buffers.push(...weightBindings(plan, weight))
  if (bias !== undefined) buffers.push(...weightBindings(plan, bias))
  if (to) buffers.push(of(to.buffer, to.from))
  const stored = ending?.to ?? output
  if ("codes" in stored) {
    buffers.push(of(stored.codes, 0), of(stored.scales, 0))
    if (to) strides.push(strideIn(to.buffer))
    strides.push(strideIn(stored.codes) / 4, strideIn(stored.scales))
  } else {
    buffers.push(of(stored.buffer, stored.from))
    strides.push(strideIn(stored.buffer))
    if (to) strides.push(strideIn(to.buffer))
  }
  return [...buffers, plan.parameters[weight]!.columns, output.columns, ...strides]
}
