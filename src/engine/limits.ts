// How much runs at once. A mode is a preset of three numbers (sequences, tokens held for all of them, prompt tokens a step
// may take); an override wins over its number; memory has the last word. Nothing is inferred silently: each number comes
// with its reason, which the start-up table prints, and what was asked for and cannot be had is refused with the figures.

import { problem } from "../errors.ts"
import type { Manifest } from "../runtime/manifest.ts"
import { BLOCK, type ProgramLimits } from "../runtime/program.ts"

export type Mode = "local" | "interactive" | "server"

/** Fields of the engine's configuration that win over the mode, under the names users give them. */
export interface Overrides {
  max_num_sequence?: number
  max_total_seq_length?: number
  prefill_chunk_size?: number
  context_window_size?: number
  /** The share of the available memory that may be taken. */
  gpu_memory_utilization?: number
  /** Finished sequences whose prefixes are remembered; 0: none, -1: as many as fit. */
  prefix_cache_max_num_recycling_seqs?: number
  /** What keys and values are kept in. */
  kv_dtype?: "f32" | "f16" | "bf16" | "q8"
  /** Tokens proposed for a sequence in a step; 0: as many as pay. */
  spec_draft_length?: number
}

export interface Demand {
  mode: Mode
  overrides: Overrides
  manifest: Pick<Manifest, "shapes" | "kv" | "window" | "sinks">
  /** Bytes that may be taken, weights included. */
  available: number
  weightBytes: number
  /** What the program needs beside weights and KV blocks, in bytes. */
  bufferBytes: (limits: ProgramLimits) => number
  /** The most tokens proposed for a sequence in a step, and what the model that proposes them takes; absent: no drafts. */
  drafts?: { length: number; model?: DraftDemand | undefined } | undefined
}

/** Bytes of the program that drafts. It has as many KV blocks as the other. */
export interface DraftDemand {
  weightBytes: number
  bytesPerBlock: number
  bufferBytes: (limits: ProgramLimits) => number
}

export interface EngineLimits {
  context: Chosen // tokens in the longest sequence
  sequences: Chosen // at once
  total: Chosen // tokens held for all sequences together
  chunk: Chosen // the most prompt tokens in one step
  /** Drafts in one step for all sequences together; the program's rows, tokens and blocks have room for them. */
  drafts: number
  program: ProgramLimits
  memory: MemoryShares
}

/** Bytes. */
export interface MemoryShares {
  weights: number
  kv: number
  activations: number // a row for each token of a step
  buffers: number // a row for each token that wants logits
  draft: number // all of the program that drafts
  available: number
}

export interface Chosen {
  value: number
  why: string
}

const LOCAL_SEQUENCES = 4
const SERVER_SEQUENCES = 128 // beyond it a step's decode rows leave no room in the step budget for prompts
const STEP_TOKENS = 512 // activations are sized for it; longer steps gain nothing and hold everybody else up
const LEAST_ROWS = 32 // each token of a prompt that is scored takes one: with fewer, such prompts would crawl
const FORCED = 16 // drafts of tokens that a constraint leaves no choice about have that much room where nobody proposes
const MOST_DRAFTS = 64 // a step over more rows than that is no cheaper for each than one over fewer
const SERVER_SHARE = 0.85 // of the memory: `server` takes what there is and keeps 15 % free

/** @throws `memory_short`, `option_invalid` */
export function chooseLimits(demand: Demand): EngineLimits {
  const { mode, overrides } = demand
  const context = chooseContext(demand)
  const sequences = chooseSequences(mode, overrides)
  const span = spanOf(demand, context.value)
  const chunk = overridden(overrides, "prefill_chunk_size") ?? span
  const drafts = demand.drafts ? draftRoom(sequences.value * demand.drafts.length) : 0
  const program = {
    blocks: spareBlocks(sequences.value, drafts),
    tokens:
      Math.max(sequences.value, Math.min(STEP_TOKENS, chunk.value + sequences.value)) + drafts,
    sequences: sequences.value,
    rows: Math.max(sequences.value, LEAST_ROWS) + drafts,
  }
  const total = chooseTotal(demand, span, sequences.value, program)
  // A window slides over whole blocks while a step adds to them: one sequence needs that much room to move at all.
  const moving = demand.manifest.window ? program.tokens + BLOCK : 0
  program.blocks += Math.ceil((total.value + moving) / BLOCK)
  return {
    context: context.value <= total.value || demand.manifest.window ? context : total,
    sequences,
    total,
    chunk,
    drafts,
    program,
    memory: checkedMemory(demand, program),
  }
}

const draftRoom = (proposed: number) => Math.min(MOST_DRAFTS, Math.max(FORCED, proposed))

/** Drafts take blocks from nobody: those of a sequence need one beside its own at most. */
export function spareBlocks(sequences: number, drafts: number): number {
  return Math.min(sequences, drafts)
}

function chooseContext({ manifest, overrides }: Demand): Chosen {
  const most = manifest.shapes.context
  const asked = overridden(overrides, "context_window_size")
  if (!asked) return { value: most, why: "the model's" }
  if (asked.value <= most) return asked
  throw problem("option_invalid", {
    option: "--overrides context_window_size",
    problem: `the model was made for at most ${most} tokens, ${asked.value} were asked for.`,
  })
}

/** What the specification calls the model's context window size, or sliding window size. */
function spanOf({ manifest, mode }: Demand, context: number): Chosen {
  const { window } = manifest
  if (window && window < context) return { value: window, why: `${mode}: the sliding window` }
  return { value: context, why: `${mode}: the context` }
}

function chooseSequences(mode: Mode, overrides: Overrides): Chosen {
  const asked = overridden(overrides, "max_num_sequence")
  if (asked) return asked
  if (mode === "server") return { value: SERVER_SEQUENCES, why: "server: the most" }
  return { value: mode === "local" ? LOCAL_SEQUENCES : 1, why: mode }
}

function chooseTotal(
  demand: Demand,
  span: Chosen,
  sequences: number,
  program: ProgramLimits,
): Chosen {
  const asked = overridden(demand.overrides, "max_total_seq_length")
  if (asked) return asked
  const { mode, overrides, manifest, available, weightBytes, bufferBytes } = demand
  const { model: draft } = demand.drafts ?? {}
  const share = overrides.gpu_memory_utilization ?? (mode === "server" ? SERVER_SHARE : 1)
  const drafting = draft ? draft.weightBytes + draft.bufferBytes(program) : 0
  const left = available * share - weightBytes - bufferBytes(program) - drafting
  const bytesPerBlock = manifest.kv.bytesPerBlock + (draft?.bytesPerBlock ?? 0)
  const fits = Math.max(1, Math.floor(left / bytesPerBlock) - program.blocks) * BLOCK
  const wanted = mode === "server" ? sequences * span.value : span.value
  if (wanted > fits) return { value: fits, why: `${mode}: what memory allows` }
  if (mode !== "server") return span
  return { value: wanted, why: `server: ${sequences} sequences of full length` }
}

function checkedMemory(demand: Demand, program: ProgramLimits): MemoryShares {
  const { weightBytes: weights, manifest, bufferBytes, drafts } = demand
  const available = demand.available * (demand.overrides.gpu_memory_utilization ?? 1)
  const kv = program.blocks * manifest.kv.bytesPerBlock
  const activations = bufferBytes({ ...program, rows: 0 })
  const buffers = bufferBytes({ ...program, tokens: 0 })
  const draft = drafts?.model ? draftBytes(drafts.model, program) : 0
  const needed = weights + kv + activations + buffers + draft
  if (needed <= available) return { weights, kv, activations, buffers, draft, available }
  throw problem("memory_short", {
    needed: mib(needed),
    weights: mib(weights),
    kv: mib(kv),
    activations: mib(activations),
    buffers: `${mib(buffers)}${draft > 0 ? `, draft ${mib(draft)}` : ""}`,
    available: mib(available),
  })
}

function draftBytes(draft: DraftDemand, program: ProgramLimits): number {
  return draft.weightBytes + draft.bufferBytes(program) + program.blocks * draft.bytesPerBlock
}

type ChosenField =
  | "max_num_sequence"
  | "max_total_seq_length"
  | "prefill_chunk_size"
  | "context_window_size"

function overridden(overrides: Overrides, field: ChosenField): Chosen | undefined {
  const value = overrides[field]
  return value === undefined ? undefined : { value, why: "--overrides" }
}

const mib = (bytes: number) => Math.ceil(bytes / 2 ** 20)
