// Opens a shared library as a Program. A library file ends in its own manifest, so that it can be moved and named as one
// file, and is read and checked as bytes before any of its code is mapped: what is not ours, cut short or built for
// another processor or model is refused in a sentence.
//
//   | shared object | manifest, JSON | SHA-256 of what stands before, 32 | length of the manifest, 4 LE | "SINTERLB" |

import { createHash } from "node:crypto"
import { accessSync, constants, readFileSync, statSync } from "node:fs"
import { availableParallelism } from "node:os"
import { dirname } from "node:path"
import { problem, whyUnreadable } from "../errors.ts"
import { checkStep } from "./check-step.ts"
import { processorFeatures } from "./features.ts"
import { loadNative, type NativeLibrary, type Pointer } from "./ffi.ts"
import { showFile } from "./file-pages.ts"
import {
  ABI,
  checkGroups,
  givenColumns,
  type Manifest,
  manifestShape,
  takenColumns,
} from "./manifest.ts"
import { type Loan, type OpenDevice, OpenDevices } from "./open-device.ts"
import {
  type LoadableProgram,
  newStepDone,
  type PackedWeights,
  type ProgramLimits,
} from "./program.ts"
import { STEP_WORDS, writeStepWords } from "./step-words.ts"
import { systemName, thisSystem } from "./system.ts"
import { checked } from "./weight-work.ts"

const MAGIC = Buffer.from("SINTERLB")
const HASH = 32
const TAIL = HASH + 4 + MAGIC.length

/** What `code` gets appended to become a library file. */
export function seal(code: Buffer, manifest: Manifest): Buffer {
  const json = Buffer.from(JSON.stringify(manifest))
  const body = Buffer.concat([code, json])
  const length = Buffer.alloc(4)
  length.writeUInt32LE(json.length)
  return Buffer.concat([body, createHash("sha256").update(body).digest(), length, MAGIC])
}

/**
 * SHA-256 of a library's bytes, or of the file that holds them: who has them has the same code.
 * @throws `library_unusable` for a file that cannot be read
 */
export function libraryHash(library: string | Buffer): string {
  const bytes = typeof library === "string" ? readLibrary(library) : library
  return createHash("sha256").update(bytes).digest("hex")
}

/** @throws `library_unusable` for what is no library of ours, or is damaged. */
export function readManifest(path: string): Manifest {
  return unseal(path).manifest
}

/** Whether a file is a library, all of it; a crash may have left less on the shelf. */
export function isLibrary(path: string): boolean {
  try {
    return readManifest(path) !== undefined
  } catch {
    return false
  }
}

/**
 * What `seal` has put together.
 * @throws `library_unusable` as above
 */
export function unseal(path: string): { code: Buffer; manifest: Manifest } {
  const refuse = (why: string) => unusable(path, why)
  const file = readLibrary(path)
  if (file.length < TAIL || !file.subarray(-MAGIC.length).equals(MAGIC))
    throw refuse("it is no library made by sinter compile, or was cut short")
  const length = file.readUInt32LE(file.length - MAGIC.length - 4)
  const body = file.subarray(0, file.length - TAIL)
  const hash = file.subarray(file.length - TAIL, file.length - TAIL + HASH)
  if (length > body.length || !createHash("sha256").update(body).digest().equals(hash))
    throw refuse("it is damaged: its bytes are not those that were compiled; compile it again")
  const manifest = parseManifest(body.subarray(body.length - length).toString(), refuse)
  return { code: body.subarray(0, body.length - length), manifest }
}

function parseManifest(json: string, refuse: (why: string) => Error): Manifest {
  let manifest: Manifest
  try {
    manifest = JSON.parse(json)
  } catch {
    throw refuse("its manifest is no JSON; compile it again")
  }
  const abi = manifest?.abi
  if (typeof abi === "number" && abi !== ABI)
    throw refuse(
      `it was made for version ${abi} of the library interface and this is ${ABI}; compile it again`,
    )
  try {
    manifestShape(manifest, "")
  } catch (error) {
    throw refuse(`its manifest is not sound (${(error as Error).message}); compile it again`)
  }
  return manifest
}

/** @throws `library_unusable` where this is another system than the library was built for, or a processor that lacks something of it */
export function checkMachine(path: string, { features, built }: Manifest): void {
  const system = systemName(thisSystem())
  if (built?.system && built.system !== system)
    throw unusable(path, `it was built for ${built.system}, and this is ${system}; compile it here`)
  const here = processorFeatures()
  const missing = features.filter((feature) => !here.has(feature))
  if (missing.length > 0)
    throw unusable(
      path,
      `it was built for a processor with ${missing.join(", ")}, which this one lacks or its system does not lend`,
    )
}

function readLibrary(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    throw unusable(path, `it cannot be read: ${whyUnreadable(error)}`)
  }
}

const unusable = (file: string, why: string) => problem("library_unusable", { file, problem: why })

/** What a library must agree with a model about. */
export interface Wanted extends Pick<Manifest, "architecture" | "format" | "shapes" | "plan"> {
  kv: Pick<Manifest["kv"], "dtype">
}

/** @throws `library_unusable` when the library at `path` computes another model than `wanted`, naming what differs. */
export function checkManifest(path: string, found: Manifest, wanted: Wanted): void {
  const refuse = (what: string, has: string | number, needs: string | number) =>
    problem("library_unusable", {
      file: path,
      problem: `it was compiled for another model: its ${what} is ${has}, this model's ${needs}`,
    })
  if (found.architecture !== wanted.architecture)
    throw refuse("architecture", found.architecture, wanted.architecture)
  if (found.format !== wanted.format) throw refuse("format", found.format, wanted.format)
  for (const [name, size] of Object.entries(wanted.shapes)) {
    const has = found.shapes[name as keyof typeof found.shapes]
    if (has === size) continue
    if (name !== "given") throw refuse(name, has ?? 0, size)
    throw unusable(
      path,
      `it hands out ${givenColumns(found.shapes)} columns of each token, and what reads them here, an EAGLE 3 head or what times words, takes ${size}; only one that is built with it has these`,
    )
  }
  if (found.kv.dtype !== wanted.kv.dtype)
    throw refuse("type of keys and values", found.kv.dtype, wanted.kv.dtype)
  if (found.plan !== wanted.plan)
    throw problem("library_unusable", {
      file: path,
      problem:
        "it was compiled by another version, or from another configuration; compile it again",
    })
}

/** A library keeps its parameters in one piece. */
export interface LibraryProgram extends LoadableProgram {
  readonly packed: PackedWeights
}

/**
 * The processor, opened: its thread pool and its allocator. They live in the library that was opened first, which stays
 * mapped for as long as they are lent.
 */
interface OpenProcessor extends OpenDevice {
  readonly host: Pointer
}

const processors = new OpenDevices<OpenProcessor>()

function openProcessor(native: NativeLibrary, threads: number): OpenProcessor {
  const host = native.hostOpen(threads)
  return { host, close: () => native.hostClose(host) }
}

/**
 * @param threads of the processor, if this opens it
 * @throws `library_unusable` when the system cannot load it; `memory_refused` when what `limits` ask for is not there.
 */
export async function openLibrary(
  path: string,
  limits: ProgramLimits,
  threads: number = availableParallelism(),
): Promise<LibraryProgram> {
  const manifest = readManifest(path)
  checkMachine(path, manifest)
  checkGroups(manifest.kv.groups, limits)
  let native: NativeLibrary
  try {
    native = loadNative(path)
  } catch (error) {
    const folder = dirname(path)
    throw unusable(
      path,
      isNoexec(path)
        ? `${folder} is mounted noexec, so that no code is loaded from there; set TMPDIR or XDG_CACHE_HOME to a folder elsewhere`
        : `the system cannot load it: ${(error as Error).message}`,
    )
  }
  const processor = await processors.borrow(0, () => openProcessor(native, threads))
  const { blocks, tokens, sequences, rows } = limits
  const tape = manifest.tape ? Float64Array.from(manifest.tape) : null
  const sizes = Int32Array.of(tokens, sequences, rows)
  const opened = await native.open(processor.device.host, sizes, Int32Array.from(blocks), tape)
  if (opened.code !== Code.ok) {
    await processor.giveBack()
    throw problem("memory_refused", {
      what: `${blocks.join(" and ")} KV blocks and the weights of ${path}`,
    })
  }
  return program(native, opened.model, manifest, limits, processor)
}

/** Whether a file that this user may execute may not be executed where it lies: so access(2) tells of what is mounted noexec. */
export function isNoexec(path: string): boolean {
  const { mode, uid } = statSync(path)
  const right = uid === process.getuid?.() ? 0o100 : 0o001
  try {
    if (mode & right) accessSync(path, constants.X_OK)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EACCES"
  }
}

/** enum sinter_code of abi.h */
const Code = { ok: 0, cancelled: 1 } as const

function program(
  native: NativeLibrary,
  model: Pointer,
  manifest: Manifest,
  limits: ProgramLimits,
  processor: Loan<OpenProcessor>,
): LibraryProgram {
  const failed = () => new Error(`internal: the library refuses: ${native.message(model)}`)
  const { vocabulary } = manifest.shapes
  const taken = takenColumns(manifest.shapes)
  const words = new BigUint64Array(STEP_WORDS)
  const used = new Set<object>() // by the step being taken, which knows addresses alone: nobody may collect them
  let closed = false
  return {
    manifest,
    limits,
    async load(parameter, row, rows, values, scales) {
      const code = await native.load(model, parameter, row, rows, values, scales ?? null)
      if (code !== Code.ok) throw failed()
    },
    weightWork: checked(native.weightWork),
    packed: packedWeights(native, model),
    async step(input, cancel) {
      checkStep(input, manifest, manifest.kv.groups, limits) // the library checks all indices once more
      const out = newStepDone(input, manifest.shapes)
      writeStepWords(words, { input, cancel, out, vocabulary, taken })
      used.add(input).add(cancel).add(out)
      const code = await native.step(model, words).finally(() => used.clear())
      if (code === Code.cancelled) return { kind: "cancelled" }
      if (code !== Code.ok) throw failed()
      return out
    },
    async copyBlocks(group, from, to) {
      if ((await native.copyBlocks(model, group, from, to)) !== Code.ok) throw failed()
    },
    async close() {
      if (closed) return
      closed = true
      await native.close(model)
      await processor.giveBack()
    },
  }
}

// V8 counts a view as memory of its own, however little of it there is yet, and collects garbage for every few of them. As
// many views as windows took a third of a start.
const VIEW = 1 << 30

function packedWeights(native: NativeLibrary, model: Pointer): PackedWeights {
  const weights = native.weights(model)
  const { at, bytes } = weights
  const views: Uint8Array[] = []
  const blank = (from: number, length: number) => {
    const within = from % VIEW
    if (within + length > VIEW) return weights.window(from, length)
    const begin = from - within
    views[begin / VIEW] ??= weights.window(begin, Math.min(VIEW, bytes - begin))
    return views[begin / VIEW]!.subarray(within, within + length)
  }
  return {
    bytes,
    blank,
    take: async (from, length) => blank(from, length),
    put: async () => {}, // it is there
    checksum: () => native.weightsChecksum(model),
    show: (file, begin) => showFile(at, bytes, file, begin),
  }
}
