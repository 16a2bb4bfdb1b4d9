// Weights on their way into a program. The first time they are read from the model's folder, checked, converted to the
// format they are wanted in and laid out for the kernels; a copy of the result then goes on the shelf, so that the next start
// is one read into the program's memory, or none where the file can lie there itself until it has been read behind the first
// replies. A copy is found by path, size and time of the folder's files and by the program's
// fingerprint, and used when its checksum is right. Whatever is wrong with the shelf costs time and nothing else.
//
//   | "SINTERWT" | length of the header, 4 LE | header, JSON | zeros up to a multiple of 4096 | the program's memory |

import { readSync } from "node:fs"
import { type FileHandle, open, stat, statfs } from "node:fs/promises"
import { join } from "node:path"
import type { Log } from "../log.ts"
import type { FormatName } from "../runtime/format.ts"
import type { Manifest } from "../runtime/manifest.ts"
import type { LoadableProgram, PackedWeights, ShownFile } from "../runtime/program.ts"
import { type Shelf, shelfKey } from "../runtime/shelf.ts"
import { packageWeightWork } from "../runtime/weight-work.ts"
import type { Adapter } from "./adapters/adapter.ts"
import type { Model } from "./model.ts"
import { allDone, bytesOf, loadParameters } from "./weights/weights.ts"
import { newWeightsHash } from "./weights/weights-hash.ts"

export interface WeightOptions {
  shelf: Shelf
  /** What the shelf may hold in all, in bytes; applied when a copy has been put there. */
  shelfSize: number
  /** Programs with less packed than this are as quickly packed as found. */
  leastBytes?: number
  log: Log
  signal: AbortSignal
  progress: (what: string, done: number, total: number) => void
}

export interface Loaded {
  /** SHA-256 of the weights as the program was fed them, the same whichever way they came. */
  hash: string
  from: "folder" | "shelf"
  /**
   * Does what replies need not wait for: a copy is written, or weights get memory of their own. Never throws; until it is done or
   * given up, the program must stay open.
   */
  finish: () => Promise<void>
}

/** What lies in one folder, and the adapters that change it. */
interface Files extends Pick<Model, "path" | "configuration" | "weights"> {
  adapters?: readonly Pick<Adapter, "folder" | "files">[]
  choices?: readonly Pick<Adapter, "folder" | "files">[]
}

/** A model's part in this. */
export interface WeightSource extends Files, Pick<Model, "name" | "format"> {
  /** A head reads some of its weights from another model's folder. */
  borrowed?: Files
  /** Which of the programs that are fed from one folder it is; absent: the only one. */
  part?: number
}

/** A program's part in this. */
type Receiver = Pick<LoadableProgram, "manifest" | "load" | "weightWork" | "packed">

const MIN_BYTES = 32 << 20

/** @throws `model_broken` when the weights are damaged. */
export async function loadWeights(
  model: WeightSource,
  program: Receiver,
  options: WeightOptions,
): Promise<Loaded> {
  const { packed, manifest } = program
  if (!packed || packed.bytes < (options.leastBytes ?? MIN_BYTES))
    return { hash: await pack(model, program, options), from: "folder", finish: nothing }
  const key = shelfKey([manifest.fingerprint, await identityOf(model)])
  const item = { name: `${key}.weights`, packed, options }
  const copy = await readCopy(item)
  if (copy) return { ...copy, from: "shelf" }
  const header = { ...describe(model, manifest), hash: await pack(model, program, options) }
  return { hash: header.hash, from: "folder", finish: () => keepCopy(item, header) }
}

async function nothing(): Promise<void> {}

/** Another size or time of any weights file, or of the configuration, makes another model. */
async function identityOf({ borrowed, part = 0, ...own }: WeightSource): Promise<string> {
  const folders = await Promise.all([own, ...(borrowed ? [borrowed] : [])].map(identityOfFiles))
  return [...folders, ...(part > 0 ? [part] : [])].join("\n")
}

async function identityOfFiles(own: Files): Promise<string> {
  const { path, configuration, weights, adapters = [], choices = [] } = own
  const files = [...new Set(weights.entries.map(({ file }) => file)), configuration]
  const changes = [...adapters, ...choices].map(({ folder, files }) => linesOf(folder.path, files))
  return (await Promise.all([linesOf(path, files.sort()), ...changes])).flat().join("\n")
}

async function linesOf(path: string, files: readonly string[]): Promise<string[]> {
  const lines = files.map(async (file) => {
    const { size, mtimeMs } = await stat(join(path, file))
    return `${file} ${size} ${mtimeMs}`
  })
  return [path, ...(await Promise.all(lines))]
}

/**
 * Feeds the program from the model's folder, whose checksums are compared meanwhile. @returns the hash
 * @throws what is wrong with the files, if anything is, whatever else came of it
 */
async function pack(
  model: WeightSource,
  program: Receiver,
  { signal, progress }: WeightOptions,
): Promise<string> {
  const { manifest } = program
  const stop = new AbortController()
  const verified = model.weights.verify(signal).catch((error: unknown) => {
    stop.abort(error)
    throw error
  })
  const what = manifest.format === model.format ? "loading" : `packing as ${manifest.format}`
  const hash = newWeightsHash(bytesOf(manifest.parameters))
  const weightWork = program.weightWork ?? packageWeightWork()
  const sink: Pick<Receiver, "load" | "weightWork"> = {
    ...(weightWork && { weightWork }),
    load: (...window) => {
      signal.throwIfAborted()
      stop.signal.throwIfAborted()
      return program.load(...window)
    },
  }
  const fed = loadParameters(model.weights, manifest, sink, {
    progress: (done, total) => progress(what, done, total),
    hash,
  })
  try {
    await allDone([verified, fed]) // nobody reads the files when this is over
    return await hash.digest()
  } finally {
    await hash.close()
  }
}

// ------------------------------------------------------------------ the copy

/** What a copy says of itself; `sinter shelf list` prints it. */
export interface CopyHeader {
  version: typeof VERSION
  model: string // its folder's name
  folder: string
  format: FormatName
  fingerprint: string // of the program
  bytes: number // behind the header
  checksum: string // of those
  hash: string // of the weights they were made of
}

const VERSION = 1
const MAGIC = "SINTERWT"
const PAGE = 4096
const MAX_HEADER = 1 << 16

interface CopyItem {
  name: string
  packed: PackedWeights
  options: WeightOptions
}

function describe(
  { name, path }: WeightSource,
  { format, fingerprint }: Manifest,
): Omit<CopyHeader, "bytes" | "checksum" | "hash"> {
  return { version: VERSION, model: name, folder: path, format, fingerprint }
}

/** @returns undefined when there is none to be used; then the program's memory is as it was: zero. */
async function readCopy({
  name,
  packed,
  options,
}: CopyItem): Promise<Omit<Loaded, "from"> | undefined> {
  const { shelf, log, signal, progress } = options
  const path = shelf.find(name)
  if (!path) return undefined
  let file: FileHandle | undefined
  let shown: ShownFile | undefined
  try {
    file = await open(path)
    const copy = readHeader(file.fd)
    if (!copy) throw new Error("it has no header")
    const { header, end } = copy
    const { size } = await file.stat()
    if (header.bytes !== packed.bytes || size !== end + packed.bytes)
      throw new Error(`it is ${size} bytes long instead of ${end + packed.bytes}`)
    shown = packed.show?.(file.fd, end)
    if (!shown)
      await readInto(packed, file, end, signal, (done) => progress("reading", done, packed.bytes))
    if (String(await packed.checksum()) !== header.checksum) throw new Error("it is damaged")
    const { hash } = header
    if (!shown) return { hash, finish: nothing }
    const moving = { file, shown, bytes: packed.bytes }
    file = undefined
    return { hash, finish: () => settle(moving, options) }
  } catch (error) {
    signal.throwIfAborted()
    log.warn(`${path} cannot be used: ${(error as Error).message}. The weights are packed again.`)
    if (shown) shown.remove()
    else await clear(packed)
    return undefined
  } finally {
    await file?.close()
  }
}

/** Weights get memory of their own while the server serves. Never throws. */
async function settle(
  { file, shown, bytes }: { file: FileHandle; shown: ShownFile; bytes: number },
  { signal, log }: WeightOptions,
): Promise<void> {
  try {
    for (let at = 0; at < bytes && !signal.aborted; at += WINDOW)
      await shown.own(at, Math.min(WINDOW, bytes - at))
  } catch (error) {
    log.warn(`The weights are read from their copy's own pages: ${(error as Error).message}.`)
  } finally {
    await file.close()
  }
}

/** The header of a copy, and where what it heads begins; undefined for a file that is none. */
export function readHeader(fd: number): { header: CopyHeader; end: number } | undefined {
  const start = Buffer.alloc(MAX_HEADER)
  const got = readSync(fd, start, 0, start.length, 0)
  const length = start.readUInt32LE(MAGIC.length)
  const from = MAGIC.length + 4
  if (start.toString("latin1", 0, MAGIC.length) !== MAGIC || from + length > got) return undefined
  try {
    const header: CopyHeader = JSON.parse(start.toString("utf8", from, from + length))
    if (header.version !== VERSION) return undefined
    return { header, end: pages(from + length) }
  } catch {
    return undefined
  }
}

const pages = (bytes: number) => Math.ceil(bytes / PAGE) * PAGE

function headerBytes(header: CopyHeader): Buffer {
  const json = Buffer.from(JSON.stringify(header))
  const from = MAGIC.length + 4
  const all = Buffer.alloc(pages(from + json.length))
  all.write(MAGIC, "latin1")
  all.writeUInt32LE(json.length, MAGIC.length)
  json.copy(all, from)
  return all
}

const WINDOW = 16 << 20
const READERS = 4 // as many as Node has threads for files

/** All threads read at once: most of the time goes into making pages, not into the disk. */
async function readInto(
  packed: PackedWeights,
  file: FileHandle,
  begin: number,
  signal: AbortSignal,
  progress: (done: number) => void,
): Promise<void> {
  let next = 0
  let done = 0
  const reader = async () => {
    while (next < packed.bytes) {
      signal.throwIfAborted()
      const at = next
      const length = Math.min(WINDOW, packed.bytes - at)
      const window = packed.blank(at, length)
      next += length
      for (let read = 0; read < length; ) {
        const { bytesRead } = await file.read(window, read, length - read, begin + at + read)
        if (bytesRead === 0) throw new Error("it was cut short while it was read")
        read += bytesRead
      }
      await packed.put(at, window)
      done += length
      progress(done)
    }
  }
  await allDone(Array.from({ length: READERS }, reader))
}

async function clear(packed: PackedWeights): Promise<void> {
  for (let at = 0; at < packed.bytes; at += WINDOW) {
    const window = packed.blank(at, Math.min(WINDOW, packed.bytes - at))
    await packed.put(at, window.fill(0))
  }
}

const SPARED = 1 << 30 // bytes of the disk that are left to others

/** Writes the copy while the server serves. Never throws. */
async function keepCopy(
  { name, packed, options: { shelf, shelfSize, log, signal } }: CopyItem,
  described: Omit<CopyHeader, "bytes" | "checksum">,
): Promise<void> {
  const { bytes } = packed
  const size = `${(bytes / 2 ** 20).toFixed(0)} MiB`
  try {
    signal.throwIfAborted()
    const { bavail, bsize } = await statfs(shelf.folder)
    if (bytes > shelfSize) throw new Error(`the shelf may hold ${shelfSize} bytes`)
    if (bytes + SPARED > bavail * bsize) throw new Error("the disk has too little room")
    const header = { ...described, bytes, checksum: String(await packed.checksum()) }
    await shelf.put(name, async (path) => {
      const file = await open(path, "wx", 0o600)
      try {
        await file.write(headerBytes(header))
        for (let at = 0; at < bytes; at += WINDOW) {
          signal.throwIfAborted()
          const window = await packed.take(at, Math.min(WINDOW, bytes - at))
          for (let written = 0; written < window.length; )
            written += (await file.write(window, written)).bytesWritten
        }
      } finally {
        await file.close()
      }
    })
    log.debug(`The packed weights lie on the shelf for the next start: ${size}.`)
    for (const item of shelf.prune({ maxBytes: shelfSize }))
      log.info(`${item.path} was not used for longest and has made room on the shelf.`)
  } catch (error) {
    if (signal.aborted) return
    log.warn(`The weights are packed at every start (${size}): ${(error as Error).message}.`)
  }
}
