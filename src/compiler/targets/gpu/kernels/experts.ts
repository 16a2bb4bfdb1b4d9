// Experts: each row goes to a few of many MLPs, and only their weights are read. A pair is a row and one of its experts, in
// the order of experts: pair p is that of row p / active. Few rows take their pairs one by one; of many rows the pairs are
// gathered by expert, up to eight together, so that an expert's matrices are read once for them. What a pair makes is the same
// either way, and those of a row are added up in the order of experts, as the reference does.

import { type CodecName, type GroupCodecName, groupCodecs } from "../../../../runtime/format.ts"
import { operandLayout } from "../../../../runtime/gpu/device.ts"
import { elementwise } from "../../../graph/elementwise.ts"
import type { Routing } from "../../../graph/graph.ts"
import type { ParameterId, Plan, ProductInput, Step, View } from "../../../plan.ts"
import { isReadBehind, isRowStep, viewsRead } from "../../runs.ts"
import {
  type Builder,
  type Elements,
  f32,
  fma,
  kernel,
  type Operable,
  once,
  select,
  u32,
  type Value,
} from "../ir/builder.ts"
import type { Kernel } from "../ir/ir.ts"
import { type Binding, type Choice, type Groups, type Launch, OPERAND_BYTES } from "../launch.ts"
import { PANEL, strideOf } from "../layout.ts"
import { codedGroup } from "./codes.ts"
import {
  canRound,
  type FewRows,
  multiplyFew,
  PARTS,
  type ProductKind,
  productName,
  productOperands,
} from "./products.ts"
import { NONE, route, storePairs } from "./route.ts"
import { THREADS } from "./threads.ts"
import { weightBindings } from "./weights.ts"

type Route = Extract<Step, { op: "route" }>
type Apply = Extract<Step, { op: "apply" }>
type ExpertsStep = Extract<Step, { op: "experts" | "expertRows" | "expertSums" }>

/** Up to so many rows, the groups of threads that multiply choose experts, each anew. */
export const MOST_ROUTED = 4
/** Up to so many rows, pairs are taken one by one. */
const FEW_ROWS = 32
/** Pairs of one expert that are taken together, and the words of such a list: the expert, then they. */
const TOGETHER: FewRows & 8 = 8
const LIST = TOGETHER + 1

const kernels = {
  pairs: once(pairsKernel),
  lists: once(listsKernel),
  product: once(pairProduct),
  round: once(roundKernel),
  sum: once(sumKernel),
}

/** @param before the steps of the launch before */
export function expertsChoices(plan: Plan, step: ExpertsStep, before: readonly Step[]): Choice[] {
  const { parts, rounded } = step.experts
  if (parts !== PARTS) throw new Error(`internal: experts in ${parts} parts`)
  const whole: Whole = { plan, step, scratch: scratchOf(step) }
  const rows = (gathered: boolean) => [
    productLaunch(whole, "gateUp", gathered),
    ...(step.experts.up ? [productLaunch(whole, "up", gathered)] : []),
  ]
  const sums = (gathered: boolean) => [
    ...(rounded && !roundsItself(step) ? [roundLaunch(whole, rounded)] : []),
    productLaunch(whole, "down", gathered),
    ...(summedBy(plan, step) ? [] : [sumLaunch(whole)]),
  ]
  const products = (gathered: boolean) =>
    [
      step.op === "expertSums" ? [] : rows(gathered),
      step.op === "expertRows" ? [] : sums(gathered),
    ].flat()
  const pairs = routeOf(plan, step) ? [] : [pairsLaunch(whole)]
  const routed = routedLaunch(plan, step, before)
  return [
    ...(routed ? [{ most: MOST_ROUTED, launches: [routed, ...products(false).slice(1)] }] : []),
    { most: FEW_ROWS, launches: [...pairs, ...products(false)] },
    { most: undefined, launches: [...pairs, listsLaunch(whole), ...products(true)] },
  ]
}

/** The choice of experts that a step goes by, what is done to logits before it, and what weights are weighed with behind it. */
interface Choosing {
  before: Apply | undefined
  choice: Route
  factors: ParameterId | undefined
}

/**
 * The first product of a step, whose groups of threads all choose experts for themselves; undefined: somebody else reads the weights,
 * or a device takes fewer operands.
 * @param before the steps of the launch before: the choice of experts, by logits to which something may be applied first, which may be
 * weighed once more, and nothing else
 */
export function routedLaunch(
  plan: Plan,
  step: Step | undefined,
  before: readonly Step[],
): Launch | undefined {
  if (step?.op !== "experts") return undefined
  const choosing = choosingOf(plan, step, before)
  if (!choosing) return undefined
  const launch = productLaunch({ plan, step, scratch: scratchOf(step) }, "gateUp", false, choosing)
  const kinds = launch.kernel.operands.map(({ kind }) => kind)
  return operandLayout(kinds).bytes <= OPERAND_BYTES ? launch : undefined
}

function choosingOf(
  plan: Plan,
  step: Step & { op: "experts" },
  run: readonly Step[],
): Choosing | undefined {
  const before = run[0]?.op === "apply" ? run[0] : undefined
  const [choice, weighed, ...others] = before ? run.slice(1) : run
  if (choice?.op !== "route" || choice.rows !== step.rows || others.length > 0) return undefined
  const isReadLater = (last: Step, view: View) => isReadBehind(plan, plan.steps.indexOf(last), view)
  if (before && (!isSame(before.output, choice.input) || isReadLater(choice, before.output)))
    return undefined
  if (!weighed) {
    const isOwn = routeOf(plan, step) === choice && !isReadLater(step, choice.output)
    return isOwn ? { before, choice, factors: undefined } : undefined
  }
  if (weighed.op !== "weigh" || isReadLater(weighed, choice.output)) return undefined
  const isOwn = isSame(weighed.input, choice.output) && isSame(weighed.output, step.weights)
  return isOwn && !isReadLater(step, weighed.output)
    ? { before, choice, factors: weighed.weight }
    : undefined
}

const isSame = (a: View, b: View) => a.buffer === b.buffer && a.from === b.from

/**
 * The step that is first to read what experts make: if it is one that looks at rows by themselves, its kernel adds that up. Until
 * then nobody else may use the memory in which it lies.
 */
function summedBy(plan: Plan, step: ExpertsStep): Step | undefined {
  if (step.op === "expertRows") return undefined
  const { buffer } = step.output
  const behind = plan.steps.slice(plan.steps.indexOf(step) + 1)
  const isNext = (each: Step) =>
    isExperts(each) || each.op === "route" || viewsRead(each).some((view) => view.buffer === buffer)
  const next = behind.find(isNext)
  const isReader = next && isRowStep(next) && next.op !== "route" && next.rows === step.rows
  return isReader ? next : undefined
}

/** What a run of rows adds up before anything else. */
export interface Sums {
  output: View
  active: number
  experts: Binding
  shares: Binding
  made: Binding
  madeStride: number
}

export function sumsOf(plan: Plan, run: readonly Step[]): Sums | undefined {
  const before = plan.steps.slice(0, Math.max(0, plan.steps.indexOf(run[0]!)))
  const step = before.findLast(isExperts)
  const reader = step && summedBy(plan, step)
  if (!reader || !run.includes(reader)) return undefined
  const { experts, shares, made } = scratchOf(step)
  const { output } = step
  return {
    output,
    active: step.experts.active,
    experts,
    shares,
    made,
    madeStride: madeStride(step),
  }
}

/** Whether the product before it rounds what lies between the products: the step has both, and a panel is whole groups. */
function roundsItself({ op, experts: { rounded } }: ExpertsStep): boolean {
  return op === "experts" && rounded !== undefined && canRound(groupCodecs[rounded].group)
}

/** The step that writes the pairs of an experts' step, since nobody changes the weights behind it; undefined: these are read. */
function routeOf({ steps }: Plan, step: ExpertsStep): Step | undefined {
  const { weights, rows } = step
  const before = steps.slice(0, steps.indexOf(step))
  const isWriter = (each: Step) =>
    "output" in each && "buffer" in each.output && each.output.buffer === weights.buffer
  const at = before.findLastIndex((each) => each.op === "route" || isWriter(each))
  const last = before[at]
  if (last?.op !== "route" || last.rows !== rows) return undefined
  const { buffer, from } = last.output
  return buffer === weights.buffer && from === weights.from ? last : undefined
}

/** Where a route's pairs go, beginning with its rows' first ones; undefined: whoever reads its weights finds them himself. */
export function pairsOf(
  plan: Plan,
  route: Step,
): { active: number; experts: Binding; shares: Binding } | undefined {
  const step = plan.steps.find(
    (each): each is ExpertsStep => isExperts(each) && routeOf(plan, each) === route,
  )
  return step && { active: step.experts.active, ...scratchOf(step) }
}

const isExperts = (step: Step): step is ExpertsStep =>
  step.op === "experts" || step.op === "expertRows" || step.op === "expertSums"

/** What the launches of a step share. */
interface Whole {
  plan: Plan
  step: ExpertsStep
  scratch: ReturnType<typeof scratchOf>
}

const countOf = ({ step: { rows } }: Whole): Binding => ({
  kind: "step",
  region: { name: "count", of: rows },
})
const each = ({ step: { rows } }: Whole, per: number): Groups => ({ rows, per })

function pairsLaunch(whole: Whole): Launch {
  const { plan, step, scratch } = whole
  const { weights, experts } = step
  const given: Binding = { kind: "buffer", buffer: weights.buffer, from: weights.from }
  const stride = strideOf(plan.buffers[weights.buffer]!)
  return {
    kernel: kernels.pairs(experts.count, experts.active),
    operands: [countOf(whole), given, scratch.experts, scratch.shares, stride],
    groups: [each(whole, 1), 1, 1],
  }
}

function listsLaunch(whole: Whole): Launch {
  const { count, active } = whole.step.experts
  const { experts, lists } = whole.scratch
  return {
    kernel: kernels.lists(count, active),
    operands: [countOf(whole), experts, lists],
    groups: [1, 1, 1],
  }
}

function productLaunch(
  whole: Whole,
  which: MatrixName,
  gathered: boolean,
  choosing?: Choosing,
): Launch {
  const { plan, step } = whole
  const { count, active, intermediate } = step.experts
  const columns = which === "down" ? step.output.columns : intermediate
  // As many lists as there can be where there are more than FEW_ROWS rows: each expert has one that is not full.
  const groups = gathered
    ? ([each(whole, TOGETHER), active + Math.ceil((count * TOGETHER) / FEW_ROWS)] as const)
    : ([each(whole, 1), active] as const)
  const routed = choosing && routedOf(plan, choosing, count)
  return {
    kernel: kernels.product(kindOf(plan, step, which), active, which, gathered, routed),
    operands: productBindings(whole, which, gathered, choosing),
    groups: [Math.ceil(columns / PANEL), ...groups],
  }
}

function routedOf(plan: Plan, { before, choice, factors }: Choosing, count: number): Routed {
  const isOne = factors !== undefined && plan.parameters[factors]!.rows === 1
  return {
    routing: choice.routing,
    count,
    stride: strideOf(plan.buffers[(before ?? choice).input.buffer]!),
    ...(before && { applied: { function: before.function, by: before.by } }),
    bias: choice.bias !== undefined,
    factors: factors === undefined ? "none" : isOne ? "one" : "each",
  }
}

function roundLaunch(whole: Whole, rounded: GroupCodecName): Launch {
  const { step, scratch } = whole
  const { intermediate, active } = step.experts
  const { experts, hidden, codes, scales } = scratch
  const strides = [hiddenStride(step), codeStride(step) / 4, scaleStride(step)]
  return {
    kernel: kernels.round(intermediate, groupCodecs[rounded].group, active),
    operands: [countOf(whole), experts, hidden, codes, scales, ...strides],
    groups: [each(whole, 1), active, 1],
  }
}

function sumLaunch(whole: Whole): Launch {
  const { plan, step, scratch } = whole
  const { experts, output } = step
  const to: Binding = { kind: "buffer", buffer: output.buffer, from: output.from }
  const strides = [madeStride(step), strideOf(plan.buffers[output.buffer]!)]
  return {
    kernel: kernels.sum(experts.active),
    operands: [
      ...[countOf(whole), scratch.experts, scratch.shares, scratch.made, to],
      ...[output.columns, ...strides],
    ],
    groups: [Math.ceil(output.columns / THREADS), each(whole, 1), 1],
  }
}

// ------------------------------------------------------------------ what lies between the kernels

const hiddenStride = ({ experts }: ExpertsStep) =>
  strideOf({ columns: experts.intermediate, dtype: "f32" })
const codeStride = ({ experts }: ExpertsStep) =>
  strideOf({ columns: experts.intermediate, dtype: "i8" })
const scaleStride = ({ experts: { intermediate, rounded } }: ExpertsStep) =>
  rounded ? Math.ceil(intermediate / groupCodecs[rounded].group) : 0
const madeStride = ({ output: { columns } }: ExpertsStep) => strideOf({ columns, dtype: "f32" })

/**
 * Memory that layers share. A row of each is a pair's; where a step ends or begins with hidden rows, those lie in its buffer, whose
 * rows are then as long as their pairs': these have whole fours of columns.
 */
function scratchOf(step: ExpertsStep) {
  const { count, active } = step.experts
  const perPair = (name: string, bytes: number): Binding => ({
    kind: "scratch",
    name: `experts' ${name}`,
    bytes: { perToken: active * bytes },
  })
  return {
    experts: perPair("numbers", 4),
    shares: perPair("shares", 4),
    hidden: hiddenBuffer(step) ?? perPair("hidden rows", 4 * hiddenStride(step)),
    codes: perPair("codes", codeStride(step)),
    scales: perPair("scales", 4 * scaleStride(step)),
    made: perPair("results", 4 * madeStride(step)),
    lists: {
      kind: "scratch",
      name: "experts' lists",
      bytes: { fixed: 4 * (1 + count * LIST), perToken: 4 * Math.ceil((active * LIST) / TOGETHER) },
    } satisfies Binding,
  }
}

function hiddenBuffer(step: ExpertsStep): Binding | undefined {
  if (step.op === "experts") return undefined
  const { buffer, from } = step.op === "expertRows" ? step.output : step.input
  if (step.experts.intermediate % 4 !== 0)
    throw new Error("internal: pairs that have no whole fours")
  return { kind: "buffer", buffer, from }
}

// ------------------------------------------------------------------ pairs

/** Of each row, the experts that count, in their order. Groups: [a row each]. */
function pairsKernel(count: number, active: number): Kernel {
  return kernel(`expert_pairs_${active}_of_${count}`, 64, (k) => {
    const rows = k.buffer("count", "u32", "read").load(0)
    const weights = k.buffer("weights", "f32", "read")
    const [experts, shares] = [
      k.buffer("experts", "u32", "write"),
      k.buffer("shares", "f32", "write"),
    ]
    const stride = k.word("stride")
    const row = k.group(0)
    k.if(row.lt(rows), () => {
      const [first, pair] = [k.let(row.mul(stride)), k.let(row.mul(active))]
      const store = (place: Value, expert: Operable, share: Operable) => {
        experts.store(pair.add(place), expert)
        shares.store(pair.add(place), share)
      }
      storePairs(k, count, (expert) => weights.load(first.add(expert)), { active, store })
    })
  })
}

/** How many lists there are, then these: up to eight pairs of one expert each, all of an expert's behind each other. One group. */
function listsKernel(count: number, active: number): Kernel {
  return kernel(`expert_lists_${active}_of_${count}`, THREADS, (k) => {
    const rows = k.buffer("count", "u32", "read").load(0)
    const experts = k.buffer("experts", "u32", "read")
    const lists = k.buffer("lists", "u32", "write")
    const counts = k.shared("counts", "u32", count)
    const pairs = k.let(rows.mul(active))
    k.each(count, (expert) => {
      const own = k.variable(u32(0))
      k.for(0, pairs, 1, (pair) =>
        own.set(own.now.add(select(experts.load(pair).eq(expert), u32(1), 0))),
      )
      counts.store(expert, own.now)
    })
    k.barrier()
    const listsBefore = (end: Value) => {
      const sum = k.variable(u32(0))
      k.for(0, end, 1, (other) =>
        sum.set(
          sum.now.add(
            counts
              .load(other)
              .add(TOGETHER - 1)
              .div(TOGETHER),
          ),
        ),
      )
      return k.let(sum.now)
    }
    k.if(k.lane.eq(0), () => lists.store(0, listsBefore(u32(count))))
    k.each(count, (expert) => {
      const first = listsBefore(expert)
      const next = k.variable(u32(0))
      const placeOf = (number: Value) => {
        const list = first.add(number.div(TOGETHER))
        return k.let(list.mul(LIST).add(number.rem(TOGETHER)).add(2))
      }
      k.for(0, pairs, 1, (pair) =>
        k.if(experts.load(pair).eq(expert), () => {
          lists.store(placeOf(next.now), pair)
          k.if(next.now.rem(TOGETHER).eq(0), () => lists.store(placeOf(next.now).sub(1), expert))
          next.set(next.now.add(1))
        }),
      )
      const own = k.let(next.now)
      const end = k.let(
        own
          .add(TOGETHER - 1)
          .div(TOGETHER)
          .mul(TOGETHER),
      )
      k.for(own, end, 1, (number) => lists.store(placeOf(number), NONE))
    })
  })
}

// ------------------------------------------------------------------ products

type MatrixName = "gateUp" | "up" | "down"

const weightOf = ({ gateUp, up, down }: ExpertsStep["experts"], which: MatrixName) =>
  which === "up" ? up!.weight : which === "gateUp" ? gateUp : down

function kindOf(plan: Plan, step: ExpertsStep, which: MatrixName): ProductKind {
  const { experts } = step
  const codec: CodecName = plan.parameters[weightOf(experts, which)]!.codec
  return {
    input: which === "down" ? hiddenKind(experts) : inputKind(inputOf(step, which)),
    codec,
    bias: experts.biases !== undefined,
    end: endOf(experts, which),
    parts: PARTS,
    ...(isLastBefore(step, which) && { rounds: groupCodecs[experts.rounded!].group }),
  }
}

/** Whether a product makes the rows that are rounded for `down`, and does so itself. */
function isLastBefore(step: ExpertsStep, which: MatrixName): boolean {
  return roundsItself(step) && which === (step.experts.up ? "up" : "gateUp")
}

function inputOf(step: ExpertsStep, which: "gateUp" | "up"): ProductInput {
  if (step.op === "expertSums") throw new Error("internal: sums of experts have no gates")
  return which === "up" ? step.experts.up!.input : step.input
}

function inputKind(input: ProductInput): ProductKind["input"] {
  if (input.kind !== "float") return input.kind
  return input.view.from % 4 === 0 ? "aligned floats" : "floats"
}

const hiddenKind = ({ rounded }: ExpertsStep["experts"]) => (rounded ? "int8" : "aligned floats")

/** Gates that have a matrix to themselves are stored, for the other product to find. */
function endOf(
  { gated, up, activation, limit }: ExpertsStep["experts"],
  which: MatrixName,
): ProductKind["end"] {
  if (which === "up") return { under: activation, limit }
  if (which === "gateUp" && !gated) return { applied: activation }
  return which === "gateUp" && !up ? { gated: activation, limit } : "store"
}

/** Groups: [32 columns each, rows, pairs of one], or [32 columns each, and of lists any two numbers whose product is enough]. */
function pairProduct(
  kind: ProductKind,
  active: number,
  which: MatrixName,
  gathered: boolean,
  routed?: Routed,
): Kernel {
  const rows = gathered ? TOGETHER : 1
  const what = routed ? "routed" : gathered ? "listed" : "pair"
  const name = `${what}_${which}_${active}_${productName(kind)}`
  return kernel(name, PARTS * PANEL, (k) => {
    const operands = productOperands(k, kind)
    const pairs = k.buffer(gathered ? "lists" : "experts", "u32", routed ? "write" : "read")
    const found = routed && foundBy(k, routed, active, operands.count.load(0), pairs)
    const perExpert = k.word("rowsOfExpert")
    const rowOf = (pair: Value) => (which === "down" ? pair : pair.div(active))
    const task = { k, operands, pairs, perExpert, rowOf }
    multiplyFew(k, kind, operands, rows, gathered ? listTask(task) : pairTask(task, active, found))
  })
}

/** What is literal in the choice of experts. */
interface Routed {
  routing: Routing
  count: number
  /** Of logits, and what is applied to them first. */
  stride: number
  applied?: Pick<Apply, "function" | "by">
  bias: boolean
  /** What weights are weighed with behind the choice: all with one number, or each expert's with its own. */
  factors: "none" | "one" | "each"
}

/** Each group of threads chooses the experts of its row; the first of them tells those behind. */
function foundBy(
  k: Builder,
  { routing, count, stride, applied, bias, factors }: Routed,
  active: number,
  rows: Value,
  experts: Elements,
): Elements {
  const shares = k.buffer("shares", "f32", "write")
  const logits = k.buffer("logits", "f32", "read")
  const biases = bias ? k.buffer("router bias", "f32", "read") : undefined
  const weighed = factors === "none" ? undefined : k.buffer("factors", "f32", "read")
  const own = k.shared("own experts", "u32", active)
  const row = k.group(1)
  const isRow = k.let(row.lt(rows))
  const isFirst = k.let(k.group(0).eq(0).and(k.group(2).eq(0)))
  route(k, routing, {
    experts: count,
    bias: biases && ((i) => biases.load(i)),
    factor: weighed && ((i) => weighed.load(factors === "one" ? 0 : i)),
    load: (i) => {
      const own = logits.load(row.mul(stride).add(i))
      return applied ? elementwise[applied.function].gpu(k, own, applied.by ?? 0) : own
    },
    store: undefined,
    pairs: {
      active,
      store: (place, expert, share) => {
        own.store(place, expert)
        k.if(isFirst, () => {
          const pair = k.let(row.mul(active).add(place))
          experts.store(pair, expert)
          shares.store(pair, share)
        })
      },
    },
    ifThere: (write) => k.if(isRow, write),
  })
  k.barrier()
  return own
}

interface Task {
  k: Builder
  operands: ReturnType<typeof productOperands>
  pairs: Elements
  perExpert: Value
  /** The row of the input that a pair multiplies. */
  rowOf: (pair: Value) => Value
}

/** @param own the experts of the group's row, if it has chosen them */
function pairTask(
  { k, operands, pairs, perExpert, rowOf }: Task,
  active: number,
  own: Elements | undefined,
) {
  const pair = k.let(k.group(1).mul(active).add(k.group(2)))
  const expert = k.variable(u32(NONE))
  const find = () => (own ? own.load(k.group(2)) : pairs.load(pair))
  k.if(k.group(1).lt(operands.count.load(0)), () => expert.set(find()))
  const isThere = expert.now.ne(NONE)
  return {
    isThere,
    rows: () => [k.let(rowOf(pair))],
    matrixRow: () => expert.now.mul(perExpert),
    output: () => ({ row: pair, isRow: isThere }),
  }
}

function listTask({ k, pairs, perExpert, rowOf }: Task) {
  const list = k.let(k.group(1).mul(k.groups(2)).add(k.group(2)))
  const first = k.let(list.mul(LIST).add(2))
  const at = (r: Value | number) => pairs.load(first.add(r))
  return {
    isThere: list.lt(pairs.load(0)),
    rows: () => {
      const one = at(0)
      const others = Array.from({ length: TOGETHER - 1 }, (_, r) => at(r + 1))
      return [one, ...others.map((pair) => select(pair.ne(NONE), pair, one))].map((pair) =>
        k.let(rowOf(pair)),
      )
    },
    matrixRow: () => pairs.load(first.sub(1)).mul(perExpert),
    output: (r: Value) => {
      const row = at(r)
      return { row, isRow: row.ne(NONE) }
    },
  }
}

/** In the order of productOperands, then those of pairProduct. */
function productBindings(
  whole: Whole,
  which: MatrixName,
  gathered: boolean,
  choosing: Choosing | undefined,
): Binding[] {
  const { plan, step, scratch } = whole
  const { experts, output } = step
  const isDown = which === "down"
  const columns = isDown ? output.columns : experts.intermediate
  const given = isDown ? hiddenRows(step, scratch) : givenRows(plan, inputOf(step, which))
  const weight = weightOf(experts, which)
  const { rows, columns: read } = plan.parameters[weight]!
  const bias = experts.biases?.[which]
  const { hidden, codes, scales } = scratch
  const isRounded = isLastBefore(step, which)
  const isRead = which === "up" // gates
  return [
    countOf(whole),
    ...given.buffers,
    ...weightBindings(plan, weight),
    ...(bias === undefined ? [] : [{ kind: "weight", parameter: bias, part: "values" } as const]),
    ...(isDown ? [scratch.made] : isRead || !isRounded ? [hidden] : []),
    ...(isRounded ? [codes, scales] : []),
    read,
    columns,
    ...given.strides,
    ...(isDown ? [madeStride(step)] : isRead || !isRounded ? [hiddenStride(step)] : []),
    ...(isRounded ? [codeStride(step) / 4, scaleStride(step)] : []),
    gathered ? scratch.lists : scratch.experts,
    ...(choosing ? routeBindings(choosing, scratch.shares) : []),
    rows / experts.count,
  ]
}

function routeBindings({ before, choice, factors }: Choosing, shares: Binding): Binding[] {
  const { buffer, from } = (before ?? choice).input
  const vectors = [choice.bias, factors].filter((parameter) => parameter !== undefined)
  return [
    shares,
    { kind: "buffer", buffer, from },
    ...vectors.map((parameter): Binding => ({ kind: "weight", parameter, part: "values" })),
  ]
}

/** Buffers and strides of what a product reads. */
interface Given {
  buffers: Binding[]
  strides: number[]
}

function givenRows({ buffers }: Plan, input: ProductInput): Given {
  const of = (buffer: number, from = 0): Binding => ({ kind: "buffer", buffer, from })
  if (input.kind === "float") {
    const { buffer, from } = input.view
    return { buffers: [of(buffer, from)], strides: [strideOf(buffers[buffer]!)] }
  }
  const { codes, scales } = input.codes
  return {
    buffers: [of(codes), of(scales)],
    strides: [strideOf(buffers[codes]!) / 4, strideOf(buffers[scales]!)],
  }
}

function hiddenRows(step: ExpertsStep, { hidden, codes, scales }: Whole["scratch"]): Given {
  return step.experts.rounded
    ? { buffers: [codes, scales], strides: [codeStride(step) / 4, scaleStride(step)] }
    : { buffers: [hidden], strides: [hiddenStride(step)] }
}

// ------------------------------------------------------------------ between and behind them

/** Hidden rows to codes. Groups: [rows, pairs of one]. */
function roundKernel(columns: number, group: number, active: number): Kernel {
  return kernel(`expert_codes_${active}`, 64, (k) => {
    const rows = k.buffer("count", "u32", "read").load(0)
    const experts = k.buffer("experts", "u32", "read")
    const hidden = k.buffer("hidden", "f32", "read")
    const [codes, scales] = [k.buffer("codes", "u32", "write"), k.buffer("scales", "f32", "write")]
    const [stride, codeStride, scaleStride] = [
      k.word("stride"),
      k.word("codeStride"),
      k.word("scaleStride"),
    ]
    k.if(k.group(0).lt(rows), () => {
      const pair = k.let(k.group(0).mul(active).add(k.group(1)))
      const [from, to, scalesTo] = [stride, codeStride, scaleStride].map((by) =>
        k.let(pair.mul(by)),
      ) as [Value, Value, Value]
      const write = (number: Value, count: number, words: number) => {
        const first = k.let(from.add(number.mul(group)))
        const values = Array.from({ length: count }, (_, i) => hidden.load(first.add(i)))
        const own = codedGroup(k, values, words)
        scales.store(scalesTo.add(number), own.scale)
        const place = k.let(to.add(number.mul(group / 4)))
        for (const [word, four] of own.words.entries()) codes.store(place.add(word), four)
      }
      const whole = Math.floor(columns / group)
      const words = strideOf({ columns, dtype: "i8" }) / 4
      k.if(experts.load(pair).ne(NONE), () => {
        k.each(whole, (number) => write(number, group, group / 4))
        // What is left of a group, and the zeros behind the last column.
        const left = columns - whole * group
        if (left > 0) k.if(k.lane.eq(0), () => write(u32(whole), left, words - (whole * group) / 4))
        else
          k.if(k.lane.eq(0), () => {
            for (let word = (whole * group) / 4; word < words; word++) codes.store(to.add(word), 0)
          })
      })
    })
  })
}

/** What the pairs of a row have made, each times its share. Groups: [columns, a row each]. */
function sumKernel(active: number): Kernel {
  return kernel(`expert_sums_${active}`, THREADS, (k) => {
    const rows = k.buffer("count", "u32", "read").load(0)
    const experts = k.buffer("experts", "u32", "read")
    const [shares, made] = [k.buffer("shares", "f32", "read"), k.buffer("made", "f32", "read")]
    const output = k.buffer("output", "f32", "write")
    const [columns, madeStride, stride] = [
      k.word("columns"),
      k.word("madeStride"),
      k.word("stride"),
    ]
    const column = k.let(k.group(0).mul(THREADS).add(k.lane))
    const row = k.group(1)
    k.if(row.lt(rows).and(column.lt(columns)), () => {
      const sum = k.variable(f32(0))
      k.for(0, active, 1, (i) => {
        const pair = k.let(row.mul(active).add(i))
        k.if(experts.load(pair).ne(NONE), () => {
          const value = made.load(pair.mul(madeStride).add(column))
          sum.set(fma(shares.load(pair), value, sum.now))
        })
      })
      output.store(row.mul(stride).add(column), sum.now)
    })
  })
}
