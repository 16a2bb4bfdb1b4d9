// The architectures that are known, under the names that configurations give them (`model_type`): how each reads its
// configuration, what its tensors are called in Hugging Face folders, and its joined projections in MLC folders. What sets
// them apart is in their blocks; the graph is made of those (layers.ts).

import { afmoeNaming, readAfmoe } from "./architectures/afmoe.ts"
import {
  apertus15Naming,
  apertusNaming,
  readApertus,
  readApertus15,
} from "./architectures/apertus.ts"
import { readArcee } from "./architectures/arcee.ts"
import {
  bertNaming,
  distilBertNaming,
  mpnetNaming,
  readBert,
  readDistilBert,
  readElectra,
  readMpnet,
  readRoberta,
} from "./architectures/bert.ts"
import { bitnetNaming, readBitnet } from "./architectures/bitnet.ts"
import { bloomNaming, mptNaming, readBloom, readMpt } from "./architectures/bloom.ts"
import {
  cohere2MoeNaming,
  cohereNaming,
  readCohere,
  readCohere2,
  readCohere2Moe,
  readCohereCompass,
} from "./architectures/cohere2.ts"
import { dbrxNaming, readDbrx } from "./architectures/dbrx.ts"
import { debertaNaming, readDeberta } from "./architectures/deberta.ts"
import {
  deepseekNaming,
  miniCpm3Naming,
  mistral4Naming,
  readDeepseek2,
  readDeepseek3,
  readGlm4Lite,
  readMiniCpm3,
  readMistral4,
  readSarvamMla,
} from "./architectures/deepseek.ts"
import { glmDsaNaming, readDeepseek32, readGlmDsa } from "./architectures/deepseek-sparse.ts"
import { doryNaming, readDory } from "./architectures/dory.ts"
import { ernieMoeNaming, readErnie, readErnieMoe, readPaddleOcr } from "./architectures/ernie.ts"
import { exaoneMoeNaming, readExaone4, readExaoneMoe } from "./architectures/exaone4.ts"
import { falconNaming, readFalcon } from "./architectures/falcon.ts"
import { falconH1Naming, readFalconH1 } from "./architectures/falcon-h1.ts"
import {
  gemma2Naming,
  gemma3Naming,
  gemmaNaming,
  readGemma,
  readGemma2,
  readGemma3,
  readVaultGemma,
  vaultGemmaNaming,
} from "./architectures/gemma.ts"
import { gemma3nNaming, readGemma3n } from "./architectures/gemma3n.ts"
import {
  embeddingGemma2Naming,
  gemma4Naming,
  readEmbeddingGemma2,
  readGemma4,
} from "./architectures/gemma4.ts"
import { glm4Naming, neighboursNaming, readGlm, readGlm4 } from "./architectures/glm4.ts"
import {
  bailingNaming,
  glm4MoeNaming,
  readBailingMoe,
  readDots1,
  readGlm4Moe,
  readSarvamMoe,
  readSolarOpen,
} from "./architectures/glm4-moe.ts"
import { gptNeoNaming, readGptNeo } from "./architectures/gpt-neo.ts"
import { gptNeoxNaming, readGptNeox } from "./architectures/gpt-neox.ts"
import { gptOssNaming, readGptOss } from "./architectures/gpt-oss.ts"
import { bigCodeNaming, gpt2Naming, readBigCode, readGpt2 } from "./architectures/gpt2.ts"
import { codegenNaming, gptjNaming, readCodegen, readGptj } from "./architectures/gptj.ts"
import {
  bambaNaming,
  graniteHybridNaming,
  graniteMoeNaming,
  graniteMoeSwaNaming,
  graniteSwaNaming,
  hyperclovaxNaming,
  readBamba,
  readGranite,
  readGraniteHybrid,
  readGraniteMoe,
  readGraniteMoeShared,
  readGraniteMoeSwa,
  readGraniteSwa,
  readHyperclovax,
} from "./architectures/granite.ts"
import { gteNaming, readGte, readNew } from "./architectures/gte.ts"
import { hrmTextNaming, readHrmText } from "./architectures/hrm-text.ts"
import {
  hunyuan3Naming,
  hunyuanMoeNaming,
  hunyuanNaming,
  readHunyuan,
  readHunyuan3,
  readHunyuanMoe,
  readHunyuanVl,
} from "./architectures/hunyuan.ts"
import { jinaXlmNaming, readJina3 } from "./architectures/jina.ts"
import { kimiLinearNaming, readKimiLinear } from "./architectures/kimi-linear.ts"
import { kolibri1Naming, readKolibri1 } from "./architectures/kolibri1.ts"
import { lagunaNaming, readLaguna } from "./architectures/laguna.ts"
import { laraMiniNaming, readLaraMini } from "./architectures/lara-mini.ts"
import { lfm2Naming, lfm3Naming, readLfm2, readLfm2Moe, readLfm3 } from "./architectures/lfm2.ts"
import {
  exaoneNaming,
  readCwm,
  readEuroBert,
  readExaone,
  readHelium,
  readInternlm3,
  readIquestCoder,
  readLlama,
  readSeedOss,
} from "./architectures/llama.ts"
import { llama4Naming, readLlama4 } from "./architectures/llama4.ts"
import {
  jambaNaming,
  mamba2Naming,
  mambaNaming,
  readFalconMamba,
  readJamba,
  readMamba,
  readMamba2,
} from "./architectures/mamba.ts"
import { mimoNaming, readMimo } from "./architectures/mimo.ts"
import { minimaxM2Naming, readMinimaxM2 } from "./architectures/minimax.ts"
import { readMinistral3, readMistral } from "./architectures/mistral.ts"
import { mixtralNaming, readMixtral } from "./architectures/mixtral.ts"
import { mllamaNaming, readMllama } from "./architectures/mllama.ts"
import { modernBertNaming, readModernBert } from "./architectures/modernbert.ts"
import { moonshineNaming, readMoonshine } from "./architectures/moonshine.ts"
import { museGlimmerNaming, readMuseGlimmer } from "./architectures/muse-glimmer.ts"
import { nanochatNaming, readNanochat } from "./architectures/nanochat.ts"
import { nemotronNaming, readJais2, readNemotron } from "./architectures/nemotron.ts"
import { nemotronHNaming, readNemotronH } from "./architectures/nemotron-h.ts"
import { nemotronNasNaming, readNemotronNas } from "./architectures/nemotron-nas.ts"
import { nomicBertNaming, readNomicBert } from "./architectures/nomic-bert.ts"
import {
  normsBehind,
  olmoHybridNaming,
  olmoNaming,
  readFlexOlmo,
  readOlmo,
  readOlmo2,
  readOlmo3,
  readOlmoe,
  readOlmoHybrid,
} from "./architectures/olmo.ts"
import { optNaming, readOpt } from "./architectures/opt.ts"
import {
  parakeetNaming,
  readParakeetCtc,
  readParakeetRnnt,
  readParakeetTdt,
} from "./architectures/parakeet.ts"
import { phi3Naming, phiNaming, readPhi, readPhi3, readPhimoe } from "./architectures/phi.ts"
import {
  qwen3MoeNaming,
  readMellum,
  readQwen2,
  readQwen2Moe,
  readQwen3,
  readQwen3Moe,
} from "./architectures/qwen.ts"
import {
  qwen3NextNaming,
  qwen35MoeNaming,
  qwen35Naming,
  readQwen35,
  readQwen35Moe,
} from "./architectures/qwen3-5.ts"
import { readSmollm3 } from "./architectures/smollm3.ts"
import { readStablelm, stablelmNaming } from "./architectures/stablelm.ts"
import { readStarcoder2, starcoder2Naming } from "./architectures/starcoder2.ts"
import { readStep, stepNaming } from "./architectures/step.ts"
import { readWhisper, whisperNaming } from "./architectures/whisper.ts"
import type { ModelConfig } from "./config.ts"
import type { Fields } from "./fields.ts"
import { llamaNaming, type Naming } from "./weights/names.ts"

export interface Architecture {
  /** Which published models are of it. */
  models: string
  /** What sets it apart from llama. */
  special: string
  read: (fields: Fields) => ModelConfig
  naming: (config: ModelConfig) => Naming
  /** q, k and v in one, in MLC's spelling. */
  mlcAttention: "qkv_proj" | "c_attn"
}

/** An architecture with llama's names, or with those given. */
function row(
  models: string,
  special: string,
  read: Architecture["read"],
  naming: Naming | Architecture["naming"] = llamaNaming,
  mlcAttention: Architecture["mlcAttention"] = "qkv_proj",
): Architecture {
  return {
    models,
    special,
    read,
    naming: typeof naming === "function" ? naming : () => naming,
    mlcAttention,
  }
}

export const architectures = {
  llama: row(
    "Llama 1 to 3.3, TinyLlama, SmolLM2, Vicuna, Yi, DeepSeek-R1 distillates, Falcon 3",
    "grouped queries; linear, llama3, yarn and longrope turning",
    readLlama,
  ),
  llama4_text: row(
    "Llama 4; MobileLLM R1",
    "chunked windows in layers that are turned, everything and growing queries in every fourth; one expert, which reads the row times its weight, beside a shared one",
    readLlama4,
    llama4Naming,
  ),
  mllama_text_model: row(
    "Llama 3.2 Vision 11B and 90B",
    "as `llama`; between its layers others that attend to images alone, gated, which leave what they read where a token sees none",
    readMllama,
    mllamaNaming,
  ),
  internlm3: row("InternLM 3 8B", "as `llama`", readInternlm3),
  iquestcoder: row("IQuest Coder 40B", "as `llama`", readIquestCoder),
  exaone: row("EXAONE 3 and 3.5", "as `llama`, under other names", readExaone, exaoneNaming),
  helium: row("Helium 1 2B", "neighbours of a head turned", readHelium, neighboursNaming),
  cwm: row("Code World Model 32B", "windows in three layers of four", readCwm),
  ministral: row("Ministral 8B", "windows in layers that are listed", readMistral),
  mistral: row("Mistral 7B and Nemo, Ministral 8B, Zephyr", "windows", readMistral),
  qwen2: row(
    "Qwen 2 and 2.5, dense",
    "biases on queries, keys and values; windows in later layers",
    readQwen2,
    llamaNaming,
    "c_attn",
  ),
  qwen3: row("Qwen 3, dense", "norms on query and key heads", readQwen3, llamaNaming, "c_attn"),
  mixtral: row("Mixtral 8x7B and 8x22B", "2 of 8 experts; windows", readMixtral, mixtralNaming),
  dbrx: row(
    "DBRX",
    "4 of 16 experts behind LayerNorms without biases; queries, keys and values cut off",
    readDbrx,
    dbrxNaming,
  ),
  qwen2_moe: row(
    "Qwen 1.5 MoE A2.7B, Qwen 2 57B-A14B",
    "experts beside a shared one under a gate of its own",
    readQwen2Moe,
    llamaNaming,
    "c_attn",
  ),
  qwen3_moe: row(
    "Qwen 3 30B-A3B and 235B-A22B, Qwen 3 Coder",
    "8 of 128 experts; norms on query and key heads",
    readQwen3Moe,
    qwen3MoeNaming,
    "c_attn",
  ),
  mellum: row(
    "Mellum 2 12B-A2.5B",
    "as `qwen3_moe`; windows in layers that are listed, turned otherwise",
    readMellum,
    qwen3MoeNaming,
  ),
  gemma: row(
    "Gemma 1",
    "norms times 1 + weight; gated gelu; the table scaled by the root of its width",
    readGemma,
    gemmaNaming,
  ),
  gemma2: row(
    "Gemma 2",
    "norms before and behind; scores and logits bent; windows in every other layer",
    readGemma2,
    gemma2Naming,
  ),
  vaultgemma: row(
    "VaultGemma 1B",
    "as `gemma2`, with norms before only",
    readVaultGemma,
    vaultGemmaNaming,
  ),
  gemma3_text: row(
    "Gemma 3",
    "norms before, behind and on heads; windows in five layers of six, turned otherwise",
    readGemma3,
    gemma3Naming,
  ),
  gemma3n_text: row(
    "Gemma 3n",
    "four rows of a token, of which a layer computes one; inputs of each layer's own; of gates only the highest count",
    readGemma3n,
    gemma3nNaming,
  ),
  gemma4_text: row(
    "Gemma 4",
    "experts beside the MLP; inputs of each layer's own; layers that read what others keep; two widths of heads",
    readGemma4,
    gemma4Naming,
  ),
  embedding_gemma2_text: row(
    "EmbeddingGemma 2",
    "as `gemma4_text`, both ways; inputs of each layer's own, made of the embedding; what is pooled goes through a matrix",
    readEmbeddingGemma2,
    embeddingGemma2Naming,
  ),
  muse_glimmer_text: row(
    "Muse Glimmer 30B",
    "norms before and behind, of the embedding and of heads without weights; gated heads; windows are turned, every fourth layer is not; bent logits",
    readMuseGlimmer,
    museGlimmerNaming,
  ),
  phi: row(
    "Phi 1, 1.5 and 2",
    "attention and MLP side by side; part of each head turned; biases everywhere",
    readPhi,
    phiNaming,
  ),
  phi3: row(
    "Phi 3, 3.5 mini, 4 and 4 mini",
    "joined projections; longrope; windows",
    readPhi3,
    phi3Naming,
  ),
  phimoe: row(
    "Phi 3.5 MoE, Phi Mini MoE and Tiny MoE",
    "as `mixtral`, with LayerNorms and biases; experts weighed by SparseMixer; longrope",
    readPhimoe,
    mixtralNaming,
  ),
  ministral3: row(
    "Ministral 3, Devstral 2",
    "yarn; queries that grow with their position",
    readMinistral3,
  ),
  smollm3: row("SmolLM3", "every fourth layer is not turned", readSmollm3),
  olmo: row(
    "OLMo 1, 1B and 7B",
    "LayerNorms without weights; in some queries, keys and values cut off",
    readOlmo,
    olmoNaming,
  ),
  olmo2: row(
    "OLMo 2",
    "norms behind only, and one over all query or key heads",
    readOlmo2,
    normsBehind,
  ),
  olmoe: row(
    "OLMoE 1B-7B",
    "norms before; one over all query or key heads; 8 of 64 experts",
    readOlmoe,
  ),
  flex_olmo: row(
    "FlexOlmo 7x7B",
    "as `olmo2`, 5 of 7 experts, whose weights are not normalised",
    readFlexOlmo,
    normsBehind,
  ),
  olmo3: row(
    "OLMo 3",
    "as `olmo2`; windows in three layers of four, yarn in the fourth",
    readOlmo3,
    normsBehind,
  ),
  olmo_hybrid: row(
    "OLMo Hybrid 7B",
    "the gated delta rule with a state in three layers of four, which may turn what is remembered; `olmo2`'s attention in the fourth, seldom turned",
    readOlmoHybrid,
    olmoHybridNaming,
  ),
  seed_oss: row("Seed OSS 36B", "biases on queries, keys and values", readSeedOss),
  granite: row(
    "Granite 3, dense",
    "multipliers on the table, residuals, scores and logits",
    readGranite,
  ),
  granitemoe: row(
    "Granite 3, 1B-A400M and 3B-A800M",
    "as `granite`, with stacked experts",
    readGraniteMoe,
    graniteMoeNaming,
  ),
  granitemoeshared: row(
    "Granite's mixtures beside a shared expert",
    "as `granitemoe`, beside an MLP that all tokens go to",
    readGraniteMoeShared,
    graniteHybridNaming,
  ),
  granite_swa: row(
    "Granite Swash",
    "as `granite`; learned sinks; windows in three layers of four; each layer turned by a theta of its own",
    readGraniteSwa,
    graniteSwaNaming,
  ),
  granitemoe_swa: row(
    "Granite Swash's mixtures",
    "as `granite_swa`, with experts as `granitemoeshared` has them",
    readGraniteMoeSwa,
    graniteMoeSwaNaming,
  ),
  hyperclovax: row(
    "HyperCLOVA X SEED Think 14B",
    "as `granite`, with norms before and behind",
    readHyperclovax,
    hyperclovaxNaming,
  ),
  granitemoehybrid: row(
    "Granite 4, with states (the H ones) and without",
    "as `granite`; selective state spaces (Mamba 2) in most layers, and nothing turned, or attention alone; an MLP, or experts beside one",
    readGraniteHybrid,
    graniteHybridNaming,
  ),
  bamba: row(
    "Bamba 9B",
    "selective state spaces (Mamba 2) in most layers; half of each head turned",
    readBamba,
    bambaNaming,
  ),
  glm: row(
    "GLM-4 9B of 2024, GLM Edge",
    "biases on queries, keys and values; neighbours of half a head turned",
    readGlm,
    glm4Naming,
  ),
  glm4: row(
    "GLM-4 9B and 32B of April 2025",
    "norms before and behind; neighbours of half a head turned",
    readGlm4,
    glm4Naming,
  ),
  exaone4: row(
    "EXAONE 4",
    "norms behind and on heads; windows are turned, layers that see everything are not",
    readExaone4,
    normsBehind,
  ),
  exaone_moe: row(
    "K-EXAONE 236B-A23B",
    "`deepseek_v3`'s experts behind attention as `exaone4` has it, behind norms",
    readExaoneMoe,
    exaoneMoeNaming,
  ),
  kolibri1: row(
    "Kolibri 1",
    "as `exaone4`, with norms before, too; experts beside a shared one, chosen by logits and a bias that does not weigh",
    readKolibri1,
    kolibri1Naming,
  ),
  ernie4_5: row("ERNIE 4.5, dense", "neighbours of a head turned", readErnie, neighboursNaming),
  paddleocr_vl_text: row(
    "what reads in PaddleOCR-VL",
    "as `ernie4_5`, halves of heads turned with each other",
    readPaddleOcr,
  ),
  ernie4_5_moe: row(
    "ERNIE 4.5 21B-A3B and 300B-A47B",
    "as `ernie4_5`; experts chosen by a bias that does not weigh, beside shared ones",
    readErnieMoe,
    ernieMoeNaming,
  ),
  hunyuan_v1_dense: row(
    "Hunyuan 0.5B to 7B",
    "norms on heads behind the turn; a larger base instead of stretching",
    readHunyuan,
    hunyuanNaming,
  ),
  hunyuan_vl_text: row(
    "what reads in HunyuanOCR",
    "as `hunyuan_v1_dense`",
    readHunyuanVl,
    hunyuanNaming,
  ),
  hunyuan_v1_moe: row(
    "Hunyuan A13B",
    "as `hunyuan_v1_dense`, with experts beside a shared one",
    readHunyuanMoe,
    hunyuanMoeNaming,
  ),
  hy_v3: row(
    "Hy 3",
    "`deepseek_v3`'s experts behind attention with norms on query and key heads",
    readHunyuan3,
    hunyuan3Naming,
  ),
  cohere: row(
    "Command R and R+, Aya 23 and Expanse",
    "attention and MLP side by side; neighbours of a head turned; in some a LayerNorm of its own for each head; scaled logits",
    readCohere,
    cohereNaming,
  ),
  cohere2: row(
    "Command R7B, Aya",
    "attention and MLP side by side; windows are turned, every fourth layer is not; scaled logits",
    readCohere2,
    neighboursNaming,
  ),
  cohere2_moe: row(
    "Command A+",
    "as `cohere2`, with experts behind the first layers, beside shared ones",
    readCohere2Moe,
    cohere2MoeNaming,
  ),
  cohere_compass_text: row(
    "North Micro",
    "as `cohere2`, halves of heads turned with each other, in ways that kinds of layers have of their own",
    readCohereCompass,
  ),
  whisper: row(
    "Whisper tiny to large-v3-turbo, distil-whisper",
    "attention over what its encoder makes of a recording, behind attention over tokens; learned positions; LayerNorm, plain MLP",
    readWhisper,
    whisperNaming,
  ),
  parakeet_ctc: row(
    "Parakeet CTC 0.6B and 1.1B",
    "no layers of its own: a matrix names a token, or none, for each row that its encoder makes of a recording",
    readParakeetCtc,
    parakeetNaming,
  ),
  parakeet_rnnt: row(
    "Parakeet RNN-T 0.6B and 1.1B",
    "no layers of its own: an LSTM over what was said, and a matrix over that and a row of its encoder",
    readParakeetRnnt,
    parakeetNaming,
  ),
  parakeet_tdt: row(
    "Parakeet TDT 0.6B v2 and v3, 1.1B",
    "as `parakeet_rnnt`, and it tells how many rows a token goes on",
    readParakeetTdt,
    parakeetNaming,
  ),
  moonshine: row(
    "Moonshine tiny and base",
    "attention over what its encoder makes of samples, behind attention over tokens; neighbours of most of a head turned; LayerNorm",
    readMoonshine,
    moonshineNaming,
  ),
  starcoder2: row(
    "StarCoder2",
    "LayerNorm, plain MLP, biases; windows",
    readStarcoder2,
    starcoder2Naming,
  ),
  stablelm: row(
    "StableLM 2",
    "LayerNorm, of its own for each head; part of each head turned",
    readStablelm,
    stablelmNaming,
  ),
  gpt_neox: row(
    "GPT-NeoX, Pythia",
    "attention and MLP side by side, each behind its LayerNorm; joined projections",
    readGptNeox,
    gptNeoxNaming,
  ),
  lfm2: row(
    "LFM2 350M to 2.6B",
    "short convolutions with a state in most layers",
    readLfm2,
    lfm2Naming,
  ),
  lfm2_moe: row(
    "LFM2 8B-A1B",
    "as `lfm2`, with experts chosen by a bias that does not weigh",
    readLfm2Moe,
    lfm2Naming,
  ),
  lfm3: row(
    "LFM3 1.7B",
    "as `lfm2`, with norms before and behind; windows in some layers of attention; gated heads",
    readLfm3,
    lfm3Naming,
  ),
  qwen3_5_text: row(
    "Qwen 3.5 and 3.6, dense",
    "the gated delta rule with a state in three layers of four; gated attention in the fourth",
    readQwen35,
    qwen35Naming,
  ),
  qwen3_5_moe_text: row(
    "Qwen 3.5 and 3.6 35B-A3B and larger",
    "as `qwen3_5_text`, with experts beside a shared one",
    readQwen35Moe,
    qwen35MoeNaming,
  ),
  qwen3_next: row(
    "Qwen 3 Next 80B-A3B, Qwen 3 Coder Next",
    "as `qwen3_5_moe_text`, with projections joined key head by key head",
    readQwen35Moe,
    qwen3NextNaming,
  ),
  lara_mini: row(
    "Lara 4 Mini",
    "the gated delta rule with a state in two layers of five; windows are turned, layers that see everything are not; experts beside a shared one",
    readLaraMini,
    laraMiniNaming,
  ),
  gpt_oss: row(
    "gpt-oss 20B and 120B",
    "experts in MXFP4 with biases and limits; learned sinks; windows in every other layer; yarn",
    readGptOss,
    gptOssNaming,
  ),
  gpt2: row("GPT-2", "learned positions; matrices stored [in, out]", readGpt2, gpt2Naming),
  gpt_bigcode: row(
    "StarCoder 1, SantaCoder",
    "as `gpt2`, with one head of keys",
    readBigCode,
    bigCodeNaming,
    "c_attn",
  ),
  falcon: row(
    "Falcon 7B, 11B and 40B",
    "attention and MLP side by side, behind one LayerNorm or two; one key head or groups",
    readFalcon,
    falconNaming,
  ),
  falcon_h1: row(
    "Falcon-H1, 0.5B to 34B",
    "selective state spaces (Mamba 2) beside attention in every layer; multipliers on all that is projected",
    readFalconH1,
    falconH1Naming,
  ),
  deepseek_v2: row(
    "DeepSeek V2 and V2 Lite",
    "latent attention; experts of the best groups beside shared ones; yarn",
    readDeepseek2,
    deepseekNaming,
  ),
  deepseek_v3: row(
    "DeepSeek V3 and R1, Moonlight",
    "latent attention; experts chosen by a bias that does not weigh, of the best groups",
    readDeepseek3,
    deepseekNaming,
  ),
  deepseek_v32: row(
    "DeepSeek V3.2 and V3.2-Exp",
    "as `deepseek_v3`, and attention sees the positions that an indexer chooses",
    readDeepseek32,
    deepseekNaming,
  ),
  kimi_k2: row("Kimi K2", "as `deepseek_v3`", readDeepseek3, deepseekNaming),
  kimi_linear: row(
    "Kimi Linear 48B-A3B",
    "the gated delta rule with a decay for each column of a key in three layers of four; latent attention that nothing turns in the fourth; `deepseek_v3`'s experts",
    readKimiLinear,
    kimiLinearNaming,
  ),
  youtu: row(
    "Youtu LLM 2B",
    "latent attention, without experts",
    (fields) => readDeepseek3(fields.with({ tie_word_embeddings: true })),
    deepseekNaming,
  ),
  sarvam_mla: row(
    "Sarvam 105B",
    "latent attention; `deepseek_v3`'s experts",
    readSarvamMla,
    deepseekNaming,
  ),
  minicpm3: row(
    "MiniCPM 3 4B",
    "latent attention without experts; multipliers of embedding, residuals and logits; longrope",
    readMiniCpm3,
    miniCpm3Naming,
  ),
  bitnet: row(
    "BitNet b1.58 2B4T",
    "relu squared; a norm more before each projection back; ternary matrices",
    readBitnet,
    bitnetNaming,
  ),
  mistral4: row(
    "Mistral Small 4",
    "latent attention with queries that grow with their position; experts beside a shared one; yarn",
    readMistral4,
    mistral4Naming,
  ),
  glm4_moe: row(
    "GLM-4.5, 4.6 and 4.7, and the Air ones",
    "`deepseek_v3`'s experts behind grouped queries with biases; half of each head turned",
    readGlm4Moe,
    glm4MoeNaming,
  ),
  dots1: row(
    "dots.llm1",
    "`deepseek_v3`'s experts behind attention with norms on query and key heads",
    readDots1,
    glm4MoeNaming,
  ),
  solar_open: row(
    "Solar Open 100B",
    "`deepseek_v3`'s experts in every layer, behind attention as `llama` has it",
    readSolarOpen,
    glm4MoeNaming,
  ),
  sarvam_moe: row(
    "Sarvam 30B",
    "`deepseek_v3`'s experts behind attention with norms on query and key heads; joined projections",
    readSarvamMoe,
    bailingNaming,
  ),
  bailing_moe: row(
    "Ling and Ring, lite, mini, flash and 1T",
    "experts beside a shared one, of a softmax, or `deepseek_v3`'s behind norms on query and key heads, half of which are turned; joined projections",
    readBailingMoe,
    bailingNaming,
  ),
  bailing_moe_v2: row(
    "Ling and Ring 2.0, where they are called so",
    "as `bailing_moe`",
    readBailingMoe,
    bailingNaming,
  ),
  afmoe: row(
    "Arcee's Trinity",
    "`deepseek_v3`'s experts; windows are turned, layers that see everything are not; gated attention; norms before, behind and on heads",
    readAfmoe,
    afmoeNaming,
  ),
  laguna: row(
    "Laguna",
    "layers of more and of fewer heads, each gated; windows, turned otherwise; experts chosen by a bias that does not weigh, beside a shared one",
    readLaguna,
    lagunaNaming,
  ),
  step3p5: row(
    "Step 3.5 Flash, Step 3.7 Flash",
    "layers with a window have more heads; each is gated; experts chosen by a bias that does not weigh, beside a shared one, some cut off",
    readStep,
    stepNaming,
  ),
  mimo_v2_flash: row(
    "MiMo V2 Flash",
    "values narrower than keys; windows with more heads of keys, sinks and another theta; `deepseek_v3`'s experts without a shared one",
    readMimo,
    mimoNaming,
  ),
  minimax_m2: row(
    "MiniMax M2",
    "experts chosen by a bias that does not weigh; one norm over all query or key heads; a part of each head turned",
    readMinimaxM2,
    minimaxM2Naming,
  ),
  dory: row(
    "Nemotron-Labs Dory 4B",
    "rows of length 1 that go towards what a layer gives; layers that are passed twice; gated heads; windows, turned otherwise",
    readDory,
    doryNaming,
  ),
  hrm_text: row(
    "HRM Text 1B, its prompts read one way",
    "two stacks that are passed by turns, a fast one more often; norms without weights; gated heads",
    readHrmText,
    hrmTextNaming,
  ),
  glm_moe_dsa: row(
    "GLM 5, 5.1 and 5.2",
    "as `deepseek_v32`, whose indexers some layers share",
    readGlmDsa,
    glmDsaNaming,
  ),
  glm4_moe_lite: row(
    "GLM-4.7 Flash",
    "latent attention; `deepseek_v3`'s experts",
    readGlm4Lite,
    deepseekNaming,
  ),
  arcee: row("Arcee's AFM 4.5B", "a plain MLP with relu squared", readArcee),
  nemotron: row(
    "Nemotron 4, Minitron",
    "LayerNorm times 1 + weight; plain MLP with relu squared; half of each head turned",
    readNemotron,
    nemotronNaming,
  ),
  jais2: row("Jais 2", "LayerNorm; plain MLP with relu squared; biases everywhere", readJais2),
  apertus: row(
    "Apertus 8B and 70B",
    "norms on query and key heads; a plain MLP with xIELU, two numbers of which are learned",
    readApertus,
    apertusNaming,
  ),
  apertus1p5_text: row(
    "Apertus 1.5 8B",
    "as `apertus`; tokens that are read and never written",
    readApertus15,
    apertus15Naming,
  ),
  nanochat: row(
    "nanochat",
    "norms without weights; heads turned the other way round; plain MLP with relu squared; bent logits",
    readNanochat,
    nanochatNaming,
  ),
  gptj: row(
    "GPT-J 6B, GPT-JT",
    "attention and MLP side by side; neighbours of a part of each head turned",
    readGptj,
    gptjNaming,
  ),
  codegen: row(
    "CodeGen 350M to 16B",
    "as `gptj`, with joined projections",
    readCodegen,
    codegenNaming,
  ),
  gpt_neo: row(
    "GPT-Neo 125M to 2.7B",
    "as `gpt2`; windows in every other layer; scores are not scaled",
    readGptNeo,
    gptNeoNaming,
  ),
  opt: row(
    "OPT 125M, 1.3B and larger, Galactica",
    "as `gpt2`, with relu; two rows of the table of positions before the first",
    readOpt,
    optNaming,
  ),
  bloom: row(
    "BLOOM and BLOOMZ",
    "scores lose by distance (ALiBi), and nothing is turned; a norm of the embedding; biases everywhere",
    readBloom,
    bloomNaming,
  ),
  mpt: row(
    "MPT 7B and 30B",
    "scores lose by distance (ALiBi), and nothing is turned; LayerNorms without biases",
    readMpt,
    mptNaming,
  ),
  mamba: row(
    "Mamba 130M to 2.8B",
    "a selective state space (Mamba 1) in every layer, and nothing else",
    readMamba,
    mambaNaming,
  ),
  falcon_mamba: row(
    "Falcon Mamba 7B",
    "as `mamba`, with norms of steps, keys and queries",
    readFalconMamba,
    mambaNaming,
  ),
  mamba2: row(
    "Mamba 2 130M to 2.7B, Codestral Mamba",
    "a selective state space (Mamba 2) in every layer, and nothing else",
    readMamba2,
    mamba2Naming,
  ),
  jamba: row(
    "Jamba Reasoning 3B, Jamba Mini and Large",
    "selective state spaces (Mamba 1) in most layers, attention that nothing turns in a few; experts in every other layer, or none",
    readJamba,
    jambaNaming,
  ),
  nemotron_h: row(
    "Nemotron-H, Nemotron Nano 2 and Nemotron 3",
    "layers that are one thing each: selective state spaces (Mamba 2), a few of attention, and an MLP or experts without gates; nothing is turned",
    readNemotronH,
    nemotronHNaming,
  ),
  "nemotron-nas": row(
    "Llama Nemotron Super 49B, Ultra 253B and 51B",
    "as `llama`, with heads of keys and an MLP of each layer's own width; in some layers either is missing, or a matrix stands in attention's place",
    readNemotronNas,
    nemotronNasNaming,
  ),
  bert: row(
    "BERT, MiniLM, BGE 1.5, E5, GTE, Arctic Embed, which embed; Jina Embeddings 2",
    "sees both ways; norms behind; learned positions, or in Jina's scores that lose by distance (ALiBi), and gated MLPs",
    readBert,
    bertNaming,
  ),
  "xlm-roberta": row(
    "XLM-RoBERTa, BGE-M3, multilingual E5, Arctic Embed L 2, which embed; Jina Embeddings 3 without adapters, Jina Reranker 2",
    "as `bert`, positions from 2 on, or in Jina's turned",
    readRoberta,
    bertNaming,
  ),
  roberta: row(
    "RoBERTa, all-roberta, cross-encoders made of it",
    "as `bert`, positions from 2 on",
    readRoberta,
    bertNaming,
  ),
  camembert: row(
    "CamemBERT and sentence-camembert",
    "as `bert`, positions from 2 on",
    readRoberta,
    bertNaming,
  ),
  electra: row(
    "ELECTRA and cross-encoders made of it",
    "as `bert`; a table of tokens that may be narrower",
    readElectra,
    bertNaming,
  ),
  distilbert: row(
    "DistilBERT, multi-qa-distilbert, msmarco-distilbert",
    "as `bert`, without types",
    readDistilBert,
    distilBertNaming,
  ),
  mpnet: row(
    "MPNet: all-mpnet-base-v2, multi-qa-mpnet, paraphrase-mpnet",
    "as `bert`, without types; scores have learned biases by distance",
    readMpnet,
    mpnetNaming,
  ),
  "deberta-v2": row(
    "DeBERTa 2 and 3, mDeBERTa and cross-encoders made of them: mxbai-rerank 1",
    "as `bert`; scores hang on what query and key make of their distance, near by by its own number, further off by buckets",
    readDeberta,
    debertaNaming,
  ),
  nomic_bert: row(
    "Nomic Embed Text 1, 1.5 and 2",
    "sees both ways; turned; gated MLP; in 2 biases, no gates, and experts in every other layer",
    readNomicBert,
    nomicBertNaming,
  ),
  jina_embeddings_v3: row(
    "Jina Embeddings 3, as transformers has it",
    "as Jina's of `xlm-roberta`",
    readJina3,
    jinaXlmNaming,
  ),
  gte: row(
    "GTE multilingual, GTE 1.5, Arctic Embed M 2",
    "as `nomic_bert`, with biases",
    readGte,
    gteNaming,
  ),
  new: row(
    "GTE multilingual and GTE 1.5 as first published",
    "as `gte`; turns may be stretched",
    readNew,
    gteNaming,
  ),
  eurobert: row(
    "EuroBERT 210M to 2.1B, Jina Embeddings 5 Nano",
    "as `llama`, both ways",
    readEuroBert,
  ),
  modernbert: row(
    "ModernBERT, GTE ModernBERT, Nomic's ModernBERT Embed",
    "sees both ways, most layers a window; turned; gated MLP",
    readModernBert,
    modernBertNaming,
  ),
} as const satisfies Record<string, Architecture>

export type ArchitectureName = keyof typeof architectures
