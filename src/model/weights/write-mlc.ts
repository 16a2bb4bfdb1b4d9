// Writes weights in MLC's layout, packed on the way: shards of 32 MiB and the table that says what lies where. Which tensor
// goes into which shard follows from sizes alone, so tensors stream through in windows and nothing is held but the scales
// of the matrix at hand. The table is written last, and renamed into place: without it the folder is no model.

import { createHash, type Hash } from "node:crypto"
import { type FileHandle, open, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Weight } from "../../compiler/graph/graph.ts"
import { narrow, widen } from "../../runtime/dtype.ts"
import {
  codecIn,
  type FloatType,
  type FormatName,
  formats,
  groupCodecs,
  isGroupCodec,
  rowLayout,
} from "../../runtime/format.ts"
import { homeOf, type MlcNames, orderInLayer } from "./mlc-names.ts"
import { readParameter, type Weights } from "./weights.ts"

const SHARD = 32 << 20

export interface WriteOptions {
  format: FormatName
  /** What the weights are in now. */
  stored: FormatName
  names: MlcNames
  /** Bytes of a shard; a tensor of half of it that would not fit has a shard of its own. */
  shardBytes?: number
  /** Told how many of all bytes have been written. */
  progress?: (written: number, total: number) => void
}

/** Writes what a graph reads, `wanted`, into the folder `directory`, which must be there. */
export async function writeMlc(
  wanted: readonly Weight[],
  weights: Weights,
  directory: string,
  { format, stored, names, shardBytes = SHARD, progress = () => {} }: WriteOptions,
): Promise<void> {
  const joined = joinedWeights(wanted, names)
  const matrices = joined.map((weight) => recordsOf(weight, weights, format, stored))
  const records = matrices.flat()
  const shards = assignShards(records, shardBytes)
  const total = records.reduce((sum, { bytes }) => sum + bytes, 0)
  const writer = new ShardWriter(directory, shards)
  let written = 0
  try {
    for (const [i, weight] of joined.entries())
      for await (const bytes of writeTensor(weights, weight, format, matrices[i]!, writer)) {
        written += bytes
        progress(written, total)
      }
  } finally {
    await writer.close()
  }
  const elements = joined.reduce((sum, { rows, columns }) => sum + rows * columns, 0)
  await writeTable(join(directory, "tensor-cache.json"), writer.table(), records, elements)
}

/** The weights as MLC joins them, in the order in which it writes them. */
function joinedWeights(wanted: readonly Weight[], names: MlcNames): Weight[] {
  const homes = new Map<string, Weight>()
  for (const { columns, sources, exact } of wanted)
    for (const source of new Set(sources)) {
      // what a weight repeats is written once
      const { name, firstRow, rows } = homeOf(source.tensor, source.rows, names)
      const home = homes.get(name)
      const all = [...(home?.sources ?? []), source]
      if (firstRow + source.rows > rows) throw new Error(`internal: ${source.tensor} in ${name}`)
      homes.set(name, { name, rows, columns, sources: all, ...(exact && { exact }) })
    }
  const order = orderInLayer(names)
  const rank = ({ name }: Weight): number => {
    const [, layer, part] = /^model\.layers\.(\d+)\.(.+)$/.exec(name) ?? []
    if (layer !== undefined) return 1 + Number(layer) * order.length + order.indexOf(part!)
    return name.startsWith("model.embed") ? 0 : Number.POSITIVE_INFINITY
  }
  return [...homes.values()].sort((a, b) => (rank(a) === rank(b) ? 0 : rank(a) - rank(b)))
}

/** A tensor as the table names it. */
interface TensorRecord {
  name: string
  dtype: "uint32" | "float32" | "float16" | "bfloat16"
  /** What lies on disk: float32 is kept as bfloat16 where that loses nothing, or where MLC does so: scales. */
  stored: FloatType | "words"
  shape: number[]
  bytes: number
}

const dtypeNames = { f32: "float32", f16: "float16", bf16: "bfloat16" } as const

function recordsOf(
  weight: Weight,
  weights: Weights,
  format: FormatName,
  storedFormat: FormatName,
): TensorRecord[] {
  const { name, rows, columns, sources, exact: kept } = weight
  const { matrix, vector } = formats[format]
  const floats = (name: string, dtype: FloatType, stored: FloatType, shape: number[]) => {
    const bytes = shape.reduce((product, n) => product * n, stored === "f32" ? 4 : 2)
    return { name, dtype: dtypeNames[dtype], stored, shape, bytes }
  }
  if (kept) return [floats(name, "f32", "f32", [rows, columns])]
  if (columns > 1 && isGroupCodec(matrix)) {
    const { words, groups } = rowLayout(matrix, columns)
    const { dtype } = groupCodecs[matrix]
    const stem = name.replace(/\.weight$/, "")
    const shape = [rows, words]
    return [
      {
        name: `${stem}.q_weight`,
        dtype: "uint32",
        stored: "words",
        shape,
        bytes: rows * words * 4,
      },
      floats(`${stem}.q_scale`, dtype, dtype === "f32" ? "bf16" : dtype, [rows, groups]),
    ]
  }
  const codecs = sources.map((s) => weights.tensor(s.tensor, s.rows, columns).codec)
  // A vector that is finer than its model's matrices, one that 1 was added to, say, is not made coarser.
  if (columns === 1 && storedFormat !== "q0f32" && codecs.includes("f32"))
    return [floats(name, "f32", "f32", [rows])]
  const exact = codecs.every((codec) => codec === "bf16")
  const stored = vector === "f32" && exact ? "bf16" : vector
  return [floats(name, vector, stored, columns > 1 ? [rows, columns] : [rows])]
}

interface Placed extends TensorRecord {
  offset: number
}

/**
 * Tensors end to end. One that would overflow its shard begins the next, or has one of its own when it is large, while the
 * shard at hand goes on: so MLC numbers them, and shards of others can be compared byte for byte.
 */
function assignShards(records: readonly TensorRecord[], limit: number): Placed[][] {
  const shards: Placed[][] = []
  let pending: Placed[] = []
  const filled = () => pending.reduce((sum, { bytes }) => sum + bytes, 0)
  for (const record of records) {
    if (filled() + record.bytes > limit) {
      if (record.bytes >= limit / 2) {
        shards.push([{ ...record, offset: 0 }])
        continue
      }
      shards.push(pending)
      pending = []
    }
    pending.push({ ...record, offset: filled() })
  }
  if (pending.length > 0) shards.push(pending)
  return shards
}

/** Converts and writes one joined weight; yields the bytes of each window. */
async function* writeTensor(
  weights: Weights,
  weight: Weight,
  format: FormatName,
  [main, scales]: readonly TensorRecord[],
  writer: ShardWriter,
): AsyncGenerator<number> {
  const codec = main!.stored === "f32" ? "f32" : codecIn(format, weight)
  const kept: Uint8Array[] = []
  for await (const window of readParameter(weights, { ...weight, codec })) {
    const values =
      main!.stored === "bf16" && codec === "f32" ? halved(window.values) : window.values
    await writer.append(main!.name, values)
    if (window.scales) kept.push(scales!.stored === "bf16" ? halved(window.scales) : window.scales)
    yield values.length
  }
  for (const bytes of kept) {
    await writer.append(scales!.name, bytes)
    yield bytes.length
  }
}

function halved(floats: Uint8Array): Uint8Array {
  return narrow(widen(floats, "f32"), "bf16")
}

/** The shards being written: each from its first byte to its last, with its checksum on the way. */
class ShardWriter {
  readonly #directory: string
  readonly #shards: { records: readonly Placed[]; file: string; hash: Hash; handle?: FileHandle }[]
  readonly #shardOf = new Map<string, number>()
  readonly #sums: string[] = []

  constructor(directory: string, shards: readonly (readonly Placed[])[]) {
    this.#directory = directory
    this.#shards = shards.map((records, i) => {
      for (const { name } of records) this.#shardOf.set(name, i)
      return { records, file: `params_shard_${i}.bin`, hash: createHash("md5") }
    })
  }

  async append(tensor: string, bytes: Uint8Array): Promise<void> {
    const shard = this.#shards[this.#shardOf.get(tensor)!]!
    shard.handle ??= await open(join(this.#directory, shard.file), "w")
    shard.hash.update(bytes)
    await shard.handle.writeFile(bytes)
  }

  async close(): Promise<void> {
    for (const [i, { handle, hash }] of this.#shards.entries()) {
      this.#sums[i] = hash.digest("hex")
      await handle?.close()
    }
  }

  table(): object[] {
    return this.#shards.map(({ file, records }, i) => ({
      dataPath: file,
      format: "raw-shard",
      nbytes: records.reduce((sum, { bytes }) => sum + bytes, 0),
      records: records.map(({ name, shape, dtype, stored, bytes, offset }) => ({
        name,
        shape,
        dtype,
        format: dtype === "float32" && stored === "f32" ? "raw" : "f32-to-bf16",
        nbytes: bytes,
        byteOffset: offset,
      })),
      md5sum: this.#sums[i],
    }))
  }
}

async function writeTable(
  path: string,
  shards: readonly object[],
  records: readonly TensorRecord[],
  elements: number,
): Promise<void> {
  const inMemory = records.reduce((sum, { dtype, shape }) => {
    const size = dtype === "uint32" || dtype === "float32" ? 4 : 2
    return sum + shape.reduce((product, n) => product * n, size)
  }, 0)
  const table = {
    metadata: {
      ParamSize: records.length,
      ParamBytes: inMemory,
      BitsPerParam: (inMemory * 8) / elements,
    },
    records: shards,
  }
  await writeFile(`${path}.partial`, `${JSON.stringify(table, undefined, 1)}\n`)
  await rename(`${path}.partial`, path)
}
