// Compiled programs draw as src/runtime/sampling.ts does, over vocabularies as small as a toy's and as large as Llama 3's.
// A token alone shows little of a score, so the numbers that decide are turned until sampling.ts draws something else: from
// one float to the next. The program must change its mind at the same float.

import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { shelvedCpu } from "../../src/compiler/targets/cpu/cpu.ts"
import { findCompiler } from "../../src/compiler/targets/cpu/toolchain.ts"
import { medusa } from "../../src/model/architectures/medusa.ts"
import { type LibraryProgram, openLibrary } from "../../src/runtime/library.ts"
import { newStepDone, type StepDone } from "../../src/runtime/program.ts"
import { createSampler, type Sampler } from "../../src/runtime/sampling.ts"
import { isLeftOut } from "../left-out.ts"
import { mulberry32, uniform } from "../random.ts"
import { type RowSettings, samplingRows } from "../sampling-rows.ts"
import { batch, take, worstDifference } from "./steps.ts"

const compiler = await findCompiler()

/** Columns of logits that a program holds; a row of a step takes one of them. */
const COLUMNS = 16
const ROWS = 32 // of a step
const THREADS = 2

/** A row: which logits, and what is asked. */
interface Row extends RowSettings {
  column: number
}

/** Logits of many kinds: wide and narrow, all negative, with equals, with one far ahead, growing, far beyond e^x. */
function columnsOf(vocabulary: number): Float32Array[] {
  const next = uniform(vocabulary)
  const normal = () => next() + next() + next() + next() - 2 // about; a deviation of 0.58
  const kinds: ((token: number) => number)[] = [
    () => 5 * normal(),
    () => 2 * normal() - 20,
    () => Math.round(6 * normal()) / 2 + 0, // never -0, which no sum of products is
    () => normal() / 1000,
    (token) => (token === vocabulary - 2 ? 30 : normal()),
    () => 0,
    (token) => (8 * token) / vocabulary + normal() / 4,
    () => 1e37 * normal(),
  ]
  return Array.from({ length: COLUMNS }, (_, i) =>
    Float32Array.from({ length: vocabulary }, (_, token) => kinds[i % kinds.length]!(token)),
  )
}

/** A program whose hidden row chooses a column of its only matrix: any logits can come out of it. */
async function open(vocabulary: number, columns: readonly Float32Array[]) {
  const shapes = { vocabulary, hidden: COLUMNS, layers: 0, heads: 1, kvHeads: 1, headDim: 2 }
  const config = { shapes: { ...shapes, intermediate: 1, context: 64 }, heads: 1, layers: 0 }
  const plan = compile(medusa(config), { format: "q0f32", activations: "float", kv: "f32" })
  const { path } = await shelvedCpu(plan)
  const limits = { blocks: [], tokens: ROWS, sequences: 1, rows: ROWS }
  const program = await openLibrary(path, limits, THREADS)
  const matrix = new Float32Array(vocabulary * COLUMNS)
  for (const [c, logits] of columns.entries())
    for (const [token, logit] of logits.entries()) matrix[token * COLUMNS + c] = logit
  await program.load(0, 0, vocabulary, new Uint8Array(matrix.buffer))
  return program
}

async function drawn(program: LibraryProgram, rows: readonly Row[]): Promise<StepDone> {
  const { vocabulary } = program.manifest.shapes
  const tokens = rows.map(() => 0)
  const step = batch([{ tokens, from: 0, blocks: [0, 1], logits: [...tokens.keys()] }])
  const hiddenIn = new Float32Array(rows.length * COLUMNS)
  for (const [row, { column }] of rows.entries()) hiddenIn[row * COLUMNS + column] = 1
  return take(program, { ...step, hiddenIn, sampling: samplingRows(rows, vocabulary) })
}

/** Logits and who judges them. */
interface Case {
  vocabulary: number
  columns: readonly Float32Array[]
  sampler: Sampler
}

/** The same rows by sampling.ts, one after the other. */
function judged({ vocabulary, columns, sampler }: Case, rows: readonly Row[]) {
  const sampling = samplingRows(rows, vocabulary)
  const count = rows.length
  const logitRows = new Int32Array(count)
  const out = newStepDone({ logitRows, hiddenRows: new Int32Array(0) }, { hidden: 0, vocabulary })
  for (const [row, { column }] of rows.entries())
    sampler.sample(columns[column]!, row, sampling, out)
  return out
}

/** A row of any settings, as a client might send them. */
function anyRow(any: (below: number) => number, vocabulary: number): Row {
  const of = <T>(...values: T[]) => values[any(values.length)]!
  const some = (most: number, value: () => number) =>
    Object.fromEntries(Array.from({ length: any(most) }, () => [any(vocabulary), value()]))
  const share = of(0.001, 0.1, 0.9)
  const row: Row = {
    column: any(COLUMNS),
    temperature: of(0, 0.01, 0.3, 1, 1, 2),
    topK: of(0, 0, 0, 1, 5, 40, 1500, vocabulary - 1, vocabulary + 1),
    topP: of(1, 1, 0, 0.1, 0.5, 0.95, 0.9999),
    minP: of(0, 0, 0, 0.05, 0.5, 1),
    presence: of(0, 0.5, -1),
    frequency: of(0, 0.25, -0.5),
    repetition: of(1, 1.1, 2, 0.5),
    counts: some(200, () => 1 + any(5)),
    bias: some(20, () => any(200) - 100),
    seed: BigInt(any(2 ** 31)) << BigInt(any(33)),
    choice: any(4),
    position: any(100_000),
    topLogprobs: of(-1, 0, 1, 5, 20),
  }
  if (any(3) > 0) return row
  const tokens = Array.from({ length: vocabulary }, (_, token) => token)
  return { ...row, allowed: tokens.filter(() => any(1000) < 1000 * share) }
}

/** A number of a row, and two values of it between which another token may come. */
interface Knob {
  turn: (row: Row, to: number) => Row
  from: number
  to: number
}

/** The float between which and the next one sampling.ts changes its mind; undefined: it draws the same at both ends. */
function threshold(by: Case, row: Row, knob: Knob): number | undefined {
  const tokenAt = (place: number) => judged(by, [knob.turn(row, floatAt(place))]).tokens[0]!
  let [low, high] = [placeOf(knob.from), placeOf(knob.to)]
  const first = tokenAt(low)
  if (tokenAt(high) === first) return undefined
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (tokenAt(middle) === first) low = middle
    else high = middle
  }
  return floatAt(low)
}

const float = new Float32Array(1)
const bits = new Int32Array(float.buffer)

/** Floats in their order, as whole numbers one apart. */
function placeOf(value: number): number {
  float[0] = value
  return bits[0]! < 0 ? -(bits[0]! & 0x7fffffff) : bits[0]!
}

function floatAt(place: number): number {
  bits[0] = place < 0 ? -place | 0x80000000 : place
  return float[0]!
}

const needsCompiler = compiler ? "" : " (skipped: no C compiler on this machine)"
describe.skipIf(isLeftOut(compiler)).each([
  [70, 12],
  [2560, 12],
  [128_256, 3],
])(`a vocabulary of %i${needsCompiler}`, (vocabulary, steps) => {
  const columns = columnsOf(vocabulary)
  const by = { vocabulary, columns, sampler: createSampler(vocabulary) }
  let program: LibraryProgram
  beforeAll(async () => {
    program = await open(vocabulary, columns)
  }, 240_000)
  afterAll(() => program?.close())

  async function expectSame(rows: readonly Row[]) {
    const { kind: _, logits, ...told } = await drawn(program, rows)
    for (const [i, { column }] of rows.entries())
      expect(
        worstDifference(logits!.subarray(i * vocabulary, (i + 1) * vocabulary), columns[column]!),
      ).toBe(0)
    expect({ kind: "done", ...told }).toEqual(judged(by, rows))
  }

  test("any settings: the same tokens and the same bits of log-probability", async () => {
    const next = mulberry32(vocabulary + 1)
    for (let step = 0; step < steps; step++)
      await expectSame(
        Array.from({ length: ROWS }, () => anyRow((below) => next() % below, vocabulary)),
      )
  })

  const turning = (name: "topP" | "minP" | "temperature", from: number, to: number): Knob => ({
    turn: (row, value) => ({ ...row, [name]: value }),
    from,
    to,
  })
  const [token, rival] = [Math.floor(vocabulary / 3), vocabulary - 3]
  const duel: Knob = {
    turn: (row, value) => ({
      ...row,
      allowed: [token, rival],
      bias: { ...row.bias, [rival]: value },
    }),
    from: -500,
    to: 500,
  }
  const penalties = { counts: { [token]: 3 }, frequency: 0.7, presence: -0.4, bias: { [token]: 1 } }
  test.each<[string, Omit<Row, "column">, Knob]>([
    ["a score", {}, duel],
    ["a score with its bias", { bias: { [token]: -0.3 } }, duel],
    ["a score that repetition lowers", { ...penalties, repetition: 1.3 }, duel],
    ["a score that repetition raises", { ...penalties, repetition: 0.7 }, duel],
    ["a score with its noise", { ...penalties, repetition: 1.3, temperature: 0.8 }, duel],
    ["top-p", { temperature: 0.9 }, turning("topP", 0.001, 1)],
    ["top-p after top-k", { temperature: 0.9, topK: 60 }, turning("topP", 0.001, 1)],
    ["min-p", { temperature: 1.2 }, turning("minP", 0, 1)],
    ["temperature", {}, turning("temperature", 0.05, 4)],
  ])("%s: the program changes its mind at the same float", async (_, settings, knob) => {
    const rows: Row[] = []
    for (let i = 0; i < (vocabulary < 10_000 ? 8 : 2); i++) {
      const row = { temperature: 0, ...settings, column: i, seed: BigInt(i), position: 7 }
      const value = threshold(by, row, knob)
      if (value === undefined) continue
      for (const step of [-2, -1, 0, 1, 2])
        rows.push(knob.turn(row, floatAt(placeOf(value) + step)))
    }
    expect(rows.length).toBeGreaterThan(4)
    for (let from = 0; from < rows.length; from += ROWS)
      await expectSame(rows.slice(from, from + ROWS))
  })
})
