// Parakeets on every target: what their encoder makes of a recording, which tokens they say and how long these go on are transformers'
// (test/golden/parakeet). A long recording is cut where it is quiet.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { cutsOf, STEP } from "../../src/audio/cuts.ts"
import { PIECE_SECONDS } from "../../src/audio/eighths.ts"
import { openRecordings } from "../../src/audio/recordings.ts"
import { mostRows } from "../../src/audio/tiles.ts"
import { compile } from "../../src/compiler/compile.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { createFrameDecoder, type Said } from "../../src/engine/frame-decoder.ts"
import { createTower, towerLimits } from "../../src/engine/tower.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder, readTensors } from "./golden.ts"
import { opening } from "./pictures.ts"
import { sound, wavOf } from "./recordings.ts"
import { worstDifference } from "./steps.ts"

interface Golden {
  sound: { samples: number; seed: number }
  /** Of CTC for every row; of a transducer what each step named, the first of which began it. */
  ids: number[]
  durations?: number[]
}

const nobody = { client: "" }
const ROWS = 5 // in one step, so that a recording takes many

function goldensOf(folder: string) {
  const { recordings } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  const tensors = readTensors(join(folder, "golden.safetensors"))
  return (recordings as Golden[]).map((golden, number) => ({
    ...golden,
    bytes: wavOf(sound(golden.sound.samples, golden.sound.seed)),
    rows: new Float32Array(tensors(`rows.${number}`)),
  }))
}

/** Tokens, the row at which each begins, and how many it goes on, as the decoders of transformers count them. */
function saidIn({ ids, durations }: Golden, blank: number): Omit<Said, "logprob">[] {
  if (durations) {
    let row = 0
    const all = ids.map((token, step) => {
      const own = { token, row, rows: durations[step]! }
      row += durations[step]!
      return own
    })
    return all.filter(({ token }) => token !== blank)
  }
  const begins = ids.flatMap((token, row) => (token !== ids[row - 1] ? [row] : []))
  return begins.flatMap((row, run) => {
    const [token, end] = [ids[row]!, begins[run + 1] ?? ids.length]
    return token === blank ? [] : [{ token, row, rows: end - row }]
  })
}

async function judge(name: string, on: keyof typeof opening): Promise<void> {
  const folder = goldenFolder("parakeet", name)
  const model = await openModel(folder, { sees: true })
  onTestFinished(() => model.close())
  const hearing = model.hearing!
  const { audio } = hearing
  const { sums } = on === "vulkan" ? traitsOf(on) : {}
  const how = { ...(sums && { sums }), activations: "float", kv: "f32" } as const
  const plans = [model, hearing].map(({ graph, format }) => compile(graph, { ...how, format }))
  const limits = { blocks: [], tokens: ROWS, sequences: 1, rows: ROWS }
  const program = await opening[on](plans[0]!, limits)
  onTestFinished(() => program.close())
  const { acoustic } = model.config
  const decoder = createFrameDecoder(program, acoustic!)
  onTestFinished(() => decoder.close())
  const heard = await opening[on](plans[1]!, towerLimits(plans[1]!.groups.length, mostRows(audio)))
  const tower = createTower(heard)
  onTestFinished(() => tower.close())
  for (const [own, { weights }] of [
    [program, model],
    [heard, hearing],
  ] as const)
    await loadParameters(weights, own.manifest, own)
  const recordings = openRecordings(audio)
  onTestFinished(() => recordings.close())
  for (const golden of goldensOf(folder)) {
    const { pieces } = await recordings.cut(golden.bytes, "file", nobody)
    expect(pieces).toHaveLength(1)
    const [{ rows, tile }] = pieces as [(typeof pieces)[0]]
    const made = await tower.read(rows, async () => [tile()], nobody)
    expect(worstDifference(made, golden.rows)).toBeLessThan(2e-4)
    const said: Said[] = []
    for await (const each of decoder.decode(made, nobody)) said.push(each)
    const wanted = saidIn(golden, acoustic!.blank)
    const isRnnt = acoustic!.network?.durations.length === 0
    expect(said).toEqual(
      wanted.map((own) => ({
        ...own,
        ...(isRnnt && { rows: 1 }),
        logprob: expect.any(Number),
      })),
    )
  }
}

test.each([
  ["ctc", "reference"],
  ["rnnt", "reference"],
  ["tdt", "reference"],
  ["tdt", "cpu"],
] as const)("%s hears and names tokens on %s", (name, on) => judge(name, on), 120_000)

const { isSkipped, why } = lackOf("vulkan")

test.skipIf(isSkipped)(`tdt does on vulkan${why}`, () => judge("tdt", "vulkan"), GPU_MILLISECONDS)

test("a long recording is cut where it is quietest, and pieces begin where rows do", () => {
  const second = 16_000
  const samples = Float32Array.from({ length: 70 * second }, (_, at) => (at % 2) - 0.5)
  const silent = [20, 32].map((at) => at * second) // the first is not near an end of a piece
  for (const at of silent) samples.fill(0, at, at + second)
  const most = PIECE_SECONDS * second
  const cuts = cutsOf(samples, most)
  for (const cut of cuts) expect(cut % STEP).toBe(0)
  expect(cuts).toHaveLength(1)
  expect(cuts[0]).toBeGreaterThan(32 * second)
  expect(cuts[0]).toBeLessThan(33 * second)
  expect(cutsOf(samples.subarray(0, most), most)).toEqual([])
})

test.each<[string, object, RegExp]>([
  [
    "subsamples by 4",
    { encoder_config: { subsampling_factor: 4 } },
    /encoder_config.subsampling_factor is 4; only 8/,
  ],
  [
    "convolves an even number of rows",
    { encoder_config: { conv_kernel_size: 8 } },
    /conv_kernel_size is 8, and has to be odd/,
  ],
  ["has another activation", { hidden_act: "silu" }, /hidden_act is "silu"; only "relu"/],
  ["goes on by fractions", { durations: [0.5] }, /durations is not a list of whole numbers/],
])("one that %s is refused by name", async (_, change, words) => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-parakeet-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  cpSync(goldenFolder("parakeet", "tdt"), folder, { recursive: true })
  const file = join(folder, "config.json")
  const { encoder_config, ...config } = JSON.parse(readFileSync(file, "utf8"))
  const { encoder_config: encoder, ...others } = change as { encoder_config?: object }
  const changed = { ...config, ...others, encoder_config: { ...encoder_config, ...encoder } }
  writeFileSync(file, JSON.stringify(changed))
  await expect(openModel(folder, { sees: true })).rejects.toThrow(words)
})
