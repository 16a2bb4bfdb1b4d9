// Plan to tape: every step becomes launches of kernels, kernels that are equal become one, and what operands stand for gets its
// place. Which kernels a step takes is said by the files of kernels/; this file only puts together what they hand over.

import type { Region } from "../../../runtime/gpu/regions.ts"
import type {
  PlaceSize,
  Tape,
  TapeGroups,
  TapeLaunch,
  TapeOperand,
  TapeRows,
  TapeStep,
} from "../../../runtime/gpu/tape.ts"
import { type ParameterId, type Plan, type Step, stepLine, type View } from "../../plan.ts"
import type { Sharded } from "../../shard.ts"
import { isRowStep, type RowStep } from "../runs.ts"
import { beside } from "./beside.ts"
import type { Kernel } from "./ir/ir.ts"
import { attendChoices, waitingOf } from "./kernels/attend.ts"
import { copiesOf } from "./kernels/copy.ts"
import { type DeltaStep, deltaLaunches } from "./kernels/delta.ts"
import { expertsChoices, MOST_ROUTED, routedLaunch, sumsOf } from "./kernels/experts.ts"
import { headChoices, headCodes, headTurning, mergesHeads } from "./kernels/heads.ts"
import { indexerChoices } from "./kernels/indexer.ts"
import { blockBytesOf } from "./kernels/kv.ts"
import { makingLaunch, makingsOf } from "./kernels/made.ts"
import { endingOf, type Matmul, MOST_FEW, matmulChoices } from "./kernels/matmul.ts"
import { MOST_MERGED } from "./kernels/merge.ts"
import { packOf } from "./kernels/pack.ts"
import {
  isNarrow,
  operandBytes,
  type Pieces,
  piecesOf,
  rowChoices,
  rowsBeside,
  wholeLaunch,
} from "./kernels/rows.ts"
import { samplerLaunches } from "./kernels/sampler.ts"
import type { Units } from "./kernels/tiles.ts"
import { type Binding, type Choice, type Groups, type Launch, OPERAND_BYTES } from "./launch.ts"
import { strideOf, weightLayout } from "./layout.ts"
import { beginOfOne, choicesOfOne, planOfOne, withOne } from "./one-token.ts"
import { mayMake, type Unit, unitsOf } from "./order.ts"

export interface KernelWords {
  /** What products of codes are written for, the best first: what a device has not, its profile prints otherwise. */
  units: readonly Units[]
  /** Whether no kernel does two things beside each other, and products of floats make no rows for themselves. */
  apart?: true
}

/** A tape whose kernels are not printed yet. */
export interface Unprinted {
  tape: Omit<Tape, "profiles" | "kernels">
  kernels: readonly Kernel[]
}

/**
 * @param words what the target's kernels may be made of
 * @param sharded whose shards' plan it is; absent: the plan is whole
 */
export function tapeOf(plan: Plan, words: KernelWords, sharded?: Sharded): Unprinted {
  const maker = new TapeMaker(plan, words)
  const steps = stepsOf(plan, maker)
  steps.push(maker.draw())
  return {
    tape: {
      steps,
      ...(sharded && { slices: sharded.slices }),
      packs: plan.parameters.map((_, id) => maker.pack(id)),
      copies: plan.groups.map((_, group) => maker.launches(copiesOf(plan, group))),
      logits: maker.rows(plan.logits),
      hidden: maker.rows(plan.hidden),
      places: maker.places,
      regions: maker.regions,
      counts: countsOf(steps),
    },
    kernels: maker.kernels,
  }
}

function stepsOf(plan: Plan, maker: TapeMaker): TapeStep[] {
  const all = unitsOf(plan)
  const steps = maker.steps(all)
  const one = planOfOne(plan)
  if (!one) return steps
  const ofOne = unitsOf(one)
  const begin = beginOfOne(all, ofOne, plan)
  return withOne(steps, maker.of(one).steps(ofOne.slice(begin)), begin)
}

/** Of as many rows products are brought beside each other. */
const MOST_BESIDE = [1, 2, 4]

/** Of two steps of which the last launch of the first and the only one of the second may be one; the second then has none. */
function besideEachOther(
  first: readonly Choice[],
  second: readonly Choice[],
): [readonly Choice[], readonly Choice[]] {
  const of = (choices: readonly Choice[], rows: number) =>
    choices.find(({ most }) => most === undefined || rows <= most)!
  const both = MOST_BESIDE.map((most) => {
    const [own, other] = [of(first, most), of(second, most)]
    const [last, [only, ...more]] = [own.launches.at(-1), other.launches]
    const one = last && only && more.length === 0 ? beside(last, only) : undefined
    if (!one)
      return [
        { ...own, most },
        { ...other, most },
      ] as const
    return [
      { most, launches: [...own.launches.slice(0, -1), one] },
      { most, launches: [] },
    ] as const
  })
  const others = (choices: readonly Choice[]) =>
    choices.filter(({ most }) => most === undefined || most > MOST_BESIDE.at(-1)!)
  return [
    [...both.map(([own]) => own), ...others(first)],
    [...both.map(([, other]) => other), ...others(second)],
  ]
}

/** What is numbered as it is met. */
class Numbered {
  readonly places: PlaceSize[] = []
  readonly regions: Region[] = []
  readonly kernels: Kernel[] = []
  readonly named = new Map<string, number>() // places by their names
  readonly known = new Map<string, number>() // kernels and regions as text
  readonly numbers = new Map<Kernel, number>()
}

class TapeMaker {
  readonly #plan: Plan
  readonly #words: KernelWords
  readonly #all: Numbered
  /** Steps have no more than one token. */
  readonly #isOfOne: boolean

  /** @param all absent: nothing has been met */
  constructor(plan: Plan, words: KernelWords, all?: Numbered) {
    this.#plan = plan
    this.#words = words
    this.#all = all ?? new Numbered()
    this.#isOfOne = all !== undefined
    for (const [id, { capacity, columns, dtype }] of plan.buffers.entries()) {
      const bytes = strideOf({ columns, dtype }) * (dtype === "i8" ? 1 : 4)
      this.#place(`b${id}`, capacity === "tokens" ? { perToken: bytes } : { perRow: bytes })
    }
    for (const [id, parameter] of plan.parameters.entries())
      this.#place(`p${id}`, { fixed: weightLayout(parameter).bytes })
    for (const [group, shape] of plan.groups.entries())
      for (const layer of shape.layers.keys()) {
        const bytes = blockBytesOf(plan.kv, shape)
        this.#place(`kv${group}.${layer}`, { perBlock: { group, bytes } })
      }
  }

  get places(): readonly PlaceSize[] {
    return this.#all.places
  }

  get regions(): readonly Region[] {
    return this.#all.regions
  }

  get kernels(): readonly Kernel[] {
    return this.#all.kernels
  }

  /** For the steps of one token of the same tape. */
  of(plan: Plan): TapeMaker {
    return new TapeMaker(plan, this.#words, this.#all)
  }

  /** Steps of the plan, or several that one kernel does. */
  steps(units: readonly Unit[]): TapeStep[] {
    const choices = units.map((unit) => this.#choices(unit))
    for (const i of units.keys()) this.#makeRows(units, choices, i)
    for (const [i, { isBeside }] of units.entries())
      if (isBeside && !this.#words.apart) {
        // Between them may be a run that the first does as well where rows are few.
        const first = this.#isEnding(units, i - 1) ? i - 2 : i - 1
        const [own, other] = besideEachOther(choices[first]!, choices[i]!)
        choices[first] = own
        choices[i] = other
      }
    const makesUnits = new Set<number>()
    for (const i of units.keys()) {
      const delta = this.#makeUnits(units, choices, i)
      if (delta) makesUnits.add(i)
      this.#keepAndConvolve(units, choices, i, delta)
    }
    this.#joinProducts(units, choices, makesUnits)
    return units.map(({ run }, i) => this.#step(run, choices[i]!))
  }

  /**
   * Of one row, the products behind a run make for themselves what they read of it, and what else the run does is done beside them.
   * @param choices of all units, which change
   */
  #makeRows(units: readonly Unit[], choices: (readonly Choice[])[], i: number): void {
    const plan = this.#plan
    const run = this.#steps(units[i]!.run)
    const [choice, ...more] = choices[i]!
    if (more.length > 0 || choice?.launches.length !== 1 || !run.every(isRowStep)) return
    const places = this.#productsBehind(units, i)
    const products = places.map((at) => this.#steps(units[at]!.run)[0] as Matmul)
    const [only, another] = products
    const { apart } = this.#words
    if (apart && (another || products.some(({ input }) => input.kind === "float"))) return
    if (!only || (!another && isNarrow(plan, only)) || sumsOf(plan, run)) return
    const makings = makingsOf(plan, run, products)
    if (!makings) return
    const { of, others } = makings
    if (apart && others.length > 0) return
    const behind = places.map((at) => units[at]!.behind)
    const endings = products.map((product, p) => endingOf(plan, product, behind[p]!))
    const ends = endings.flatMap((ending, p) => (ending ? behind[p]! : []))
    if (!mayMake(makings, products, ends)) return
    const launches = products.map((product, p) => {
      const own = choices[places[p]!]!.find(({ most }) => most === undefined || most >= 1)!
      if (of[p]!.steps.length === 0) return own.launches.length === 1 ? own.launches[0] : undefined
      return makingLaunch(plan, product, of[p]!, endings[p])
    })
    const [first, second] = launches
    const all = first && others.length > 0 ? beside(first, rowsBeside(plan, others)) : first
    if (!all || launches.some((launch) => !launch || operandBytes(launch) > OPERAND_BYTES)) return
    if (second && !beside(all, second)) return
    choices[i] = [{ most: 1, launches: [] }, ...choices[i]!]
    for (const [p, at] of places.entries())
      choices[at] = [{ most: 1, launches: [p === 0 ? all : second!] }, ...choices[at]!]
  }

  /** The product behind a unit, and the one beside it. */
  #productsBehind(units: readonly Unit[], i: number): number[] {
    const stepAt = (at: number) => this.#steps(units[at]?.run ?? [])[0]
    if (stepAt(i + 1)?.op !== "matmul" || units[i + 1]!.isBeside) return []
    const beside = [i + 2, i + 3].find((at) => units[at]?.isBeside)
    const isOwn = beside === i + 2 || this.#isEnding(units, i + 2)
    if (beside === undefined || !isOwn) return [i + 1]
    return stepAt(beside)?.op === "matmul" ? [i + 1, beside] : []
  }

  /** Whether the product before a unit does it as well. */
  #isEnding(units: readonly Unit[], i: number): boolean {
    const { run, behind } = units[i - 1]!
    const [step] = this.#steps(run)
    return step?.op === "matmul" && endingOf(this.#plan, step, behind) !== undefined
  }

  /**
   * A run makes the units of the delta rule behind it.
   * @param choices of all units, which change
   * @returns the delta rule, if this run does
   */
  #makeUnits(units: readonly Unit[], choices: (readonly Choice[])[], i: number) {
    const [run, delta] = [
      this.#plainRun(units, choices, i),
      this.#steps(units[i + 1]?.run ?? [])[0],
    ]
    if (!run || delta?.op !== "delta" || delta.delta.by) return undefined
    const launch = wholeLaunch(this.#plan, run, delta)
    if (!launch) return undefined
    choices[i] = [{ most: undefined, launches: [launch] }]
    choices[i + 1] = [{ most: undefined, launches: deltaLaunches(this.#plan, delta, true) }]
    return delta
  }

  /**
   * A run convolves what the run before it keeps: of one row, of which all else has been kept by earlier steps, that run is the
   * beginning of this one.
   */
  #keepAndConvolve(
    units: readonly Unit[],
    choices: (readonly Choice[])[],
    i: number,
    delta?: DeltaStep,
  ): void {
    const [before, run] = [this.#plainRun(units, choices, i - 1), this.#plainRun(units, choices, i)]
    const first = run?.[0]
    if (!before || first?.op !== "convolve" || before.every(({ op }) => op !== "storeKv")) return
    const launch = wholeLaunch(this.#plan, [...before, ...run!], delta)
    if (!launch) return
    choices[i - 1] = [{ most: 1, launches: [] }, ...choices[i - 1]!]
    choices[i] = [{ most: 1, launches: [launch] }, ...choices[i]!]
  }

  /**
   * Of few rows, products of so few columns that a group of threads has them all are done between the runs before and behind them.
   * @param others runs that do more than their steps
   */
  #joinProducts(
    units: readonly Unit[],
    choices: (readonly Choice[])[],
    others: ReadonlySet<number>,
  ): void {
    const stepsAt = (i: number) => {
      const [only, ...more] = this.#steps(units[i]?.run ?? [])
      if (!only || !isNarrow(this.#plan, only) || only.rows !== "tokens" || more.length > 0) {
        const run = others.has(i) ? undefined : this.#plainRun(units, choices, i)
        return run?.some(({ op }) => op === "storeKv" || op === "convolve") ? undefined : run
      }
      return [i, i + 1, i + 2].some((at) => units[at]?.isBeside) ? undefined : [only]
    }
    for (let first = 0; first < units.length; first++) {
      const steps: Parameters<typeof wholeLaunch>[1][number][] = []
      let whole: { launch: Launch; last: number } | undefined
      for (let i = first; ; i++) {
        const own = stepsAt(i)
        if (!own) break
        steps.push(...own)
        if (i === first || steps.every(({ op }) => op !== "matmul")) continue
        const launch = wholeLaunch(this.#plan, steps)
        if (launch) whole = { launch, last: i }
      }
      if (!whole) continue
      const { launch, last } = whole
      for (let i = first; i <= last; i++) {
        const launches = i === first ? [launch] : []
        choices[i] = [{ most: MOST_ROUTED, launches }, ...choices[i]!]
      }
      first = last
    }
  }

  /** A run of all tokens that is one launch, however many they are. */
  #plainRun(units: readonly Unit[], choices: readonly (readonly Choice[])[], i: number) {
    const steps = this.#steps(units[i]?.run ?? [])
    const [choice, ...others] = choices[i] ?? []
    if (!choice || others.length > 0 || choice.launches.length !== 1) return undefined
    return steps.every((step) => isRowStep(step) && step.rows === "tokens")
      ? (steps as RowStep[])
      : undefined
  }

  #step(run: Unit["run"], choices: readonly Choice[]): TapeStep {
    const [step] = this.#steps(run)
    const text = run.map((i) => stepLine(this.#plan, i))
    if (step!.op === "gather") {
      const { rows, part, pieces, output } = step!
      const gather = {
        ...{ part: this.rows(part), columns: part.columns, output: this.rows(output) },
        ...(pieces > 1 && { pieces }),
      }
      return { text, rows, choices: [{ launches: [] }], gather }
    }
    // Which choices are never taken need no kernels.
    const own = this.#isOfOne ? choicesOfOne(step!.rows, choices) : choices
    const made = own.map(({ most, repeats, launches }) => ({
      ...(most === undefined ? {} : { most }),
      ...(repeats && { repeats }),
      launches: this.launches(launches),
    }))
    return { text, rows: step!.rows, choices: made }
  }

  #steps(run: Unit["run"]): Step[] {
    return run.map((i) => this.#plan.steps[i]!)
  }

  #choices({ run, before, behind }: Unit): readonly Choice[] {
    const plan = this.#plan
    const steps = this.#steps(run)
    const [step] = steps as [Step]
    switch (step.op) {
      case "gather":
        return []
      case "matmul":
        return matmulChoices(plan, step, this.#words.units, endingOf(plan, step, behind))
      case "experts":
      case "expertRows":
      case "expertSums":
        return expertsChoices(plan, step, before)
      case "headMatmul":
        return this.#headChoices(step, before, behind)
      case "attend": {
        const isMerged = this.#pieces(step, behind) || mergesHeads(plan, step, behind[0])
        return attendChoices(plan, step, this.#words.units, isMerged ? MOST_MERGED : undefined)
      }
      case "delta":
        return [{ most: undefined, launches: deltaLaunches(plan, step) }]
      case "indexer":
        return indexerChoices(plan, step)
      default:
        return this.#rowChoices(steps as RowStep[], before[0], behind[0])
    }
  }

  #headChoices(
    step: Step & { op: "headMatmul" },
    before: readonly Step[],
    behind: readonly Step[],
  ): Choice[] {
    const plan = this.#plan
    const [first] = before
    const isMerged = first?.op === "attend" && mergesHeads(plan, first, step)
    const waiting = isMerged ? waitingOf(plan, first, this.#words.units) : undefined
    const codes = headCodes(plan, step, behind)
    const rope = headTurning(plan, before, step)
    return headChoices(plan, step, { waiting, codes, rope })
  }

  /** None of as many rows as the launches before or behind do a run for. */
  #rowChoices(
    run: readonly RowStep[],
    before: Step | undefined,
    behind: Step | undefined,
  ): Choice[] {
    const plan = this.#plan
    const isHeads = before?.op === "headMatmul" && headCodes(plan, before, run)
    if (isHeads || headTurning(plan, run, behind)) return [{ most: undefined, launches: [] }]
    const all = rowChoices(plan, run, this.#pieces(before, run))
    const isRounded = before?.op === "matmul" && endingOf(plan, before, run) !== undefined
    const most = isRounded ? MOST_FEW : routedLaunch(plan, behind, run) ? MOST_ROUTED : undefined
    return most === undefined ? all : [{ most, launches: [] }, ...all]
  }

  /** How a run merges the softmaxes of attention, if that is what stands before it. */
  #pieces(before: Step | undefined, run: readonly Step[]): Pieces | undefined {
    if (before?.op !== "attend" || !run[0] || !isRowStep(run[0])) return undefined
    return piecesOf(this.#plan, before, run as RowStep[], this.#words.units)
  }

  /** Tokens from logits. */
  draw(): TapeStep {
    const launches = this.launches(samplerLaunches(this.#plan))
    return { text: ["      tokens = draw"], rows: "logits", choices: [{ launches }] }
  }

  /** A window of a parameter to where it belongs. */
  pack(parameter: ParameterId): TapeLaunch[] {
    const { kernel, operands, groups } = packOf(this.#plan.parameters[parameter]!)
    const bindings = operands.map(
      (operand): AnyBinding =>
        typeof operand === "object" && "part" in operand
          ? { kind: "weight", parameter, part: operand.part }
          : operand,
    )
    return this.launches([{ kernel, operands: bindings, groups }])
  }

  launches(launches: readonly AnyLaunch[]): TapeLaunch[] {
    return launches.map(({ kernel, operands, groups }) => ({
      kernel: this.#kernel(kernel),
      operands: operands.map((binding) => this.#operand(binding)),
      groups,
    }))
  }

  rows({ buffer, from }: View): TapeRows {
    const place = this.#all.named.get(`b${buffer}`)!
    return { place, at: 4 * from, stride: 4 * strideOf(this.#plan.buffers[buffer]!) }
  }

  #kernel(kernel: Kernel): number {
    const number = this.#all.numbers.get(kernel) ?? this.#numberOf(kernel)
    this.#all.numbers.set(kernel, number)
    return number
  }

  /** Of a kernel that is equal to it, or its own. */
  #numberOf(kernel: Kernel): number {
    const text = JSON.stringify({ ...kernel, needs: [...kernel.needs], names: [] })
    const known = this.#all.known.get(text)
    if (known !== undefined) return known
    const number = this.#all.kernels.push(kernel) - 1
    this.#all.known.set(text, number)
    return number
  }

  #operand(binding: AnyBinding): TapeOperand {
    if (typeof binding === "number") return binding >>> 0
    if ("given" in binding || "number" in binding) return binding
    switch (binding.kind) {
      case "buffer": {
        const { dtype } = this.#plan.buffers[binding.buffer]!
        const at = binding.from * (dtype === "i8" ? 1 : 4)
        return { place: this.#all.named.get(`b${binding.buffer}`)!, at }
      }
      case "weight": {
        const { parts } = weightLayout(this.#plan.parameters[binding.parameter]!)
        const { at } = parts.find(({ name }) => name === binding.part)!
        return { place: this.#all.named.get(`p${binding.parameter}`)!, at }
      }
      case "kv": {
        const { group, layer } = binding.place
        return { place: this.#all.named.get(`kv${group}.${layer}`)!, at: 0 }
      }
      case "step":
        return { region: this.#region(binding.region) }
      case "chunk":
        return { number: "chunk" }
      case "scratch":
        return { place: this.#place(`scratch ${binding.name}`, binding.bytes), at: 0 }
    }
  }

  #region(region: Region): number {
    const text = JSON.stringify(region)
    const known = this.#all.known.get(text)
    if (known !== undefined) return known
    const number = this.#all.regions.push(region) - 1
    this.#all.known.set(text, number)
    return number
  }

  /** The place of a name, as large as whoever wants most of it. */
  #place(
    name: string,
    { fixed = 0, perToken = 0, perRow = 0, perBlock }: Partial<PlaceSize>,
  ): number {
    const known = this.#all.named.get(name)
    if (known === undefined) {
      const size = { name, fixed, perToken, perRow, ...(perBlock ? { perBlock } : {}) }
      const number = this.#all.places.push(size) - 1
      this.#all.named.set(name, number)
      return number
    }
    const place = this.#all.places[known]!
    place.fixed = Math.max(place.fixed, fixed)
    place.perToken = Math.max(place.perToken, perToken)
    place.perRow = Math.max(place.perRow, perRow)
    return known
  }
}

/** What launches of steps, packs and copies have in common. */
interface AnyLaunch {
  kernel: Kernel
  operands: readonly AnyBinding[]
  groups: readonly [TapeGroups, TapeGroups, TapeGroups]
}

type AnyBinding = Binding | Extract<TapeOperand, { given: unknown } | { number: unknown }>

/** What decides how many groups and which launches there are. */
function countsOf(steps: readonly TapeStep[]): Tape["counts"] {
  const counts = new Set<Tape["counts"][number]>()
  const add = (groups: Groups | TapeGroups) => {
    if (typeof groups === "object" && "rows" in groups) counts.add(groups.rows)
    if (typeof groups === "object" && "count" in groups) counts.add(groups.count)
  }
  for (const { rows, choices, only } of steps) {
    if (choices.length > 1) counts.add(rows)
    if (only) counts.add("tokens")
    for (const { repeats, launches } of choices) {
      if (repeats) counts.add(repeats)
      for (const { groups } of launches) groups.forEach(add)
    }
  }
  return [...counts]
}
