// The container of whisper.cpp's files: numbers that say how large the model is, mel filters, words, and tensors one behind the other,
// which nobody counts: the last ends where the file does. Files of this kind come from strangers, as GGUF's do: every length is held
// against the bytes that are left. Little-endian.
//
// Language models of the time before GGUF begin with the same four bytes, and so do whisper.cpp's detectors of voices. What tells a Whisper
// is the number of rows that its encoder makes of 30 seconds.
//
// Source: whisper_model_load in src/whisper.cpp of whisper.cpp, models/convert-pt-to-ggml.py and convert-h5-to-ggml.py.

import type { FileHandle } from "node:fs/promises"
import { byteLevelCharacter } from "../../byte-alphabet.ts"
import { openWhole } from "../../closing.ts"
import type { Problem } from "../../errors.ts"
import { type Folder, readExactly } from "../folder.ts"
import { type StoredTensor, sizeOf } from "../gguf/container.ts"

/** In the file's order. */
const NUMBERS = [
  "n_vocab",
  "n_audio_ctx",
  "n_audio_state",
  "n_audio_head",
  "n_audio_layer",
  "n_text_ctx",
  "n_text_state",
  "n_text_head",
  "n_text_layer",
  "n_mels",
  "ftype",
] as const

export type Numbers = Readonly<Record<(typeof NUMBERS)[number], number>>

export interface WhisperFile {
  numbers: Numbers
  filters: { bands: number; bins: number; weights: Float32Array } // [bands, bins]
  /** By their ids, a character a byte. */
  words: readonly string[]
  tensors: ReadonlyMap<string, StoredTensor>
  broken: (what: string) => Problem
  close: () => Promise<void>
}

/** How a file begins: "ggml" as a number, the low byte first. */
export const MAGIC = Buffer.from("lmgg")

const ROWS = 1500
const MAX_HEADER = 16 << 20 // bytes of what stands before the tensors, of which large-v3 has 0.6 million
const MAX_WORD = 1024
const MAX_DIMS = 4
const MAX_NAME = 128
const MAX_TENSORS = 10_000 // each is read for itself; large-v3 has 1,259

/** @throws `model_broken` */
export async function readWhisperFile(folder: Folder, file: string): Promise<WhisperFile> {
  return openWhole(async (closing) => {
    const { handle, size } = await folder.open(file, file)
    closing.add(handle)
    const broken = (what: string) => folder.broken(file, what)
    const bytes = await readExactly(handle, 0, Math.min(size, MAX_HEADER))
    const cursor = new Cursor(bytes, size, broken)
    if (!cursor.take(4, "its first bytes").equals(MAGIC)) throw broken("it is no file of ggml's")
    const numbers = readNumbers(cursor)
    const filters = readFilters(cursor)
    const words = readWords(cursor)
    const tensors = await readTensors({ file, handle, size, broken }, cursor.at)
    return { numbers, filters, words, tensors, broken, close: () => closing.close() }
  })
}

const QUANTISED = 1000 // what ftype has the version of its blocks multiplied with
const VERSION = 2

function readNumbers(cursor: Cursor): Numbers {
  const entries = NUMBERS.map((name) => [name, cursor.number("its numbers")])
  const numbers = Object.fromEntries(entries) as Numbers
  const { n_audio_ctx, n_audio_state, n_text_ctx, n_text_state, ftype } = numbers
  if (n_audio_ctx !== ROWS)
    throw cursor.broken(
      `n_audio_ctx is ${n_audio_ctx}, and a Whisper's is ${ROWS}; of the files that begin with ggml's mark only Whispers are read: look for another as GGUF`,
    )
  if (n_text_state !== n_audio_state)
    throw cursor.broken(`n_text_state is ${n_text_state}, and n_audio_state ${n_audio_state}`)
  if (n_text_ctx > ROWS)
    throw cursor.broken(`n_text_ctx is ${n_text_ctx}; at most ${ROWS} are known`)
  for (const name of NUMBERS)
    if (name !== "ftype" && numbers[name] < 1)
      throw cursor.broken(`${name} is ${numbers[name]}, not a number from 1 on`)
  for (const part of ["audio", "text"] as const) {
    const heads = numbers[`n_${part}_head`]
    if (n_text_state % heads !== 0)
      throw cursor.broken(
        `n_${part}_head is ${heads}, which does not divide ${n_text_state} columns`,
      )
  }
  const version = Math.floor(ftype / QUANTISED)
  if (ftype % QUANTISED > 1 && version !== VERSION)
    throw cursor.broken(
      `ftype is ${ftype}: its blocks are of version ${version}, and only ${VERSION} is read; quantize the model again`,
    )
  return numbers
}

function readFilters(cursor: Cursor): WhisperFile["filters"] {
  const bands = cursor.count("the number of mel filters", 4)
  const bins = cursor.count("the length of a mel filter", 4 * bands)
  const stored = cursor.take(4 * bands * bins, "its mel filters")
  return {
    bands,
    bins,
    weights: Float32Array.from({ length: bands * bins }, (_, i) => stored.readFloatLE(4 * i)),
  }
}

function readWords(cursor: Cursor): string[] {
  const count = cursor.count("the number of words", 4)
  const words: string[] = []
  for (let id = 0; id < count; id++) {
    const length = cursor.count(`the length of word ${id}`, 1)
    if (length > MAX_WORD) throw cursor.broken(`word ${id} is ${length} bytes long`)
    words.push(Array.from(cursor.take(length, "its words"), byteLevelCharacter).join(""))
  }
  return words
}

interface Whole {
  file: string
  handle: FileHandle
  size: number
  broken: (what: string) => Problem
}

async function readTensors(whole: Whole, start: number): Promise<Map<string, StoredTensor>> {
  const { file, handle, size, broken } = whole
  const tensors = new Map<string, StoredTensor>()
  for (let at = start; at < size; ) {
    const length = Math.min(4 * (3 + MAX_DIMS) + MAX_NAME, size - at)
    const cursor = new Cursor(await readExactly(handle, at, length), size - at, broken)
    const { name, type, dims, bytes } = readEntry(cursor)
    if (tensors.has(name)) throw broken(`it holds ${name} twice`)
    if (tensors.size === MAX_TENSORS)
      throw broken(`it holds more than ${MAX_TENSORS} tensors, which no Whisper has`)
    const position = at + cursor.at
    tensors.set(name, { name, file, handle, type, dims, position })
    at = position + bytes
    if (at > size)
      throw broken(
        `tensor ${name} ends ${at - size} bytes behind the end of the file: it was cut, or not fetched whole`,
      )
  }
  return tensors
}

function readEntry(
  cursor: Cursor,
): Pick<StoredTensor, "name" | "type" | "dims"> & { bytes: number } {
  const what = "a tensor's entry"
  const [dimensions, length, id] = [cursor.number(what), cursor.number(what), cursor.number(what)]
  if (dimensions < 1 || dimensions > MAX_DIMS || length < 1 || length > MAX_NAME)
    throw cursor.broken(
      `where a tensor should begin, ${cursor.left} bytes before the end, there is none: it was cut, or what stands before it was changed`,
    )
  const dims = Array.from({ length: dimensions }, () => cursor.number(what))
  const name = cursor.take(length, what).toString("latin1")
  const { type, size } = sizeOf(id, dims, (why) => cursor.broken(`tensor ${name}: ${why}`))
  if (size > BigInt(Number.MAX_SAFE_INTEGER))
    throw cursor.broken(`tensor ${name} is larger than any file`)
  return { name, type, dims, bytes: Number(size) }
}

/** Reads from the beginning of a part of the file. */
class Cursor {
  at = 0
  readonly broken: (what: string) => Problem
  readonly #bytes: Buffer
  readonly #size: number // with what was not read of it

  constructor(bytes: Uint8Array, size: number, broken: (what: string) => Problem) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    this.#size = size
    this.broken = broken
  }

  get left(): number {
    return this.#size - this.at
  }

  number(what: string): number {
    return this.take(4, what).readInt32LE()
  }

  /** How many of something follow, each of `least` bytes at least. */
  count(what: string, least: number): number {
    const count = this.number(what)
    if (count >= 0 && count * least <= this.left) return count
    throw this.broken(`${what} is ${count}, and ${this.left} bytes are left of the file`)
  }

  take(length: number, what: string): Buffer {
    const from = this.at
    if (from + length > this.#size)
      throw this.broken(`the file ends in ${what}: it was cut, or not fetched whole`)
    if (from + length > this.#bytes.length)
      throw this.broken(`${what} are longer than any that is known`)
    this.at += length
    return this.#bytes.subarray(from, this.at)
  }
}
