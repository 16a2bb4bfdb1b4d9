// Golden models that hear (test/golden/hearing), and their recordings, which are made here as hear.py makes them; and how a model is
// held to them, wherever it was opened from.

import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, onTestFinished } from "vitest"
import { openRecordings } from "../../src/audio/recordings.ts"
import { mostRows } from "../../src/audio/tiles.ts"
import { compile } from "../../src/compiler/compile.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { createTower, towerLimits } from "../../src/engine/tower.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { answersWith } from "./answers.ts"
import { goldenFolder, readTensors } from "./golden.ts"
import { arithmeticOf, expectNear } from "./steps.ts"

export const hearingModels = readdirSync(goldenFolder("hearing", "."), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

/** Every so manieth row of `features` is there. */
const KEPT = 16

interface Prompt {
  sounds: { samples: number; seed: number }[]
  parts: string[]
  /** That come out for each recording. */
  rows: number[]
}

interface Transcript {
  sound: Prompt["sounds"][number]
  language: string | null
  prompt: string | null
  /** The first tokens of it. */
  text: string
}

/** Beside a GGUF model where there is no folder of it. */
const folderOf = (name: string) =>
  hearingModels.includes(name)
    ? goldenFolder("hearing", name)
    : goldenFolder("gguf", join("hearing", name))

export function goldenHearing(name: string) {
  const folder = folderOf(name)
  const tensors = readTensors(join(folder, "golden.safetensors"))
  const { prompts } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  return (prompts as Prompt[]).map((prompt, i) => ({
    ...prompt,
    bytes: prompt.sounds.map(({ samples, seed }) => wavOf(sound(samples, seed))),
    features: new Float32Array(tensors(`features.${i}`)),
    ids: [...new Int32Array(tensors(`prompt.${i}`))],
    greedy: [...new Int32Array(tensors(`greedy.${i}`))],
  }))
}

const nobody = { client: "" }

/** That rows of all recordings are those of transformers' tower. */
export async function judge(
  path: string,
  name: string,
  on: "cpu" | "vulkan" | "reference",
): Promise<void> {
  const model = await openModel(path, { sees: true })
  onTestFinished(() => model.close())
  expect(model.deaf).toBeUndefined()
  const { graph, format, codecOf, weights, audio } = model.hearing!
  const { sums } = on === "vulkan" ? traitsOf(on) : {}
  const options = { format, ...(codecOf && { codecOf }), ...(sums && { sums }) }
  const plan = compile(graph, { ...options, activations: "float", kv: "f32" })
  const prepared = await targets[on].prepare(plan)
  const program = await prepared.open(towerLimits(plan.groups.length, mostRows(audio)))
  const tower = createTower(program)
  onTestFinished(() => tower.close())
  await loadParameters(weights, program.manifest, program)
  const recordings = openRecordings(audio)
  onTestFinished(() => recordings.close())
  for (const { bytes, features, rows } of goldenHearing(name)) {
    let at = 0
    for (const [i, each] of bytes.entries()) {
      const { tiles } = await recordings.prepare(each, "audio", nobody)
      const out = await tower.read(rows[i]!, async () => tiles, nobody)
      const width = out.length / rows[i]!
      expect(width).toBe(40)
      for (let row = (KEPT - (at % KEPT)) % KEPT; row < rows[i]!; row += KEPT) {
        const [from, golden] = [row * width, ((at + row) / KEPT) * width]
        expectNear(out.subarray(from, from + width), features.subarray(golden, golden + width), {
          distance: 2e-4,
          arithmetic: arithmeticOf(program),
        })
      }
      at += rows[i]!
    }
  }
}

/** Tests: a server of that model answers with the tokens of transformers. */
export function answersAsHeard(name: string, model: string): void {
  answersWith({
    model,
    overrides: { max_total_seq_length: 2048, kv_dtype: "f32" },
    prompts: goldenHearing(name),
    media: ["audio"],
    sent: (bytes) => {
      const data = bytes.toString("base64")
      return { type: "input_audio", input_audio: { data, format: "wav" } }
    },
  })
}

/** Requests for transcripts, by models that were taught a form of their own for them. */
export function goldenTranscripts(name: string) {
  const folder = goldenFolder("hearing", name)
  const tensors = readTensors(join(folder, "golden.safetensors"))
  const { transcripts } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  return (transcripts as Transcript[]).map(({ sound: { samples, seed }, ...transcript }, i) => ({
    ...transcript,
    bytes: wavOf(sound(samples, seed)),
    ids: [...new Int32Array(tensors(`transcript.${i}`))],
  }))
}

/** Three triangles, each of another pitch every tenth of a second. */
export function sound(samples: number, seed: number): Int16Array {
  let state = BigInt(seed)
  const steps = [0, 0, 0]
  const phases = [0, 0, 0]
  return Int16Array.from({ length: samples }, (_, n) => {
    let total = 0
    for (let k = 0; k < 3; k++) {
      if (n % 1600 === 0) {
        state = (state * 1103515245n + 12345n) % 2147483648n
        steps[k] = 300 + (Number(state >> 8n) % 9000)
      }
      phases[k] = (phases[k]! + steps[k]!) % 65536
      total += (Math.abs(phases[k]! - 32768) - 16384) >> (k + 1)
    }
    return total
  })
}

/** 16 kHz, one channel of 16 bits. */
export function wavOf(samples: Int16Array): Buffer {
  const head = Buffer.alloc(44)
  head.write("RIFF")
  head.writeUInt32LE(36 + samples.byteLength, 4)
  head.write("WAVEfmt ", 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20) // whole numbers
  head.writeUInt16LE(1, 22) // channels
  head.writeUInt32LE(16_000, 24)
  head.writeUInt32LE(32_000, 28) // bytes a second
  head.writeUInt16LE(2, 32)
  head.writeUInt16LE(16, 34)
  head.write("data", 36)
  head.writeUInt32LE(samples.byteLength, 40)
  return Buffer.concat([head, Buffer.from(samples.buffer)])
}
