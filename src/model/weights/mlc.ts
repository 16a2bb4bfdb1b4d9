// Weights in an MLC folder: a table that says in which shard and where each tensor lies, and the shards. The table is input
// like any other: sizes, types and offsets are checked against the shards before a tensor is read. Layout:
// tvm/contrib/tvmjs.py (dump_tensor_cache); the table was called ndarray-cache.json until 2025.

import type { FileHandle } from "node:fs/promises"
import { openWhole } from "../../closing.ts"
import { narrow, widen } from "../../runtime/dtype.ts"
import {
  type FloatType,
  type FormatName,
  floatBytes,
  formats,
  groupCodecs,
  isGroupCodec,
  rowLayout,
} from "../../runtime/format.ts"
import { Fields } from "../fields.ts"
import { type Folder, isObject, type Json, readExactly } from "../folder.ts"
import { type ChecksumOrder, sumFiles } from "./checksums.ts"
import { homeOf, type MlcNames } from "./mlc-names.ts"
import type { Room } from "./room.ts"
import type { Entry, Tensor, Weights } from "./weights.ts"

const TABLES = ["tensor-cache.json", "ndarray-cache.json"]

/** Bytes of each type on disk; float32 mostly lies there as bfloat16. */
const dtypeBytes: Readonly<Record<string, number>> = {
  float32: 4,
  float16: 2,
  bfloat16: 2,
  uint32: 4,
  uint16: 2,
  uint8: 1,
  int32: 4,
  int8: 1,
  float8_e4m3fn: 1,
  float8_e5m2: 1,
}

interface Located extends Entry {
  handle: FileHandle
  position: number
  halved: boolean // float32, stored as bfloat16
}

export interface MlcOptions {
  format: FormatName
  names: MlcNames
}

export async function openMlc(folder: Folder, options: MlcOptions): Promise<Weights> {
  const table = await findTable(folder)
  const json = await folder.json(table)
  const shards: SummedShard[] = []
  return openWhole(async (closing) => {
    const tensors = new Map<string, Located>()
    for (const shard of shardsOf(folder, table, json)) {
      const file = shard.text("dataPath")
      const { handle, size } = await folder.open(file, table)
      closing.add(handle)
      const sum = shard.has("md5sum") ? shard.text("md5sum") : undefined
      if (sum !== undefined) shards.push({ file, fd: handle.fd, size, sum })
      if (shard.has("nbytes") && shard.size("nbytes") !== size)
        throw folder.broken(file, `it is ${size} bytes long, ${table} says ${shard.size("nbytes")}`)
      for (const tensor of readRecords(folder, table, shard, { file, handle, size })) {
        if (tensors.has(tensor.name)) throw folder.broken(table, `it names ${tensor.name} twice`)
        tensors.set(tensor.name, tensor)
      }
    }
    return {
      entries: [...tensors.values()],
      tensor: (name, rows, columns) =>
        find({ folder, table, tensors, ...options }, name, rows, columns),
      holds: (name) => {
        const home = homeOf(name, 0, options.names).name
        return tensors.has(home) || tensors.has(home.replace(/\.weight$/, ".q_weight"))
      },
      verify: (signal) => sumFiles(shards, (shard, md5) => compare(folder, shard, md5), signal),
      close: () => closing.close(),
    }
  })
}

async function findTable(folder: Folder): Promise<string> {
  for (const table of TABLES) if (await folder.has(table)) return table
  throw folder.broken(TABLES[0]!, `there is no such file, nor ${TABLES[1]}`)
}

function shardsOf(folder: Folder, table: string, { records }: Json): Fields[] {
  if (!Array.isArray(records)) throw folder.broken(table, "records is not a list of shards")
  return records.map((record: unknown, i) => {
    if (isObject(record))
      return new Fields(record, (what) => folder.broken(table, `shard ${i}: ${what}`))
    throw folder.broken(table, `shard ${i} is not an object`)
  })
}

/** The tensors of one shard: inside it, and none inside another. */
function readRecords(
  folder: Folder,
  table: string,
  shard: Fields,
  { file, handle, size }: { file: string; handle: FileHandle; size: number },
): Located[] {
  const { records } = shard.json
  if (!Array.isArray(records)) throw shard.wrong("records", "is not a list of tensors")
  const tensors = records.map((record: unknown): Located & { end: number } => {
    if (!isObject(record)) throw shard.wrong("records", "holds something that is not an object")
    const name = typeof record.name === "string" ? record.name : "without a name"
    const fields = new Fields(record, (what) => folder.broken(table, `tensor ${name}: ${what}`))
    const dtype = fields.text("dtype")
    if (!Object.hasOwn(dtypeBytes, dtype)) throw fields.wrong("dtype", `"${dtype}" is not known`)
    const shape = fields.counts("shape")
    const halved = dtype === "float32" && fields.text("format", "raw") === "f32-to-bf16"
    const bytes = shape.reduce(
      (product, n) => product * BigInt(n),
      BigInt(halved ? 2 : dtypeBytes[dtype]!),
    )
    const nbytes = fields.size("nbytes")
    if (BigInt(nbytes) !== bytes)
      throw fields.wrong("nbytes", `is ${nbytes}; ${dtype} [${shape.join(", ")}] takes ${bytes}`)
    const position = fields.size("byteOffset")
    const end = position + nbytes
    if (end > size)
      throw fields.wrong(
        "byteOffset",
        `is ${position}: it ends behind the ${size} bytes of ${file}`,
      )
    return { name: fields.text("name"), file, dtype, shape, handle, position, halved, end }
  })
  let at = 0
  for (const { name, position, end } of tensors.toSorted((a, b) => a.position - b.position)) {
    if (position < at) throw folder.broken(table, `tensor ${name}: it begins inside another`)
    at = end
  }
  return tensors
}

/** Of which the table gives the MD5. */
interface SummedShard extends ChecksumOrder {
  file: string
  sum: string
}

function compare(folder: Folder, { file, sum }: SummedShard, md5: string): void {
  if (md5 !== sum)
    throw folder.broken(file, `its checksum is ${md5}, not ${sum}: it was damaged; fetch it again`)
}

interface Opened extends MlcOptions {
  folder: Folder
  table: string
  tensors: ReadonlyMap<string, Located>
}

function find(opened: Opened, name: string, rows: number, columns: number): Tensor {
  const { format, names } = opened
  const home = homeOf(name, rows, names)
  const { matrix } = formats[format]
  // What decides between experts is not packed.
  if (columns === 1 || !isGroupCodec(matrix) || opened.tensors.has(home.name)) {
    const stored = located(opened, home.name, columns === 1 ? [home.rows] : [home.rows, columns])
    return floats(opened, stored, home.firstRow, columns)
  }
  const { words, groups } = rowLayout(matrix, columns)
  const stem = home.name.replace(/\.weight$/, "")
  const codes = located(opened, `${stem}.q_weight`, [home.rows, words])
  const scales = located(opened, `${stem}.q_scale`, [home.rows, groups])
  if (codes.dtype !== "uint32")
    throw opened.folder.broken(
      opened.table,
      `tensor ${codes.name}: its dtype is ${codes.dtype}, not uint32`,
    )
  const { dtype } = groupCodecs[matrix]
  const scaleRows = floats(opened, scales, home.firstRow, groups)
  return {
    codec: matrix,
    async read(firstRow, count, room) {
      const at = codes.position + (home.firstRow + firstRow) * words * 4
      const values = await readShared(codes.handle, at, count * words * 4, room)
      const read = await scaleRows.read(firstRow, count, room)
      const same = scaleRows.codec === dtype
      return {
        rows: count,
        values,
        scales: same ? read.values : narrow(widen(read.values, scaleRows.codec), dtype),
      }
    },
  }
}

function located(
  { folder, table, tensors, format }: Opened,
  name: string,
  shape: readonly number[],
): Located {
  const tensor = tensors.get(name)
  if (!tensor) throw folder.broken(table, `there is no tensor ${name}, which ${format} has`)
  if (tensor.shape.length !== shape.length || tensor.shape.some((n, i) => n !== shape[i]))
    throw folder.broken(
      table,
      `tensor ${name} has shape [${tensor.shape.join(", ")}], the configuration says [${shape.join(", ")}]`,
    )
  return tensor
}

const floatTypes: Readonly<Record<string, FloatType>> = {
  float32: "f32",
  float16: "f16",
  bfloat16: "bf16",
}

/** Rows of floats, from `firstRow` of the stored tensor on. */
function floats(
  { folder, table }: Opened,
  { name, dtype, handle, position, halved }: Located,
  firstRow: number,
  columns: number,
): Tensor & { codec: FloatType } {
  const codec = halved ? "bf16" : Object.hasOwn(floatTypes, dtype) ? floatTypes[dtype] : undefined
  if (!codec) throw folder.broken(table, `tensor ${name}: its dtype is ${dtype}, not a float`)
  const rowBytes = columns * floatBytes[codec]
  return {
    codec,
    async read(first, count, room) {
      const at = position + (firstRow + first) * rowBytes
      return { rows: count, values: await readShared(handle, at, count * rowBytes, room) }
    },
  }
}

/** From the pages that its checksum is taken of, too. */
function readShared(file: FileHandle, position: number, length: number, room: Room | undefined) {
  return readExactly(file, position, length, room?.take(length))
}
