// The golden models (test/golden/models, test/golden/mlc) and what independent programs computed from them.

import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { gunzipSync } from "node:zlib"

const root = resolve(import.meta.dirname, "../golden")

type Kind =
  | "."
  | "adapters"
  | "models"
  | "mtp"
  | "senses"
  | "embeddings"
  | "ranking"
  | "mlc"
  | "broken"
  | "gguf"
  | "vision"
  | "hearing"
  | "towers"
  | "whisper"
  | "parakeet"
  | "attending"

/** Golden models that are compiled: between them every operation. The others the generic library computes (generic.test.ts). */
export const compiledModels = [
  "bloom",
  "deepseek-v32",
  "gemma2",
  "gemma4-experts",
  "gpt-oss",
  "gpt2",
  "granite-hybrid",
  "jamba",
  "kimi-linear",
  "kolibri1",
  "llama-odd",
  "nemotron",
  "nemotron-h-moe",
  "phi",
  "phimoe",
  "qwen3-5",
] as const

export const goldenFolder = (kind: Kind, name: string) => join(root, kind, name)

/** The bytes of a Whisper as whisper.cpp's converter writes it (test/golden/whisper/ggml.py). */
export const whisperFile = (name: "english" | "multilingual") =>
  gunzipSync(readFileSync(join(root, "whisper", "ggml", `${name}.bin.gz`)))

/** What the embedded model's heads make of a text: a prompt and a greedy reply. */
export interface GoldenHeads {
  prompt: number[]
  reply: number[]
  hidden: Float32Array // [tokens, hidden] the model's own
  eagle: Float32Array // [tokens - 1, kept] logits of positions 1 …, some columns
  medusa: Float32Array[] // [tokens, kept] of each head
  /** Of the text with one token of the reply, with two, … */
  drafts: Record<"eagle" | "medusa", number[][]>
  /** How far each of those is likelier than the next one (logits). */
  leads: Record<"eagle" | "medusa", number[][]>
}

export function readGoldenHeads(): GoldenHeads[] {
  const folder = join(root, "heads")
  const { cases } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  const tensors = readTensors(join(folder, "golden.safetensors"))
  const floats = (name: string) => new Float32Array(tensors(name))
  return (cases as GoldenNotes[]).map(({ prompt, reply, eagle, medusa }, i) => ({
    prompt,
    reply,
    hidden: floats(`hidden.${i}`),
    eagle: floats(`eagle.${i}`),
    medusa: medusa.drafts[0]!.map((_, head) => floats(`medusa.${head}.${i}`)),
    drafts: { eagle: eagle.drafts, medusa: medusa.drafts },
    leads: { eagle: eagle.leads, medusa: medusa.leads },
  }))
}

interface GoldenNotes {
  prompt: number[]
  reply: number[]
  eagle: { drafts: number[][]; leads: number[][] }
  medusa: { drafts: number[][]; leads: number[][] }
}

/** What a head makes of a text of its model: a prompt and a greedy reply. */
export interface GoldenDrafts {
  prompt: number[]
  reply: number[]
  logits: Float32Array // [tokens - 1, kept] of positions 1 …
  /** As of the embedded model's heads. */
  drafts: number[][]
  leads: number[][]
}

export function readGoldenEagle3(head: string): { folder: string; texts: GoldenDrafts[] } {
  const folder = join(root, "eagle3")
  const { cases } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  const tensors = readTensors(join(folder, "golden.safetensors"))
  const texts = cases.map(({ prompt, reply, [head]: made }: GoldenEagle3Notes, i: number) => ({
    prompt,
    reply,
    ...(made as Pick<GoldenDrafts, "drafts" | "leads">),
    logits: new Float32Array(tensors(`${head}.${i}`)),
  }))
  return { folder: join(folder, head), texts }
}

type GoldenEagle3Notes = Pick<GoldenDrafts, "prompt" | "reply"> & Record<string, unknown>

/** Golden models for which there is a layer that guesses ahead. */
export const mtpModels = [
  "qwen3-5",
  "qwen3-5-moe",
  "deepseek-v3",
  "glm4-moe",
  "glm4",
  "bailing-moe-v2",
  "hy-v3",
  "exaone-moe",
  "exaone4",
  "ernie4-5-moe",
  "nemotron-h-moe",
  "deepseek-v32",
  "glm-moe-dsa",
] as const

export function readGoldenMtp(name: (typeof mtpModels)[number]): GoldenDrafts[] {
  const folder = join(root, "mtp")
  const { [name]: texts } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  const tensors = readTensors(join(folder, "golden.safetensors"))
  return (texts as Omit<GoldenDrafts, "logits">[]).map((text, i) => ({
    ...text,
    logits: new Float32Array(tensors(`${name}.${i}`)),
  }))
}

/** A golden model in a folder with its layer that guesses ahead, as one that was published in shards. */
export function writeMtpModel(name: (typeof mtpModels)[number], folder: string): void {
  const model = goldenFolder("models", name)
  for (const file of readdirSync(model).filter((file) => !file.startsWith("golden.")))
    cpSync(join(model, file), join(folder, file))
  cpSync(join(root, "mtp", `${name}.safetensors`), join(folder, "ahead.safetensors"))
  const shards = ["model.safetensors", "ahead.safetensors"].flatMap((file) => {
    const bytes = readFileSync(join(folder, file))
    const header = JSON.parse(bytes.toString("utf8", 8, 8 + Number(bytes.readBigUInt64LE(0))))
    const names = Object.keys(header).filter((tensor) => tensor !== "__metadata__")
    return names.map((tensor) => [tensor, file])
  })
  const index = { weight_map: Object.fromEntries(shards) }
  writeFileSync(join(folder, "model.safetensors.index.json"), JSON.stringify(index))
}

export interface GoldenPrompt {
  tokens: Int32Array
  firstRow: number // the position that the first row of logits belongs to
  logits: Float32Array // [rows, vocabulary]
  greedy: Int32Array // what greedy decoding appends
}

export function readGolden(folder: string): GoldenPrompt[] {
  const notes = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  const tensors = readTensors(join(folder, "golden.safetensors"))
  return notes.prompts.map(({ first_row }: { first_row: number }, i: number) => ({
    tokens: new Int32Array(tensors(`prompt.${i}`)),
    firstRow: first_row,
    logits: new Float32Array(tensors(`logits.${i}`)),
    greedy: new Int32Array(tensors(`greedy.${i}`)),
  }))
}

export function readTensors(path: string): (name: string) => ArrayBuffer {
  const bytes = readFileSync(path)
  const data = 8 + Number(bytes.readBigUInt64LE(0))
  const header = JSON.parse(bytes.toString("utf8", 8, data))
  return (name) => {
    const [begin, end] = header[name].data_offsets
    return Uint8Array.prototype.slice.call(bytes, data + begin, data + end).buffer
  }
}
