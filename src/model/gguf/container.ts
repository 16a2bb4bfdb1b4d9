// The container of a GGUF file: pairs of keys and values, a table of tensors, their bytes. Such files come from strangers:
// every length is held against the bytes that are left before anything is made of it, keys land in a map, and nothing is
// believed about a tensor that its type and its place do not bear out. Versions 2 and 3, little-endian.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

import type { FileHandle } from "node:fs/promises"
import { openWhole } from "../../closing.ts"
import type { Problem } from "../../errors.ts"
import { type Folder, readExactly } from "../folder.ts"
import { LENGTH_BYTES, TextList } from "../text-list.ts"
import { blockTypes, removedTypes } from "./types.ts"

export type Value =
  | number
  | bigint
  | boolean
  | string
  | readonly (number | bigint | boolean)[]
  | TextList

export interface Container {
  file: string
  handle: FileHandle
  pairs: ReadonlyMap<string, Value>
  tensors: readonly StoredTensor[]
}

export interface StoredTensor {
  name: string
  file: string
  handle: FileHandle
  type: keyof typeof blockTypes
  /** The length of a row first. */
  dims: readonly number[]
  position: number // of its first byte in the file
}

const PREFIX = 1 << 23 // bytes of the header that are read at first; twice as many as often as that is too little
const MAX_STRING = 64 << 20
const MAX_ELEMENTS = 1 << 24
const MAX_DIMS = 4

/** @throws `model_broken` */
export async function readContainer(folder: Folder, file: string): Promise<Container> {
  return openWhole(async (closing) => {
    const { handle, size } = await folder.open(file, file)
    closing.add(handle)
    for (let prefix = PREFIX; ; prefix *= 2) {
      const bytes = await readExactly(handle, 0, Math.min(prefix, size))
      const cursor = new Cursor(folder, file, bytes, size)
      const read = parse(cursor, { folder, file, handle, size })
      if (read) return read
    }
  })
}

interface File {
  folder: Folder
  file: string
  handle: FileHandle
  size: number
}

/** Undefined: the header is longer than what was read of it. */
function parse(cursor: Cursor, whole: File): Container | undefined {
  try {
    checkMagic(cursor)
    const tensorCount = cursor.count("the number of tensors", TENSOR_BYTES)
    const pairCount = cursor.count("the number of pairs", PAIR_BYTES)
    const pairs = readPairs(cursor, pairCount)
    const tensors = readTensors(cursor, tensorCount, alignmentOf(cursor, pairs), whole)
    return { file: whole.file, handle: whole.handle, pairs, tensors }
  } catch (error) {
    if (error === TOO_SHORT) return undefined
    throw error
  }
}

const TOO_SHORT = Symbol("more of the header is to be read")
const PAIR_BYTES = 14 // of the shortest pair
const TENSOR_BYTES = 33 // of the shortest entry
const OLDER = ["lmgg", "fmgg", "tjgg", "ggml", "ggmf", "ggjt"]

function checkMagic(cursor: Cursor): void {
  const magic = cursor.ascii(4)
  if (OLDER.includes(magic.toLowerCase()))
    throw cursor.broken("it is of the time before GGUF; convert the model again")
  if (magic !== "GGUF")
    throw cursor.broken(
      "it is no GGUF file: it does not begin with GGUF; name one, a .bin of whisper.cpp or a model's folder",
    )
  const version = cursor.number("u32") as number
  if ((version & 0xffff) === 0)
    throw cursor.broken("its numbers are big-endian, which is not read; convert the model again")
  if (version !== 2 && version !== 3)
    throw cursor.broken(`it is of version ${version}; 2 and 3 can be read`)
}

function readPairs(cursor: Cursor, count: number): Map<string, Value> {
  const pairs = new Map<string, Value>()
  for (let i = 0; i < count; i++) {
    const key = cursor.string("a key", 65535)
    if (pairs.has(key)) throw cursor.broken(`it says ${shown(key)} twice`)
    pairs.set(key, readValue(cursor, key))
  }
  return pairs
}

const STRING = 8
const LIST = 9

function readValue(cursor: Cursor, key: string): Value {
  const kind = cursor.number("u32") as number
  if (kind !== LIST) return readOne(cursor, kind, key)
  const inner = cursor.number("u32") as number
  if (inner === LIST) throw cursor.broken(`${shown(key)} is a list of lists`)
  const scalar = scalars[inner]
  const least = inner === STRING ? LENGTH_BYTES : scalar ? BYTES[scalar] : 1
  const count = cursor.count(`the length of ${shown(key)}`, least)
  if (count > MAX_ELEMENTS) throw cursor.broken(`${shown(key)} has ${count} entries`)
  if (inner === STRING) return cursor.texts(count, shown(key), MAX_STRING)
  const values: (number | bigint | boolean)[] = []
  for (let i = 0; i < count; i++) values.push(readNumber(cursor, inner, key))
  return values
}

function readOne(cursor: Cursor, kind: number, key: string): number | bigint | boolean | string {
  return kind === STRING ? cursor.string(shown(key), MAX_STRING) : readNumber(cursor, kind, key)
}

function readNumber(cursor: Cursor, kind: number, key: string): number | bigint | boolean {
  const scalar = scalars[kind]
  if (!scalar) throw cursor.broken(`${shown(key)} is of kind ${kind}, which is not known`)
  const value = cursor.number(scalar)
  return scalar === "bool" ? value !== 0 : value
}

const BYTES = {
  u8: 1,
  i8: 1,
  u16: 2,
  i16: 2,
  u32: 4,
  i32: 4,
  f32: 4,
  bool: 1,
  u64: 8,
  i64: 8,
  f64: 8,
} as const

type NumberKind = keyof typeof BYTES

const scalars: Readonly<Record<number, NumberKind>> = {
  0: "u8",
  1: "i8",
  2: "u16",
  3: "i16",
  4: "u32",
  5: "i32",
  6: "f32",
  7: "bool",
  10: "u64",
  11: "i64",
  12: "f64",
}

function alignmentOf(cursor: Cursor, pairs: ReadonlyMap<string, Value>): number {
  const value = pairs.get("general.alignment") ?? 32
  const isPower = typeof value === "number" && Number.isInteger(Math.log2(value))
  if (isPower && value >= 8 && value <= 1 << 20) return value
  throw cursor.broken(`general.alignment is ${shownValue(value)}, no power of two from 8 on`)
}

interface Entry {
  name: string
  type: keyof typeof blockTypes
  dims: readonly number[]
  offset: number
  bytes: number
}

function readTensors(
  cursor: Cursor,
  count: number,
  alignment: number,
  whole: File,
): StoredTensor[] {
  const entries: Entry[] = []
  const names = new Set<string>()
  for (let i = 0; i < count; i++) {
    const entry = readEntry(cursor, alignment)
    if (names.has(entry.name)) throw cursor.broken(`it holds ${shown(entry.name)} twice`)
    names.add(entry.name)
    entries.push(entry)
  }
  const start = Math.ceil(cursor.at / alignment) * alignment
  checkPlaces(cursor, entries, whole.size - start)
  const { file, handle } = whole
  return entries.map(({ name, type, dims, offset }) => ({
    name,
    file,
    handle,
    type,
    dims,
    position: start + offset,
  }))
}

function readEntry(cursor: Cursor, alignment: number): Entry {
  const name = cursor.string("a tensor's name", 65535)
  const wrong = (what: string) => cursor.broken(`tensor ${shown(name)}: ${what}`)
  const dimensions = cursor.number("u32") as number
  if (dimensions < 1 || dimensions > MAX_DIMS) throw wrong(`it has ${dimensions} dimensions`)
  const dims = Array.from({ length: dimensions }, () => cursor.number("u64"))
  const id = cursor.number("u32") as number
  const offset = cursor.number("u64")
  const { type, size } = sizeOf(id, dims, wrong)
  if (size > BigInt(Number.MAX_SAFE_INTEGER) || BigInt(offset) > BigInt(Number.MAX_SAFE_INTEGER))
    throw wrong("it is larger than any file")
  if (Number(offset) % alignment !== 0)
    throw wrong(`it begins at byte ${offset}, which is no multiple of ${alignment}`)
  return { name, type, dims: dims.map(Number), offset: Number(offset), bytes: Number(size) }
}

/**
 * What a tensor of the type with that number is called, and how many bytes it takes.
 * @param dims the length of a row first
 */
export function sizeOf(
  id: number,
  dims: readonly (number | bigint)[],
  wrong: (what: string) => Problem,
): { type: keyof typeof blockTypes; size: bigint } {
  const entry = Object.entries(blockTypes).find(([, row]) => row.id === id)
  if (!entry)
    throw wrong(
      removedTypes.has(id)
        ? `its type, ${id}, is no longer in use; convert the model again`
        : `its type, ${id}, is not known`,
    )
  const [type, { values, bytes }] = entry as [keyof typeof blockTypes, (typeof blockTypes)["F32"]]
  if (dims.some((dim) => dim < 1 || dim > Number.MAX_SAFE_INTEGER))
    throw wrong(`its shape is [${dims.join(", ")}]`)
  const [columns] = dims as [number | bigint]
  if (Number(columns) % values !== 0)
    throw wrong(`its rows of ${columns} values are no whole blocks of ${values}`)
  const size =
    (dims.reduce<bigint>((product, dim) => product * BigInt(dim), 1n) / BigInt(values)) *
    BigInt(bytes)
  return { type, size }
}

/** None lies inside another, and all lie in the file. */
function checkPlaces(cursor: Cursor, entries: readonly Entry[], room: number): void {
  let end = 0
  for (const { name, offset, bytes } of entries.toSorted((a, b) => a.offset - b.offset)) {
    if (offset < end) throw cursor.broken(`tensor ${shown(name)} begins inside another`)
    end = offset + bytes
    if (end > room)
      throw cursor.broken(
        `tensor ${shown(name)} ends ${end - room} bytes behind the end of the file: it was cut, or not fetched whole`,
      )
  }
}

const shown = (name: string) => (name.length > 80 ? `${name.slice(0, 80)}…` : name)

/** For a sentence: numbers beyond 2^53 are bigints, which JSON cannot say, and lists may have millions of entries. */
export function shownValue(value: Value): string {
  if (typeof value === "object") return "a list"
  return typeof value === "string" ? JSON.stringify(shown(value)) : String(value)
}

/** Reads numbers and texts one after the other, from the beginning of a file: a vocabulary has hundreds of thousands. */
class Cursor {
  at = 0
  readonly #folder: Folder
  readonly #file: string
  readonly #bytes: Buffer
  readonly #view: DataView
  readonly #size: number // of the whole file

  constructor(folder: Folder, file: string, bytes: Uint8Array, size: number) {
    this.#folder = folder
    this.#file = file
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    this.#size = size
  }

  broken(what: string) {
    return this.#folder.broken(this.#file, what)
  }

  ascii(length: number): string {
    const from = this.#take(length, "its header")
    return this.#bytes.toString("latin1", from, from + length)
  }

  number(kind: NumberKind): number | bigint {
    const at = this.#take(BYTES[kind], "its header")
    switch (kind) {
      case "u8":
      case "bool":
        return this.#view.getUint8(at)
      case "i8":
        return this.#view.getInt8(at)
      case "u16":
        return this.#view.getUint16(at, true)
      case "i16":
        return this.#view.getInt16(at, true)
      case "u32":
        return this.#view.getUint32(at, true)
      case "i32":
        return this.#view.getInt32(at, true)
      case "f32":
        return this.#view.getFloat32(at, true)
      case "f64":
        return this.#view.getFloat64(at, true)
      case "u64":
        return this.#view.getUint32(at + 4, true) === 0
          ? this.#view.getUint32(at, true)
          : exact(this.#view.getBigUint64(at, true))
      case "i64":
        return exact(this.#view.getBigInt64(at, true))
    }
  }

  /** How many of something follow, each of `least` bytes at least. */
  count(what: string, least: number): number {
    const count = this.number("u64")
    if (typeof count === "number" && count * least <= this.#size - this.at) return count
    throw this.#tooMany(what, count)
  }

  string(what: string, most: number): string {
    const from = this.#skipText(what, most)
    return this.#bytes.toString("utf8", from, this.at)
  }

  texts(count: number, what: string, most: number): TextList {
    const starts = new Uint32Array(count + 1)
    for (let i = 0; i < count; i++) starts[i] = this.#skipText(what, most)
    starts[count] = this.at + LENGTH_BYTES
    return new TextList(this.#bytes, starts)
  }

  /** Where it begins; it ends at the cursor. */
  #skipText(what: string, most: number): number {
    const length = this.number("u64")
    if (typeof length !== "number" || length > this.#size - this.at)
      throw this.#tooMany(`the length of ${what}`, length)
    if (length > most) throw this.broken(`${what} is ${length} bytes long`)
    return this.#take(length, what)
  }

  #tooMany(what: string, count: number | bigint) {
    const left = this.#size - this.at
    return this.broken(`${what} is ${count}, and ${left} bytes are left of the file`)
  }

  #take(length: number, what: string): number {
    const from = this.at
    if (from + length > this.#size) throw this.broken(`the file ends in ${what}`)
    if (from + length > this.#bytes.length) throw TOO_SHORT
    this.at += length
    return from
  }
}

/** A number where a double holds it. */
function exact(value: bigint): number | bigint {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) && value >= -BigInt(Number.MAX_SAFE_INTEGER)
    ? Number(value)
    : value
}
