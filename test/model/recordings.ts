// Golden models that hear (test/golden/hearing), and their recordings, which are made here as hear.py makes them.

import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { goldenFolder, readTensors } from "./golden.ts"

export const hearingModels = readdirSync(goldenFolder("hearing", "."), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

/** Every so manieth row of `features` is there. */
export const KEPT = 16

interface Prompt {
  sounds: { samples: number; seed: number }[]
  parts: string[]
  /** That come out for each recording. */
  rows: number[]
}

export function goldenHearing(name: string) {
  const folder = goldenFolder("hearing", name)
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
