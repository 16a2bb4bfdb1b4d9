// What Gemma 4 12B hears with: a norm and a matrix over the samples of every four hundredths of a second, as they are. No row sees another, and
// so nothing of them is kept.
//
// What it sees with is no tower either, and is not read.
//
// Source: configuration_gemma4_unified.py, modeling_gemma4_unified.py, feature_extraction_gemma4_unified.py and
// processing_gemma4_unified.py of transformers.

import type { AudioProcessing } from "../../audio/audio.ts"
import { RATE } from "../../audio/features.ts"
import { finish, hiddenIn, select, weight } from "../../compiler/graph/builder.ts"
import type { Graph } from "../../compiler/graph/graph.ts"
import type { Shapes } from "../../runtime/manifest.ts"
import type { ModelConfig } from "../config.ts"
import type { Fields } from "../fields.ts"
import { named } from "../tensors.ts"
import { type Projector, projected } from "../vision/tower.ts"
import type { Naming } from "../weights/names.ts"

export const GEMMA4_UNIFIED = "gemma4_unified"
const TOWER = "gemma4_unified_audio"
const ROWS = 750 // where a processor does not say how many a recording becomes at most

export interface SamplesConfig {
  /** What its configuration calls it. */
  architecture: string
  /** That become a row. */
  samples: number
  projector: Projector
  /** The token in whose place a row that comes out stands in a prompt. */
  softToken: number
  instead?: number
  naming: Naming
}

function audioOf(fields: Fields): Fields | undefined {
  if (fields.text("model_type") !== GEMMA4_UNIFIED) return undefined
  const audio = fields.object("audio_config")
  return audio?.text("model_type", TOWER) === TOWER ? audio : undefined
}

const MAX_SAMPLES = 1 << 16

/** Under any of three names, which are one field. */
function samplesOf(audio: Fields): number {
  const names = ["audio_embed_dim", "audio_samples_per_token", "hidden_size", "output_proj_dims"]
  const [first = 640, ...others] = names.flatMap((name) =>
    audio.has(name) ? [audio.count(name, undefined, 1, MAX_SAMPLES)] : [],
  )
  if (others.every((other) => other === first)) return first
  throw audio.wrong("audio_embed_dim", "is another number than audio_samples_per_token")
}

/**
 * @param text the model inside
 * @returns nothing where there is nothing to hear with, or nothing that is known
 */
export function readUnifiedHearing(fields: Fields, text: ModelConfig): SamplesConfig | undefined {
  const audio = audioOf(fields)
  if (!audio) return undefined
  const { vocabulary, hidden } = text.shapes
  const matrix = "embedding_projection"
  return {
    architecture: TOWER,
    samples: samplesOf(audio),
    projector: {
      norm: { kind: "rms", bias: false, epsilon: audio.positive("rms_norm_eps", 1e-6) },
      inner: undefined,
      bias: false,
      width: hidden,
      factor: 1 / text.embedding.factor, // the text model multiplies the rows of tokens, and not these
    },
    softToken: fields.count("audio_token_id", 258881, 0, vocabulary - 1),
    naming: {
      roots: ["model.", ""].map((root) => ({
        root: `${root}embed_audio.`,
        head: `${root}embed_audio.`,
      })),
      layers: "layers.",
      parts: {
        embed_tokens: matrix, // by which it is found
        linear_1: matrix,
        projector_norm: { name: "projector_norm", constant: 1 },
      },
    },
  }
}

export function samplesProjection(config: SamplesConfig): Graph {
  const { architecture, samples, projector } = config
  const given = hiddenIn(samples)
  const hidden = projected(select(given, "hidden"), projector, named("projector.", ""))
  const head = weight("projector.linear_1", "linear_1.weight", projector.width, samples) // nobody asks for logits
  const shapes = samplesShapes(config)
  return finish({ architecture, shapes, window: undefined, sinks: 0 }, given, head, { hidden })
}

/** No layer has heads. */
export function samplesShapes({ samples, projector }: SamplesConfig): Shapes & { taken: number } {
  return {
    vocabulary: projector.width,
    hidden: projector.width,
    taken: samples,
    layers: 0,
    heads: 1,
    kvHeads: 1,
    headDim: 1,
    intermediate: 1,
    context: ROWS,
  }
}

/** @param tokens fields of the tokenizer */
export function readUnifiedAudio(
  fields: Fields,
  { extractor, processor, tokens }: Record<"extractor" | "processor" | "tokens", Fields>,
): AudioProcessing {
  const samples = samplesOf(audioOf(fields)!)
  for (const [name, is] of Object.entries({
    sampling_rate: RATE,
    feature_size: samples,
    audio_samples_per_token: samples,
  })) {
    const told = extractor.count(name, name === "sampling_rate" ? RATE : 640)
    if (told !== is) throw extractor.wrong(name, `is ${told}; only ${is} is known of this model`)
  }
  if (extractor.has("padding_value") && extractor.number("padding_value") !== 0)
    throw extractor.wrong(
      "padding_value",
      `is ${extractor.number("padding_value")}; only 0 is known`,
    )
  const soft = tokens.text("audio_token", "<|audio|>")
  const rows = Math.min(processor.count("audio_seq_length", ROWS), ROWS)
  return {
    bands: samples,
    cutting: "samples",
    most: Math.min(30, (rows * samples) / RATE),
    mark: soft,
    soft,
    before: tokens.text("boa_token", "<|audio>"),
    after: tokens.text("eoa_token", "<audio|>"),
  }
}
