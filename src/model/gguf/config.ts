// The keys of a GGUF file as the fields of a config.json: those that all architectures share, as llama's; what a row of
// architectures.ts has beside them; and what none has asked for and would change the mathematics, which is refused.
// Keys: llama-arch.cpp of llama.cpp. Not in a file, and so of the architecture: activations and the places of norms. A bias
// is there when its tensor is.

import type { ModelConfig } from "../config.ts"
import type { Json } from "../folder.ts"
import { yarnGrowth } from "../rotation.ts"
import type { Naming } from "../weights/names.ts"
import { shownValue } from "./container.ts"
import type { Keys } from "./keys.ts"

export interface GgufArchitecture {
  /** The `model_type`, which may hang on a key. */
  model: string | ((file: GgufFile) => string)
  /** Rows of queries and keys are written for turning neighbours with each other. */
  neighbours?: true
  /** The field with the norms' epsilon, where they are LayerNorms. */
  epsilon?: string
  /** The field with the share of each head that is turned; absent: whole heads are. */
  turned?: "partial_rotary_factor" | "rotary_pct"
  /** Fields that llama has not, or calls otherwise. */
  fields?: (file: GgufFile, usual: Json) => Json
  /** Layers may differ in their heads and in their MLP's width: what all share, `fields` says. */
  varies?: true
  /** Its last layers guess tokens further ahead. They are not read. */
  guessesAhead?: true
  /** Its files may hold what sees and hears beside the text model. */
  sees?: true
  /** Tensors that have other names than most architectures give them. */
  parts?: (tensors: Pick<Tensors, "has">, config: ModelConfig, file: GgufFile) => Naming["parts"]
}

export interface Tensors {
  has(name: string): boolean
  /** Of a matrix. */
  rowsOf(name: string): number | undefined
  count: number
  /** Rows of the embedding. */
  vocabulary: number
  /** What each frequency is divided by, where the file has such lists: one for all contexts, or one for short and long ones. */
  divisors: { short: readonly number[]; long: readonly number[] } | undefined
}

/** Keys under an architecture's name, and the tensors beside them. */
export class GgufFile {
  readonly #name: string
  readonly keys: Keys
  readonly tensors: Tensors

  constructor(name: string, keys: Keys, tensors: Tensors) {
    this.#name = name
    this.keys = keys
    this.tensors = tensors
  }

  key(rest: string): string {
    return `${this.#name}.${rest}`
  }

  has(rest: string): boolean {
    return this.keys.has(this.key(rest))
  }

  count(rest: string): number {
    return this.keys.count(this.key(rest))
  }

  countIfThere(rest: string): number | undefined {
    return this.keys.countIfThere(this.key(rest))
  }

  numberIfThere(rest: string): number | undefined {
    return this.keys.numberIfThere(this.key(rest))
  }

  /** One for each layer, where the file says so, or the same for all; a list may go on to layers that guess ahead. */
  counts(rest: string, layers: number): readonly number[] {
    const listed = this.keys.countsIfThere(this.key(rest))
    if (!listed) return Array<number>(layers).fill(this.count(rest))
    if (listed.length === layers || listed.length === this.count("block_count"))
      return listed.slice(0, layers)
    throw this.wrong(rest, `has ${listed.length} entries for ${layers} layers`)
  }

  /** A number that 0 switches off. */
  factor(rest: string): number | undefined {
    return this.numberIfThere(rest) || undefined
  }

  wrong(rest: string, what: string): Error {
    return this.keys.wrong(this.key(rest), what)
  }

  /** Whether the first layer has one of these tensors. */
  hasPart(...names: string[]): boolean {
    return names.some((name) => this.tensors.has(`blk.0.${name}`))
  }
}

/** The fields of a config.json that say the same as the keys. */
export function configOf(file: GgufFile, architecture: GgufArchitecture): Json {
  const { tensors } = file
  const { model, epsilon = "rms_norm_eps", turned } = architecture
  const blocks = file.count("block_count")
  if (blocks > tensors.count)
    throw file.wrong(
      "block_count",
      `is ${blocks}, but the file has ${tensors.count} tensors in all`,
    )
  const guessing = architecture.guessesAhead && file.countIfThere("nextn_predict_layers")
  const layers = Math.max(0, blocks - (guessing ?? 0))
  const hidden = file.count("embedding_length")
  const ofLayers = (rest: string) =>
    architecture.varies ? Math.max(...file.counts(rest, layers)) : file.count(rest)
  const heads = ofLayers("attention.head_count")
  const headDim =
    file.countIfThere("attention.key_length") ?? Math.floor(hidden / Math.max(1, heads))
  const usual: Json = {
    model_type: typeof model === "string" ? model : model(file),
    vocab_size: tensors.vocabulary,
    hidden_size: hidden,
    intermediate_size: ofLayers(
      // Of a model whose layers all have experts some files name but these.
      file.has("feed_forward_length") || !file.has("expert_feed_forward_length")
        ? "feed_forward_length"
        : "expert_feed_forward_length",
    ),
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: file.has("attention.head_count_kv")
      ? ofLayers("attention.head_count_kv")
      : heads,
    head_dim: headDim,
    max_position_embeddings: file.count("context_length"),
    [epsilon]: file.numberIfThere(
      `attention.layer_norm_${epsilon === "rms_norm_eps" ? "rms_" : ""}epsilon`,
    ),
    rope_theta: file.numberIfThere("rope.freq_base") ?? 10000,
    ...turnedOf(file, headDim, turned),
    rope_scaling: withSections(file, scalingOf(file)),
    sliding_window: file.countIfThere("attention.sliding_window") || null,
    use_sliding_window: false,
    layer_types: layerTypesOf(file, layers),
    tie_word_embeddings: !tensors.has("output.weight"),
    attention_bias: file.hasPart("attn_q.bias", "attn_qkv.bias", "attn_output.bias"),
    attention_out_bias: file.hasPart("attn_output.bias"),
    mlp_bias: file.hasPart("ffn_down.bias"),
  }
  const fields = { ...usual, ...architecture.fields?.(file, usual) }
  refuseUnread(file, headDim)
  return fields
}

function turnedOf(file: GgufFile, headDim: number, field: string | undefined): Json {
  const turned = file.countIfThere("rope.dimension_count") ?? headDim
  // Half an element more: who multiplies by the width and rounds down must not lose one.
  if (field !== undefined) return { [field]: Math.min(1, (turned + 0.5) / headDim) }
  if (turned === headDim) return {}
  throw file.wrong(
    "rope.dimension_count",
    `is ${turned} of ${headDim}; only whole heads are turned`,
  )
}

/** With how many pairs turn by time, by height and by width, in a text model that sees; the fourth number is 0, or of one that has four parts. */
function withSections(file: GgufFile, scaling: Json | null): Json | null {
  const listed = (rest: string) => file.keys.countsIfThere(file.key(rest))
  const names = ["rope.dimension_sections", "rope.mrope_section", "mrope_sections"] // all but the first are Ollama's
  const all = names.map(listed).find((list) => list !== undefined)
  const sections = all?.slice(0, all[3] ? 4 : 3)
  return sections ? { rope_type: "default", ...scaling, mrope_section: sections } : scaling
}

function scalingOf(file: GgufFile): Json | null {
  const { divisors } = file.tensors
  const original = file.countIfThere("rope.scaling.original_context_length")
  // A list of its own for every pair: what llama3's scaling became, or longrope's two.
  if (divisors)
    return {
      rope_type: "longrope",
      short_factor: divisors.short,
      long_factor: divisors.long,
      attention_factor: file.numberIfThere("rope.scaling.attn_factor") ?? 1,
      original_max_position_embeddings: original,
    }
  const factor =
    file.numberIfThere("rope.scaling.factor") ?? file.numberIfThere("rope.scale_linear") ?? 0
  const type = file.keys.textIfThere(file.key("rope.scaling.type")) ?? "linear"
  if (type === "yarn" && factor !== 0)
    return yarn(file, factor, original ?? file.count("context_length"))
  const growth = file.numberIfThere("rope.scaling.attn_factor") ?? 1
  if (growth !== 1)
    throw file.wrong(
      "rope.scaling.attn_factor",
      `is ${growth}, which is known of yarn and of lists of divisors`,
    )
  if (type === "none" || factor === 0 || (type === "linear" && factor === 1)) return null
  if (type === "linear") return { rope_type: "linear", factor }
  throw file.wrong("rope.scaling.type", `is "${type}"; known: none, linear, yarn`)
}

function yarn(file: GgufFile, factor: number, original: number): Json {
  const own = (name: string) => file.numberIfThere(`rope.scaling.${name}`)
  const extrapolation = own("yarn_ext_factor") ?? 1
  if (extrapolation !== 1)
    throw file.wrong("rope.scaling.yarn_ext_factor", `is ${extrapolation}; only 1 is known`)
  // Ollama's names are the configuration's own.
  const all =
    file.factor("rope.scaling.yarn_log_multiplier") ?? (own("mscale_all_dim") || undefined)
  const one = own("mscale") ?? 1
  const grown = yarnGrowth(factor, all === undefined ? undefined : { one, all })
  return {
    rope_type: "yarn",
    factor,
    original_max_position_embeddings: original,
    beta_fast: own("yarn_beta_fast") ?? own("beta_fast"),
    beta_slow: own("yarn_beta_slow") ?? own("beta_slow"),
    attention_factor: attentionFactor(file, grown),
    ...(all === undefined ? {} : { mscale: one, mscale_all_dim: all }),
  }
}

/**
 * What cosines and sines grow by, where it is not what YaRN says by itself. llama.cpp multiplies that with `attn_factor` (llama-context.cpp,
 * rope_yarn of ggml-cpu/ops.cpp). Into `yarn_attn_factor` its converter writes a configuration's attention_factor, which is all of it, or
 * its attn_factor, which neither transformers nor llama.cpp applies: below 1 it can only be the latter, as YaRN never shrinks.
 */
function attentionFactor(file: GgufFile, grown: number): number | undefined {
  const whole = file.numberIfThere("rope.scaling.yarn_attn_factor")
  if (whole !== undefined && whole >= 1) return whole
  const before = file.numberIfThere("rope.scaling.attn_factor") ?? 1
  return before === 1 ? undefined : before * grown
}

/** Which layers have the window, where the file says so: every one but each n-th, or as a list has it. */
function layerTypesOf(file: GgufFile, layers: number): string[] | undefined {
  const key = file.key("attention.sliding_window_pattern")
  const listed = file.keys.flagsIfThere(key)
  const pattern = listed ? undefined : file.keys.countIfThere(key)
  if (!listed && pattern === undefined) return undefined
  const isOfAll = listed?.length === file.count("block_count") // those that guess ahead among them
  return Array.from({ length: isOfAll ? layers : (listed?.length ?? layers) }, (_, i) => {
    const slides = listed ? listed[i] : pattern === 0 || (i + 1) % pattern! !== 0
    return slides ? "sliding_attention" : "full_attention"
  })
}

/** Each with the value that changes nothing. */
const mathematical: Readonly<Record<string, number | boolean>> = {
  "attention.causal": true,
  "attention.clamp_kqv": 0,
  "attention.max_alibi_bias": 0,
  "attention.scale": 0,
  "attention.shared_kv_layers": 0,
  "attention.temperature_scale": 0,
  attn_logit_softcapping: 0,
  embedding_scale: 0,
  expert_count: 0,
  expert_gating_func: 1,
  final_logit_softcapping: 0,
  logit_scale: 0,
  nextn_predict_layers: 0,
  residual_scale: 0,
}

/** What the architecture was not known to have. */
function refuseUnread(file: GgufFile, headDim: number): void {
  const widths = ["value_length", "key_length_swa", "value_length_swa"]
  const neutral = {
    ...mathematical,
    ...Object.fromEntries(widths.map((name) => [`attention.${name}`, headDim])),
  }
  for (const [rest, nothing] of Object.entries(neutral)) {
    const value = file.keys.unread(file.key(rest))
    if (value !== undefined && value !== nothing)
      throw file.wrong(rest, `is ${shownValue(value)}, which is not known of this architecture`)
  }
}
