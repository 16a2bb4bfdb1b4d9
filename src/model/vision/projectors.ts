// The projectors of mmproj files that are known, by llama.cpp's names: which family of models each belongs to, what of its keys and
// tensors is said in the words of that family's config.json and preprocessor_config.json, and what its tensors are called.

import type { Fields } from "../fields.ts"
import type { Json } from "../folder.ts"
import type { ClipFile } from "../gguf/clip-file.ts"
import { TURNS_HALVES } from "../gguf/tower-inside.ts"
import { joinedRows, type NamedPart, type Naming } from "../weights/names.ts"
import { CLIP } from "./colours.ts"
import { classParts } from "./eyes.ts"
import { boundParts, GEMMA4_CONSTANTS, lineParts } from "./gemma4.ts"
import { askingFields, askingGgufParts, GRANITE4 } from "./granite4.ts"
import { HUNYUAN, HUNYUAN_TOWERS, hunyuanParts } from "./hunyuan.ts"
import { MARKS, MERGED, MINICPM, modes, RESAMPLER_CONSTANTS } from "./minicpm.ts"
import { MLLAMA, mllamaGgufParts } from "./mllama.ts"
import { MUSE_GLIMMER, museGlimmerShuffle } from "./muse-glimmer.ts"
import { PADDLEOCR, PADDLEOCR_TOWERS } from "./paddleocr.ts"
import { FRAMES, MAX_ROWS } from "./qwen.ts"
import { placesParts, STACKED, type TowerConfig } from "./tower.ts"

export interface Projector {
  /** The `model_type` of the whole. @param text the fields of the text model's file */
  model(file: ClipFile, text: Fields): string
  /** That of its tower; absent: the family's own. */
  tower?: string | ((file: ClipFile) => string)
  /** What `clip.use_gelu` means: converters do not tell one from the other. */
  gelu: "gelu" | "gelu_pytorch_tanh"
  /** Tokens around images, by which a vocabulary is known to be of this kind. */
  around: readonly string[]
  /** What its templates write in the place of an image; absent: as the family's. */
  soft?: string
  /** The text model turns tokens by height and width, too, and says which pairs. */
  turnsByAxes?: boolean
  /** There may be fewer heads of keys than of queries. */
  fewerKeys?: true
  /** Older converters wrote up and down for each other. */
  mayBeSwapped: boolean
  /** What stands before the names of its own tensors; absent: mm. */
  head?: string
  /** Tensors that an older converter wrote and nobody reads. */
  unread?: readonly string[]
  /** @param text as above */
  fields(file: ClipFile, text: Fields): Json
  vision?(file: ClipFile): Json
  image(file: ClipFile): Json
  /** The names of its own tensors, and of the tower's where these differ from most. */
  parts(file: ClipFile, tower: TowerConfig): Naming["parts"]
  /** Of the matrix whose rows are as many as the text model's columns, or whose columns are. */
  last: { tensor: string; dim: 0 | 1 }
}

const SCALE = "projector.scale_factor"
const LAYERS = "feature_layer"
const PLACES = "v.position_embd.weight"
/** MiniCPM-V's. */
const SLICES = ["<image>", "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>"]
const MERGER = "mm.patch_merger.weight"

const HUNYUAN_AREA = { min: 512 ** 2, max: 2048 ** 2 }
const PADDLEOCR_AREA = { min: 384 ** 2, max: 1536 ** 2 }
const PIXTRAL: Projector = {
  model: (file) => (file.has(MERGER) ? "mistral3" : "llava"),
  tower: "pixtral",
  gelu: "gelu",
  around: ["[IMG_BREAK]", "[IMG_END]"],
  mayBeSwapped: false,
  unread: ["v.token_embd.img_break"], // the text model's own row of that token, which stands in prompts here
  fields: (file) => ({
    spatial_merge_size: file.countIfThere("spatial_merge_size"),
    multimodal_projector_bias: file.has("mm.1.bias"),
    vision_feature_layer: -1,
    vision_feature_select_strategy: "full",
  }),
  vision: (file) => ({ rope_theta: thetaOf(file) }),
  image: (file) => ({
    size: { longest_edge: file.countIfThere("preproc_image_size") ?? file.count("image_size") },
    patch_size: square(file.count("patch_size")),
  }),
  parts: (file, tower) => ({
    ...(!file.flag(TURNS_HALVES, false) && neighbourParts(tower)),
    "mlp.gate_proj": "ffn_gate",
    merging_norm: "input_norm",
    "merging.weight": { name: "patch_merger.weight", turnedColumns: tower.merge.side ** 2 },
    linear_1: "1",
    linear_2: "2",
  }),
  last: { tensor: "mm.2.weight", dim: 1 },
}

const projectors = {
  mlp: {
    model: (file) => (hasGrids(file) ? "llava_next" : "llava"),
    tower: (file) => (hasClass(file) ? "clip_vision_model" : "siglip_vision_model"),
    gelu: "gelu",
    around: [],
    mayBeSwapped: true,
    fields: (file) => ({
      vision_feature_layer: file.said(LAYERS, layersOf(file)),
      ...(!hasClass(file) && { vision_feature_select_strategy: "full" }),
      ...gridsOf(file),
    }),
    // Converters say of SigLIP's activation that it is not CLIP's other one.
    vision: (file): Json => (hasClass(file) ? {} : { hidden_act: "gelu_pytorch_tanh" }),
    image(file) {
      const side = file.count("image_size")
      return { size: { shortest_edge: side }, crop_size: square(side), ...gridsOf(file) }
    },
    parts: (_, tower) => ({
      ...(tower.hasClass && withClass(tower)),
      linear_1: "0",
      linear_2: "2",
      "newline.weight": { name: "image_newline", apart: true },
    }),
    last: { tensor: "mm.2.weight", dim: 1 },
  },
  idefics3: {
    model: () => "idefics3",
    tower: "idefics3_vision",
    gelu: "gelu_pytorch_tanh",
    around: ["<image>", "<fake_token_around_image>"],
    mayBeSwapped: true,
    fields: (file) => ({ scale_factor: file.count(SCALE) }),
    image(file) {
      const side = file.count("image_size")
      const longest = file.countIfThere("preproc_image_size") ?? 4 * side // as all were published
      return { max_image_size: { longest_edge: side }, size: { longest_edge: longest } }
    },
    parts: () => ({ linear_1: "model.fc" }),
    last: { tensor: "mm.model.fc.weight", dim: 1 },
  },
  granite4_vision: {
    model: () => GRANITE4,
    gelu: "gelu_pytorch_tanh",
    around: ["<image>"],
    mayBeSwapped: false,
    head: "v.proj_blk.",
    unread: ["v.post_ln.weight", "v.post_ln.bias"],
    fields: (file, text) => ({
      ...askingFields(file, text),
      vision_feature_select_strategy: "full",
      ...gridsOf(file),
    }),
    image(file) {
      const side = file.count("image_size")
      return { size: { shortest_edge: side }, crop_size: square(side), ...gridsOf(file) }
    },
    parts: (_, { asking, width }) => ({
      ...askingGgufParts(asking!, width),
      "newline.weight": { name: "image_newline", apart: true },
    }),
    last: { tensor: "v.proj_blk.0.linear.weight", dim: 1 },
  },
  internvl: {
    model: () => "internvl",
    tower: "internvl_vision",
    gelu: "gelu",
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
    parts: (_, tower) => ({
      ...withClass(tower),
      projector_norm: "model.mlp.0",
      linear_1: "model.mlp.1",
      linear_2: "model.mlp.3",
    }),
    last: { tensor: "mm.model.mlp.3.weight", dim: 1 },
  },
  llama4: {
    model: () => "llama4",
    tower: "llama4_vision_model",
    gelu: "gelu",
    around: ["<|image_start|>", "<|image_end|>", "<|image|>", "<|patch|>"],
    mayBeSwapped: false,
    fields: () => ({}),
    vision(file) {
      const [columns] = file.dims("mm.model.mlp.2.weight")
      return {
        pixel_shuffle_ratio: 1 / file.count(SCALE),
        rope_theta: thetaOf(file),
        projector_input_dim: columns,
        projector_output_dim: columns,
        vision_output_dim: columns,
      }
    },
    image: (file) => ({ size: square(file.count("image_size")) }),
    parts(file, tower) {
      const { width, patch } = tower
      // Converters of 2026 know the second norm by another model's name.
      const norm = file.has("v.blk.0.ln2.weight") ? "ln2" : "attn_post_norm"
      return {
        ...withClass(tower, true),
        "patch_embedding.weight": { name: "patch_embd.weight", shape: [width, 3 * patch * patch] },
        ...neighbourParts(tower),
        post_attention_layernorm: norm,
        linear_1: "model.mlp.1",
        linear_2: "model.mlp.2",
        linear_3: "model.fc",
      }
    },
    last: { tensor: "mm.model.fc.weight", dim: 1 },
  },
  // Ollama's alone.
  mllama: {
    model: () => MLLAMA,
    gelu: "gelu",
    around: ["<|image|>"],
    mayBeSwapped: true,
    fields: () => ({}),
    vision: (file) => ({
      attention_heads: file.count("attention.head_count"),
      norm_eps: file.numberIfThere("attention.layer_norm_epsilon"),
      num_channels: file.countIfThere("num_channels"),
      num_global_layers: file.count("global.block_count"),
      max_num_tiles: file.count("max_num_tiles"),
      intermediate_layers_indices: file.keys.countsIfThere(
        "clip.vision.intermediate_layers_indices",
      ),
      vision_output_dim: file.dims("mm.0.weight")[0],
    }),
    image: (file) => ({
      ...{ image_mean: CLIP.mean, image_std: CLIP.std }, // as published: files do not say it
      size: square(file.count("image_size")),
      max_image_tiles: file.count("max_num_tiles"),
    }),
    parts: (file, tower) =>
      mllamaGgufParts(tower, file.dims("v.global.blk.0.ffn_down.weight")[0] === tower.width),
    last: { tensor: "mm.0.weight", dim: 1 },
  },
  janus_pro: {
    model: () => "janus",
    gelu: "gelu",
    around: ["<begin_of_image>", "<end_of_image>"],
    mayBeSwapped: false,
    fields: () => ({}),
    vision: (file) => ({
      mlp_ratio: (innerOf(file) + 0.5) / file.count("embedding_length"),
      attention_bias: file.has("v.blk.0.attn_q.bias"),
      projection_dim: file.dims("mm.1.weight")[1],
    }),
    image: (file) => ({ size: square(file.count("image_size")) }),
    parts: () => ({ linear_1: "0", linear_2: "1" }),
    last: { tensor: "mm.1.weight", dim: 1 },
  },
  kimivl: {
    model: () => "kimi_vl",
    tower: "moonvit",
    gelu: "gelu_pytorch_tanh",
    around: ["<|media_pad|>", "<|media_end|>"],
    mayBeSwapped: false,
    fields: () => ({}),
    vision(file) {
      const side = Math.sqrt(file.dims(PLACES)[1]!)
      return { merge_kernel_size: file.count(SCALE), pos_emb_height: side, pos_emb_width: side }
    },
    // Files do not say how large images are: the least of what published models allow.
    image: (file) => ({
      patch_size: file.count("patch_size"),
      merge_kernel_size: file.count(SCALE),
      pad_input: true,
    }),
    parts: (_, { side, width, blocks }) => ({
      ...neighbourParts({ blocks }),
      ...placesParts("position_embd.weight", side * side, width),
      merging_norm: "input_norm",
      linear_1: "1",
      linear_2: "2",
    }),
    last: { tensor: "mm.2.weight", dim: 1 },
  },
  kimik25: {
    model: () => "kimi_k25",
    tower: "kimi_k25_vision",
    gelu: "gelu_pytorch_tanh",
    around: ["<|media_pad|>", "<|media_end|>"],
    mayBeSwapped: false,
    fields: (file) => ({
      projection_layer_norm_eps: file.keys.numberIfThere(
        "clip.vision.attention.layer_norm_epsilon",
      ),
    }),
    vision(file) {
      const [, width, height] = file.dims(PLACES)
      return { merge_kernel_size: file.count(SCALE), pos_emb_height: height, pos_emb_width: width }
    },
    image(file) {
      const [patch, area] = [file.count("patch_size"), file.countIfThere("image_max_pixels")]
      return {
        patch_size: patch,
        merge_size: file.count(SCALE),
        max_patches: area && Math.floor(area / patch ** 2),
      }
    },
    parts(_, { side, width, blocks }) {
      const { headDim } = blocks[0]!.attention
      const neighbours = { headDim, turned: headDim, byTurns: true } as const
      const joined = joinedRows({ q: width, k: width, v: width })
      const places = placesParts("position_embd.weight", side * side, width)["positions.weight"]
      return {
        "self_attn.q_proj": { name: "attn_qkv", rows: joined.q, neighbours },
        "self_attn.k_proj": { name: "attn_qkv", rows: joined.k, neighbours },
        "self_attn.v_proj": { name: "attn_qkv", rows: joined.v },
        "positions.weight": { ...(places as NamedPart), shape: [side, side, width] },
        merging_norm: "input_norm",
        linear_1: "1",
        linear_2: "2",
      }
    },
    last: { tensor: "mm.2.weight", dim: 1 },
  },
  resampler: {
    model: () => MINICPM,
    gelu: "gelu_pytorch_tanh",
    around: SLICES,
    mayBeSwapped: true,
    head: "resampler.",
    unread: ["resampler.pos_embed_k", "resampler.pos_embed"], // sines, as they are computed here
    fields: (file) => ({ query_num: file.dims("resampler.query")[1], ...versionOf(file) }),
    vision: (file) => ({ image_size: placesOf(file) }),
    image: (file) => ({
      image_processor_type: "MiniCPMVImageProcessor",
      patch_size: file.count("patch_size"),
      scale_resolution: file.count("image_size"),
      use_image_id: true, // as all were published
    }),
    parts: () => ({
      ...RESAMPLER_CONSTANTS,
      "queries.weight": { name: "query" },
      resampler_kv: "kv",
      resampler_q: "attn.q",
      resampler_k: "attn.k",
      resampler_v: "attn.v",
      resampler_o: "attn.out",
      query_norm: "ln_q",
      key_norm: "ln_kv",
      projector_norm: "ln_post",
      linear_1: "proj",
    }),
    last: { tensor: "resampler.proj.weight", dim: 1 },
  },
  minicpmv4_6: {
    model: () => "minicpmv4_6",
    tower: "minicpmv4_6_vision",
    gelu: "gelu_pytorch_tanh",
    around: SLICES,
    mayBeSwapped: false,
    fields: (file) => ({
      ...mergedBy(file),
      insert_layer_id: file.keys.countsIfThere("clip.vision.wa_layer_indexes")?.[0],
    }),
    vision: (file) => ({ image_size: placesOf(file) }),
    image: (file) => ({
      ...mergedBy(file),
      patch_size: file.count("patch_size"),
      scale_resolution: file.count("image_size"),
    }),
    parts: () => ({
      "vit_merger.input_layernorm": "vit_merger.ln1",
      "vit_merger.self_attn.q_proj": "vit_merger.attn_q",
      "vit_merger.self_attn.k_proj": "vit_merger.attn_k",
      "vit_merger.self_attn.v_proj": "vit_merger.attn_v",
      "vit_merger.self_attn.o_proj": "vit_merger.attn_out",
      "vit_merger.norm": "vit_merger.ds_ln",
      "vit_merger.linear_1": "vit_merger.ds_ffn_up",
      "vit_merger.linear_2": "vit_merger.ds_ffn_down",
      ...MARKS,
      projector_norm: "input_norm",
      linear_1: "up",
      linear_2: "down",
    }),
    last: { tensor: "mm.down.weight", dim: 1 },
  },
  lfm2: {
    model: () => "lfm2_vl",
    tower: "siglip2_vision_model",
    gelu: "gelu_pytorch_tanh",
    around: ["<|image_start|>", "<|image_end|>"],
    mayBeSwapped: false,
    fields(file) {
      const [, rows] = file.dims("mm.1.weight")
      return {
        downsample_factor: file.count(SCALE),
        projector_hidden_size: rows,
        projector_use_layernorm: file.has("mm.input_norm.weight"),
        projector_bias: file.has("mm.1.bias"),
      }
    },
    vision: (file) => ({ num_patches: file.dims(PLACES)[1] }),
    // Ollama's files say how images are cut. Others do not say how large tiles are: in all that were published 32 patches a side.
    image(file) {
      if (!file.flag("use_image_special_tokens", true))
        throw file.wrong("use_image_special_tokens", "is false; only true is known")
      return {
        encoder_patch_size: file.count("patch_size"),
        downsample_factor: file.count(SCALE),
        tile_size: file.countIfThere("tile_size") ?? 32 * file.count("patch_size"),
        min_tiles: file.countIfThere("min_tiles"),
        max_tiles: file.countIfThere("max_tiles"),
        min_image_tokens: file.countIfThere("min_image_tokens"),
        max_image_tokens: file.countIfThere("max_image_tokens"),
        max_pixels_tolerance: file.numberIfThere("max_pixels_tolerance"),
        do_image_splitting: file.flag("do_image_splitting", true),
        use_thumbnail: file.flag("use_thumbnail", true),
      }
    },
    parts: (_, { side, width }) => ({
      ...placesParts("position_embd.weight", side * side, width),
      projector_norm: "input_norm",
      linear_1: "1",
      linear_2: "2",
    }),
    last: { tensor: "mm.2.weight", dim: 1 },
  },
  gemma3: {
    model: () => "gemma3",
    tower: "siglip_vision_model",
    gelu: "gelu_pytorch_tanh",
    around: ["<start_of_image>", "<end_of_image>"],
    mayBeSwapped: true,
    fields(file) {
      const side = Math.floor(file.count("image_size") / Math.max(1, file.count("patch_size")))
      const rows = (side / (file.countIfThere(SCALE) ?? 4)) ** 2
      return { mm_tokens_per_image: file.made(`clip.vision.${SCALE}`, rows) }
    },
    image: (file) => ({ size: square(file.count("image_size")) }),
    parts: () => ({
      projector_norm: "soft_emb_norm",
      "linear_1.weight": { name: "input_projection.weight", transposed: true },
    }),
    last: { tensor: "mm.input_projection.weight", dim: 0 },
  },
  gemma4v: {
    model: () => "gemma4",
    tower: "gemma4_vision",
    gelu: "gelu_pytorch_tanh",
    around: ["<|image>", "<image|>"],
    mayBeSwapped: false,
    // Neither file says so: of the models that were published, those do that give layers nothing of the token's own.
    fields: (_, text) => ({
      text_config: {
        model_type: "gemma4_text",
        use_bidirectional_attention: text.count("hidden_size_per_layer_input", 0, 0)
          ? null
          : "vision",
      },
    }),
    vision: (file) => ({
      num_key_value_heads: file.count("attention.head_count"),
      head_dim: file.count("embedding_length") / file.count("attention.head_count"),
      rms_norm_eps: file.numberIfThere("attention.layer_norm_epsilon"),
      pooling_kernel_size: pooled(file),
      position_embedding_size: file.dims(PLACES)[1],
      use_clipped_linears: file.has("v.blk.0.attn_q.input_max"),
      standardize: file.has("v.std_bias"),
    }),
    image: (file) => ({ patch_size: file.count("patch_size"), pooling_kernel_size: pooled(file) }),
    parts: gemma4Parts,
    last: { tensor: "mm.input_projection.weight", dim: 1 },
  },
  pixtral: PIXTRAL,
  lightonocr: {
    ...PIXTRAL,
    model: () => "lighton_ocr",
    around: ["<|vision_pad|>", "<|vision_end|>"],
  },
  paddleocr: {
    ...ofQwen(PADDLEOCR_AREA),
    model: () => PADDLEOCR,
    tower: PADDLEOCR_TOWERS[0],
    around: ["<|IMAGE_START|>", "<|IMAGE_END|>"],
    mayBeSwapped: false,
    vision: (file) => ({ image_size: placesOf(file), spatial_merge_size: mergeOf(file) }),
    image: (file) => ({ ...areaOf(file, PADDLEOCR_AREA), temporal_patch_size: 1 }),
    parts: (_, { side, width }) => ({
      ...placesParts("position_embd.weight", side * side, width),
      merging_norm: "input_norm",
      linear_1: "1",
      linear_2: "2",
    }),
  },
  hunyuanvl: {
    ...ofQwen(HUNYUAN_AREA),
    model: () => HUNYUAN,
    tower: HUNYUAN_TOWERS[0],
    gelu: "gelu",
    around: ["<｜hy_place▁holder▁no▁100｜>", "<｜hy_place▁holder▁no▁101｜>"],
    mayBeSwapped: false,
    unread: ["v.view_seperator"],
    vision: (file) => ({
      max_image_size: placesOf(file),
      spatial_merge_size: mergeOf(file),
      rms_norm_eps: file.numberIfThere("attention.layer_norm_epsilon"),
    }),
    image: (file) => ({ ...areaOf(file, HUNYUAN_AREA), temporal_patch_size: 1 }),
    parts: (_, tower) => {
      const { "linear_1.weight": first, "linear_2.weight": second } = hunyuanParts(
        tower,
        tower.merge.side,
      )
      return {
        "positions.weight": "position_embd.weight",
        merging_norm: "pre_norm",
        linear_1: "0",
        "linear_1.weight": { ...(first as NamedPart), name: "0.weight" },
        linear_2: "2",
        "linear_2.weight": { ...(second as NamedPart), name: "2.weight" },
        linear_3: "model.fc",
        last_norm: "post_norm",
        "newline.weight": { name: "image_newline", apart: true },
        "opening.weight": "image_begin",
        "closing.weight": "image_end",
      }
    },
    last: { tensor: "mm.model.fc.weight", dim: 1 },
  },
  "muse-glimmer": {
    model: () => MUSE_GLIMMER,
    gelu: "gelu",
    around: ["<|image_start|>", "<|image_end|>", "<|patch|>"],
    mayBeSwapped: false,
    fields(file) {
      const [out, rows] = file.dims("mm.0.weight")
      return { out_hidden_size: out, projector_hidden_size: rows }
    },
    vision(file) {
      const side = Math.sqrt(file.dims(PLACES)[1]!)
      return {
        hidden_act: "gelu", // as was published: files do not say it
        ...{ pos_emb_height: side, pos_emb_width: side, merge_size: mergeOf(file) },
        patch_temporal: 1, // both frames' matrices are added up
      }
    },
    image: (file) => ({
      patch_size: file.count("patch_size"),
      merge_size: mergeOf(file),
      temporal_patch_size: 1,
    }),
    parts: (_, { side, width, blocks, merge }) => ({
      ...neighbourParts({ blocks }),
      ...placesParts("position_embd.weight", side * side, width),
      ...museGlimmerShuffle(merge.side, "0"),
      linear_2: "1",
      linear_3: "2",
    }),
    last: { tensor: "mm.2.weight", dim: 1 },
  },
  qwen2vl_merger: {
    ...ofQwen({ min: 56 * 56, max: 28 * 28 * MAX_ROWS }),
    model: () => "qwen2_vl",
    unread: ["v.position_embd.weight"], // zeros; positions are turned
    vision(file) {
      const width = file.count("embedding_length")
      return { ...qwenVision(file), embed_dim: width, mlp_ratio: (innerOf(file) + 0.5) / width }
    },
  },
  "qwen2.5vl_merger": qwen25("qwen2_5_vl"),
  "qwen2.5o": { ...qwen25("qwen2_5_omni"), around: ["<|vision_bos|>", "<|vision_eos|>"] }, // and what hears
  exaone4_5: {
    ...qwen25("exaone4_5"),
    around: ["<vision>", "</vision>"],
    turnsByAxes: false,
    fewerKeys: true,
    mayBeSwapped: true,
    vision: (file) => ({
      ...qwenVision(file),
      intermediate_size: innerOf(file),
      num_key_value_heads: file.countIfThere("attention.head_count_kv"),
      window_size: file.countIfThere("window_size"),
      fullatt_block_indexes: seeingAll(file),
    }),
    parts(file, tower) {
      const { kvHeads, headDim } = tower.blocks[0]!.attention
      return { ...qwenParts(file, tower), ...joinedParts(tower, kvHeads * headDim) }
    },
  },
  qwen3vl_merger: {
    ...ofQwen({ min: 1 << 16, max: 1 << 24 }),
    model: (_, text) => qwen3Models[text.text("model_type")] ?? "qwen3_vl",
    mayBeSwapped: false,
    vision: (file) => ({
      ...qwenVision(file),
      intermediate_size: innerOf(file),
      num_position_embeddings: file.dims("v.position_embd.weight")[1],
      deepstack_visual_indexes: stackedLayers(file),
    }),
    parts: (file, tower) => ({
      ...qwenParts(file, tower),
      ...(file.has("v.blk.0.attn_qkv.weight") && joinedParts(tower)),
      "positions.weight": { name: "position_embd.weight", transposed: true },
      ...stackedParts(file),
    }),
  },
} as const satisfies Record<string, Projector>

/** What `clip.projector_type` may be. */
export const mmprojNames = Object.keys(projectors) as readonly (keyof typeof projectors)[]

/** @throws where it is not known */
export function projectorOf(file: ClipFile): Projector {
  const { key, name = "mlp" } = file.projector() // as long as there was no other
  if (Object.hasOwn(projectors, name)) return projectors[name as keyof typeof projectors]
  throw file.keys.wrong(key, `is "${name}"; known: ${mmprojNames.join(", ")}`)
}

/** Of HunyuanOCR, MiniCPM-V and PaddleOCR-VL: the key of an image's size has the square that a slice or the largest image is as large as, and not that of places. */
const placesOf = (file: ClipFile) => Math.sqrt(file.dims(PLACES)[1]!) * file.count("patch_size")

/** Of MiniCPM-V 4.6. */
function mergedBy(file: ClipFile): Json {
  const side = file.countIfThere(SCALE) ?? MERGED.all
  const mode = Object.keys(modes).find((each) => modes[each]!.all === side)
  if (mode) return { downsample_mode: mode }
  throw file.wrong(SCALE, `is ${side}; known: 2, ${MERGED.all}`)
}

/** MiniCPM-V 2.6, 4.0 and 4.5, and what MiniCPM-o 2.6, 4.0 and 4.5 see with; 2 and 2.5 write slices otherwise. */
function versionOf({ keys }: ClipFile): Json {
  const key = "clip.minicpmv_version"
  const version = keys.countIfThere(key) ?? 2
  if ([3, 4, 5, 6, 100045].includes(version)) return {}
  throw keys.wrong(key, `is ${version}; known: 3, 4, 5, 6, 100045`)
}

const square = (side: number) => ({ height: side, width: side })

/** Of LLaVA 1.6. */
export const hasGrids = ({ keys }: ClipFile) => keys.has("clip.vision.image_grid_pinpoints")

/** Widths and heights by turns, as LLaVA's own configuration has them; in transformers' heights come first. */
function gridsOf(file: ClipFile): Json {
  const flat = file.keys.countsIfThere("clip.vision.image_grid_pinpoints")
  if (!flat) return {}
  if (flat.length % 2 !== 0)
    throw file.wrong("image_grid_pinpoints", `has ${flat.length} numbers, which are no pairs`)
  const heights = flat.filter((_, i) => i % 2 === 1)
  return { image_grid_pinpoints: heights.map((height, i) => [height, flat[2 * i]!]) }
}

/** Of CLIP, and not of SigLIP, with which Granite sees. */
const hasClass = (file: ClipFile) => file.has("v.class_embd")

/** As many as there are: the last one that is not read is not written. The key counts from 1. */
function layersOf(file: ClipFile): number | readonly number[] {
  const layers = file.keys.countsIfThere(`clip.vision.${LAYERS}`) ?? [file.layers()]
  return layers.length === 1 ? layers[0]! : layers
}

/** Patches are told their bias with their positions. */
function withClass(tower: TowerConfig, isBehind = false): Naming["parts"] {
  const { side, width, patchBias } = tower
  return classParts(tower, {
    table: { name: "position_embd.weight", shape: [1, side * side + 1, width] },
    isBehind,
    ofClass: { tensor: "class_embd" },
    bias: patchBias ? { tensor: "patch_embd.bias" } : undefined,
  })
}

/** Ollama's files say it of what sees alone. */
const thetaOf = ({ keys }: ClipFile) =>
  keys.numberIfThere("clip.rope.freq_base") ?? keys.numberIfThere("clip.vision.rope.freq_base")

/** Neighbours of a head turn with each other. */
function neighbourParts({ blocks }: Pick<TowerConfig, "blocks">): Naming["parts"] {
  const { headDim } = blocks[0]!.attention
  const turned = (name: string) => ({ name, neighbours: { headDim, turned: headDim } })
  return { "self_attn.q_proj": turned("attn_q"), "self_attn.k_proj": turned("attn_k") }
}

/** In all that were published 3 x 3 patches become one row, and files do not say so. */
const pooled = (file: ClipFile) => file.countIfThere(SCALE) ?? 3

function gemma4Parts(file: ClipFile, { width, blocks, fits }: TowerConfig): Naming["parts"] {
  const { attention, bounded } = blocks[0]!
  const { headDim } = attention
  const neighbours = { headDim, turned: headDim, quarters: true } as const
  const names = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_out",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
  }
  const table = { of: file.dims(PLACES)[1]!, width }
  return {
    ...lineParts("position_embd.weight", fits!.lines!, table),
    ...(bounded && boundParts(names)),
    "std_bias.weight": { name: "std_bias", shape: [width] },
    std_scale: { name: "std_scale", bare: true },
    "self_attn.q_proj": { name: "attn_q", neighbours },
    "self_attn.k_proj": { name: "attn_k", neighbours },
    "self_attn.q_norm": { name: "attn_q_norm", neighbours },
    "self_attn.k_norm": { name: "attn_k_norm", neighbours },
    "self_attn.output_norm": "attn_post_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.output_norm": "ffn_post_norm",
    linear_1: "input_projection",
    ...GEMMA4_CONSTANTS,
  }
}

/** @param area of an image in pixels, as all were published: files do not say it */
function ofQwen(area: Record<"min" | "max", number>) {
  return {
    gelu: "gelu_pytorch_tanh",
    around: ["<|vision_start|>", "<|vision_end|>"],
    turnsByAxes: true,
    mayBeSwapped: true,
    fields: () => ({}),
    image: (file: ClipFile) => ({ ...areaOf(file, area), temporal_patch_size: FRAMES }),
    parts: qwenParts,
    last: { tensor: "mm.2.weight", dim: 1 },
  } as const
}

/** @param area where the file does not say it */
const areaOf = (file: ClipFile, area: Record<"min" | "max", number>) => ({
  patch_size: file.count("patch_size"),
  merge_size: mergeOf(file),
  size: {
    shortest_edge: file.countIfThere("image_min_pixels") ?? area.min,
    longest_edge: file.countIfThere("image_max_pixels") ?? area.max,
  },
})

function qwen25(model: string) {
  return {
    ...ofQwen({ min: 56 * 56, max: 28 * 28 * MAX_ROWS }),
    model: () => model,
    unread: ["v.position_embd.weight"],
    vision: (file: ClipFile) => ({
      ...qwenVision(file),
      intermediate_size: innerOf(file),
      window_size: file.countIfThere("window_size"),
      fullatt_block_indexes: seeingAll(file),
    }),
  }
}

const qwen3Models: Readonly<Record<string, string>> = {
  qwen3: "qwen3_vl",
  qwen3_moe: "qwen3_vl_moe",
  qwen3_5_text: "qwen3_5",
  qwen3_5_moe_text: "qwen3_5_moe",
}

const mergeOf = (file: ClipFile) => file.countIfThere("spatial_merge_size") ?? 2

function qwenVision(file: ClipFile): Json {
  return {
    depth: file.layers(),
    num_heads: file.count("attention.head_count"),
    spatial_merge_size: mergeOf(file),
    temporal_patch_size: FRAMES,
  }
}

/** How wide its MLPs are: of Qwen 2's converters write another number, or none, and of Janus one that is rounded otherwise. */
function innerOf(file: ClipFile): number {
  const width = file.count("embedding_length")
  const [columns, rows] = file.dims("v.blk.0.ffn_up.weight")
  return columns === width ? rows! : columns!
}

/** Layers that see all of the image: those that are named, or one of each so many. */
function seeingAll(file: ClipFile): readonly number[] {
  const named = file.keys.countsIfThere("clip.vision.fullatt_block_indexes")
  if (named) return named
  const every = file.count("n_wa_pattern")
  const layers = Array.from({ length: file.layers() }, (_, layer) => layer)
  return layers.filter((layer) => (layer + 1) % every === 0)
}

function stackedLayers(file: ClipFile): number[] {
  const flags = file.keys.flagsIfThere("clip.vision.is_deepstack_layers") ?? []
  return flags.flatMap((isStacked, layer) => (isStacked ? [layer] : []))
}

/**
 * A patch is two frames. llama.cpp has a matrix for each, the colours of one behind one another; a row here has frames colour by
 * colour, as Ollama's one matrix has them.
 */
function qwenParts(file: ClipFile, { width, patch }: TowerConfig): Naming["parts"] {
  const name = "patch_embd.weight"
  const isWhole = file.dims(`v.${name}`)[2] === FRAMES
  const others = Array.from({ length: FRAMES - 1 }, (_, i) => `${name}.${i + 1}`)
  return {
    "patch_embedding.weight": isWhole
      ? { name, shape: [3 * width, FRAMES, patch, patch] }
      : { name, shape: [width, 3, patch, patch], woven: { others, run: patch * patch } },
    "mlp.gate_proj": "ffn_gate",
    linear_1: "0",
    linear_2: "2",
  }
}

function joinedParts({ width }: TowerConfig, kvWidth = width): Naming["parts"] {
  const rows = joinedRows({ q: width, k: kvWidth, v: kvWidth })
  return Object.fromEntries(
    (["q", "k", "v"] as const).map((part) => [
      `self_attn.${part}_proj`,
      { name: "attn_qkv", rows: rows[part] },
    ]),
  )
}

/** Under the numbers of their layers. */
function stackedParts(file: ClipFile): Naming["parts"] {
  const names = { projector_norm: "norm", linear_1: "fc1", linear_2: "fc2" }
  return Object.fromEntries(
    stackedLayers(file).flatMap((layer, number) =>
      Object.entries(names).map(([name, own]) => [
        `${STACKED}.${number}.${name}`,
        `deepstack.${layer}.${own}`,
      ]),
    ),
  )
}
