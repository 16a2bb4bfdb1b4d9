// The layers that decoder architectures are made of, said once in graph operations. Weights are named as Hugging Face
// folders name them; the short names are the ones a plan shows.

import {
  add,
  attention,
  embed,
  finish,
  linear,
  multiply,
  norm,
  rope,
  silu,
  weight,
} from "../compiler/graph/builder.ts"
import type { Graph, Node, Weight } from "../compiler/graph/graph.ts"
import { exp, log } from "../runtime/elementary.ts"
import type { ModelConfig, Rope } from "./config.ts"

/** What differs between the architectures of this family. */
export interface Decoder {
  architecture: string
  config: ModelConfig
  /** Which projections of the attention have biases. */
  biased: { qkv: boolean; o: boolean }
  /** Queries and keys are normed head by head before they are turned. */
  headNorms: boolean
}

/** Embedding, layers of attention and gated MLP with norms before each, a last norm, the head. */
export function decoder(model: Decoder): Graph {
  const { architecture, config } = model
  const { shapes, epsilon, window, firstSliding, sinks } = config
  const { vocabulary, hidden, layers } = shapes
  const table = weight("embed", "model.embed_tokens.weight", vocabulary, hidden)
  const frequencies = ropeFrequencies(config.rope, shapes.headDim)

  let x = embed(table) // [tokens, hidden]
  for (let i = 0; i < layers; i++) x = decoderLayer(model, i, "model.", x, frequencies)
  const last = norm(x, weight("norm", "model.norm.weight", hidden), epsilon)
  const head = config.tied ? table : weight("head", "lm_head.weight", vocabulary, hidden)
  const everywhere = firstSliding === 0 ? window : undefined
  return finish({ architecture, shapes, window: everywhere, sinks }, last, head)
}

/** Attention and gated MLP. @param normed whether a norm stands before the attention: a head's first layer has none */
export function decoderLayer(
  model: Decoder,
  index: number,
  prefix: string,
  x: Node,
  frequencies: readonly number[],
  normed = true,
): Node {
  const { config } = model
  const { hidden } = config.shapes
  const layer = named(`layers.${index}.`, `${prefix}layers.${index}.`)
  const norms = (name: string, tensor: string, value: Node) =>
    norm(value, layer(name, tensor, hidden), config.epsilon)
  const before = normed ? norms("attention_norm", "input_layernorm.weight", x) : x
  const mixed = add(x, selfAttention(model, index, layer, before, frequencies))
  const between = norms("mlp_norm", "post_attention_layernorm.weight", mixed)
  return add(mixed, gatedMlp(config, layer, between))
}

type Named = (name: string, tensor: string, rows: number, columns?: number) => Weight

function named(prefix: string, tensorPrefix: string): Named {
  return (name, tensor, rows, columns) =>
    weight(prefix + name, tensorPrefix + tensor, rows, columns)
}

function selfAttention(
  { config, biased, headNorms }: Decoder,
  index: number,
  layer: Named,
  x: Node,
  frequencies: readonly number[],
): Node {
  const { hidden, heads, kvHeads, headDim } = config.shapes
  const project = (name: string, input: Node, rows: number, bias: boolean) =>
    linear(
      input,
      layer(name, `self_attn.${name}_proj.weight`, rows, input.columns),
      bias ? layer(`${name}_bias`, `self_attn.${name}_proj.bias`, rows) : undefined,
    )
  const turn = (name: string, heads: Node) => {
    const scale = () => layer(`${name}_norm`, `self_attn.${name}_norm.weight`, headDim)
    return rope(headNorms ? norm(heads, scale(), config.epsilon) : heads, headDim, frequencies)
  }
  const q = turn("q", project("q", x, heads * headDim, biased.qkv)) // [tokens, heads * headDim]
  const k = turn("k", project("k", x, kvHeads * headDim, biased.qkv)) // [tokens, kvHeads * headDim]
  const v = project("v", x, kvHeads * headDim, biased.qkv)
  const mixed = attention(q, k, v, {
    layer: index,
    heads,
    kvHeads,
    headDim,
    scale: 1 / Math.sqrt(headDim),
    window: index >= config.firstSliding ? config.window : undefined,
    sinks: config.sinks,
  })
  return project("o", mixed, hidden, biased.o)
}

function gatedMlp({ shapes, mlpBias }: ModelConfig, layer: Named, x: Node): Node {
  const project = (name: string, input: Node, rows: number) =>
    linear(
      input,
      layer(name, `mlp.${name}_proj.weight`, rows, input.columns),
      mlpBias ? layer(`${name}_bias`, `mlp.${name}_proj.bias`, rows) : undefined,
    )
  const gate = project("gate", x, shapes.intermediate)
  const up = project("up", x, shapes.intermediate)
  return project("down", multiply(silu(gate), up), shapes.hidden)
}

/** theta^(-2i / headDim) for each pair i, scaled for contexts longer than the model was first trained on. */
export function ropeFrequencies({ theta, scaling }: Rope, headDim: number): number[] {
  const plain = Array.from({ length: headDim / 2 }, (_, i) => exp((-2 * i * log(theta)) / headDim))
  if (scaling.kind === "none") return plain
  const { factor } = scaling
  if (scaling.kind === "linear") return plain.map((frequency) => frequency / factor)
  // Llama 3.1: slow turns are stretched by `factor`, fast ones are left, in between they are blended.
  const { low, high, original } = scaling
  return plain.map((frequency) => {
    const turns = (original * frequency) / (2 * Math.PI) // within the original context
    const blend = Math.min(1, Math.max(0, (turns - low) / (high - low)))
    return blend * frequency + ((1 - blend) * frequency) / factor
  })
}
