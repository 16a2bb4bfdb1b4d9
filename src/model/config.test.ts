import { expect, test } from "vitest"
import { type ArchitectureName, architectureOf, architectures } from "./architectures.ts"
import { checkLayerTypes, fromMlc, type ModelConfig } from "./config.ts"
import { Fields } from "./fields.ts"
import type { Json } from "./folder.ts"
import { ropeFrequencies } from "./layers.ts"

const plain = {
  model_type: "llama",
  vocab_size: 100,
  hidden_size: 64,
  intermediate_size: 160,
  num_hidden_layers: 4,
  num_attention_heads: 8,
  max_position_embeddings: 4096,
}

const fieldsOf = (json: Json) => new Fields(json, (what) => new Error(what) as never)

function read(changes: Json = {}): ModelConfig {
  const fields = fieldsOf({ ...plain, ...changes })
  const config = architectures[architectureOf(fields)].read(fields)
  checkLayerTypes(fields, config)
  return config
}

test("what is not said has the defaults of transformers", () => {
  expect(read()).toEqual({
    shapes: {
      vocabulary: 100,
      hidden: 64,
      layers: 4,
      heads: 8,
      kvHeads: 8,
      headDim: 8,
      intermediate: 160,
      context: 4096,
    },
    epsilon: 1e-6,
    tied: false,
    rope: { theta: 10000, scaling: { kind: "none" } },
    attentionBias: false,
    mlpBias: false,
    window: undefined,
    firstSliding: 0,
    sinks: 0,
  })
})

test("the old and the new spelling of rope say the same", () => {
  const llama3 = {
    factor: 8,
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: 64,
  }
  const expected = {
    theta: 5e5,
    scaling: { kind: "llama3", factor: 8, low: 1, high: 4, original: 64 },
  }
  const ways = [
    { rope_theta: 5e5, rope_scaling: { ...llama3, rope_type: "llama3" } },
    { rope_theta: 5e5, rope_scaling: { ...llama3, type: "llama3" } },
    { rope_parameters: { ...llama3, rope_type: "llama3", rope_theta: 5e5 } },
    { rope_theta: 5e5, rope_parameters: { ...llama3, rope_type: "llama3" } },
  ]
  for (const way of ways) expect(read(way).rope).toEqual(expected)
  expect(read({ rope_theta: 1e6, rope_scaling: null }).rope.scaling).toEqual({ kind: "none" })
  expect(read({ rope_scaling: { type: "linear", factor: 4 } }).rope.scaling).toEqual({
    kind: "linear",
    factor: 4,
  })
})

test("frequencies: theta^(-2i/d), and what scaling makes of them", () => {
  const close = (found: number[], wanted: number[]) => {
    for (const [i, f] of found.entries()) expect(Math.abs(f / wanted[i]! - 1)).toBeLessThan(1e-13)
  }
  const frequencies = [1, 0.1, 0.01, 0.001]
  close(ropeFrequencies({ theta: 1e4, scaling: { kind: "none" } }, 8), frequencies)
  close(
    ropeFrequencies({ theta: 1e4, scaling: { kind: "linear", factor: 4 } }, 8),
    frequencies.map((f) => f / 4),
  )
  // Of 2000 positions the pairs make 318, 31.8, 3.18 and 0.318 turns: the first two are fast, the last is slow.
  const scaling = { kind: "llama3", factor: 8, low: 1, high: 4, original: 2000 } as const
  const blend = (2000 * 0.01) / (2 * Math.PI) / 3 - 1 / 3
  close(ropeFrequencies({ theta: 1e4, scaling }, 8), [
    1,
    0.1,
    blend * 0.01 + ((1 - blend) * 0.01) / 8,
    0.001 / 8,
  ])
})

test("windows: mistral's is used when it is there, qwen's when it is switched on", () => {
  expect(read({ model_type: "mistral", sliding_window: 24 }).window).toBe(24)
  expect(read({ model_type: "mistral", sliding_window: null }).window).toBeUndefined()
  expect(read({ sliding_window: 24 }).window).toBeUndefined() // llama has none
  const qwen = { model_type: "qwen2", sliding_window: 24, max_window_layers: 2 }
  expect(read({ ...qwen, use_sliding_window: false }).window).toBeUndefined()
  expect(read({ ...qwen, use_sliding_window: true })).toMatchObject({ window: 24, firstSliding: 2 })
})

test("a window of some layers is no window of the sequence", () => {
  const qwen = { model_type: "qwen2", sliding_window: 24, use_sliding_window: true }
  const some = architectures.qwen2.graph(read({ ...qwen, max_window_layers: 2 }))
  expect(some.window).toBeUndefined()
  const windows = some.nodes.flatMap((node) =>
    node.op === "attention" ? [node.attention.window] : [],
  )
  expect(windows).toEqual([undefined, undefined, 24, 24])
  expect(architectures.qwen2.graph(read({ ...qwen, max_window_layers: 0 })).window).toBe(24)
})

test("layer_types must agree with the other fields", () => {
  const full = Array(4).fill("full_attention")
  expect(read({ layer_types: full }).window).toBeUndefined()
  expect(() => read({ layer_types: [...full.slice(1), "sliding_attention"] })).toThrow(
    "layer_types says sliding_attention of layer 3, which the other fields do not",
  )
  const qwen = {
    model_type: "qwen2",
    sliding_window: 24,
    use_sliding_window: true,
    max_window_layers: 4,
  }
  expect(read({ ...qwen, layer_types: full }).firstSliding).toBe(4)
})

test.each([
  [{ hidden_act: "gelu" }, 'hidden_act is "gelu"; known: silu'],
  [{ partial_rotary_factor: 0.5 }, "partial_rotary_factor is 0.5; only 1 is known"],
  [{ num_attention_heads: 7 }, "num_attention_heads is 7, which does not divide 64 columns"],
  [{ head_dim: 2e9 }, "head_dim is 2000000000, not between 1 and 65536"],
  [{ vocab_size: undefined }, "vocab_size is missing"],
  [{ rms_norm_eps: "tiny" }, 'rms_norm_eps is "tiny", not a number greater than 0'],
  [
    { rope_parameters: { rope_type: "yarn" } },
    'rope_parameters.rope_type is "yarn"; known: default, linear, llama3',
  ],
  [
    { max_position_embeddings: 1e15 },
    "max_position_embeddings is 1000000000000000, not between 1 and 2147483647",
  ],
])("%j is refused", (changes, words) => {
  expect(() => read(changes)).toThrow(words)
})

test("a compiled folder's configuration in the words of a plain one", () => {
  const model_config = { ...plain, position_embedding_base: 5e5, rms_norm_eps: 1e-5 }
  const chat = (changes: Json) =>
    fieldsOf({ model_type: "llama", vocab_size: 100, model_config, ...changes })
  const readMlc = (name: ArchitectureName, changes: Json) =>
    architectures[name].read(fieldsOf(fromMlc(chat(changes))))
  expect(readMlc("llama", { context_window_size: 2048, sliding_window_size: -1 })).toEqual({
    ...read({ rms_norm_eps: 1e-5, rope_theta: 5e5 }),
    shapes: { ...read().shapes, context: 2048 },
  })
  const sliding = { context_window_size: -1, sliding_window_size: 24, attention_sink_size: 4 }
  expect(readMlc("mistral", sliding)).toMatchObject({
    window: 24,
    sinks: 4,
    shapes: { context: 4096 },
  })
})
