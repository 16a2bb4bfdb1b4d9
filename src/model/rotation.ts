// How an architecture turns its heads: from the fields of a configuration to frequencies and a factor. Both spellings are
// read, `rope_theta` beside `rope_scaling` and `rope_parameters` with everything in it, which may hold one object for each
// kind of layer. Sources: modeling_rope_utils.py of transformers; the papers of YaRN (arXiv 2309.00071) and LongRoPE
// (arXiv 2402.13753). A way of stretching that is not known is refused: ignoring it gives wrong text.

import { exp, log } from "../runtime/elementary.ts"
import type { Rotation } from "../runtime/rotation.ts"
import type { Fields } from "./fields.ts"

export interface RotationOptions {
  headDim: number
  /** The longest sequence that the model was made for. */
  context: number
  /** Where the configuration says none. */
  theta?: number
  /** Under which name it says it. */
  thetaField?: string
  /** Of one layer, whatever the configuration says of all. */
  layerTheta?: number
  /** The share of each head that is turned; where it is not given, the field `partial_rotary_factor` must not be there. */
  part?: number
  /** Of which layers, as `layer_types` names them, where these differ. */
  layers?: string
  /** Whether the configuration's stretching is meant for these layers. */
  scaled?: boolean
}

/** @throws `model_broken` where a field is wrong or not known */
export function readRotation(fields: Fields, options: RotationOptions): Rotation {
  const { headDim, context, thetaField = "rope_theta", scaled = true } = options
  const parameters = parametersOf(fields, options.layers)
  const scaling = parameters ?? fields.object("rope_scaling")
  const theta =
    options.layerTheta ??
    (parameters?.has(thetaField) ? parameters : fields).positive(thetaField, options.theta ?? 10000)
  const turned = turnedOf(fields, parameters, options)
  if (turned === 0 || turned % 2 !== 0)
    throw fields.wrong(
      "head_dim",
      turned === headDim
        ? `is ${headDim}: an odd width cannot be rotated`
        : `is ${headDim}, of which ${turned} are to be turned: that is no number of pairs`,
    )
  const head = { headDim, theta, turned, context }
  return scaling && scaled
    ? stretched(fields, scaling, head)
    : { frequencies: plain(head), factor: 1 }
}

/** `rope_parameters`, of these layers if it tells kinds of layers apart. */
function parametersOf(fields: Fields, layers: string | undefined): Fields | undefined {
  const parameters = fields.object("rope_parameters")
  return layers && parameters?.has(layers) ? parameters.object(layers) : parameters
}

/** How many elements of a head are turned. */
function turnedOf(
  fields: Fields,
  parameters: Fields | undefined,
  options: RotationOptions,
): number {
  const name = "partial_rotary_factor"
  const where = parameters?.has(name) ? parameters : fields
  if (options.part === undefined) {
    if (where.positive(name, 1) !== 1)
      throw where.wrong(name, `is ${where.positive(name)}; only 1 is known`)
    return options.headDim
  }
  const part = where.positive(name, options.part)
  if (part > 1) throw where.wrong(name, `is ${part}, not a share of the head`)
  return Math.floor(options.headDim * part)
}

interface Head {
  headDim: number
  theta: number
  turned: number
  context: number
}

/** theta^(-2i / turned) for each pair i. */
function plain({ theta, turned }: Pick<Head, "theta" | "turned">): number[] {
  return Array.from({ length: turned / 2 }, (_, i) => exp((-2 * i * log(theta)) / turned))
}

function stretched(fields: Fields, scaling: Fields, head: Head): Rotation {
  const name = scaling.has("rope_type") ? "rope_type" : "type"
  const kind = scaling.text(name, "default")
  if (!Object.hasOwn(ways, kind))
    throw scaling.wrong(name, `is "${kind}"; known: ${Object.keys(ways).join(", ")}`)
  return ways[kind as keyof typeof ways](scaling, head, fields)
}

type Way = (scaling: Fields, head: Head, fields: Fields) => Rotation

const plainly: Way = (_, head) => ({ frequencies: plain(head), factor: 1 })

const ways = {
  default: plainly,
  linear: (scaling, head) => {
    const factor = scaling.positive("factor")
    return { frequencies: plain(head).map((frequency) => frequency / factor), factor: 1 }
  },
  llama3,
  yarn: (scaling, head, fields) =>
    (scaling.has("short_factor") ? longrope : yarn)(scaling, head, fields),
  longrope,
  dynamic,
  proportional,
  // Hunyuan's, as it was published with HunyuanOCR, some of whose pairs turn by where rows of images lie.
  xdrope: dynamic,
  // What Sarvam's own code calls it.
  deepseek_yarn: yarn,
  // What Phi 3 called longrope at first, besides "yarn": its configuration in transformers takes both for that.
  su: longrope,
  // Of Qwen 2 that sees: some pairs turn by time, some by height, some by width, which of a text are one and the same.
  mrope: plainly,
} as const satisfies Record<string, Way>

/** Slow turns are stretched by `factor`, fast ones are left, in between they are blended. */
function llama3(scaling: Fields, head: Head): Rotation {
  const factor = scaling.positive("factor")
  const low = scaling.positive("low_freq_factor")
  const high = scaling.positive("high_freq_factor")
  const original = scaling.count("original_max_position_embeddings")
  const frequencies = plain(head).map((frequency) => {
    const turns = (original * frequency) / (2 * Math.PI) // within the original context
    const blend = Math.min(1, Math.max(0, (turns - low) / (high - low)))
    return blend * frequency + ((1 - blend) * frequency) / factor
  })
  return { frequencies, factor: 1 }
}

/** The same by another ramp, which runs over the numbers of the pairs; and cosines and sines grow. */
function yarn(scaling: Fields, head: Head, fields: Fields): Rotation {
  const { theta, turned } = head
  const factor = scaling.positive("factor")
  const original = originalOf(scaling, fields) ?? head.context
  /** The pair, a fraction as a rule, that makes so many turns in the original context. */
  const pairOf = (turns: number) =>
    (turned * log(original / (turns * 2 * Math.PI))) / (2 * log(theta))
  const bounds = [
    pairOf(scaling.positive("beta_fast", 32)),
    pairOf(scaling.positive("beta_slow", 1)),
  ] as const
  const whole = scaling.flag("truncate", true)
  const low = Math.max(0, whole ? Math.floor(bounds[0]) : bounds[0])
  const high = Math.min(turned - 1, whole ? Math.ceil(bounds[1]) : bounds[1])
  const frequencies = plain(head).map((frequency, i) => {
    const ramp = Math.min(1, Math.max(0, (i - low) / (high - low || 0.001)))
    return (ramp * frequency) / factor + (1 - ramp) * frequency
  })
  return { frequencies, factor: yarnFactor(scaling, factor) }
}

/** A configuration's attn_factor is not read, as transformers does not read it: the goldens are its. */
function yarnFactor(scaling: Fields, factor: number): number {
  if (scaling.has("attention_factor")) return scaling.positive("attention_factor")
  const [one, all] = ["mscale", "mscale_all_dim"].map((name) =>
    scaling.has(name) ? scaling.number(name) : 0,
  ) as [number, number]
  return yarnGrowth(factor, one && all ? { one, all } : undefined)
}

/** What cosines and sines grow by where no number is given for it. */
export function yarnGrowth(factor: number, scales?: { one: number; all: number }): number {
  const grown = (scale: number) => (factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1)
  return scales ? grown(scales.one) / grown(scales.all) : grown(1)
}

/**
 * Each pair has a divisor of its own, one list for short contexts and one for long. Which one is decided once, by what the
 * model was made for: a choice by the length of each sequence would turn keys that are remembered already.
 */
function longrope(scaling: Fields, head: Head, fields: Fields): Rotation {
  const original = originalOf(scaling, fields) ?? head.context
  const list = head.context > original ? "long_factor" : "short_factor"
  const divisors = scaling.positives(list)
  if (divisors.length !== head.turned / 2)
    throw scaling.wrong(list, `has ${divisors.length} numbers for ${head.turned / 2} pairs`)
  const grown = scaling.has("factor") ? scaling.positive("factor") : head.context / original
  const usual = grown <= 1 ? 1 : Math.sqrt(1 + log(grown) / log(original))
  return {
    frequencies: plain(head).map((frequency, i) => frequency / divisors[i]!),
    factor: scaling.positive("attention_factor", usual),
  }
}

/**
 * Hunyuan's: a larger theta, the same at every length. What others call so begins where the context ends
 * (`_compute_dynamic_ntk_parameters`), and no sequence is longer here: it would turn remembered keys anew.
 */
function dynamic(scaling: Fields, head: Head, fields: Fields): Rotation {
  if (!scaling.has("alpha")) return plainly(scaling, head, fields)
  const { theta, turned } = head
  const power = turned / (turned - 2)
  const larger = theta * exp(power * log(scaling.positive("alpha")))
  return { frequencies: plain({ ...head, theta: larger }), factor: 1 }
}

/** Gemma 4's: pairs span the whole head, and those behind the part that is turned stand still. */
function proportional(scaling: Fields, { headDim, theta, turned }: Head): Rotation {
  const factor = scaling.positive("factor", 1)
  const frequencies = plain({ theta, turned: headDim }).map((frequency, i) =>
    i < turned / 2 ? frequency / factor : 0,
  )
  return { frequencies, factor: 1 }
}

/** The context before it was stretched: beside the ways of stretching, or outside. */
function originalOf(scaling: Fields, fields: Fields): number | undefined {
  const name = "original_max_position_embeddings"
  return [scaling, fields].find((where) => where.has(name))?.count(name)
}
