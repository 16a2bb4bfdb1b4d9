// Makes a model folder of a real shape with random weights, for benchmarks without a download. Every program that reads such
// folders can serve it; what it says is noise. Packed formats are written as compiled folders, `hf` as bf16 safetensors,
// which other programs convert to formats of their own, and `hollow` as the same with a hole where the weights are, for
// random_gguf.py, which reads none.
//
//   npx tsx bench/models.ts 1B|0.6B|… hf|hollow|q4f16_1|… OUTPUT

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { open } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { progressBar } from "../src/cli/progress.ts"
import type { Graph, Weight } from "../src/compiler/graph/graph.ts"
import { compileFolder } from "../src/model/compile-folder.ts"
import { weightsOf } from "../src/model/graph-weights.ts"
import { openModel } from "../src/model/model.ts"
import type { Weights } from "../src/model/weights/weights.ts"
import { cacheHome } from "../src/runtime/cache.ts"
import { narrow } from "../src/runtime/dtype.ts"
import {
  type FormatName,
  formatNames,
  formats,
  groupCodecs,
  isFormatName,
  isGroupCodec,
  rowLayout,
} from "../src/runtime/format.ts"
import { graphOf, type ShapeName, shapes } from "./shapes.ts"

/** The folder of a packed model, made if it is not there yet. */
export async function modelFolder(shape: ShapeName, format: FormatName): Promise<string> {
  const folder = join(cacheHome(), "sinter", "bench", `${shape}-${format}`)
  if (!existsSync(folder)) await writePacked(shape, format, folder)
  return folder
}

/** A folder with a hole where the weights are: its configuration and tokenizer are read, random weights put in. */
async function writePacked(shape: ShapeName, format: FormatName, output: string): Promise<void> {
  const scratch = mkdtempSync(join(tmpdir(), "sinter-shape-"))
  try {
    await writePlain(shape, scratch, false)
    const model = await openModel(scratch)
    const progress = progressBar(process.stderr)
    const packed = { ...model, format, weights: randomWeights(format) }
    mkdirSync(dirname(output), { recursive: true })
    await compileFolder(packed, output, {
      format,
      progress: (done, total) => progress(`making ${shape}, ${format}`, done, total),
    })
    await model.close()
  } finally {
    rmSync(scratch, { recursive: true })
  }
}

// ------------------------------------------------------------------ weights

/** Even codes, which lie evenly on both sides of zero, under scales that keep a product's size about 1. */
function randomWeights(format: FormatName): Weights {
  const { matrix, vector } = formats[format]
  return {
    entries: [],
    tensor: (_name, _rows, columns) => {
      const stored = columns === 1 ? vector : matrix
      const layout = rowLayout(stored, columns)
      return {
        codec: stored,
        async read(_first, rows) {
          if (!isGroupCodec(stored))
            return { rows, values: narrow(randomFloats(rows * columns, columns), stored) }
          const { bits, zero, dtype } = groupCodecs[stored]
          const words = randomWords(rows * layout.words)
          for (let i = 0; i < words.length; i++) words[i]! &= evenCodes[bits]
          const size = 1 / (zero * 0.65 * Math.sqrt(columns))
          const scales = new Float32Array(rows * layout.groups).fill(size)
          return { rows, values: new Uint8Array(words.buffer), scales: narrow(scales, dtype) }
        },
      }
    },
    verify: async () => {},
    close: async () => {},
  }
}

const evenCodes: Record<3 | 4 | 8, number> = { 3: 0o6666666666, 4: 0xeeeeeeee, 8: 0xfefefefe }

/** Numbers drawn once, of which everybody gets some, from another place each time: drawing all of them takes minutes. */
const pool = new Uint32Array(1 << 20)
let state = 1
for (let i = 0; i < pool.length; i++) {
  state ^= state << 13
  state ^= state >>> 17
  state ^= state << 5
  pool[i] = state
}

/** Fills `out` with the numbers of `from`, which begin anywhere and come over again. */
function some<Numbers extends Uint32Array | Float32Array>(from: Numbers, out: Numbers): Numbers {
  state = Math.imul(state, 1664525) + 1013904223
  let at = state & (from.length - 1)
  for (let i = 0; i < out.length; at = 0) {
    const piece = from.subarray(at, at + Math.min(from.length - at, out.length - i))
    out.set(piece, i)
    i += piece.length
  }
  return out
}

const randomWords = (count: number) => some(pool, new Uint32Array(count))

const floatPools = new Map<number, Float32Array>()

/** Norms of one; matrices of a size that keeps products about 1. */
function randomFloats(count: number, columns: number): Float32Array {
  if (columns === 1) return new Float32Array(count).fill(1)
  let floats = floatPools.get(columns)
  if (!floats) {
    const size = Math.sqrt(3 / columns) / 2 ** 31
    floats = Float32Array.from(pool, (word) => (word | 0) * size)
    floatPools.set(columns, floats)
  }
  return some(floats, new Float32Array(count))
}

// ------------------------------------------------------------------ a Hugging Face folder

async function writePlain(shape: ShapeName, output: string, filled: boolean): Promise<void> {
  mkdirSync(output, { recursive: true })
  const config = { ...shapes[shape], hidden_act: "silu", torch_dtype: "bfloat16" }
  writeFileSync(join(output, "config.json"), JSON.stringify(config, undefined, 1))
  writeFileSync(join(output, "tokenizer.json"), JSON.stringify(tokenizer(config)))
  const settings = {
    tokenizer_class: "PreTrainedTokenizerFast",
    bos_token: special(0),
    eos_token: special(1),
    chat_template:
      "{{ bos_token }}{% for message in messages %}{{ message.role }} says {{ message.content }} {% endfor %}{% if add_generation_prompt %}assistant says {% endif %}",
  }
  writeFileSync(join(output, "tokenizer_config.json"), JSON.stringify(settings, undefined, 1))
  await writeSafetensors(graphOf(shape), join(output, "model.safetensors"), filled)
}

async function writeSafetensors(graph: Graph, path: string, filled: boolean): Promise<void> {
  const weights = weightsOf(graph)
  const header: Record<string, unknown> = {}
  let end = 0
  for (const { columns, sources } of weights)
    for (const { tensor, rows } of sources) {
      const begin = end
      end += rows * columns * 2
      const shape = columns === 1 ? [rows] : [rows, columns]
      header[tensor] = { dtype: "BF16", shape, data_offsets: [begin, end] }
    }
  const json = JSON.stringify(header)
  const text = Buffer.from(json + " ".repeat(-json.length & 7)) // data begin on eight bytes
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(text.length))
  const file = await open(path, "w")
  await file.write(Buffer.concat([length, text]))
  if (filled) for (const weight of weights) await writeRows(weight, (bytes) => file.write(bytes))
  await file.truncate(8 + text.length + end)
  await file.close()
}

async function writeRows(
  { rows, columns }: Weight,
  write: (bytes: Uint8Array) => Promise<unknown>,
): Promise<void> {
  const window = Math.ceil((1 << 22) / columns)
  for (let row = 0; row < rows; row += window) {
    const count = Math.min(window, rows - row)
    await write(narrow(randomFloats(count * columns, columns), "bf16"))
  }
}

// ------------------------------------------------------------------ a tokenizer with as many tokens

const special = (i: number) => `<|special_${i}|>`

/** Byte-level BPE whose tokens are the bytes, then all words of two, three and four small letters, as many as fit. */
function tokenizer({ vocab_size, bos_token_id }: { vocab_size: number; bos_token_id: number }) {
  const vocabulary: Record<string, number> = {}
  byteCharacters().forEach((character, id) => {
    vocabulary[character] = id
  })
  const letters = "Ġabcdefghijklmnopqrstuvwxyz".split("") // Ġ is the blank
  const merges: [string, string][] = []
  let words = letters
  while (Object.keys(vocabulary).length < bos_token_id) {
    const longer: string[] = []
    for (const word of words)
      for (const letter of letters) {
        if (256 + merges.length === bos_token_id) break
        longer.push(word + letter)
        vocabulary[word + letter] = 256 + merges.length
        merges.push([word, letter])
      }
    words = longer
  }
  const added = Array.from({ length: vocab_size - bos_token_id }, (_, i) => ({
    id: bos_token_id + i,
    content: special(i),
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  }))
  const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true }
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: added,
    normalizer: null,
    pre_tokenizer: bytes,
    post_processor: null,
    decoder: bytes,
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: vocabulary,
      merges,
    },
  }
}

/** The characters that byte-level tokenizers write bytes as: printable ones stand for themselves, the rest from U+0100 on. */
function byteCharacters(): string[] {
  let next = 256
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173)
    return String.fromCodePoint(printable ? byte : next++)
  })
}

if (process.argv[1] === import.meta.filename) {
  const [shape, kind, output] = process.argv.slice(2)
  if (!shape || !Object.hasOwn(shapes, shape) || !kind || !output)
    throw new Error(
      `usage: bench/models.ts ${Object.keys(shapes).join("|")} hf|hollow|FORMAT OUTPUT`,
    )
  if (kind === "hf" || kind === "hollow")
    await writePlain(shape as ShapeName, output, kind === "hf")
  else if (isFormatName(kind)) await writePacked(shape as ShapeName, kind, output)
  else throw new Error(`${kind} is no format; known: ${formatNames.join(", ")}`)
}
