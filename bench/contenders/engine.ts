// Our own program without server and scheduler: the compiled library, weights straight into it, random ones where no file is
// named, and steps of flat arrays. What is lost between this and the server is the price of serving.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { planOf } from "../../src/app/plan.ts"
import type { CodecOf } from "../../src/compiler/graph/codecs.ts"
import type { Graph } from "../../src/compiler/graph/graph.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import { prepareGeneric, shelvedCpu } from "../../src/compiler/targets/cpu/cpu.ts"
import { genericName } from "../../src/compiler/targets/cpu/generic.ts"
import { usableLevels } from "../../src/compiler/targets/cpu/levels.ts"
import { decodeCosts } from "../../src/compiler/targets/gpu/costs.ts"
import { targets, targetsOf } from "../../src/compiler/targets/targets.ts"
import { loadParameters, type Weights } from "../../src/model/weights/weights.ts"
import { narrow } from "../../src/runtime/dtype.ts"
import { processorFeatures } from "../../src/runtime/features.ts"
import {
  codeTables,
  type FloatType,
  type FormatName,
  type GroupCodec,
  groupCodecs,
  isGroupCodec,
  rowLayout,
} from "../../src/runtime/format.ts"
import { openLibrary } from "../../src/runtime/library.ts"
import { type Manifest, parameterBytes } from "../../src/runtime/manifest.ts"
import {
  BLOCK,
  type LoadableProgram,
  NO_LOGPROBS,
  type ProgramLimits,
  type StepInput,
  UNMASKED,
} from "../../src/runtime/program.ts"
import type { Contender, Task } from "./contender.ts"
import { commit } from "./servers.ts"

/** On a device whose limits are measured. */
export interface MeasuredEngine extends Contender {
  /** Bytes read for a step of one sequence. */
  readonly weightBytes: number
  /** Operations of the layers' products for one token. */
  readonly operations: number
  /** How much of the weights several sequences read together depends on the experts they choose. */
  readonly isMixture: boolean
  /** Its products are of codes of 8 bits. */
  readonly isCoded: boolean
  /** Kernels of a step of one sequence, one behind the other; 0 on the processor. */
  readonly launches: number
}

/** Of a model, what its steps are made of. */
export interface Computed {
  graph: Graph
  format: FormatName
  codecOf?: CodecOf
  /** Absent: random ones. */
  weights?: Weights
}

const CHUNK = 512 // tokens of a prompt in one step, as the server takes them

/** What the engine is called in the results, by what is special about it. */
const names = {
  compiled: "sinter's engine",
  /** With the kernels that a package brings where there is no C compiler (`npm run generic`). */
  generic: "sinter's engine, generic kernels",
  /** On the dense shape whose weights are those that a token of a mixture meets. */
  dense: "sinter's engine, a dense model of the active bytes",
}

/** @param name what the weights are called in the results */
export async function engine(
  name: string,
  model: Computed,
  task: Task,
  kind: keyof typeof names = "compiled",
): Promise<MeasuredEngine> {
  const { threads, context, device } = task
  const [target] = targetsOf(device.name)
  const { traits } = targets[target!]
  const plan = planOf(model, model.format, { kv_dtype: "f16" }, traits)
  const sequences = Math.max(16, task.sequences)
  const each = Math.ceil((sequences * 256 + 2 * context) / BLOCK)
  // Of a state each sequence has two, and they are of no length.
  const blocks = plan.groups.map(({ state }) => (state ? 2 * sequences : each))
  const limits = { blocks, tokens: CHUNK, sequences, rows: sequences }
  const program = await (kind === "generic"
    ? openGeneric(plan, limits, task)
    : openProgram(plan, limits, task))
  if (model.weights) {
    await loadParameters(model.weights, program.manifest, program)
    await model.weights.close()
  } else await fill(program)
  const { manifest } = program
  let written = 0 // blocks from the first on
  // What nobody has written is one page of zeros for all of it, which the cache holds: a long context would cost nothing to read.
  const write = async (wanted: number) => {
    const end = Math.min(wanted, each)
    if (written === 0) {
      const tokens = device.name === "cpu" ? CHUNK : 2 * BLOCK // what a processor that poses as a GPU has time for
      await program.step(inputOf(program, 1, tokens, 0), never)
      written = tokens / BLOCK
    }
    while (written < end) {
      const count = Math.min(written, end - written)
      const from = Int32Array.from({ length: count }, (_, i) => i)
      const to = from.map((block) => block + written)
      for (const [group, { state }] of plan.groups.entries())
        if (!state) await program.copyBlocks(group, from, to)
      written += count
    }
  }
  const decode = async (sequences: number, depth: number) => {
    const past = Math.max(16, depth)
    await write(Math.ceil((past + STEPS + 1) / BLOCK) * sequences)
    await program.step(inputOf(program, sequences, 1, past), never) // others come from reading a prompt: nobody's threads sleep
    const rows = Int32Array.from({ length: sequences }, (_, row) => row)
    const outputs: Promise<unknown>[] = []
    const begun = performance.now()
    for (let i = 1; i <= STEPS; i++) {
      await outputs.at(program.chains ? -2 : -1)
      const input = inputOf(program, sequences, 1, past + i)
      const isChained = program.chains && i > 1 // to the step before, which draws its tokens
      outputs.push(
        program.step(isChained ? { ...input, tokens: rows, drawnBy: rows } : input, never),
      )
    }
    await Promise.all(outputs)
    return (sequences * STEPS) / seconds(begun)
  }
  const where = device.name === "cpu" ? `${threads} threads` : device.description
  return {
    name: names[kind],
    about: `sinter ${commit()}, ${manifest.target}, ${name}, ${where}, ${CHUNK} tokens a step, ${manifest.kv.dtype} keys and values`,
    ...limitedBy(plan),
    launches: device.name === "cpu" ? 0 : decodeCosts(plan, device.name, "one span").launches,
    async prefill(tokens) {
      const begun = performance.now()
      for (let past = 0; past < tokens; past += CHUNK)
        await program.step(inputOf(program, 1, Math.min(CHUNK, tokens - past), past), never)
      return tokens / seconds(begun)
    },
    decode,
    long: async (depth) => ({
      tokensPerSecond: await decode(1, depth - STEPS - 1),
      bytes: process.memoryUsage.rss(),
    }),
    ...(process.platform === "linux" && {
      async javascript(sequences: number) {
        const inputs = Array.from({ length: STEPS }, (_, i) =>
          inputOf(program, sequences, 1, 16 + i),
        )
        for (const input of inputs.slice(-8)) await program.step(input, never) // recorded, compiled
        const begun = threadMilliseconds()
        for (const input of inputs) await program.step(input, never)
        return (threadMilliseconds() - begun) / inputs.length
      },
    }),
    close: () => program.close(),
  }
}

const STEPS = 32
const seconds = (begun: number) => (performance.now() - begun) / 1000

/** Without its weights. */
export async function openProgram(
  plan: Plan,
  limits: ProgramLimits,
  { device, threads, level }: Task,
): Promise<LoadableProgram> {
  if (device.name === "cpu") {
    const { path } = await shelvedCpu(plan, "cpu", undefined, level)
    return openLibrary(path, limits, threads)
  }
  const [target] = targetsOf(device.name)
  const prepared = await targets[target!].prepare(plan, [device.id])
  return prepared.open(limits)
}

async function openGeneric(
  plan: Plan,
  limits: ProgramLimits,
  { threads }: Task,
): Promise<LoadableProgram> {
  const [level] = usableLevels(process.arch, processorFeatures())
  const code = readFileSync(join("build/generic", genericName(level)))
  const library = await prepareGeneric(plan, { level, code, name: "generic" })
  const folder = mkdtempSync(join(tmpdir(), "sinter-bench-generic-"))
  try {
    const path = join(folder, library.name)
    writeFileSync(path, await library.build())
    return await openLibrary(path, limits, threads)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

export function limitedBy({ parameters, steps }: Plan) {
  // Of experts' weights a token meets a part.
  const active = parameters.map(() => 1)
  for (const step of steps) {
    if (step.op !== "experts") continue
    const { count, active: chosen, gateUp, down } = step.experts
    for (const id of [gateUp, down]) active[id] = chosen / count
  }
  const sum = (each: (parameter: Plan["parameters"][number]) => number) =>
    parameters.reduce((all, parameter, id) => all + active[id]! * each(parameter), 0)
  return {
    isMixture: steps.some(({ op }) => op === "experts"),
    isCoded: steps.some(({ op }) => op === "quantize"),
    weightBytes: sum(parameterBytes),
    operations: sum(({ name, rows, columns }) =>
      name.startsWith("layers.") && columns > 1 ? 2 * rows * columns : 0,
    ),
  }
}

/** What the thread that runs JavaScript has had of a processor, which is not the time that it was kept waiting for one. */
function threadMilliseconds(): number {
  const [nanoseconds] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")
  return Number(nanoseconds) / 1e6
}

/** Whatever codes, and numbers that keep what is multiplied near one: next to zero, where processors are slow, is no model's. */
export async function fill(program: LoadableProgram): Promise<void> {
  const noise = random(FILLED)
  const ofTables = new Map<keyof typeof codeTables, Uint8Array>()
  const ofTable = (name: keyof typeof codeTables) => {
    const own = ofTables.get(name) ?? noise.map((byte) => codeTables[name][byte & 15]!)
    ofTables.set(name, own)
    return own
  }
  const numbers = new Map<string, Uint8Array>()
  const from = (least: number, dtype: FloatType) => {
    const own = numbers.get(`${least} ${dtype}`) ?? upFrom(least, dtype)
    numbers.set(`${least} ${dtype}`, own)
    return own
  }
  for (const [index, { rows, columns, codec }] of program.manifest.parameters.entries()) {
    const layout = rowLayout(codec, columns)
    const { table, dtype = "f32" }: Partial<GroupCodec> = isGroupCodec(codec)
      ? groupCodecs[codec]
      : {}
    const codes = table ? ofTable(table) : noise
    const window = Math.max(1, Math.floor(FILLED / layout.bytes))
    for (let row = 0; row < rows; row += window) {
      const count = Math.min(window, rows - row)
      const values = isGroupCodec(codec)
        ? codes.subarray(0, count * layout.bytes)
        : from(columns === 1 ? 0.75 : 0.004, codec)
      await program.load(index, row, count, values, from(0.004, dtype))
    }
  }
}

const FILLED = 32 << 20

function random(bytes: number): Uint8Array {
  const words = new Uint32Array(bytes / 4)
  let state = 1
  for (let i = 0; i < words.length; i++)
    words[i] = state = (Math.imul(state, 1664525) + 1013904223) | 0
  return new Uint8Array(words.buffer)
}

/** Numbers from the least to twice that, over and over. */
function upFrom(least: number, dtype: FloatType): Uint8Array {
  const some = Float32Array.from({ length: 1024 }, (_, i) => least * (1 + ((i * 37) % 1024) / 1024))
  const bytes = narrow(some, dtype)
  const all = new Uint8Array(FILLED)
  for (let at = 0; at < all.length; at += bytes.length) all.set(bytes, at)
  return all
}

export const never = new Int32Array(new SharedArrayBuffer(4))

/** What a step's input is made for. */
interface Sized {
  manifest: Pick<Manifest, "shapes" | "kv">
  limits: Pick<ProgramLimits, "blocks">
}

/** So many sequences of `past` tokens get so many more each, and draw the likeliest one. */
export function inputOf(
  program: Sized,
  sequences: number,
  tokens: number,
  past: number,
): StepInput {
  const each = Math.ceil((past + tokens) / BLOCK)
  const all = (count: number, value: (i: number) => number) =>
    Int32Array.from({ length: count }, (_, i) => value(i))
  const floats = (value: number) => new Float32Array(sequences).fill(value)
  const total = sequences * tokens
  const { shapes, kv } = program.manifest
  const step = Math.floor(past / tokens)
  let blocks = 0
  const lists = kv.groups.flatMap(({ state }, group) =>
    Array.from({ length: sequences }, (_, s) => {
      // A state is read where the step before has left it; groups with windows keep all of their blocks.
      if (state) return [2 * s + (step % 2), 2 * s + 1 - (step % 2)]
      const first = (group * sequences + s) * each
      return Array.from({ length: each }, (_, i) => (first + i) % program.limits.blocks[group]!)
    }),
  )
  return {
    tokens: all(total, (i) => (i * 7919) % shapes.vocabulary),
    starts: all(sequences + 1, (i) => i * tokens),
    positions: all(total, (i) => past + (i % tokens)),
    blocks: Int32Array.from(lists.flat()),
    blockStarts: Int32Array.of(0, ...lists.map(({ length }) => (blocks += length))),
    visibleFrom: new Int32Array(lists.length),
    logitRows: all(sequences, (i) => (i + 1) * tokens - 1),
    hiddenRows: new Int32Array(0),
    sampling: {
      temperature: floats(0),
      topK: new Int32Array(sequences),
      topP: floats(1),
      minP: floats(0),
      presence: floats(0),
      frequency: floats(0),
      repetition: floats(1),
      countStarts: new Int32Array(sequences + 1),
      countTokens: new Int32Array(0),
      counts: new Int32Array(0),
      biasStarts: new Int32Array(sequences + 1),
      biasTokens: new Int32Array(0),
      biases: new Float32Array(0),
      masks: new Uint32Array(0),
      maskRow: new Int32Array(sequences).fill(UNMASKED),
      seed: new BigUint64Array(sequences),
      choice: new Int32Array(sequences),
      position: new Int32Array(sequences),
      topLogprobs: new Int32Array(sequences).fill(NO_LOGPROBS),
    },
  }
}
