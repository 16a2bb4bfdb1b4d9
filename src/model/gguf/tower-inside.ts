// A tower in the text model's own file, as Ollama's converter puts it there: its keys stand beside the model's, and it names tensors
// otherwise than llama.cpp. What is given out are keys and tensors as an mmproj file has them, so that one reader knows both.
//
// Sources: convert/convert_gemma3.go, convert_llama4.go, convert_mistral.go, convert_qwen25vl.go, convert_qwen3next.go (which writes
// Qwen 3.5) and convert_qwen3vl.go of Ollama, and llama/compat there, through which its own llama.cpp reads such files.

import type { Problem } from "../../errors.ts"
import type { Container, StoredTensor, Value } from "./container.ts"

type Pairs = ReadonlyMap<string, Value>

interface Inside {
  projector: string
  activation: "clip.use_gelu" | "clip.use_silu"
  /** Parts of names, and what they become, one behind the other. */
  names: readonly (readonly [string, string])[]
  /** What is said in other words, or not at all: keys under `clip.vision`. */
  more(own: Own): Readonly<Record<string, Value | undefined>>
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
        throw own.wrong(name, `is ${JSON.stringify(activation)}; known: "gelu"`)
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

/** Of the tower, or of its projector. */
const isOfTower = (name: string) => /^(v|mm)\./.test(name)

/** Whether a file of that architecture holds a tower that is known. */
export const holdsTower = (architecture: string, names: Iterable<string>) =>
  Object.hasOwn(towers, architecture) && [...names].some(isOfTower)

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
  if (!holdsTower(architecture, names)) return undefined
  const inside = towers[architecture]!
  const own = Object.assign((rest: string) => pairs.get(`${architecture}.${rest}`), {
    wrong: (rest: string, what: string) => broken(`${architecture}.${rest} ${what}`),
  })
  return {
    ...container,
    pairs: pairsOf(pairs, `${architecture}.vision.`, inside, own),
    tensors: tensorsOf(tensors, inside, stackedIn(own)),
  }
}

function pairsOf(pairs: Pairs, before: string, inside: Inside, own: Own): Container["pairs"] {
  const stated = [...pairs].flatMap(([key, value]): [string, Value][] =>
    key.startsWith(before) ? [[`clip.vision.${key.slice(before.length)}`, value]] : [],
  )
  const more = Object.entries(inside.more(own)).flatMap(([rest, value]): [string, Value][] =>
    value === undefined ? [] : [[`clip.vision.${rest}`, value]],
  )
  return new Map<string, Value>([
    ["general.architecture", "clip"],
    ["clip.projector_type", inside.projector],
    [inside.activation, true],
    ...stated,
    ...more,
  ])
}

function tensorsOf(
  tensors: readonly StoredTensor[],
  { names }: Inside,
  layers: readonly number[],
): StoredTensor[] {
  return tensors
    .filter(({ name }) => isOfTower(name))
    .map((tensor) => ({
      ...tensor,
      name: withLayer(
        names.reduce((name, [from, to]) => name.replace(from, to), tensor.name),
        layers,
      ),
    }))
}
