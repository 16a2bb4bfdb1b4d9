// Models whose decoder attends to rows of an encoder, as many as a recording has: what the encoder makes of one, and what the decoder makes of that, are
// transformers' (test/golden/attending).

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { openRecordings } from "../../src/audio/recordings.ts"
import { mostRows } from "../../src/audio/tiles.ts"
import { compile } from "../../src/compiler/compile.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { createTower, towerLimits } from "../../src/engine/tower.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { BLOCK, type LoadableProgram, SEEN } from "../../src/runtime/program.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder, readTensors } from "./golden.ts"
import { opening } from "./pictures.ts"
import { sound, wavOf } from "./recordings.ts"
import { batch, limitsFor, notCancelled, worstDifference } from "./steps.ts"

interface Golden {
  sound: { samples: number; seed: number }
  /** The first asks for the others. */
  ids: number[]
}

const nobody = { client: "" }

function goldensOf(folder: string) {
  const { recordings } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  const tensors = readTensors(join(folder, "golden.safetensors"))
  return (recordings as Golden[]).map((golden, number) => ({
    ...golden,
    bytes: wavOf(sound(golden.sound.samples, golden.sound.seed)),
    rows: new Float32Array(tensors(`rows.${number}`)),
    logits: new Float32Array(tensors(`logits.${number}`)),
  }))
}

/** A step of some positions of a sequence whose rows come first: of a group that begins behind them blocks do, too. */
async function logitsOf(
  program: LoadableProgram,
  { rows, ids }: Pick<ReturnType<typeof goldensOf>[0], "rows" | "ids">,
  steps: readonly number[],
): Promise<Float32Array> {
  const width = program.manifest.shapes.taken ?? program.manifest.shapes.hidden
  const front = rows.length / width
  const tokens = ids.slice(0, -1)
  const logits: number[] = []
  let from = 0
  for (const end of [...steps, front + tokens.length]) {
    const positions = Array.from({ length: end - from }, (_, i) => from + i)
    const given = positions.map((at) => (at < front ? SEEN + at - from : tokens[at - front]!))
    const wanted = positions.flatMap((at, i) => (at >= front ? [i] : []))
    const lists = program.manifest.kv.groups.map(({ media }) => {
      const visible = media ? 0 : Math.min(from, front)
      const first = Math.floor(visible / BLOCK)
      const count = Math.ceil(end / BLOCK) - first
      return { visible, blocks: Array.from({ length: count }, (_, i) => first + i) }
    })
    let count = 0
    const seen = Math.max(0, Math.min(end, front) - from)
    const done = await program.step(
      {
        ...batch([{ tokens: given, from, blocks: [], logits: wanted }]),
        blocks: Int32Array.from(lists.flatMap(({ blocks }) => blocks)),
        blockStarts: Int32Array.of(0, ...lists.map(({ blocks }) => (count += blocks.length))),
        visibleFrom: Int32Array.from(lists, ({ visible }) => visible),
        seenFrom: new Int32Array(positions.length),
        seenTo: Int32Array.from(positions, (at) => (at < front ? 0 : front - 1)),
        ...(seen > 0 && { hiddenIn: rows.slice(from * width, (from + seen) * width) }),
      },
      notCancelled(),
    )
    if (done.kind !== "done") throw new Error("the step was cancelled")
    if (wanted.length > 0) logits.push(...done.logits!)
    from = end
  }
  return Float32Array.from(logits)
}

async function judge(name: string, on: keyof typeof opening): Promise<void> {
  const folder = goldenFolder("attending", name)
  const model = await openModel(folder, { sees: true })
  onTestFinished(() => model.close())
  const { audio } = model.hearing!
  const { sums } = on === "vulkan" ? traitsOf(on) : {}
  const how = { ...(sums && { sums }), activations: "float", kv: "f32" } as const
  const [plan, towerPlan] = [model, model.hearing!].map(({ graph, format }) =>
    compile(graph, { ...how, format }),
  )
  const limits = { blocks: 8, tokens: 120, sequences: 1, rows: 40 }
  const program = await opening[on](plan!, limitsFor(plan!, limits))
  onTestFinished(() => program.close())
  await loadParameters(model.weights, program.manifest, program)
  const heard = await opening[on](
    towerPlan!,
    towerLimits(towerPlan!.groups.length, mostRows(audio)),
  )
  const tower = createTower(heard)
  onTestFinished(() => tower.close())
  await loadParameters(model.hearing!.weights, heard.manifest, heard)
  const recordings = openRecordings(audio)
  onTestFinished(() => recordings.close())
  for (const golden of goldensOf(folder)) {
    const { pieces } = await recordings.cut(golden.bytes, "file", nobody)
    const [piece] = pieces
    const rows = await tower.read(piece!.rows, async () => [piece!.tile()], nobody)
    expect(rows).toHaveLength(golden.rows.length)
    expect(worstDifference(rows, golden.rows)).toBeLessThan(1e-4)
    const front = piece!.rows
    const whole = await logitsOf(program, golden, [front])
    expect(worstDifference(whole, golden.logits)).toBeLessThan(1e-3)
    const steps = [7, front, front + 1, front + 3]
    expect(await logitsOf(program, golden, steps)).toEqual(whole)
  }
}

test.each([
  ["moonshine", "reference"],
  ["moonshine", "cpu"],
] as const)(
  "%s hears and writes as transformers does, on %s",
  (name, on) => judge(name, on),
  120_000,
)

const { isSkipped, why } = lackOf("vulkan")

test.skipIf(isSkipped)(
  `moonshine does on vulkan${why}`,
  () => judge("moonshine", "vulkan"),
  GPU_MILLISECONDS,
)

test.each<[string, string, object, RegExp]>([
  ["biases in attention", "config.json", { attention_bias: true }, /attention_bias is true; only/],
  [
    "fewer keys than queries",
    "config.json",
    { decoder_num_key_value_heads: 1 },
    /decoder_num_key_value_heads is 1; only 2/,
  ],
  [
    "a beginning that is no token",
    "config.json",
    { decoder_start_token_id: 23 },
    /decoder_start_token_id is 23, not between 0 and 22/,
  ],
  [
    "loudness made even",
    "preprocessor_config.json",
    { do_normalize: true },
    /do_normalize is true; only false/,
  ],
  ["another rate", "preprocessor_config.json", { sampling_rate: 8000 }, /is 8000; only 16000/],
])("one with %s is refused by name", async (_, file, change, words) => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-attending-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  cpSync(goldenFolder("attending", "moonshine"), folder, { recursive: true })
  const told = JSON.parse(readFileSync(join(folder, file), "utf8"))
  writeFileSync(join(folder, file), JSON.stringify({ ...told, ...change }))
  await expect(openModel(folder, { sees: true })).rejects.toThrow(words)
})
