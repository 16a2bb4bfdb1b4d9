// How much runs at once. A mode is a preset of three numbers (sequences, tokens held for all of them, prompt tokens a step
// may take); an override wins over its number; memory has the last word over what a mode chose: first fewer tokens are held,
// then steps get shorter, then fewer sequences run. Nothing is inferred silently: each number comes with its reason, which
// the start-up table prints, and what was asked for and cannot be had is refused with the figures. A device that has memory of
// its own leaves the host's to what drafters keep there; every pool is held to its own share.

import { type Problem, problem } from "../errors.ts"
import type { KvType, Manifest } from "../runtime/manifest.ts"
import { BLOCK, type ProgramLimits, type StepTraits } from "../runtime/program.ts"
import { HEADROOM } from "./scheduler.ts"
import { STATES } from "./states.ts"

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
  kv_dtype?: KvType
  /** Tokens proposed for a sequence in a step; 0: as many as pay. */
  spec_draft_length?: number
  /** Devices that share the model. */
  tensor_parallel_shards?: number
  /** Patches of an image at the most, where its tiles are as large as it is. */
  max_image_patches?: number
}

export interface Demand {
  mode: Mode
  overrides: Overrides
  /** Of the device that takes the steps. */
  traits: StepTraits
  manifest: Pick<Manifest, "shapes" | "kv" | "sinks" | "bidirectional">
  /** Rows of the largest image, where a prompt that has one cannot be cut. */
  uncut?: number | undefined
  /** Bytes that may be taken of the memory that the program lies in, weights included. */
  available: number
  /** The host's memory, where the device has its own; absent: what the host keeps is taken from `available`, too. */
  host?: { available: number } | undefined
  weightBytes: number
  /** What the program needs beside weights and KV blocks, in bytes. */
  bufferBytes: (limits: ProgramLimits) => number
  /** The most tokens proposed for a sequence in a step, and what the model that proposes them takes; absent: no drafts. */
  drafts?: { length: number; model?: DraftDemand | undefined } | undefined
}

/** Bytes of the program that drafts. It has as many KV blocks as the other's first group. */
export interface DraftDemand {
  weightBytes: number
  bytesPerBlock: number
  /** What its drafter keeps in the host's memory. */
  hostBytesPerBlock: number
  /** The same, beside that which goes with blocks; absent: nothing. */
  hostBytes?: (limits: ProgramLimits) => number
  bufferBytes: (limits: ProgramLimits) => number
}

export interface EngineLimits {
  context: Context // tokens in the longest sequence
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
  groups: readonly KvShare[] // of kv
  activations: number // a row for each token of a step
  buffers: number // a row for each token that wants logits, and what there is once
  draft: number // all of the program that drafts
  available: number // for all of these: the share that may be taken
  share: number // of what there is
  /** Where the device has memory of its own: the host's part, which no figure above counts. */
  host?: { taken: number; available: number }
}

export interface KvShare {
  layers: number
  window: number | undefined
  isState?: true
  bytes: number
}

export interface Chosen {
  value: number
  why: string
  /** What it would have been had something else not bound it. */
  of?: number
}

/** The longest sequence, and which limit bound it: who asks for more is told. */
export interface Context extends Chosen {
  bound: "model" | "memory" | Bounding
}

type Bounding = "context_window_size" | "prefill_chunk_size" | "max_total_seq_length"

const LOCAL_SEQUENCES = 4
const MIN_STEP_TOKENS = 16 // where memory is short; activations of fewer are smaller than a block of keys and values
const MIN_ROWS = 32 // each token of a prompt that is scored takes one: with fewer, such prompts would crawl
const FORCED = 16 // drafts of tokens that a constraint leaves no choice about have that much room where nobody proposes
const SERVER_SHARE = 0.85 // of the memory: `server` takes what there is and keeps 15 % free
/** Blocks that a window cuts at either end, and one that is seen by whoever goes on after the last full block. */
const CUT = 3
/** Positions that a window has beside a step's: it slides over whole blocks, and whoever goes on after the last full one sees one more. */
const MOVING = 2 * BLOCK
const KEPT_STATES = 8 // of prefixes, or one for each sequence if that is more
/** Blocks whose tokens are remembered though no group keeps all: some 200 bytes each of the host's memory once it is used. */
const MAX_TRAIL = 2 ** 17
const MEMORY_ALLOWS = "what memory allows"

/** @throws `memory_short`, `option_invalid` */
export function chooseLimits(demand: Demand): EngineLimits {
  const context = chooseContext(demand)
  const sequences = chooseSequences(demand)
  let layout: Layout | undefined
  for (const count of sequences.why === OVERRIDDEN
    ? [sequences.value]
    : halves(sequences.value, 1)) {
    for (const step of halves(longestStep(demand, context, count), MIN_STEP_TOKENS)) {
      layout = layOut(demand, context.value, count, step)
      if (layout.fit === "well") return limitsOf(demand, context, sequences, layout)
    }
  }
  if (layout!.fit === "barely") return limitsOf(demand, context, sequences, layout!)
  throw (
    addressesShort(demand, layout!) ?? memoryShort(demand, memoryShares(demand, layout!.program))
  )
}

/** What cannot be cut is read in one step, however long it may be. */
function longestStep(demand: Demand, context: Context, sequences: number): number {
  const { traits, manifest, uncut = 0 } = demand
  const { stepTokens } = traits
  return manifest.bidirectional
    ? Math.max(stepTokens, context.value + sequences)
    : stepTokens + uncut
}

/** `most`, half of it, and so on, none less than `least`. */
function* halves(most: number, least: number): Generator<number> {
  for (let value = most; value >= least; value = Math.floor(value / 2)) yield value
}

/** What so many sequences and such steps leave for keys and values. */
interface Layout {
  total: Chosen
  /** Whether a sequence longer than the window gives blocks up as it goes on; else all of its tokens are held. */
  slides: boolean
  drafts: number
  program: ProgramLimits
  /**
   * `well`: what the mode wants is there, or else a whole step's tokens and a block for each sequence. `barely`: a block
   * is there, or what overrides ask for. `not`: it is not.
   */
  fit: "well" | "barely" | "not"
  /** What keeps more tokens out. */
  why: string
}

function layOut(demand: Demand, context: number, sequences: number, most: number): Layout {
  const { mode, overrides, manifest } = demand
  const [widest] = manifest.kv.groups
  const span = spanOf(demand, context)
  const requested = overridden(overrides, "max_total_seq_length")
  const stepTokens = Math.max(
    sequences,
    Math.min(most, (overrides.prefill_chunk_size ?? span.value) + sequences),
  )
  const drafts = demand.drafts ? draftRoom(demand, sequences * demand.drafts.length) : 0
  const step = {
    tokens: stepTokens + drafts,
    sequences,
    rows: Math.max(sequences, MIN_ROWS) + drafts,
  }
  const spares = spareBlocks(sequences, drafts)
  if (isOfStates(manifest)) return layOutStates(demand, span, step, drafts)
  const { value: room, why } = blocksThatFit(demand, step, spares)
  // A window slides over whole blocks while a step adds to them: one sequence needs that much room to move at all.
  const moving = blocksOf(step.tokens + MOVING)
  const canSlide = (requested?.value ?? (room - moving) * BLOCK) >= span.value
  const slides = widest?.window !== undefined && span.value < context && canSlide
  const fits = (slides ? room - moving : room) * BLOCK
  const wanted = mode === "server" ? sequences * span.value : span.value
  const least =
    requested?.value ?? (overrides.context_window_size ? span.value : Math.min(BLOCK, wanted))
  const enough = requested?.value ?? Math.min(wanted, Math.max(stepTokens, sequences * BLOCK))
  const total =
    requested ??
    chooseTotal(mode, span, sequences, { value: Math.max(least, Math.min(wanted, fits)), why })
  const blocks = blocksOf(total.value) + (slides ? moving : 0)
  const program = {
    ...step,
    blocks: mostOf(demand, step).map((m, group) =>
      isState(manifest, group) ? m : spares + Math.min(m, blocks),
    ),
  }
  const fit = fits < least ? "not" : fits < enough ? "barely" : "well"
  return { total, slides, drafts, program, fit, why }
}

/** However long a sequence is, it has its states, and as many blocks as convolutions look back; or nothing is kept of it. */
function layOutStates(demand: Demand, span: Chosen, step: StepLimits, drafts: number): Layout {
  const { mode, overrides, traits } = demand
  const { sequences } = step
  const spares = spareBlocks(sequences, drafts)
  const remembered = { value: Math.max(span.value, MAX_TRAIL * BLOCK), why: "what is remembered" }
  const total =
    overridden(overrides, "max_total_seq_length") ?? chooseTotal(mode, span, sequences, remembered)
  const most = mostOf(demand, step)
  const blocks = most.map((m, group) => (isState(demand.manifest, group) ? m : m + spares))
  const program = { ...step, blocks }
  const [first = 0] = blocks
  const { mostBlocks = { value: first, why: MEMORY_ALLOWS } } = traits
  const isAddressed = first <= mostBlocks.value
  const fit = isAddressed && fits(memoryShares(demand, program)) ? "well" : "not"
  return { total, slides: false, drafts, program, fit, why: mostBlocks.why }
}

const fits = ({ weights, kv, activations, buffers, draft, available, host }: MemoryShares) =>
  weights + kv + activations + buffers + draft <= available &&
  (host === undefined || host.taken <= host.available)

function limitsOf(
  demand: Demand,
  context: Context,
  sequences: Chosen,
  { total, slides, drafts, program, why }: Layout,
): EngineLimits {
  const span = spanOf(demand, context.value)
  const most = demand.manifest.bidirectional
    ? Math.min(span.value, program.tokens - drafts)
    : span.value
  const reached =
    slides || context.value <= Math.min(total.value, most)
      ? context
      : cut(context, total, most, why)
  return {
    context: reached,
    sequences:
      program.sequences < sequences.value
        ? { value: program.sequences, why: MEMORY_ALLOWS, of: sequences.value }
        : sequences,
    total,
    chunk:
      overridden(demand.overrides, "prefill_chunk_size") ??
      (reached.bound === "memory" ? spanOf(demand, reached.value) : span),
    drafts,
    program,
    memory: memoryShares(demand, program),
  }
}

/** A sequence whose tokens are all held is no longer than what is held for all, nor than a window that cannot slide. */
function cut({ value: of }: Context, total: Chosen, span: number, why: string): Context {
  const value = Math.min(total.value, span)
  if (total.why === OVERRIDDEN) return { value, why: OVERRIDDEN, of, bound: "max_total_seq_length" }
  return { value, why, of, bound: "memory" }
}

const draftRoom = ({ traits }: Demand, proposed: number) =>
  Math.min(traits.drafts, Math.max(FORCED, proposed))

/** Drafts take blocks from nobody: those of a sequence need one beside its own at most. */
export function spareBlocks(sequences: number, drafts: number): number {
  return Math.min(sequences, drafts)
}

const blocksOf = (tokens: number) => Math.ceil(tokens / BLOCK)

function chooseContext(demand: Demand): Context {
  const context = chooseWindow(demand)
  const chunk = overridden(demand.overrides, "prefill_chunk_size")
  if (!demand.manifest.bidirectional || !chunk || chunk.value >= context.value) return context
  return { ...chunk, of: context.value, bound: "prefill_chunk_size" }
}

function chooseWindow({ manifest, overrides }: Demand): Context {
  const most = manifest.shapes.context
  const requested = overridden(overrides, "context_window_size")
  if (!requested) return { value: most, why: "the model's", bound: "model" }
  if (requested.value === most) return { ...requested, bound: "model" }
  if (requested.value < most) return { ...requested, of: most, bound: "context_window_size" }
  throw problem("option_invalid", {
    option: "--overrides context_window_size",
    problem: `the model was made for at most ${most} tokens, ${requested.value} were asked for.`,
  })
}

/** Blocks of what is remembered of all sequences together where no group of the program keeps all. */
export function trailBlocks(
  manifest: Pick<Manifest, "kv">,
  { context, total, sequences }: Pick<EngineLimits, "context" | "total" | "sequences">,
): number {
  if (isOfStates(manifest)) return blocksOf(total.value)
  const one = blocksOf(context.value)
  return Math.max(one, Math.min(sequences.value * one, MAX_TRAIL))
}

/** Whether states are all that reaches further back than a window, or nothing is. */
const isOfStates = ({ kv: { groups } }: Pick<Manifest, "kv">) =>
  groups.every(({ window, state }) => window !== undefined || state !== undefined) &&
  (groups.length === 0 || groups.some(({ state }) => state !== undefined))

/** What the specification calls the model's context window size, or sliding window size. */
function spanOf({ manifest, mode }: Demand, context: number): Chosen {
  const [{ window } = {}] = manifest.kv.groups
  if (window && window < context && !isOfStates(manifest))
    return { value: window, why: `${mode}: the sliding window` }
  return { value: context, why: `${mode}: the context` }
}

function chooseSequences({ mode, overrides, traits }: Demand): Chosen {
  const requested = overridden(overrides, "max_num_sequence")
  if (requested) return requested
  if (mode === "server") return { value: traits.sequences, why: "server: the most" }
  return { value: mode === "local" ? LOCAL_SEQUENCES : 1, why: mode }
}

/** @param fits as many as there is room for, and what bounds them */
function chooseTotal(mode: Mode, span: Chosen, sequences: number, { value, why }: Chosen): Chosen {
  const wanted = mode === "server" ? sequences * span.value : span.value
  if (value < wanted) return { value, why: `${mode}: ${why}` }
  if (mode !== "server") return span
  return { value: wanted, why: `server: ${sequences} sequences of full length` }
}

/** Of `available`, what may be taken. */
function shareOf({ mode, overrides }: Demand): number {
  return overrides.gpu_memory_utilization ?? (mode === "server" ? SERVER_SHARE : 1)
}

type StepLimits = Omit<ProgramLimits, "blocks">

/**
 * The most blocks beside spare ones that a KV group can use: a group that slides needs no more than its windows and a step. The
 * first one's window slides over whatever there is, but where there are states.
 */
function mostOf({ manifest }: Demand, { sequences, tokens }: StepLimits): number[] {
  const { groups } = manifest.kv
  const sinks = blocksOf(manifest.sinks)
  return groups.map(({ window, state }, group) => {
    if (state !== undefined) return sequences * STATES + Math.max(sequences, KEPT_STATES)
    if (window === undefined || (group === 0 && !isOfStates(manifest)))
      return Number.POSITIVE_INFINITY
    return sequences * (sinks + blocksOf(window) + CUT + HEADROOM) + blocksOf(tokens)
  })
}

/** Of states there are as many as sequences need, whatever the number of blocks. */
const isState = ({ kv }: Pick<Manifest, "kv">, group: number) =>
  kv.groups[group]!.state !== undefined

/**
 * How many blocks the first KV group may have, and what bounds them: memory, beside all else in it, or what the device can
 * address. The others have as many, or the most that they can use. Less than none where not even that fits.
 */
function blocksThatFit(demand: Demand, step: StepLimits, spares: number): Chosen {
  const value = blocksOfMemory(demand, step, spares)
  const { mostBlocks } = demand.traits
  if (mostBlocks === undefined || value + spares <= mostBlocks.value)
    return { value, why: MEMORY_ALLOWS }
  return { value: mostBlocks.value - spares, why: mostBlocks.why }
}

function blocksOfMemory(demand: Demand, step: StepLimits, spares: number): number {
  const { manifest, drafts } = demand
  const { bytesPerBlock = 0, hostBytesPerBlock = 0 } = drafts?.model ?? {}
  const { groups } = manifest.kv
  const empty = { ...step, blocks: groups.map(() => 0) }
  const { weights, activations, buffers, draft, available, host } = memoryShares(demand, empty)
  const most = mostOf(demand, step).map((blocks, group) =>
    isState(manifest, group) ? blocks : blocks + spares,
  )
  const bytes = groups.map((group) => group.bytesPerBlock)
  bytes[0]! += bytesPerBlock + (host ? 0 : hostBytesPerBlock)
  const onHost =
    host && hostBytesPerBlock > 0
      ? Math.floor((host.available - host.taken) / hostBytesPerBlock)
      : Number.POSITIVE_INFINITY
  const numbers = [...groups.keys()]
  const states = numbers.filter((group) => isState(manifest, group))
  const held = sum(states, (group) => most[group]! * bytes[group]!)
  let left = available - weights - activations - buffers - draft - held
  const growing = new Set(numbers.filter((group) => !states.includes(group)))
  for (;;) {
    const blocks = Math.floor(left / sum([...growing], (group) => bytes[group]!))
    const full = [...growing].filter((group) => most[group]! < blocks)
    if (full.length === 0) return Math.min(onHost, blocks) - spares
    left -= sum(full, (group) => most[group]! * bytes[group]!)
    for (const group of full) growing.delete(group)
  }
}

function memoryShares(demand: Demand, program: ProgramLimits): MemoryShares {
  const { weightBytes, manifest, bufferBytes, drafts, host } = demand
  const buffers = bufferBytes({ ...program, tokens: 0 })
  const share = shareOf(demand)
  const { hostBytesPerBlock = 0, hostBytes } = drafts?.model ?? {}
  const onHost = (program.blocks[0] ?? 0) * hostBytesPerBlock + (hostBytes?.(program) ?? 0)
  const groups = manifest.kv.groups.map(({ layers, window, state, bytesPerBlock }, group) => ({
    layers: layers.length,
    window,
    ...(state === undefined ? {} : { isState: true as const }),
    bytes: program.blocks[group]! * bytesPerBlock,
  }))
  return {
    weights: weightBytes,
    kv: sum(groups, ({ bytes }) => bytes),
    groups,
    activations: bufferBytes(program) - buffers,
    buffers,
    draft: (drafts?.model ? draftBytes(drafts.model, program) : 0) + (host ? 0 : onHost),
    available: demand.available * share,
    share,
    ...(host && { host: { taken: onHost, available: host.available * share } }),
  }
}

function draftBytes(draft: DraftDemand, program: ProgramLimits): number {
  return draft.weightBytes + draft.bufferBytes(program) + program.blocks[0]! * draft.bytesPerBlock
}

/** Where memory would do, and the device cannot address it. */
function addressesShort(
  { traits, overrides }: Demand,
  { program, why }: Layout,
): Problem | undefined {
  const { mostBlocks } = traits
  if (mostBlocks === undefined || mostBlocks.why !== why) return undefined
  const field = overrides.max_total_seq_length ? "max_total_seq_length" : "context_window_size"
  return problem("option_invalid", {
    option: `--overrides ${field}`,
    problem: `it takes ${program.blocks[0]} blocks of ${BLOCK} tokens, and ${mostBlocks.value} are ${why}.`,
  })
}

/** With the figures of the least there is, and of what may be changed so that it fits. */
function memoryShort(demand: Demand, memory: MemoryShares): Problem {
  const { weights, kv, activations, buffers, draft, available, share, host } = memory
  const { overrides, drafts } = demand
  const needed = weights + kv + activations + buffers + draft
  const isHostShort = host !== undefined && host.taken > host.available
  const fields =
    needed - kv < available || isHostShort
      ? (["max_total_seq_length", "context_window_size"] as const)
      : (["max_num_sequence"] as const)
  const cures = [
    ...fields
      .filter((field) => (overrides[field] ?? 1) > 1)
      .map((field) => `lower --overrides "${field}=…"`),
    ...(share < 1 ? ['raise --overrides "gpu_memory_utilization=…"'] : []),
    ...(drafts?.model ? ["leave the draft model out"] : []),
    ...(isHostShort ? [] : ["serve a smaller format (--quantization)"]),
  ].join(", or ")
  const cure = `${cures[0]!.toUpperCase()}${cures.slice(1)}.`
  if (isHostShort)
    return problem("host_memory_short", {
      needed: mib(host.taken),
      available: mib(host.available),
      cure,
    })
  return problem("memory_short", {
    needed: mib(needed),
    weights: mib(weights),
    kv: mib(kv),
    activations: mib(activations),
    buffers: `${mib(buffers)}${draft > 0 ? `, draft ${mib(draft)}` : ""}`,
    available: mib(available),
    cure,
  })
}

type ChosenField =
  | "max_num_sequence"
  | "max_total_seq_length"
  | "prefill_chunk_size"
  | "context_window_size"

const OVERRIDDEN = "--overrides"

function overridden(overrides: Overrides, field: ChosenField): Chosen | undefined {
  const value = overrides[field]
  return value === undefined ? undefined : { value, why: OVERRIDDEN }
}

function sum<T>(list: readonly T[], of: (each: T, at: number) => number): number {
  return list.reduce((total, each, at) => total + of(each, at), 0)
}

const mib = (bytes: number) => Math.ceil(bytes / 2 ** 20)
