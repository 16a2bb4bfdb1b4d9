// Weights in safetensors: one file, or several with an index. The header is input like any other: lengths, types, shapes
// and offsets are checked against the file before anything relies on them, and data is read only where the header was
// found sound. Format: 8 bytes of header length, the header in JSON, then the data without gaps.
// https://github.com/huggingface/safetensors

import { readdirSync } from "node:fs"
import type { FileHandle } from "node:fs/promises"
import { openWhole } from "../../closing.ts"
import type { Problem } from "../../errors.ts"
import { INDEX, SINGLE } from "../../hub/selection.ts"
import { type FloatType, floatBytes } from "../../runtime/format.ts"
import { isAdapterFile } from "../adapters/files.ts"
import { isListOfCounts } from "../fields.ts"
import { type Folder, isFileName, isObject, type Json, readExactly } from "../folder.ts"
import type { PackedTensor } from "../packed/groups.ts"
import type { Matrix, Part } from "../packed/matrix.ts"
import { partNamed } from "../packed/orders.ts"
import { isPacked, type Orders, packedTensor, readOrders } from "../packed/packed.ts"
import type { Packing } from "../packed/packing.ts"
import { type Biases, biasesTensor } from "./biases.ts"
import { type Naming, type Source, sameNames, sourcesOf } from "./names.ts"
import { pickled, pickleIn } from "./pickles.ts"
import { Room } from "./room.ts"
import { listTensor, madeTensor, rowsOf, type StoredTensor, turnedColumns } from "./rows.ts"
import { throughMatrix } from "./through.ts"
import type { Entry, Tensor, Weights } from "./weights.ts"

/** The last part of a matrix's name, plain or as quantisers have it. */
const HELD = ["weight", "qweight", "weight_packed"]

/** Bytes of each type that a header may name. */
const dtypeBytes: Readonly<Record<string, number>> = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U64: 8,
  U32: 4,
  U16: 2,
  U8: 1,
  BOOL: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
}

const floatTypes: Readonly<Record<string, FloatType>> = { F32: "f32", F16: "f16", BF16: "bf16" }

interface Located extends Entry {
  handle: FileHandle
  position: number // of its first byte in the file
}

/** What the one file is called that has all tensors, or else the index of several. */
interface FileNames {
  single: string
  index: string
}

const USUAL: FileNames = { single: SINGLE, index: INDEX }

/**
 * @param naming how the folder's architecture names its tensors; absent: as the graph does
 * @param packing what its matrices were quantised to
 */
export async function openSafetensors(
  folder: Folder,
  naming?: Naming,
  packing?: Packing,
  names = USUAL,
): Promise<Weights> {
  const { single, index } = names
  const promised = await readPromises(folder, names)
  if (!promised && !(await folder.has(single))) throw missing(folder)
  const files = promised ? [...new Set(promised.values())] : [single]
  return openWhole(async (closing) => {
    const tensors = new Map<string, Located>()
    for (const file of files) {
      const { handle, size } = await folder.open(file, promised ? index : file)
      closing.add(handle)
      for (const tensor of await readHeader(folder, file, handle, size)) {
        if (tensors.has(tensor.name))
          throw folder.broken(
            file,
            `it holds ${tensor.name}, as ${tensors.get(tensor.name)!.file} does`,
          )
        tensors.set(tensor.name, tensor)
      }
    }
    for (const [name, file] of promised ?? [])
      if (tensors.get(name)?.file !== file)
        throw folder.broken(index, `it promises ${name} in ${file}, which does not hold it`)
    const parts = [...tensors.values()].map(partFor)
    if (packing && !isPacked(parts, packing))
      throw folder.broken(
        files[0]!,
        `the configuration says that the weights are packed by ${packing.method}, and none is`,
      )
    const packed = packing && { packing, orders: await readOrders(parts) }
    const sources = naming ? sourcesOf(naming, (name) => tensors.get(name)?.shape) : sameNames
    const opened = { folder, anyFile: files[0]!, tensors, packed }
    const orders = new Map<string, Int32Array>()
    return {
      entries: [...tensors.values()],
      tensor(name, rows, columns) {
        const { matrix, part } = partNamed(name)
        const source = sources(matrix)
        if (part === undefined) return find(opened, source, rows, columns)
        if (part === "order") return listTensor(orders.get(matrix)!)
        return rowsOf(findPacked(opened, source, rows, columns)!.sorted!.tensor, source, columns)
      },
      holds(name) {
        const { tensor } = sources(name)
        const names = HELD.map((kind) => tensor.replace(/weight$/, kind))
        return names.some((each) => tensors.has(each))
      },
      columnOrder(name, rows, columns) {
        const order = findPacked(opened, sources(name), rows, columns)?.sorted?.order
        if (order) orders.set(name, order)
        return order
      },
      verify: async () => {}, // the format has no checksums
      close: () => closing.close(),
    }
  })
}

/** The tensors of one file, which is open until `close`. @throws `model_broken` */
export async function openParts(
  folder: Folder,
  file: string,
): Promise<{ parts: Part[]; close: () => Promise<void> }> {
  return openWhole(async (closing) => {
    const { handle, size } = await folder.open(file, file)
    closing.add(handle)
    const parts = (await readHeader(folder, file, handle, size)).map(partFor)
    return { parts, close: () => closing.close() }
  })
}

/**
 * Whether a folder has weights in such files, or should have: an index names them, or pickles must be made into them. Mistral's own,
 * which may lie beside them, are none.
 */
export function holdsWeights(folder: Folder): boolean {
  const isOurs = (name: string) =>
    name === INDEX ||
    (name.endsWith(".safetensors") && !isAdapterFile(name) && !/^consolidated\b/.test(name))
  return readdirSync(folder.path).some(isOurs) || pickleIn(folder) !== undefined
}

function missing(folder: Folder): Problem {
  const file = pickleIn(folder)
  if (!file) return folder.broken(SINGLE, `there is no such file, nor ${INDEX}`)
  const convert = `from transformers import AutoModelForCausalLM as M; M.from_pretrained(".").save_pretrained("converted")`
  return pickled(folder, file, convert)
}

/** Which file each tensor is in; nothing where one file has them all, maybe beside the index of shards that it has replaced. */
async function readPromises(
  folder: Folder,
  { single, index: file }: FileNames,
): Promise<Map<string, string> | undefined> {
  const index = await folder.jsonIfThere(file)
  const promised = index && readIndex(folder, file, index)
  if (!promised || !(await folder.has(single))) return promised
  for (const file of new Set(promised.values()))
    if (isFileName(file) && !(await folder.has(file))) return undefined
  return promised
}

function readIndex(folder: Folder, file: string, index: Json): Map<string, string> {
  const { weight_map: map } = index
  if (!isObject(map)) throw folder.broken(file, "weight_map is not an object")
  return new Map(
    Object.entries(map).map(([name, shard]) => {
      if (typeof shard === "string") return [name, shard]
      throw folder.broken(file, `weight_map.${name} is not the name of a file`)
    }),
  )
}

const MAX_HEADER = 100_000_000 // the format's own limit

async function readHeader(
  folder: Folder,
  file: string,
  handle: FileHandle,
  size: number,
): Promise<Located[]> {
  if (size < 8) throw folder.broken(file, `it is ${size} bytes long, too short for a header`)
  const lengthBytes = await readExactly(handle, 0, 8)
  const length = new DataView(lengthBytes.buffer).getBigUint64(0, true)
  if (length === 0n || length > BigInt(Math.min(size - 8, MAX_HEADER)))
    throw folder.broken(file, `its header claims ${length} bytes, the file has ${size}`)
  const headerBytes = Number(length)
  const text = folder.decode(await readExactly(handle, 8, headerBytes), file)
  const header = folder.parse(text, file)
  const entries = Object.entries(header)
    .filter(([name]) => name !== "__metadata__")
    .map(([name, entry]) => readEntry(folder, file, name, entry))
  if (countMembers(text) !== countKeys(header))
    throw folder.broken(file, "its header names something twice")
  checkGapless(folder, file, entries, size - 8 - headerBytes)
  return entries.map(({ name, dtype, shape, begin }) => ({
    name,
    file,
    dtype,
    shape,
    handle,
    position: 8 + headerBytes + begin,
  }))
}

interface HeaderEntry {
  name: string
  dtype: string
  shape: number[]
  begin: number
  end: number
}

function readEntry(folder: Folder, file: string, name: string, entry: unknown): HeaderEntry {
  const wrong = (what: string) => folder.broken(file, `tensor ${shortened(name)}: ${what}`)
  if (!isObject(entry)) throw wrong("its entry is not an object")
  const { dtype, shape, data_offsets: offsets } = entry
  if (typeof dtype !== "string" || !Object.hasOwn(dtypeBytes, dtype))
    throw wrong(`the type ${shortened(String(dtype))} is not known`)
  if (!isListOfCounts(shape)) throw wrong("its shape is not a list of whole numbers")
  if (!isListOfCounts(offsets) || offsets.length !== 2)
    throw wrong("data_offsets are not two whole numbers")
  const [begin, end] = offsets as [number, number]
  // Multiplied exactly: a product that wraps around must not fit by chance.
  const bytes = shape.reduce((product, n) => product * BigInt(n), BigInt(dtypeBytes[dtype]!))
  if (end < begin || BigInt(end - begin) !== bytes)
    throw wrong(
      `${dtype} [${shape.join(", ")}] takes ${bytes} bytes, its offsets span ${end - begin}`,
    )
  return { name, dtype, shape, begin, end }
}

/** Tensors cover the data from end to end: then none overlap, and none lies outside. */
function checkGapless(folder: Folder, file: string, found: HeaderEntry[], bytes: number): void {
  let at = 0
  for (const { name, begin, end } of found.toSorted((a, b) => a.begin - b.begin || a.end - b.end)) {
    if (begin !== at)
      throw folder.broken(
        file,
        `tensor ${shortened(name)} begins at byte ${begin} of the data, ${begin < at ? "inside another" : "after a gap"}`,
      )
    at = end
  }
  if (at !== bytes)
    throw folder.broken(file, `its tensors take ${at} bytes, the file holds ${bytes} of data`)
}

/** Members of all objects in a JSON text: the colons outside of its strings. */
function countMembers(json: string): number {
  return json.replace(/"[^"\\]*(?:\\.[^"\\]*)*"/gs, "").split(":").length - 1
}

/** Keys that reading it kept, two levels down: fewer when one was written twice. */
function countKeys(header: Json): number {
  return Object.values(header).reduce<number>(
    (sum, entry) => sum + 1 + (isObject(entry) ? Object.keys(entry).length : 0),
    0,
  )
}

interface Opened {
  folder: Folder
  anyFile: string
  tensors: ReadonlyMap<string, Located>
  packed: { packing: Packing; orders: Orders } | undefined
}

function partFor({ name, dtype, shape, handle, position }: Located): Part {
  return {
    name,
    dtype,
    shape,
    read: (from, bytes) => readExactly(handle, position + from, bytes),
  }
}

function find(opened: Opened, source: Source, rows: number, columns: number): Tensor {
  const { folder, anyFile, tensors } = opened
  const made = madeTensor(source, columns)
  if (made) return made
  if (source.biases) return biasesOf(opened, source.tensor, source.biases)
  const { through } = source
  if (through) return throughMatrix({ ...source, through }, (...of) => find(opened, ...of), columns)
  const packed = findPacked(opened, source, rows, columns)
  if (packed) return rowsOf(packed, source, columns, addendOf(opened, source, columns))
  const tensor = tensors.get(source.tensor)
  if (!tensor) throw folder.broken(anyFile, `there is no tensor ${source.tensor}`)
  const { file, dtype, shape, handle, position } = tensor
  const all = source.rows?.of ?? rows / (source.repeated ?? 1)
  const { stacked, turnedRuns } = source
  const straight = stacked ? [stacked, all / stacked, columns] : [all, turnedRuns?.width ?? columns]
  const turned = stacked ? [stacked, columns, all / stacked] : [columns, all]
  const matrix = source.transposed ? turned : straight
  const vector = source.taps ? filters(all, source) : straight.slice(0, -1)
  const wanted = source.shape ?? (columns === 1 ? vector : matrix)
  const isAlone = shape.length === 0 && rows === 1 && columns === 1
  const isChannelsLast = source.shape !== undefined && hasChannelsLast(shape, source.shape)
  if (
    !isAlone &&
    !isChannelsLast &&
    (shape.length !== wanted.length || shape.some((n, i) => n !== wanted[i]))
  )
    throw folder.broken(
      file,
      `tensor ${source.tensor} has shape [${shape.join(", ")}], the configuration says [${wanted.join(", ")}]`,
    )
  const codec = Object.hasOwn(floatTypes, dtype) ? floatTypes[dtype] : undefined
  if (!codec)
    throw folder.broken(
      file,
      `tensor ${source.tensor} is of type ${dtype}; F32, F16 and BF16 can be read`,
    )
  const size = floatBytes[codec]
  const rowBytes = (columns === 1 ? 1 : source.shape ? matrix.at(-1)! : wanted.at(-1)!) * size
  const stored: StoredTensor = {
    codec,
    async read(first, count, room = new Room()) {
      const at = position + first * rowBytes
      return { rows: count, values: await room.read(handle, at, count * rowBytes) }
    },
    readPart: (row, first, count) =>
      readExactly(handle, position + row * rowBytes + first * size, count * size),
  }
  const kept = isChannelsLast ? turnedColumns(stored, source.shape![1]!) : stored
  return rowsOf(kept, source, columns, addendOf(opened, source, columns))
}

/** Whether they are filters as MLX has them, where `wanted` are filters as others have them. */
function hasChannelsLast(shape: readonly number[], wanted: readonly number[]): boolean {
  const [rows, channels, ...points] = wanted
  return points.length > 1 && [rows, ...points, channels].join() === shape.join()
}

function filters(all: number, { taps = 1, tapsLastButOne }: Source): readonly number[] {
  return tapsLastButOne ? [all / taps, taps, 1] : [all / taps, 1, taps]
}

/** The row of another tensor that a source adds. */
function addendOf(opened: Opened, { plusRow }: Source, columns: number): Tensor | undefined {
  if (!plusRow) return undefined
  const { tensor, row: from, shape } = plusRow
  if (shape) return find(opened, { tensor, shape }, 1, columns)
  const of = opened.tensors.get(tensor)?.shape[0] ?? 1
  return find(opened, { tensor, rows: { of, from, run: 1, every: of } }, 1, columns)
}

function biasesOf(opened: Opened, tensor: string, biases: Biases): Tensor {
  const { heads } = biases
  return biasesTensor(
    biases,
    "buckets" in biases ? find(opened, { tensor }, biases.buckets, heads) : undefined,
  )
}

/** Nothing where the tensor is stored as floats. */
function findPacked(
  { folder, anyFile, tensors, packed }: Opened,
  source: Source,
  rows: number,
  columns: number,
): PackedTensor | undefined {
  if (!packed || columns === 1 || source.constant !== undefined) return undefined
  const name = source.tensor.replace(/\.weight$/, "")
  const between = name === source.tensor ? "_" : "."
  const nameOf = (kind: string) => name + between + kind
  const part = (kind: string) => tensors.get(nameOf(kind))
  const matrix: Matrix = {
    name,
    rows: source.rows?.of ?? rows,
    columns: source.turnedRuns?.width ?? columns,
    stacked: source.stacked ?? 1,
    part: (kind) => {
      const located = part(kind)
      return located && partFor(located)
    },
    broken: (kind, what) =>
      folder.broken(part(kind)?.file ?? anyFile, `tensor ${nameOf(kind)} ${what}`),
  }
  const tensor = packedTensor(matrix, packed.packing, packed.orders)
  if (tensor && source.transposed)
    throw matrix.broken("weight", "is packed, and this architecture keeps it turned around")
  return tensor
}

function shortened(name: string): string {
  return name.length > 80 ? `${name.slice(0, 80)}…` : name
}
