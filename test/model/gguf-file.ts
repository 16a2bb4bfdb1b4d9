// A GGUF file taken apart and put together again, changed: keys as they are written, tensors with their bytes.

import { blockTypeNames, blockTypes } from "../../src/model/gguf/types.ts"
import { TextList } from "../../src/model/text-list.ts"

export interface GgufFileParts {
  pairs: Map<string, Buffer> // the kind of each value, and the value
  tensors: Map<string, GgufTensor>
}

export interface GgufTensor {
  type: keyof typeof blockTypes
  dims: number[] // [columns, rows, …]
  data: Buffer
}

const ALIGNMENT = 32
const ARRAY = 9
const STRING = 8
/** Bytes of a value, by its kind. */
const SIZES: Readonly<Record<number, number>> = {
  ...{ 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 },
}

/** The file with what `change` makes of it. */
export function rewritten(bytes: Buffer, change: (parts: GgufFileParts) => void): Buffer {
  const parts = read(bytes)
  change(parts)
  return write(parts)
}

/** As the header of a file has them. */
export function textList(texts: readonly string[]): TextList {
  const starts: number[] = []
  let at = 0
  const all = texts.map((text) => {
    const bytes = Buffer.from(text)
    starts.push(at + 8)
    at += 8 + bytes.length
    return Buffer.concat([Buffer.from(BigUint64Array.of(BigInt(bytes.length)).buffer), bytes])
  })
  return new TextList(Buffer.concat(all), Uint32Array.from([...starts, at + 8]))
}

const kindOf = (kind: number) => Buffer.from(Uint32Array.of(kind).buffer)

export function float32(value: number): Buffer {
  return Buffer.concat([kindOf(6), Buffer.from(Float32Array.of(value).buffer)])
}

export function float32s(values: readonly number[]): Buffer {
  return listOf(6, values.length, Buffer.from(Float32Array.from(values).buffer))
}

export function bools(values: readonly boolean[]): Buffer {
  return listOf(7, values.length, Buffer.from(values.map(Number)))
}

export function int32s(values: readonly number[]): Buffer {
  return listOf(5, values.length, Buffer.from(Int32Array.from(values).buffer))
}

function listOf(kind: number, count: number, elements: Buffer): Buffer {
  const length = Buffer.from(BigUint64Array.of(BigInt(count)).buffer)
  return Buffer.concat([kindOf(ARRAY), kindOf(kind), length, elements])
}

export function uint32(value: number): Buffer {
  return Buffer.concat([kindOf(4), Buffer.from(Uint32Array.of(value).buffer)])
}

export function uint64(value: bigint): Buffer {
  return Buffer.concat([kindOf(10), Buffer.from(BigUint64Array.of(value).buffer)])
}

export function bool(value: boolean): Buffer {
  return Buffer.concat([kindOf(7), Buffer.of(Number(value))])
}

export function string(value: string): Buffer {
  return Buffer.concat([kindOf(STRING), counted(value)])
}

/** A list with one more element. */
export function longer(list: Buffer, element: Buffer): Buffer {
  const bytes = Buffer.concat([list, element])
  bytes.writeBigUInt64LE(list.readBigUInt64LE(8) + 1n, 8) // behind the kinds of the list and of its elements
  return bytes
}

export function counted(value: string): Buffer {
  const length = Buffer.from(BigUint64Array.of(BigInt(Buffer.byteLength(value))).buffer)
  return Buffer.concat([length, Buffer.from(value)])
}

function read(bytes: Buffer): GgufFileParts {
  let at = 8
  const take = (length: number) => {
    at += length
    return bytes.subarray(at - length, at)
  }
  const u32 = () => take(4).readUInt32LE()
  const u64 = () => Number(take(8).readBigUInt64LE())
  const text = () => take(u64()).toString()
  const skip = (kind: number) => {
    if (kind === STRING) text()
    else if (kind === ARRAY) {
      const [inner, count] = [u32(), u64()]
      for (let i = 0; i < count; i++) skip(inner)
    } else take(SIZES[kind]!)
  }
  const [tensorCount, pairCount] = [u64(), u64()]
  const pairs = new Map<string, Buffer>()
  for (let i = 0; i < pairCount; i++) {
    const key = text()
    const begin = at
    skip(u32())
    pairs.set(key, bytes.subarray(begin, at))
  }
  const infos = Array.from({ length: tensorCount }, () => {
    const name = text()
    const dims = Array.from({ length: u32() }, u64)
    return { name, dims, id: u32(), offset: u64() }
  })
  const begin = Math.ceil(at / ALIGNMENT) * ALIGNMENT
  const tensors = infos.map(({ name, dims, id, offset }) => {
    const type = blockTypeNames.find((type) => blockTypes[type].id === id)!
    const size = bytesOf(type, dims)
    const data = bytes.subarray(begin + offset, begin + offset + size)
    return [name, { type, dims, data }] as const
  })
  return { pairs, tensors: new Map(tensors) }
}

function bytesOf(type: GgufTensor["type"], dims: readonly number[]): number {
  const { values, bytes } = blockTypes[type]
  return (dims.reduce((product, n) => product * n, 1) / values) * bytes
}

function write({ pairs, tensors }: GgufFileParts): Buffer {
  const u32 = (value: number) => {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32LE(value)
    return bytes
  }
  const u64 = (value: number) => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64LE(BigInt(value))
    return bytes
  }
  const padded = (data: Buffer) =>
    Buffer.concat([data, Buffer.alloc((ALIGNMENT - (data.length % ALIGNMENT)) % ALIGNMENT)])
  let offset = 0
  const infos = [...tensors].flatMap(([name, { type, dims, data }]) => {
    const at = u64(offset)
    offset += padded(data).length
    return [counted(name), u32(dims.length), ...dims.map(u64), u32(blockTypes[type].id), at]
  })
  const head = [Buffer.from("GGUF"), u32(3), u64(tensors.size), u64(pairs.size)]
  const keys = [...pairs].flatMap(([key, value]) => [counted(key), value])
  const data = [...tensors.values()].map(({ data }) => padded(data))
  return Buffer.concat([padded(Buffer.concat([...head, ...keys, ...infos])), ...data])
}
