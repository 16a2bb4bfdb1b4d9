// What a GGUF model sees with: the file beside it that llama.cpp calls mmproj, of the architecture `clip`, which holds tower and
// projector. Its keys become the fields of a config.json and of a preprocessor_config.json, so that what is known of a family holds
// here, too. How images are cut is their family's way, as the model was trained; the file has the numbers of it. A projector that is
// not known is refused by its name.
//
// Keys and tensors: tools/mtmd/clip-impl.h of llama.cpp. LLaVA's are of its older converter, tools/mtmd/legacy-models.

import { openWhole } from "../../closing.ts"
import type { Problem } from "../../errors.ts"
import type { ImageProcessing } from "../../images/image.ts"
import type { Block } from "../block.ts"
import type { ModelConfig } from "../config.ts"
import { Fields } from "../fields.ts"
import type { Folder, Json } from "../folder.ts"
import { type Container, readContainer, type StoredTensor } from "../gguf/container.ts"
import { isMmproj, Keys } from "../gguf/keys.ts"
import { ggufWeights } from "../gguf/weights.ts"
import { type Naming, sourcesOf } from "../weights/names.ts"
import type { Weights } from "../weights/weights.ts"
import { filters, placesOf, readTower } from "./families.ts"
import { boundParts, GEMMA4_CONSTANTS, lineParts } from "./gemma4.ts"
import { processingBy } from "./processing.ts"
import type { TowerConfig } from "./tower.ts"

/** The file, and what the model that it lies beside is. */
export interface Beside {
  folder: Folder
  file: string
  /** The text model's own file. */
  model: string
  config: ModelConfig
  /** The ids of tokens that a template writes so, and no user. */
  readTokenIds: () => (text: string) => number | undefined
}

export interface Mmproj {
  fields: Fields
  config: TowerConfig
  images: ImageProcessing
  weights: Weights
  close(): Promise<void>
}

/** @throws `model_broken` */
export async function openMmproj(beside: Beside): Promise<Mmproj> {
  const { folder, file } = beside
  if (!(await folder.has(file))) throw folder.broken(file, "there is no such file")
  return openWhole(async (closing) => {
    const container = await readContainer(folder, file)
    closing.add(container.handle)
    const mmproj = new ClipFile(beside, container)
    const { fields, image } = wordsOf(mmproj)
    const processor = new Fields({}, mmproj.broken) // it has no words for images
    const texts = { processor, tokens: (_: string, usual: string) => usual }
    const usual = processingBy(fields, image, texts)!
    const soft = softTokenOf(mmproj, beside, usual)
    const own = fields.over({ image_token_id: soft.id })
    const tower = readTower(own, beside.config)!
    checkWidth(mmproj, beside)
    const config = { ...tower, naming: namingOf(mmproj, tower) }
    const { tensors } = mmproj
    const sources = sourcesOf(config.naming, (name) => tensors.get(name)?.dims)
    const close = () => closing.close()
    const weights = ggufWeights({ folder, file, tensors, sources, close })
    return { fields: own, config, images: { ...usual, soft: soft.text }, weights, close }
  })
}

/** Keys and tensors of the file. */
class ClipFile {
  readonly keys: Keys
  readonly tensors: ReadonlyMap<string, StoredTensor>
  readonly kind: Kind
  readonly text: ModelConfig
  readonly broken: (what: string) => Problem

  constructor({ folder, file, config }: Beside, { pairs, tensors }: Container) {
    this.text = config
    const broken = (what: string) => folder.broken(file, what)
    this.broken = broken
    this.keys = new Keys(pairs, broken)
    this.tensors = new Map(tensors.map((tensor) => [tensor.name, tensor]))
    if (!isMmproj(this.keys))
      throw this.keys.wrong(
        "general.architecture",
        `is ${JSON.stringify(this.keys.textIfThere("general.architecture"))}; that of an mmproj file is "clip"`,
      )
    this.kind = this.#kind()
  }

  #kind(): Kind {
    const name =
      this.keys.textIfThere("clip.projector_type") ??
      this.keys.textIfThere("clip.vision.projector_type") ??
      "mlp" // as long as there was no other
    if (Object.hasOwn(kinds, name)) return kinds[name as keyof typeof kinds]
    throw this.keys.wrong("clip.projector_type", `is "${name}"; known: ${mmprojNames.join(", ")}`)
  }

  count(rest: string): number {
    return this.keys.count(`clip.vision.${rest}`)
  }

  countIfThere(rest: string): number | undefined {
    return this.keys.countIfThere(`clip.vision.${rest}`)
  }

  has(tensor: string): boolean {
    return this.tensors.has(tensor)
  }
}

/** What goes with the name of a projector. */
interface Kind {
  model: string
  tower: string
  /** What `clip.use_gelu` means: converters do not tell one from the other. */
  gelu: "gelu" | "gelu_pytorch_tanh"
  /** A row of its own stands before the patches, and its position before theirs. */
  hasClass: boolean
  /** Tokens around images, by which a vocabulary is known to be of this kind. */
  around: readonly string[]
  /** Older converters wrote up and down for each other. */
  mayBeSwapped: boolean
  fields(file: ClipFile): Json
  vision?(file: ClipFile): Json
  image(file: ClipFile): Json
  /** The projector's. */
  parts: Naming["parts"]
  /** Others that depend on what the file holds. */
  ownParts?(file: ClipFile, tower: TowerConfig): Naming["parts"]
  /** Of the matrix whose rows are as many as the text model's columns, or whose columns are. */
  last: { tensor: string; dim: 0 | 1 }
}

const SCALE = "projector.scale_factor"

const kinds = {
  mlp: {
    model: "llava",
    tower: "clip_vision_model",
    gelu: "gelu",
    hasClass: true,
    around: [],
    mayBeSwapped: true,
    fields: (file) => ({ vision_feature_layer: layersOf(file) }),
    image(file) {
      const side = file.count("image_size")
      return { size: { shortest_edge: side }, crop_size: square(side) }
    },
    parts: { linear_1: "0", linear_2: "2" },
    last: { tensor: "mm.2.weight", dim: 1 },
  },
  idefics3: {
    model: "idefics3",
    tower: "idefics3_vision",
    gelu: "gelu_pytorch_tanh",
    hasClass: false,
    around: ["<image>", "<fake_token_around_image>"],
    mayBeSwapped: true,
    fields: (file) => ({ scale_factor: file.count(SCALE) }),
    image(file) {
      const side = file.count("image_size")
      const longest = file.countIfThere("preproc_image_size") ?? 4 * side // as all were published
      return { max_image_size: { longest_edge: side }, size: { longest_edge: longest } }
    },
    parts: { linear_1: "model.fc" },
    last: { tensor: "mm.model.fc.weight", dim: 1 },
  },
  internvl: {
    model: "internvl",
    tower: "internvl_vision",
    gelu: "gelu",
    hasClass: true,
    around: ["<img>", "</img>"],
    mayBeSwapped: false,
    fields: (file) => ({ downsample_ratio: 1 / file.count(SCALE) }),
    vision: (file) => ({
      norm_type: file.has("v.blk.0.ln1.bias") ? "layer_norm" : "rms_norm",
      attention_bias: file.has("v.blk.0.attn_q.bias"),
      use_qk_norm: file.has("v.blk.0.attn_q_norm.weight"),
      use_mean_pooling: !file.has("v.post_ln.weight"),
    }),
    image: (file) => ({
      size: square(file.count("image_size")),
      min_patches: file.countIfThere("preproc_min_tiles"),
      max_patches: file.countIfThere("preproc_max_tiles"),
    }),
    parts: {
      projector_norm: "model.mlp.0",
      linear_1: "model.mlp.1",
      linear_2: "model.mlp.3",
    },
    last: { tensor: "mm.model.mlp.3.weight", dim: 1 },
  },
  gemma3: {
    model: "gemma3",
    tower: "siglip_vision_model",
    gelu: "gelu_pytorch_tanh",
    hasClass: false,
    around: ["<start_of_image>", "<end_of_image>"],
    mayBeSwapped: true,
    fields(file) {
      const side = Math.floor(file.count("image_size") / Math.max(1, file.count("patch_size")))
      return { mm_tokens_per_image: (side / (file.countIfThere(SCALE) ?? 4)) ** 2 }
    },
    image: (file) => ({ size: square(file.count("image_size")) }),
    parts: {
      projector_norm: "soft_emb_norm",
      "linear_1.weight": { name: "input_projection.weight", transposed: true },
    },
    last: { tensor: "mm.input_projection.weight", dim: 0 },
  },
  gemma4v: {
    model: "gemma4",
    tower: "gemma4_vision",
    gelu: "gelu_pytorch_tanh",
    hasClass: false,
    around: ["<|image>", "<image|>"],
    mayBeSwapped: false,
    // Neither file says so: of the models that were published, those do that give layers nothing of the token's own.
    fields: ({ text }) => ({
      text_config: {
        model_type: "gemma4_text",
        use_bidirectional_attention: text.layerInputs ? null : "vision",
      },
    }),
    vision: (file) => ({
      num_key_value_heads: file.count("attention.head_count"),
      head_dim: file.count("embedding_length") / file.count("attention.head_count"),
      rms_norm_eps: file.keys.numberIfThere("clip.vision.attention.layer_norm_epsilon"),
      pooling_kernel_size: pooled(file),
      position_embedding_size: placesIn(file),
      use_clipped_linears: file.has("v.blk.0.attn_q.input_max"),
      standardize: file.has("v.std_bias"),
    }),
    image: (file) => ({ patch_size: file.count("patch_size"), pooling_kernel_size: pooled(file) }),
    parts: {
      "self_attn.output_norm": "attn_post_norm",
      "mlp.output_norm": "ffn_post_norm",
      linear_1: "input_projection",
      ...GEMMA4_CONSTANTS,
    },
    ownParts: gemma4Parts,
    last: { tensor: "mm.input_projection.weight", dim: 1 },
  },
} as const satisfies Record<string, Kind>

/** What `clip.projector_type` may be. */
export const mmprojNames = Object.keys(kinds) as readonly (keyof typeof kinds)[]

/** In all that were published 3 x 3 patches become one row, and files do not say so. */
const pooled = (file: ClipFile) => file.countIfThere(SCALE) ?? 3

const LINES = "v.position_embd.weight"

/** Heights and widths that have a row. */
function placesIn({ tensors, broken }: ClipFile): number {
  const places = tensors.get(LINES)?.dims[1]
  if (places === undefined) throw broken(`there is no tensor ${LINES}`)
  return places
}

function gemma4Parts(file: ClipFile, { width, blocks, fits }: TowerConfig): Naming["parts"] {
  const [{ attention, bounded }] = blocks as [Block]
  const neighbours = {
    headDim: attention.headDim,
    turned: attention.headDim,
    quarters: true,
  } as const
  const names = {
    "self_attn.q": "attn_q",
    "self_attn.k": "attn_k",
    "self_attn.v": "attn_v",
    "self_attn.o": "attn_out",
  }
  return {
    ...lineParts("position_embd.weight", fits!.lines!, { of: placesIn(file), width }),
    ...boundParts(
      bounded
        ? { ...names, "mlp.gate": "ffn_gate", "mlp.up": "ffn_up", "mlp.down": "ffn_down" }
        : {},
    ),
    "std_bias.weight": { name: "std_bias", shape: [width] },
    std_scale: { name: "std_scale", bare: true },
    "self_attn.q_proj": { name: "attn_q", neighbours },
    "self_attn.k_proj": { name: "attn_k", neighbours },
    "self_attn.q_norm": { name: "attn_q_norm", neighbours },
    "self_attn.k_norm": { name: "attn_k_norm", neighbours },
    "mlp.gate_proj": "ffn_gate",
  }
}

const square = (side: number) => ({ height: side, width: side })

/** As many as there are: the last one that is not read is not written. The key counts from 1. */
function layersOf(file: ClipFile): number {
  const layers = file.keys.countsIfThere("clip.vision.feature_layer") ?? [file.count("block_count")]
  if (layers.length === 1) return layers[0]!
  throw file.keys.wrong("clip.vision.feature_layer", `is [${layers.join(", ")}]; one layer is read`)
}

/** What the file says, in the words of a config.json and of a preprocessor_config.json. */
function wordsOf(file: ClipFile): { fields: Fields; image: Fields } {
  const { keys, kind, broken } = file
  refuseUnknown(file)
  const vision_config = {
    model_type: kind.tower,
    hidden_size: file.count("embedding_length"),
    intermediate_size: file.count("feed_forward_length"),
    num_hidden_layers: file.count("block_count"),
    num_attention_heads: file.count("attention.head_count"),
    image_size: file.count("image_size"),
    patch_size: file.count("patch_size"),
    hidden_act: activationOf(file),
    layer_norm_eps: keys.numberIfThere("clip.vision.attention.layer_norm_epsilon"),
    ...kind.vision?.(file),
  }
  const image = {
    image_mean: keys.numbersIfThere("clip.vision.image_mean"),
    image_std: keys.numbersIfThere("clip.vision.image_std"),
    ...kind.image(file),
  }
  const fields = { model_type: kind.model, vision_config, ...kind.fields(file) }
  return { fields: new Fields(fields, broken), image: new Fields(image, broken) }
}

function activationOf({ keys, kind }: ClipFile): string {
  if (keys.flag("clip.use_gelu", false)) return kind.gelu
  return keys.flag("clip.use_silu", false) ? "silu" : "quick_gelu"
}

/** What others have that are called the same: LLaVA 1.6, which looks at pictures in another way, and towers with fewer heads of keys. */
function refuseUnknown(file: ClipFile): void {
  const refuse = (rest: string, what: string) => {
    throw file.keys.wrong(`clip.vision.${rest}`, what)
  }
  for (const rest of ["image_grid_pinpoints", "mm_patch_merge_type"]) {
    const isFlat = file.keys.unread(`clip.vision.${rest}`) === "flat"
    if (file.keys.has(`clip.vision.${rest}`) && !isFlat)
      refuse(rest, "is there: pictures in several sizes, as LLaVA 1.6 has them, are not known")
  }
  const heads = file.count("attention.head_count")
  if ((file.countIfThere("attention.head_count_kv") ?? heads) !== heads)
    refuse("attention.head_count_kv", `is not ${heads}, as many as there are heads`)
}

/** Which tensors the graph's are. */
function namingOf(file: ClipFile, tower: TowerConfig): Naming {
  const { kind, tensors } = file
  const { width } = tower
  const down = tensors.get("v.blk.0.ffn_down.weight")
  const isSwapped = kind.mayBeSwapped && down?.dims[0] === width
  const [up, lower] = isSwapped ? ["ffn_down", "ffn_up"] : ["ffn_up", "ffn_down"]
  return {
    roots: [{ root: "v.", head: "mm." }],
    layers: "blk.",
    parts: {
      patch_embedding: "patch_embd",
      "patch_embedding.weight": filters("patch_embd.weight", tower),
      ...(kind.hasClass ? classParts(tower) : { positions: "position_embd" }),
      embed_norm: "pre_ln",
      norm: "post_ln",
      input_layernorm: "ln1",
      "self_attn.q_proj": "attn_q",
      "self_attn.k_proj": "attn_k",
      "self_attn.v_proj": "attn_v",
      "self_attn.q_norm": "attn_q_norm",
      "self_attn.k_norm": "attn_k_norm",
      "self_attn.o_proj": "attn_out",
      "attention.layer_scale": "ls1",
      post_attention_layernorm: "ln2",
      "mlp.up_proj": up!,
      "mlp.down_proj": lower!,
      "mlp.layer_scale": "ls2",
      ...kind.parts,
      ...kind.ownParts?.(file, tower),
    },
  }
}

/** The class's position lies before those of patches, which are told their bias with theirs. */
function classParts(tower: TowerConfig): Naming["parts"] {
  const { side, width, patchBias } = tower
  const table = { name: "position_embd.weight", shape: [1, side * side + 1, width] }
  return {
    "class_position.weight": {
      ...table,
      rows: placesOf(tower).first,
      plusRow: { tensor: "class_embd", row: 0 },
    },
    "patch_positions.weight": {
      ...table,
      rows: placesOf(tower).others,
      ...(patchBias && { plusRow: { tensor: "patch_embd.bias", row: 0 } }),
    },
  }
}

/** Rows of images stand in the place of tokens of the text model. */
function checkWidth({ kind, tensors, broken }: ClipFile, { model, config }: Beside): void {
  const { tensor, dim } = kind.last
  const { hidden } = config.shapes
  const width = tensors.get(tensor)?.dims[dim]
  if (width === undefined) throw broken(`there is no tensor ${tensor}`)
  if (width !== hidden)
    throw broken(
      `it makes rows of ${width} columns, and those of ${model} have ${hidden}; take the file that belongs to this model`,
    )
}

/**
 * The token in whose place rows of images stand. Where the vocabulary has none for it, as that of the first LLaVA, it is another that
 * no template writes.
 */
function softTokenOf(
  { kind, broken }: ClipFile,
  { model, readTokenIds }: Beside,
  { soft }: ImageProcessing,
): { text: string; id: number } {
  const tokenOf = readTokenIds()
  const missing = kind.around.find((text) => tokenOf(text) === undefined)
  if (missing !== undefined)
    throw broken(
      `${model} has no token ${missing}, which it reads around images; take the file that belongs to this model`,
    )
  const names = [soft, "<unk>", "<|reserved_special_token_0|>"]
  for (const text of names) {
    const id = tokenOf(text)
    if (id !== undefined) return { text, id }
  }
  throw broken(
    `${model} has no token that could stand for rows of an image: none of ${names.join(", ")}`,
  )
}
