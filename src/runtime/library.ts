// Opens a shared library as a Program. A library file ends in its own manifest, so that it can be moved and named as one
// file, and is read and checked as bytes before any of its code is mapped: what is not ours, cut short or built for
// another processor or model is refused in a sentence.
//
//   | shared object | manifest, JSON | SHA-256 of what stands before, 32 | length of the manifest, 4 LE | "SINTERLB" |

import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { problem } from "../errors.ts"
import { checkStep } from "./check-step.ts"
import { processorFeatures } from "./features.ts"
import { addressOf, loadNative, type NativeLibrary, type Pointer } from "./ffi.ts"
import { ABI, type Manifest } from "./manifest.ts"
import {
  type CancelWord,
  MOST_LOGPROBS,
  type Program,
  type ProgramLimits,
  type StepInput,
  type StepOutput,
} from "./program.ts"

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

/** @throws `library_unusable` for what is no library of ours, is damaged, or cannot run on this processor. */
export function readManifest(path: string): Manifest {
  const refuse = (why: string) => problem("library_unusable", { file: path, problem: why })
  let file: Buffer
  try {
    file = readFileSync(path)
  } catch (error) {
    throw refuse(`it cannot be read (${(error as NodeJS.ErrnoException).code})`)
  }
  if (file.length < TAIL || !file.subarray(-MAGIC.length).equals(MAGIC))
    throw refuse("it is no library made by sinter compile, or was cut short")
  const length = file.readUInt32LE(file.length - MAGIC.length - 4)
  const body = file.subarray(0, file.length - TAIL)
  const hash = file.subarray(file.length - TAIL, file.length - TAIL + HASH)
  if (length > body.length || !createHash("sha256").update(body).digest().equals(hash))
    throw refuse("it is damaged: its bytes are not those that were compiled; compile it again")
  const manifest: Manifest = JSON.parse(body.subarray(body.length - length).toString())
  if (manifest.abi !== ABI)
    throw refuse(
      `it was made for version ${manifest.abi} of the library interface and this is ${ABI}; compile it again`,
    )
  const here = processorFeatures()
  const missing = manifest.features.filter((feature) => !here.has(feature))
  if (missing.length > 0)
    throw refuse(
      `it was built for a processor with ${missing.join(", ")}, which this one lacks or its system does not lend`,
    )
  return manifest
}

/** What a library must agree with a model about. */
export type Wanted = Pick<Manifest, "architecture" | "format" | "shapes" | "kv" | "plan">

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
    if (has !== size) throw refuse(name, has, size)
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

/** The weights as the kernels read them, in one piece: for whoever keeps a copy and puts it back. */
export interface PackedWeights {
  readonly bytes: number
  /** Some of them, in place. Not to be touched once the program is closed. */
  window(from: number, length: number): Uint8Array
  /** Of all of them, as they are now. */
  checksum(): Promise<bigint>
}

/** A library's program before and after its weights are in. */
export interface LibraryProgram extends Program {
  /**
   * Rows `row` … `row + rows - 1` of the manifest's parameter number `parameter`, as they are stored: floats, or words of
   * codes with their scales beside them.
   */
  load(
    parameter: number,
    row: number,
    rows: number,
    values: ArrayBufferView,
    scales?: ArrayBufferView,
  ): Promise<void>
  readonly packed: PackedWeights
}

/**
 * The thread pool that every library of this process shares. It lives in the library opened first, which is held here:
 * let go, it would be unmapped under its threads.
 */
let host: { pool: Pointer; library: NativeLibrary } | undefined

/** @throws `library_unusable` when the system cannot load it; `memory_refused` when what `limits` ask for is not there. */
export async function openLibrary(
  path: string,
  limits: ProgramLimits,
  threads: number = availableParallelism(),
): Promise<LibraryProgram> {
  const manifest = readManifest(path)
  let native: NativeLibrary
  try {
    native = loadNative(path)
  } catch (error) {
    throw problem("library_unusable", {
      file: path,
      problem: `the system cannot load it: ${(error as Error).message}`,
    })
  }
  host ??= { pool: native.hostOpen(threads), library: native }
  const { blocks, tokens, sequences, rows } = limits
  const opened = await native.open(host.pool, Int32Array.of(blocks, tokens, sequences, rows))
  if (opened.code !== Code.ok)
    throw problem("memory_refused", { what: `${blocks} KV blocks and the weights of ${path}` })
  return program(native, opened.model, manifest, limits)
}

/** enum sinter_code of abi.h */
const Code = { ok: 0, cancelled: 1 } as const

function program(
  native: NativeLibrary,
  model: Pointer,
  manifest: Manifest,
  limits: ProgramLimits,
): LibraryProgram {
  const failed = () => new Error(`internal: the library refuses: ${native.message(model)}`)
  const words = new BigUint64Array(WORDS)
  const used = new Set<object>() // by the step being taken, which knows addresses alone: nobody may collect them
  let closed = false
  return {
    manifest,
    limits,
    async load(parameter, row, rows, values, scales) {
      const code = await native.load(model, parameter, row, rows, values, scales ?? null)
      if (code !== Code.ok) throw failed()
    },
    packed: {
      ...native.weights(model),
      checksum: () => native.weightsChecksum(model),
    },
    async step(input, cancel) {
      // Whether hidden rows are taken in is known to the library, which checks that, and all indices once more.
      checkStep(input, manifest, limits, input.hiddenIn !== undefined)
      const out = outputs(input, manifest)
      writeWords(words, input, manifest.shapes.vocabulary, cancel, out)
      used.add(input).add(cancel).add(out)
      const code = await native.step(model, words).finally(() => used.clear())
      if (code === Code.cancelled) return { kind: "cancelled" }
      if (code !== Code.ok) throw failed()
      return out
    },
    async copyBlocks(from, to) {
      if ((await native.copyBlocks(model, from, to)) !== Code.ok) throw failed()
    },
    async close() {
      if (closed) return
      closed = true
      await native.close(model)
    },
  }
}

type Done = Extract<StepOutput, { kind: "done" }>

function outputs(input: StepInput, { shapes }: Manifest): Done {
  const rows = input.logitRows.length
  return {
    kind: "done",
    tokens: new Int32Array(rows),
    logprobs: new Float32Array(rows),
    topTokens: new Int32Array(rows * MOST_LOGPROBS),
    topLogprobs: new Float32Array(rows * MOST_LOGPROBS),
    finite: new Uint8Array(rows),
    hidden: new Float32Array(input.hiddenRows.length * shapes.hidden),
    ...(input.wantLogits ? { logits: new Float32Array(rows * shapes.vocabulary) } : {}),
  }
}

const COUNTS = 8
const WORDS = COUNTS + 36

/** struct sinter_step_arrays of abi.h, field after field. */
function writeWords(
  words: BigUint64Array,
  input: StepInput,
  vocabulary: number,
  cancel: CancelWord,
  out: Done,
): void {
  const s = input.sampling
  words[0] = BigInt(input.tokens.length)
  words[1] = BigInt(input.starts.length - 1)
  words[2] = BigInt(input.logitRows.length)
  words[3] = BigInt(input.hiddenRows.length)
  words[4] = BigInt(Math.floor(s.masks.length / Math.ceil(vocabulary / 32)))
  words[5] = input.wantLogits ? 1n : 0n
  let at = COUNTS
  const put = (array: ArrayBufferView | undefined) => {
    words[at++] = array ? addressOf(array) : 0n
  }
  put(cancel)
  put(input.tokens)
  put(input.starts)
  put(input.positions)
  put(input.blocks)
  put(input.blockStarts)
  put(input.visibleFrom)
  put(input.logitRows)
  put(input.hiddenRows)
  put(input.hiddenIn)
  put(s.temperature)
  put(s.topK)
  put(s.topP)
  put(s.minP)
  put(s.presence)
  put(s.frequency)
  put(s.repetition)
  put(s.countStarts)
  put(s.countTokens)
  put(s.counts)
  put(s.biasStarts)
  put(s.biasTokens)
  put(s.biases)
  put(s.masks)
  put(s.maskRow)
  put(s.seed)
  put(s.choice)
  put(s.position)
  put(s.topLogprobs)
  put(out.tokens)
  put(out.logprobs)
  put(out.topTokens)
  put(out.topLogprobs)
  put(out.finite)
  put(out.hidden)
  put(out.logits)
}
