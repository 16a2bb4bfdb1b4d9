// A tower in the text model's own file, as Ollama's converter puts it there: its keys stand beside the model's, and it names tensors
// otherwise than llama.cpp. What is given out are keys and tensors as an mmproj file has them, so that one reader knows both.
//
// Sources: convert/convert_gemma3.go, convert_gemma4.go, convert_lfm2_vl.go, convert_llama4.go, convert_mistral.go, convert_mllama.go,
// convert_qwen25vl.go, convert_qwen3next.go (which writes Qwen 3.5) and convert_qwen3vl.go of Ollama, and llama/compat there, through which its own llama.cpp
// reads such files.

import type { Problem } from "../../errors.ts"
import { type Container, type StoredTensor, shownValue, type Value } from "./container.ts"

type Pairs = ReadonlyMap<string, Value>

interface Inside {
  projector: string
  activation: "clip.use_gelu" | "clip.use_silu"
  /** Parts of names, and what they become, one behind the other. */
  names: readonly (readonly [string, string])[]
  /** What is said in other words, or not at all: keys under `clip.vision`. */
  more(own: Own): Readonly<Record<string, Value | undefined>>
  /** What hears, where there may be such tensors; its keys are called as those of an mmproj file. */
  hears?: Pick<Inside, "projector" | "names">
  /** Matrices whose bounds may lie in one list, layer by layer, if nowhere else. */
  bounded?: readonly string[]
}

/** The value of a key of the file's own architecture. */
interface Own {
  (rest: string): Value | undefined
  wrong(rest: string, what: string): Problem
}

const HALVES = [0.5, 0.5, 0.5]

/** A word of our own: one half of a head turns with the other, as its rows were published. llama.cpp lays those side by side. */
export const TURNS_HALVES = "rope.halves"

const POSITIONS = "v.positional_embedding_vlm"

const qwen3vl: Inside = {
  projector: "qwen3vl_merger",
  activation: "clip.use_gelu",
  names: [
    ["v.merger.norm", "v.post_ln"],
    ["v.merger.linear_fc1", "mm.0"],
    ["v.merger.linear_fc2", "mm.2"],
    ["v.patch_embed", "v.patch_embd"],
    ["v.pos_embed", "v.position_embd"],
    [".mlp.linear_fc1", ".ffn_up"],
    [".mlp.linear_fc2", ".ffn_down"],
    [".norm1", ".ln1"],
    [".norm2", ".ln2"],
    [".linear_fc1", ".fc1"],
    [".linear_fc2", ".fc2"],
  ],
  more(own) {
    const layers = stackedIn(own)
    const mean = own("vision.image_mean")
    return {
      image_min_pixels: own("vision.shortest_edge") || undefined,
      image_max_pixels: own("vision.longest_edge") || undefined,
      is_deepstack_layers: Array.from({ length: Math.max(0, ...layers) + 1 }, (_, layer) =>
        layers.includes(layer),
      ),
      ...(!mean && { image_mean: HALVES, image_std: HALVES }),
    }
  },
}

const lfm2: Inside = {
  projector: "lfm2",
  activation: "clip.use_gelu",
  names: [["mm.layer_norm", "mm.input_norm"]],
  more: () => ({}),
}

/** By the architecture that such files have. */
const towers: Readonly<Record<string, Inside>> = {
  gemma3: {
    projector: "gemma3",
    activation: "clip.use_gelu",
    names: [
      ["v.patch_embedding", "v.patch_embd"],
      ["v.position_embedding", "v.position_embd"],
      ["v.post_layernorm", "v.post_ln"],
      [".layer_norm1", ".ln1"],
      [".layer_norm2", ".ln2"],
      [".attn_output", ".attn_out"],
      [".mlp.fc1", ".ffn_up"],
      [".mlp.fc2", ".ffn_down"],
      ["mm.mm_", "mm."],
    ],
    more(own) {
      const [size, patch, rows] = ["vision.image_size", "vision.patch_size", "mm.tokens_per_image"]
        .map(own)
        .map(Number)
      const factor = Math.floor(size! / patch!) / Math.sqrt(rows!)
      return { "projector.scale_factor": Number.isFinite(factor) ? factor : undefined }
    },
  },
  gemma4: {
    projector: "gemma4v",
    activation: "clip.use_gelu",
    names: [],
    more: () => ({}),
    hears: {
      projector: "gemma4a",
      names: [
        ["a.pre_encode.out", "a.input_projection"],
        ["mm.a.fc", "a.pre_encode.out"],
        [".ln1", ".attn_pre_norm"],
        [".ln2", ".attn_post_norm"],
        [".layer_pre_norm", ".ln2"],
        [".linear_pos", ".attn_k_rel"],
      ],
    },
    bounded: ["attn_q", "attn_k", "attn_v", "attn_out", "ffn_gate", "ffn_up", "ffn_down"],
  },
  lfm2,
  lfm2moe: lfm2,
  llama4: {
    projector: "llama4",
    activation: "clip.use_gelu",
    names: [
      ["v.vision_adapter.mlp.fc", "mm.model.mlp."],
      ["mm.linear_1", "mm.model.fc"],
      ["v.class_embedding", "v.class_embd"],
      [POSITIONS, "v.position_embd.weight"],
      ["v.layernorm_pre", "v.pre_ln"],
      ["v.layernorm_post", "v.post_ln"],
      ["v.patch_embedding", "v.patch_embd"],
      [".attn_output", ".attn_out"],
      [".attn_norm", ".ln1"],
      [".ffn_norm", ".ln2"],
      [".mlp.fc1", ".ffn_up"],
      [".mlp.fc2", ".ffn_down"],
    ],
    more(own) {
      const ratio = own("vision.pixel_shuffle_ratio")
      return { "projector.scale_factor": ratio === undefined ? undefined : 1 / Number(ratio) }
    },
  },
  mllama: {
    projector: "mllama",
    activation: "clip.use_gelu",
    // Those of its first converter already have the latter.
    names: [
      [".attn_output", ".attn_out"],
      [".attn_norm", ".ln1"],
      [".ffn_norm", ".ln2"],
    ],
    more: () => ({}),
  },
  mistral3: {
    projector: "pixtral",
    activation: "clip.use_silu",
    names: [
      ["v.patch_conv", "v.patch_embd"],
      ["v.encoder_norm", "v.pre_ln"],
      [".attn_output", ".attn_out"],
      [".attn_norm", ".ln1"],
      [".ffn_norm", ".ln2"],
      ["mm.linear_", "mm."],
      ["mm.norm", "mm.input_norm"],
      ["mm.patch_merger.merging_layer", "mm.patch_merger"],
    ],
    more(own) {
      const name = "mm.projector_hidden_act"
      const activation = own(name) ?? "gelu"
      if (activation !== "gelu")
        throw own.wrong(name, `is ${shownValue(activation)}; known: "gelu"`)
      return { spatial_merge_size: own("spatial_merge_size"), [TURNS_HALVES]: true }
    },
  },
  qwen25vl: {
    projector: "qwen2.5vl_merger",
    activation: "clip.use_silu",
    names: [
      ["v.merger.ln_q", "v.post_ln"],
      ["v.merger.mlp.", "mm."],
      ["v.patch_embd_0.weight", "v.patch_embd.weight"],
      ["v.patch_embd_1.weight", "v.patch_embd.weight.1"],
    ],
    more: () => ({}),
  },
  qwen35: qwen3vl,
  qwen35moe: qwen3vl,
  qwen3vl,
  qwen3vlmoe: qwen3vl,
}

/** Layers whose rows go to the text model, too, in the order of their mergers. */
function stackedIn(own: Own): number[] {
  const name = "vision.deepstack_visual_indexes"
  const listed = own(name)
  if (listed === undefined) return []
  const isLayer = (layer: unknown) =>
    Number.isInteger(layer) && (layer as number) >= 0 && (layer as number) < MAX_LAYERS
  const isList = Array.isArray(listed) && listed.length <= MAX_LAYERS && listed.every(isLayer)
  if (isList && new Set(listed).size === listed.length) return listed as number[]
  throw own.wrong(name, `is no list of layers below ${MAX_LAYERS}, each of them once`)
}

const MAX_LAYERS = 1 << 10

/** Mergers are counted; those of llama.cpp have the number of their layer. */
function withLayer(name: string, layers: readonly number[]): string {
  return name.replace(/deepstack_merger\.(\d+)\./, (whole, number: string) => {
    const layer = layers[Number(number)]
    return layer === undefined ? whole : `deepstack.${layer}.`
  })
}

/** Of a tower, or of its projector. */
export const isOfTower = (name: string) => /^(v|a|mm)\./.test(name)

/** Of what hears alone. */
export const isOfEar = (name: string) => /^(mm\.)?a\./.test(name)

/** Whether a file of that architecture holds a tower, and one that is known. */
export function towerIn(
  architecture: string,
  names: Iterable<string>,
): "known" | "unknown" | undefined {
  if (![...names].some(isOfTower)) return undefined
  return Object.hasOwn(towers, architecture) ? "known" : "unknown"
}

/**
 * @param broken the problem of the file
 * @returns nothing where the file holds none that is known
 */
export function towerInside(
  container: Container,
  broken: (what: string) => Problem,
): Container | undefined {
  const { pairs, tensors } = container
  const architecture = pairs.get("general.architecture")
  if (typeof architecture !== "string") return undefined
  const names = tensors.map(({ name }) => name)
  if (towerIn(architecture, names) !== "known") return undefined
  const inside = towers[architecture]!
  const own = Object.assign((rest: string) => pairs.get(`${architecture}.${rest}`), {
    wrong: (rest: string, what: string) => broken(`${architecture}.${rest} ${what}`),
  })
  return {
    ...container,
    pairs: new Map<string, Value>([
      ...pairsOf(pairs, architecture, inside, own),
      ...(inside.hears ? sensesOf(names, inside.hears.projector) : []),
    ]),
    tensors: [
      ...tensorsOf(tensors, inside, stackedIn(own)),
      ...boundsOf(tensors, inside.bounded ?? [], broken),
    ],
  }
}

function pairsOf(pairs: Pairs, architecture: string, inside: Inside, own: Own): [string, Value][] {
  const parts = inside.hears ? "vision|audio" : "vision"
  const ofPart = new RegExp(`^${architecture}\\.(?=(${parts})\\.)`)
  const stated = [...pairs].flatMap(([key, value]): [string, Value][] =>
    ofPart.test(key) ? [[key.replace(ofPart, "clip."), value]] : [],
  )
  const more = Object.entries(inside.more(own)).flatMap(([rest, value]): [string, Value][] =>
    value === undefined ? [] : [[`clip.vision.${rest}`, value]],
  )
  return [
    ["general.architecture", "clip"],
    ["clip.vision.projector_type", inside.projector],
    [inside.activation, true],
    ...stated,
    ...more,
  ]
}

/** Which of both there are. @param projector of what hears */
function sensesOf(names: readonly string[], projector: string): [string, Value][] {
  return [
    ["clip.has_vision_encoder", names.some((name) => isOfTower(name) && !isOfEar(name))],
    ["clip.has_audio_encoder", names.some(isOfEar)],
    ["clip.audio.projector_type", projector],
  ]
}

function tensorsOf(
  tensors: readonly StoredTensor[],
  { names, hears }: Inside,
  layers: readonly number[],
): StoredTensor[] {
  return tensors
    .filter(({ name }) => isOfTower(name) && name !== BOUNDS)
    .map((tensor) => {
      const own = hears && isOfEar(tensor.name) ? hears.names : names
      const name = own.reduce((name, [from, to]) => name.replace(from, to), tensor.name)
      return { ...tensor, name: withLayer(name, layers) }
    })
}

const BOUNDS = "v.clamp_data"
const ENDS = ["input_min", "input_max", "output_min", "output_max"]

/** Of each matrix of each layer, and behind those of the projector, which have no meaning. */
function boundsOf(
  tensors: readonly StoredTensor[],
  matrices: readonly string[],
  broken: (what: string) => Problem,
): StoredTensor[] {
  const list = tensors.find(({ name }) => name === BOUNDS)
  if (!list || tensors.some(({ name }) => /^v\..*\.input_max$/.test(name))) return []
  const each = matrices.length * ENDS.length
  const [count = 0] = list.dims
  const layers = Math.floor(count / each)
  if (list.type !== "F32" || list.dims.length !== 1 || count !== layers * each + ENDS.length)
    throw broken(`tensor ${BOUNDS} is no list of type F32 of ${each} numbers a layer and 4 more`)
  return Array.from({ length: layers * each }, (_, i) => {
    const [layer, matrix] = [
      Math.floor(i / each),
      matrices[Math.floor(i / ENDS.length) % matrices.length],
    ]
    const name = `v.blk.${layer}.${matrix}.${ENDS[i % ENDS.length]}`
    return { ...list, name, dims: [1], position: list.position + 4 * i }
  })
}
