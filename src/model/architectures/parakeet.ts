// What names tokens for rows of a Parakeet's encoder, which is a tower like others (hearing/parakeet-tower.ts). Of a CTC model that is one matrix: the
// likeliest token of each row, or none. A transducer remembers what it has said, in an LSTM: each step reads the token said last and a row, and tells
// which token comes, if any; and one with durations (TDT) how many rows it goes on.
//
// None has layers of blocks, and none is asked by a prompt: steps are asked for by who searches (engine/frame-decoder.ts). What an LSTM remembers goes
// into a step and comes out of it.
//
// Sources: configuration_parakeet.py and modeling_parakeet.py of transformers.

import { eighthsRows, PIECE_SECONDS } from "../../audio/eighths.ts"
import { RATE } from "../../audio/features.ts"
import {
  add,
  apply,
  concat,
  embed,
  finish,
  hiddenIn,
  linear,
  multiply,
  select,
  slice,
  weight,
} from "../../compiler/graph/builder.ts"
import type { Graph, Node } from "../../compiler/graph/graph.ts"
import type { Acoustic, ModelConfig } from "../config.ts"
import type { Fields } from "../fields.ts"
import { EMBEDDING, HEAD } from "../layers.ts"
import { named } from "../tensors.ts"
import type { Naming } from "../weights/names.ts"

const GATES = 4 // of an LSTM: what comes in, what is kept, what comes, what is shown
const MAX_LAYERS = 16
const MAX_SPAN = 1000
const MAX_WIDTH = 8192

/** Where `encoder_config` says nothing. */
export const ENCODER = {
  hidden_size: 1024,
  num_hidden_layers: 24,
  num_attention_heads: 8,
  intermediate_size: 4096,
  hidden_act: "silu",
  attention_bias: true,
  convolution_bias: true,
  conv_kernel_size: 9,
  subsampling_factor: 8,
  subsampling_conv_channels: 256,
  num_mel_bins: 80,
  subsampling_conv_kernel_size: 3,
  subsampling_conv_stride: 2,
  scale_input: true,
}

export const parakeetEncoder = (fields: Fields): Fields =>
  fields.with({ encoder_config: {} }).object("encoder_config")!.with(ENCODER)

export const readEncoderWidth = (encoder: Fields) =>
  encoder.count("hidden_size", undefined, 2, MAX_WIDTH)

export const readParakeetCtc = (fields: Fields): ModelConfig => {
  const vocabulary = fields.count("vocab_size", 1025)
  const blank = fields.count("pad_token_id", 1024, 0, vocabulary - 1)
  return configOf(vocabulary, readEncoderWidth(parakeetEncoder(fields)), { blank })
}

export const readParakeetRnnt = (fields: Fields): ModelConfig => readTransducer(fields, [])

export function readParakeetTdt(fields: Fields): ModelConfig {
  const name = "durations"
  const durations = fields.has(name) ? fields.counts(name) : [0, 1, 2, 3, 4]
  if (durations.length === 0 || durations.some((rows) => rows > MAX_SPAN))
    throw fields.wrong(name, `is no list of numbers from 0 to ${MAX_SPAN}`)
  return readTransducer(fields, durations)
}

function readTransducer(fields: Fields, durations: readonly number[]): ModelConfig {
  const vocabulary = fields.count("vocab_size", 8193)
  const activation = fields.text("hidden_act", "relu")
  if (activation !== "relu")
    throw fields.wrong("hidden_act", `is "${activation}"; only "relu" is known`)
  const width = fields.count("decoder_hidden_size", 640, 2)
  const layers = fields.count("num_decoder_layers", 2, 1, MAX_LAYERS)
  return configOf(vocabulary, 2 * layers * width + durations.length, {
    blank: fields.count("blank_token_id", 8192, 0, vocabulary - 1),
    network: { width, layers, durations, most: fields.count("max_symbols_per_step", 10) },
  })
}

/** @param hidden columns that a step hands out */
function configOf(vocabulary: number, hidden: number, acoustic: Acoustic): ModelConfig {
  const { network } = acoustic
  return {
    shapes: {
      vocabulary,
      hidden,
      ...(network && { taken: (2 * network.layers + 1) * network.width }),
      layers: 0,
      ...{ heads: 1, kvHeads: 1, headDim: 1, intermediate: 1 }, // there is none
      context: eighthsRows(PIECE_SECONDS * RATE),
    },
    blocks: [],
    embedding: { factor: 1, positions: undefined },
    norm: undefined,
    head: { tied: false, bias: true, factor: 1, cap: undefined },
    sinks: 0,
    acoustic,
  }
}

export function parakeetNaming({ shapes, acoustic }: ModelConfig): Naming {
  const { vocabulary, hidden } = shapes
  const { network } = acoustic!
  if (!network)
    return {
      roots: ["", "model."].map((root) => ({ root, head: root })),
      layers: "layers.",
      parts: {
        embed_tokens: "ctc_head", // by which it is found
        lm_head: "ctc_head",
        "lm_head.weight": { name: "ctc_head.weight", shape: [vocabulary, hidden, 1] },
      },
    }
  const { layers, durations } = network
  const of = vocabulary + durations.length
  const part = (from: number, run: number) => ({
    name: "joint.head",
    rows: { of, from, run, every: of },
  })
  return {
    roots: ["", "model."].map((root) => ({ root: `${root}decoder.`, head: root })),
    layers: "layers.",
    parts: {
      embed_tokens: "embedding",
      projector: "decoder_projector",
      lm_head: part(0, vocabulary),
      durations: part(vocabulary, durations.length),
      ...Object.fromEntries(
        Array.from({ length: layers }, (_, layer) => layer).flatMap((layer) =>
          ["ih", "hh"].flatMap((way) =>
            ["weight", "bias"].map((kind) => [
              `lstm.${way}_l${layer}.${kind}`,
              { name: `lstm.${kind}_${way}_l${layer}` },
            ]),
          ),
        ),
      ),
    },
  }
}

/** Rows go in; which tokens come is its logits. */
export function acousticGraph(architecture: string, { shapes, acoustic }: ModelConfig): Graph {
  const { vocabulary, hidden, taken = hidden } = shapes
  const { network } = acoustic!
  const graph = { architecture, shapes, window: undefined, sinks: 0 }
  const bias = weight("head_bias", "lm_head.bias", vocabulary)
  const given = hiddenIn(taken)
  if (!network) return finish(graph, given, weight("head", HEAD, vocabulary, hidden), { bias })
  const { width, layers, durations } = network
  const own = named("", "model.")
  let x = embed(weight("embed", EMBEDDING, vocabulary, width))
  const states: Node[] = []
  for (let layer = 0; layer < layers; layer++) {
    const [shown, kept] = [0, 1].map((at) => slice(given, (2 * layer + at) * width, width))
    const gates = ["ih", "hh"].map((way, at) => {
      const name = `lstm.${way}_l${layer}`
      const matrix = own(name, `${name}.weight`, GATES * width, width)
      return linear(
        at === 0 ? x : shown!,
        matrix,
        own(`${name}_bias`, `${name}.bias`, GATES * width),
      )
    })
    const both = gates.reduce(add)
    const gate = (at: number) => slice(both, at * width, width)
    const open = (at: number) => apply("sigmoid", gate(at))
    const tanh = (x: Node) => apply("cap", x, 1)
    const memory = add(multiply(open(1), kept!), multiply(open(0), tanh(gate(2))))
    x = multiply(open(3), tanh(memory))
    states.push(x, memory)
  }
  const said = linear(
    x,
    own("projector", "projector.weight", width, width),
    own("projector_bias", "projector.bias", width),
  )
  const joint = apply("above", add(said, slice(given, 2 * layers * width, width)), 0)
  const count = durations.length
  const spans =
    count > 0
      ? [
          linear(
            joint,
            { ...weight("durations", "durations.weight", count, width), exact: true },
            weight("durations_bias", "durations.bias", count),
          ),
        ]
      : []
  const left = [...states, ...spans].reduce(concat)
  return finish(graph, joint, weight("head", HEAD, vocabulary, width), {
    bias,
    hidden: select(left, "hidden"),
  })
}
