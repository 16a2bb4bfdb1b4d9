// What a GGUF model sees with: the file beside it that llama.cpp calls mmproj, of the architecture `clip`, which holds tower and
// projector; or the model's own file, where Ollama's converter put them. Its keys become the fields of a config.json and of a
// preprocessor_config.json, so that what is known of a family holds here, too. How images are cut is their family's way, as the model
// was trained; the file has the numbers of it. A projector that is not known is refused by its name.
//
// Keys and tensors: tools/mtmd/clip-impl.h of llama.cpp. LLaVA's are of its older converter, tools/mtmd/legacy-models.

import { openWhole } from "../../closing.ts"
import type { ImageProcessing } from "../../images/image.ts"
import { Fields } from "../fields.ts"
import { ANOTHER, type Beside, type ClipFile, openClip } from "../gguf/clip-file.ts"
import type { Naming } from "../weights/names.ts"
import type { Weights } from "../weights/weights.ts"
import { filters } from "./eyes.ts"
import { readTower } from "./families.ts"
import { processingBy } from "./processing.ts"
import { hasGrids, type Projector, projectorOf } from "./projectors.ts"
import type { TowerConfig } from "./tower.ts"

export interface Mmproj {
  fields: Fields
  /** Of a preprocessor_config.json; absent: rows stand in the place of a token that none could name. */
  image: Fields | undefined
  config: TowerConfig
  images: ImageProcessing
  weights: Weights
  close(): Promise<void>
}

/**
 * @param most patches of an image, where somebody says so
 * @returns nothing where the file has nothing to see with
 * @throws `model_broken`
 */
export async function openMmproj(beside: Beside, most?: number): Promise<Mmproj | undefined> {
  return openWhole(async (closing) => {
    const { vision: mmproj } = await openClip(beside, closing)
    if (!mmproj) {
      await closing.close()
      return undefined
    }
    const projector = projectorOf(mmproj)
    const { fields, image } = wordsOf(mmproj, projector, beside)
    const processor = new Fields({}, mmproj.broken) // it has no words for images
    const texts = { processor, tokens: (_: string, usual: string) => usual, most }
    const family = processingBy(fields, image, texts)!
    const usual = projector.soft
      ? { ...family, mark: projector.soft, soft: projector.soft }
      : family
    const soft = softTokenOf(mmproj, projector, beside, usual)
    const own = fields.over({ image_token_id: soft.id })
    const tower = readTower(own, beside.config)!
    mmproj.checkWidth(projector.last, beside)
    checkStacked(mmproj, tower, beside)
    const config = { ...tower, naming: namingOf(mmproj, projector, tower) }
    const close = () => closing.close()
    return {
      fields: own,
      image: soft.text === family.soft ? image : undefined,
      config,
      images: { ...usual, soft: soft.text },
      weights: mmproj.weights(config.naming, close, projector.unread),
      close,
    }
  })
}

/** What the file says, in the words of a config.json and of a preprocessor_config.json. */
function wordsOf(
  file: ClipFile,
  projector: Projector,
  beside: Beside,
): { fields: Fields; image: Fields } {
  const { keys } = file
  const { tower } = projector
  const countIfThere = (rest: string) => file.said(rest, file.countIfThere(rest))
  refuseUnknown(file, projector)
  const vision_config = {
    model_type: typeof tower === "function" ? tower(file) : tower,
    hidden_size: file.counted("embedding_length"),
    intermediate_size: countIfThere("feed_forward_length"),
    num_hidden_layers: file.said("block_count", file.layers()),
    num_attention_heads: file.counted("attention.head_count"),
    image_size: countIfThere("image_size"),
    patch_size: file.counted("patch_size"),
    hidden_act: activationOf(file, projector),
    layer_norm_eps: file.said(EPSILON, file.numberIfThere(EPSILON)),
    ...projector.vision?.(file),
  }
  const image = {
    image_mean: file.said("image_mean", keys.numbersIfThere("clip.vision.image_mean")),
    image_std: file.said("image_std", keys.numbersIfThere("clip.vision.image_std")),
    ...projector.image(file),
  }
  const fields = {
    model_type: projector.model(file, beside.text),
    vision_config,
    text_config: textOf(file, projector, beside),
    ...projector.fields(file, beside.text),
  }
  return { fields: file.words(fields), image: file.words(image) }
}

const EPSILON = "attention.layer_norm_epsilon"

/** The text model's own words, which say by what its tokens are turned. */
function textOf(
  { broken }: ClipFile,
  { turnsByAxes }: Projector,
  { model, text }: Beside,
): Fields["json"] {
  if (turnsByAxes && !text.object("rope_scaling")?.has("mrope_section"))
    throw broken(
      `${model} does not turn tokens by height and width (rope.dimension_sections); ${ANOTHER}`,
    )
  return text.json
}

function activationOf({ keys }: ClipFile, { gelu }: Projector): string {
  if (keys.flag("clip.use_gelu", false)) return gelu
  return keys.flag("clip.use_silu", false) ? "silu" : "quick_gelu"
}

/** What others have that are called the same: pictures in several sizes, of a kind that LLaVA 1.6 has not, and fewer heads of keys. */
function refuseUnknown(file: ClipFile, { fewerKeys }: Projector): void {
  const merging = hasGrids(file) ? "spatial_unpad" : "flat"
  const merge = file.keys.textIfThere("clip.vision.mm_patch_merge_type") ?? merging
  if (merge !== merging)
    throw file.wrong(
      "mm_patch_merge_type",
      `is "${merge}"; known ${hasGrids(file) ? "with" : "without"} image_grid_pinpoints: ${merging}`,
    )
  const heads = file.count("attention.head_count")
  if (!fewerKeys && (file.countIfThere("attention.head_count_kv") ?? heads) !== heads)
    throw file.wrong("attention.head_count_kv", `is not ${heads}, as many as there are heads`)
}

/** Which tensors the graph's are. */
function namingOf(file: ClipFile, projector: Projector, tower: TowerConfig): Naming {
  const down = file.tensors.get("v.blk.0.ffn_down.weight")
  const isSwapped = projector.mayBeSwapped && down?.dims[0] === tower.width
  const [up, lower] = isSwapped ? ["ffn_down", "ffn_up"] : ["ffn_up", "ffn_down"]
  return {
    roots: [
      {
        root: "v.",
        head: projector.head ?? "mm.",
        apart: file.has("v.image_newline") ? "v." : "model.",
      },
    ],
    layers: "blk.",
    parts: {
      patch_embedding: "patch_embd",
      "patch_embedding.weight": filters("patch_embd.weight", tower),
      positions: "position_embd",
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
      ...projector.parts(file, tower),
    },
  }
}

/** What layers of the tower leave goes to as many layers of the text model, which says how many. */
function checkStacked(
  { broken }: ClipFile,
  { stacked = [] }: TowerConfig,
  { model, text }: Beside,
): void {
  const taken = text.count("deepstack_layers", stacked.length, 0)
  if (taken !== stacked.length)
    throw broken(
      `rows of ${stacked.length} layers come out beside its last, and ${model} takes those of ${taken}; ${ANOTHER}`,
    )
}

/**
 * The token in whose place rows of images stand. Where the vocabulary has none for it, as that of the first LLaVA, it is another that
 * no template writes.
 */
function softTokenOf(
  file: ClipFile,
  { around }: Projector,
  beside: Beside,
  { soft }: ImageProcessing,
): { text: string; id: number } {
  file.checkTokens(around, "images", beside)
  const tokenOf = beside.readTokenIds()
  const names = [soft, "<unk>", "<|reserved_special_token_0|>"]
  for (const text of names) {
    const id = tokenOf(text)
    if (id !== undefined) return { text, id }
  }
  throw file.broken(
    `${beside.model} has no token that could stand for rows of an image: none of ${names.join(", ")}`,
  )
}
