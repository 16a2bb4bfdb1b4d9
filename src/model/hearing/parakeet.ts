// What a Parakeet hears with: its configuration in our words, what its tensors are called, and how recordings are made ready for it.
//
// Sources: configuration_parakeet.py, modeling_parakeet.py and feature_extraction_parakeet.py of transformers.

import type { EighthsProcessing } from "../../audio/audio.ts"
import { eighthsRows, PIECE_SECONDS } from "../../audio/eighths.ts"
import { HOP, LENGTH, RATE } from "../../audio/features.ts"
import { ENCODER, parakeetEncoder, readEncoderWidth } from "../architectures/parakeet.ts"
import { type Acoustic, type ModelConfig, readActivation } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Naming, Part } from "../weights/names.ts"
import type { AudioFiles } from "./families.ts"
import type { ParakeetConfig } from "./parakeet-tower.ts"

const SECONDS = 3600 // of frames an hour has 184 MB

/** A graph has nodes for each, and is made before any tensor can contradict it. */
const MAX_LAYERS = 1000
const MAX_BANDS = 512
const MAX_TAPS = 63

/** @returns nothing where the model is of another kind */
export function readParakeetHearing(
  fields: Fields,
  { acoustic }: ModelConfig,
): ParakeetConfig | undefined {
  if (!acoustic) return undefined
  const encoder = parakeetEncoder(fields)
  const width = readEncoderWidth(encoder)
  const heads = encoder.count("num_attention_heads")
  const bands = encoder.count("num_mel_bins", undefined, 8, MAX_BANDS)
  const taps = encoder.count("conv_kernel_size", undefined, 1, MAX_TAPS)
  if (width % heads !== 0)
    throw encoder.wrong("num_attention_heads", `is ${heads}, which does not divide ${width}`)
  if (width % 16 !== 0)
    throw encoder.wrong("hidden_size", `is ${width}, which is no multiple of 16`)
  if (bands % 8 !== 0) throw encoder.wrong("num_mel_bins", `is ${bands}, which is no multiple of 8`)
  if (taps % 2 === 0) throw encoder.wrong("conv_kernel_size", `is ${taps}, and has to be odd`)
  const known = [
    ["num_key_value_heads", heads],
    ["head_dim", width / heads],
    ["subsampling_factor", ENCODER.subsampling_factor],
    ["subsampling_conv_kernel_size", ENCODER.subsampling_conv_kernel_size],
    ["subsampling_conv_stride", ENCODER.subsampling_conv_stride],
  ] as const
  for (const [name, is] of known) {
    const told = encoder.count(name, is)
    if (told !== is) throw encoder.wrong(name, `is ${told}; only ${is} is known of this model`)
  }
  const config = {
    architecture: "parakeet_encoder",
    bands,
    rows: eighthsRows(PIECE_SECONDS * RATE),
    width,
    layers: encoder.count("num_hidden_layers", undefined, 1, MAX_LAYERS),
    heads,
    headDim: width / heads,
    intermediate: encoder.count("intermediate_size"),
    activation: readActivation(encoder, { otherwise: "silu" }),
    subsampled: encoder.count("subsampling_conv_channels"),
    taps,
    biases: {
      attention: encoder.flag("attention_bias", true),
      convolution: encoder.flag("convolution_bias", true),
    },
    factor: encoder.flag("scale_input", true) ? Math.sqrt(width) : 1,
    projected: projectedTo(acoustic),
    softToken: 0,
  }
  return { ...config, naming: namingOf(config) }
}

const projectedTo = ({ network }: Acoustic) => network?.width

function namingOf({
  width,
  heads,
  headDim,
  bands,
  subsampled: channels,
  taps,
}: Omit<ParakeetConfig, "naming">): Naming {
  const stored = (name: string, part: Omit<Exclude<Part, string>, "name">): [string, Part] => [
    name,
    { name, ...part },
  ]
  return {
    roots: ["", "model."].map((root) => ({ root: `${root}encoder.`, head: root })),
    layers: "layers.",
    parts: {
      embed_tokens: "subsampling.linear", // by which the tower is found
      nothing: { name: "nothing", constant: 0 },
      ...Object.fromEntries([
        ...[0, 2, 5].map((layer) =>
          stored(`subsampling.layers.${layer}.weight`, { shape: [channels, 1, 3, 3] }),
        ),
        ...[3, 6].map((layer) =>
          stored(`subsampling.layers.${layer}.weight`, { shape: [channels, channels, 1, 1] }),
        ),
        stored("subsampling.linear.weight", { turnedColumns: bands / 8 }),
        ...["bias_u", "bias_v"].map((bias) =>
          stored(`self_attn.${bias}`, { bare: true, shape: [heads, headDim] }),
        ),
        stored("conv.pointwise_conv1.weight", { shape: [2 * width, width, 1] }),
        stored("conv.pointwise_conv2.weight", { shape: [width, width, 1] }),
        stored("conv.depthwise_conv.weight", { taps }),
        ...["running_mean", "running_var"].map((seen) =>
          stored(`conv.norm.${seen}`, { bare: true }),
        ),
      ]),
    },
  }
}

/** How recordings are made ready. */
export function readParakeetAudio(fields: Fields, { extractor }: AudioFiles): EighthsProcessing {
  const bands = parakeetEncoder(fields).count("num_mel_bins")
  const known = [
    ["feature_size", bands, 80],
    ["sampling_rate", RATE],
    ["hop_length", HOP],
    ["win_length", LENGTH],
    ["n_fft", 512],
  ] as const
  for (const [name, is, otherwise = is] of known) {
    const told = extractor.count(name, otherwise)
    if (told !== is) throw extractor.wrong(name, `is ${told}; only ${is} is known of this model`)
  }
  if (extractor.has("padding_value") && extractor.number("padding_value") !== 0)
    throw extractor.wrong(
      "padding_value",
      `is ${extractor.number("padding_value")}; only 0 is known`,
    )
  const said = extractor.has("preemphasis")
  return {
    bands,
    cutting: "eighths",
    most: SECONDS,
    window: PIECE_SECONDS,
    emphasis: said ? extractor.number("preemphasis") : "preemphasis" in extractor.json ? 0 : 0.97,
    ...{ mark: "", soft: "", before: "", after: "" }, // no prompt has rows of it
  }
}
