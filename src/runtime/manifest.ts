// What a compiled model says of itself: the JSON beside a library, or the object a TypeScript target builds. The loader
// needs nothing else: it feeds the parameters listed here and compares shapes and format with the model folder.

import {
  type CodecName,
  denseRowBytes,
  type FormatName,
  floatBytes,
  formats,
  groupCodecNames,
} from "./format.ts"
import { absentOr, count, isTrue, listOf, number, oneOf, positive, record, text } from "./shape.ts"

/** The version of the contract between host and program; raised whenever either side changes its meaning. */
export const ABI = 14

/** What keys and values may be kept in; q8: codes of 8 bits under a float for each head. */
export const kvTypes = ["f32", "f16", "bf16", "q8"] as const
export type KvType = (typeof kvTypes)[number]

export interface Manifest {
  abi: number
  target: string // "reference", "cpu", …
  architecture: string // "llama", …
  format: FormatName // of the weights
  /** Hash of the plan: which model this computes, whoever compiled it. */
  plan: string
  /** Hash of plan, target and kernels: equal ones with equal weights compute equal bits, whichever compiler built them. */
  fingerprint: string
  shapes: Shapes
  /** Positions kept at the start of a sequence whatever the windows: attention sinks. */
  sinks: number
  /** A position sees those after it, too: a sequence is whole in one step, and there is no next one. */
  bidirectional?: true
  /** A row of an image sees those behind it: an image is whole in one step. */
  mutual?: true
  /** Which tokens bring a row of `hiddenIn`: all of them, or those that say so; absent: none can. */
  takes?: "all" | "some"
  /** Of rows that are taken in keys and values are computed, and nothing else: cross-attention reads them. */
  words?: true
  /** Of a token in `hiddenRows` so many rows become the one that is handed out, its own and those behind it; absent: one. */
  joined?: number
  /** Tables have a row for each height and each width of tokens, which are all below it; absent: there are none. */
  places?: number
  /** A sequence chooses one of so many adapters, or none; absent: there are none to choose. */
  adapters?: number
  /** KV cache: its groups of layers, whoever looks furthest back first. */
  kv: { dtype: KvType; groups: readonly KvGroup[] }
  /** How many devices share it; absent: one. `kv` and `bytes` are then of one shard. */
  shards?: number
  bytes: ProgramBytes
  /** What a library was built for, in the names of its target: of the cpu's, features of processors. */
  features: readonly string[]
  parameters: readonly Parameter[]
  /** The plan as a generic library reads it (compiler/targets/cpu/tape.ts); absent: it is compiled in. */
  tape?: readonly number[]
  /** In a library's file: who built it and with what, for whoever wants to build it again. */
  built?: Built
}

interface Built {
  sinter: string
  /** Of machine code: the system that runs it, as system.ts names it. */
  system?: string
  compiler?: string
  flags?: readonly string[]
}

/** Layers whose keys and values are of one size and are kept equally long: they share blocks, and no block is of two groups. */
export interface KvShape {
  /** Cross-attention reads it, rows of media at the front of a sequence. Other groups keep what is behind those. */
  media?: true
  /** The model's layers, in the order in which they lie in a block. */
  layers: readonly number[]
  kvHeads: number
  /**
   * Numbers in a head's key and in its value. Latent attention keeps one row for each position, which is one head's key, and
   * no value: its values are columns of the keys.
   */
  headDim: { key: number; value: number }
  /** Positions that its layers look back, a token's own included, fewer than the context has; absent: all. */
  window?: number
  /**
   * Numbers that each layer keeps of a sequence in the place of keys and values, floats in any cache: a block is the state of one
   * sequence behind one of its positions (`StepInput.blocks`), and the fields above say nothing.
   */
  state?: number
}

export interface KvGroup extends KvShape {
  bytesPerBlock: number
}

/** How far back a group looks; at a state, which is behind the position before, least of all. */
export const reachOf = ({
  window = Number.POSITIVE_INFINITY,
  state,
}: Pick<KvShape, "window" | "state">) => (state === undefined ? window : 0)

/** Of a block that is a state: floats, on every target. */
export const stateBytes = ({ layers, state }: Pick<KvShape, "layers" | "state">) =>
  layers.length * (state ?? 0) * 4

/** Whoever opens a program says how many blocks each of its groups gets. */
export function checkGroups(
  groups: readonly KvShape[],
  { blocks }: { blocks: readonly number[] },
): void {
  if (blocks.length !== groups.length)
    throw new Error(`internal: blocks for ${blocks.length} KV groups of ${groups.length}`)
}

/** What an opened program takes beside its KV blocks. */
export interface ProgramBytes {
  weights: number
  perToken: number // of a step
  perRow: number // of logits
  perThread: number // of the processor
  fixed: number
}

/** What a program's buffers take when it is opened for such steps. */
export function bufferBytes(
  { perToken, perRow, perThread, fixed }: ProgramBytes,
  { tokens, rows }: { tokens: number; rows: number },
  threads: number,
): number {
  return fixed + tokens * perToken + rows * perRow + threads * perThread
}

export interface Shapes {
  vocabulary: number
  /** Tokens that have a row in the table, where these are more than can be drawn; absent: as `vocabulary`. */
  readable?: number
  hidden: number
  /** Columns of rows that are taken in; absent: as `hidden`. */
  taken?: number
  /** Columns of rows that are handed out, the first `hidden` of which are the last row; absent: these are all. */
  given?: number
  layers: number
  heads: number
  kvHeads: number
  headDim: number
  intermediate: number
  context: number // the longest sequence the model was made for
}

/** How many tokens have a row in the table. */
export const readableTokens = ({
  vocabulary,
  readable = vocabulary,
}: Pick<Shapes, "vocabulary" | "readable">) => readable

/** Columns of rows that are taken in. */
export const takenColumns = ({ hidden, taken = hidden }: Pick<Shapes, "hidden" | "taken">) => taken

/** Columns of rows that are handed out. */
export const givenColumns = ({ hidden, given = hidden }: Pick<Shapes, "hidden" | "given">) => given

/** One weight as the program wants it: rows of its sources joined one after the other. */
export interface Parameter {
  name: string // "layers.0.q+k+v"
  rows: number
  columns: number // vectors (norms, biases) have one
  codec: CodecName
  /** Source tensors by their Hugging Face names, joined along rows. */
  sources: readonly { tensor: string; rows: number }[]
}

/** Of its floats, or of its codes and scales. */
export function parameterBytes({ rows, columns, codec }: Parameter): number {
  return rows * denseRowBytes(codec, columns)
}

/** Of the JSON in a library. What a version may not know (its target, its architecture) is a text here, and refused by name. */
export const manifestShape = record<Manifest>({
  abi: number,
  target: text,
  architecture: text,
  format: oneOf(Object.keys(formats)),
  plan: text,
  fingerprint: text,
  shapes: record<Shapes>({
    vocabulary: count,
    readable: absentOr(positive),
    hidden: count,
    taken: absentOr(positive),
    given: absentOr(positive),
    layers: count,
    heads: count,
    kvHeads: count,
    headDim: count,
    intermediate: count,
    context: count,
  }),
  sinks: count,
  bidirectional: absentOr(isTrue),
  mutual: absentOr(isTrue),
  takes: absentOr(oneOf(["all", "some"])),
  words: absentOr(isTrue),
  joined: absentOr(positive),
  places: absentOr(positive),
  adapters: absentOr(positive),
  kv: record<Manifest["kv"]>({
    dtype: oneOf(kvTypes),
    groups: listOf(
      record<KvGroup>({
        media: absentOr(isTrue),
        layers: listOf(count),
        kvHeads: count,
        headDim: record<KvGroup["headDim"]>({ key: count, value: count }),
        window: absentOr(positive),
        state: absentOr(positive),
        bytesPerBlock: count,
      }),
    ),
  }),
  shards: absentOr(positive),
  bytes: record<ProgramBytes>({
    weights: number,
    perToken: number,
    perRow: number,
    perThread: number,
    fixed: number,
  }),
  features: listOf(text),
  tape: absentOr(listOf(number)),
  built: absentOr(
    record<Built>({
      sinter: text,
      system: absentOr(text),
      compiler: absentOr(text),
      flags: absentOr(listOf(text)),
    }),
  ),
  parameters: listOf(
    record<Parameter>({
      name: text,
      rows: count,
      columns: count,
      codec: oneOf([...Object.keys(floatBytes), ...groupCodecNames]),
      sources: listOf(record<Parameter["sources"][number]>({ tensor: text, rows: count })),
    }),
  ),
})
