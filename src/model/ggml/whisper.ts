// Opens a file of whisper.cpp as a Whisper's configuration, weights, texts and what it hears with. Tensors keep the number formats that the
// file has them in. What the file does not say is as all Whispers have it; the width of an MLP is that of its matrix. Frames are made by
// filters of our own, so the file's have to be the same.

import type { AudioProcessing } from "../../audio/audio.ts"
import { BINS, melWeights } from "../../audio/features.ts"
import { openWhole } from "../../closing.ts"
import type { ModelConfig } from "../config.ts"
import { Fields } from "../fields.ts"
import type { Folder, Json } from "../folder.ts"
import type { StoredTensor } from "../gguf/container.ts"
import { ggufWeights } from "../gguf/weights.ts"
import { readAudioProcessing, readHearing } from "../hearing/families.ts"
import type { SpeechAdvice } from "../hearing/speech.ts"
import type { HearingConfig } from "../hearing/tower.ts"
import type { ModelTexts } from "../texts.ts"
import { type Naming, sourcesOf } from "../weights/names.ts"
import type { Weights } from "../weights/weights.ts"
import { alignmentOf } from "./alignment.ts"
import { readWhisperFile, type WhisperFile } from "./container.ts"
import { readVocabulary } from "./vocabulary.ts"

export interface OpenedWhisper {
  /** In the words of a config.json. */
  fields: Fields
  weights: () => Weights
  texts: ModelTexts
  readHearing: (text: ModelConfig) => WhisperHearing
  close(): Promise<void>
}

/** What it hears with. */
export interface WhisperHearing {
  /** In the words of a config.json and of a preprocessor_config.json. */
  fields: Fields
  extractor: Fields
  config: HearingConfig
  audio: AudioProcessing
  weights: Weights
  speech: SpeechAdvice
}

/** @throws `model_broken` */
export async function openWhisperFile(folder: Folder, file: string): Promise<OpenedWhisper> {
  return openWhole(async (closing) =>
    whisperOf(folder, file, closing.add(await readWhisperFile(folder, file))),
  )
}

const ENCODER = "encoder."
const DECODER = "decoder."

function whisperOf(folder: Folder, file: string, opened: WhisperFile): OpenedWhisper {
  const { numbers, words, tensors, broken, close } = opened
  checkFilters(opened)
  for (const name of ["n_audio_layer", "n_text_layer"] as const)
    if (numbers[name] > tensors.size)
      throw broken(`${name} is ${numbers[name]}, and the file holds ${tensors.size} tensors in all`)
  for (const name of tensors.keys())
    if (!name.startsWith(ENCODER) && !name.startsWith(DECODER))
      throw broken(`it holds tensor ${name}, which no Whisper has`)
  const vocabulary = readVocabulary(words, numbers.n_vocab, broken)
  const { end, start, json, advice } = vocabulary
  const fields = new Fields(
    { ...fieldsOf(opened), eos_token_id: end, bos_token_id: end, decoder_start_token_id: start },
    broken,
  )
  const extractor = new Fields({ feature_size: numbers.n_mels }, broken)
  const path = `${folder.path}/${file}`
  const weightsOf = (naming: Naming, root: string, close: () => Promise<void>) =>
    ggufWeights({
      folder,
      file,
      tensors,
      sources: sourcesOf(naming, (name) => tensors.get(name)?.dims),
      isRead: (name) => name.startsWith(root),
      close,
    })
  return {
    fields,
    weights: () => weightsOf(decoderNaming, DECODER, close),
    texts: {
      tokenizer: { file: path, json },
      templates: new Map(),
      specialTokens: { eos_token: "<|endoftext|>" },
      endTokens: [end],
      beginToken: end,
      sampling: {},
    },
    readHearing: (text) => {
      const config = readHearing(fields, text)!
      const nothing = new Fields({}, broken)
      const files = { extractor, processor: nothing, tokens: nothing }
      return {
        fields,
        extractor,
        config,
        audio: readAudioProcessing(fields, files),
        weights: weightsOf(encoderNaming(config), ENCODER, async () => {}),
        speech: { ...advice, file: path, alignment: alignmentOf(numbers) },
      }
    },
    close,
  }
}

function fieldsOf({ numbers, tensors, broken }: WhisperFile): Json {
  const widthIn = (root: string) => {
    const name = `${root}blocks.0.mlp.0.weight`
    const matrix = tensors.get(name)
    if (matrix) return rowsIn(matrix)
    throw broken(`there is no tensor ${name}`)
  }
  return {
    model_type: "whisper",
    is_encoder_decoder: true,
    activation_function: "gelu",
    scale_embedding: false,
    tie_word_embeddings: true,
    vocab_size: numbers.n_vocab,
    num_mel_bins: numbers.n_mels,
    d_model: numbers.n_audio_state,
    max_source_positions: numbers.n_audio_ctx,
    encoder_attention_heads: numbers.n_audio_head,
    encoder_layers: numbers.n_audio_layer,
    encoder_ffn_dim: widthIn(ENCODER),
    max_target_positions: numbers.n_text_ctx,
    decoder_attention_heads: numbers.n_text_head,
    decoder_layers: numbers.n_text_layer,
    decoder_ffn_dim: widthIn(DECODER),
  }
}

const rowsIn = ({ dims }: StoredTensor) => dims[1] ?? 1

const NEAR = 1e-4 // in parts of the highest; those of OpenAI are rounded to halves or floats

function checkFilters({ numbers: { n_mels }, filters, broken }: WhisperFile): void {
  const { bands, bins, weights } = filters
  if (bands !== n_mels) throw broken(`it has ${bands} mel filters, and n_mels is ${n_mels}`)
  if (bins !== BINS) throw broken(`its mel filters are of ${bins} frequencies; ${BINS} are known`)
  const own = melWeights(bands)
  const most = own.reduce((most, weight) => Math.max(most, weight))
  const other = own.findIndex((weight, i) => !(Math.abs(weight - weights[i]!) <= NEAR * most))
  if (other >= 0)
    throw broken(
      `its mel filter ${Math.floor(other / bins)} is not one of Slaney's, which alone are known`,
    )
}

const layerParts: Naming["parts"] = {
  input_layernorm: "attn_ln",
  "self_attn.q_proj": "attn.query",
  "self_attn.k_proj": "attn.key",
  "self_attn.k_proj.bias": { name: "attn.key.bias", constant: 0 },
  "self_attn.v_proj": "attn.value",
  "self_attn.o_proj": "attn.out",
  post_attention_layernorm: "mlp_ln",
  "mlp.up_proj": "mlp.0",
  "mlp.down_proj": "mlp.2",
}

const decoderNaming: Naming = {
  roots: [{ root: DECODER, head: DECODER }],
  layers: "blocks.",
  parts: {
    ...layerParts,
    embed_tokens: "token_embedding",
    embed_positions: { name: "positional_embedding", bare: true },
    heard_positions: { name: "heard_positions", constant: 0 },
    norm: "ln",
    cross_layernorm: "cross_attn_ln",
    "cross_attn.q_proj": "cross_attn.query",
    "cross_attn.k_proj": "cross_attn.key",
    "cross_attn.k_proj.bias": { name: "cross_attn.key.bias", constant: 0 },
    "cross_attn.v_proj": "cross_attn.value",
    "cross_attn.o_proj": "cross_attn.out",
  },
}

function encoderNaming({ width, bands }: HearingConfig): Naming {
  const taps = (name: string, channels: number) => ({
    name,
    shape: [width, channels, 3],
    turnedColumns: 3,
  })
  return {
    roots: [{ root: ENCODER, head: ENCODER, apart: ENCODER }],
    layers: "blocks.",
    parts: {
      ...layerParts,
      "conv1.weight": taps("conv1.weight", bands),
      "conv2.weight": taps("conv2.weight", width),
      positions: { name: "positional_embedding", bare: true },
      norm: "ln_post",
    },
  }
}
