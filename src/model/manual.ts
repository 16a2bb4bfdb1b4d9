// docs/models.md, printed from the table of architectures.

import { architectures } from "./architectures.ts"
import { ggufArchitectures } from "./gguf/architectures.ts"
import { blockTypeNames, codecOfType } from "./gguf/types.ts"
import { readsAudio } from "./hearing/families.ts"
import { isGemma3n } from "./hearing/gemma3n.ts"
import { isGemma4 } from "./hearing/gemma4.ts"
import { GEMMA4_UNIFIED } from "./hearing/gemma4-unified.ts"
import { isGraniteSpeech } from "./hearing/granite.ts"
import { hearingMmprojNames } from "./hearing/mmproj.ts"
import { seeing } from "./seeing.ts"
import { readsImages } from "./vision/families.ts"
import { mmprojNames } from "./vision/projectors.ts"

const quoted = (name: string) => `\`${name}\``

export function modelsPage(): string {
  const rows = Object.entries(architectures)
    .map(([name, { models, special }]) => [name, models, special] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  const types = blockTypeNames.filter((type) => codecOfType(type) !== undefined)
  const gguf = Object.keys(ggufArchitectures).map(quoted).join(", ")
  return [
    "# Models",
    "",
    "A folder opens by its architecture, the `model_type` of its `config.json`. These are known:",
    "",
    "| `model_type` | models | what sets it apart |",
    "|---|---|---|",
    ...rows.map(([name, models, special]) => `| \`${name}\` | ${models} | ${special} |`),
    "",
    "Each is compared with logits or embeddings that independent programs computed, on the interpreter and on compiled kernels.",
    "All of them run on the processor and on GPUs of every kind ([devices.md](devices.md)).",
    "What a configuration says that would change the mathematics and is not known is refused by name, never left out.",
    "A head that is stored and differs from the embedding is the head, also where `tie_word_embeddings` is true, as in transformers 5.",
    "A decoder whose configuration says `is_causal: false` sees both ways, and so it embeds.",
    "Without a `tokenizer.json`, Mistral's `tekken.json` is read, SentencePiece's `tokenizer.model`, BPE and Unigram, or Moonshot's `tiktoken.model`.",
    "A folder with a `tekken.json` alone and no chat template has the conversation that its version stands for (v3, v7, v11, v13): the tokens",
    "that mistral-common makes. A `SYSTEM_PROMPT.txt` is yours to send, and thinking in it is text.",
    "DeepSeek V3.2 is published with an encoder in Python and no template: its prompts are the same to the character. It thinks where",
    "`chat_template_kwargs` say `thinking` or `enable_thinking`, or a request has a `reasoning_effort`.",
    "What stands around a text is `tokenizer.json`'s to say; of Llama's, Code Llama's and Gemma's classes of tokenizers `add_bos_token` and",
    "`add_eos_token` in `tokenizer_config.json` decide it.",
    "Added tokens that the embedding has no row for (Gemma 3's `<image_soft_token>`) are left out, with a line in the log.",
    "An answer ends with the tokens that `generation_config.json` names, or else `config.json`, and always with the tokenizer's `eos_token`.",
    "Weights in PyTorch's own files (`.bin`, `.pt`, `.pth`) are pickles, which can run any program: they are refused, with the line that",
    "converts them.",
    "",
    "Models that also see or hear. Of those that are marked images are read, too ([images.md](images.md)), or recordings",
    "([audio.md](audio.md)); the others are served as the text model inside of them:",
    "",
    "| `model_type` | models | text model | reads |",
    "|---|---|---|---|",
    ...Object.entries(seeing)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(
        ([name, { models, texts }]) =>
          `| \`${name}\` | ${models} | ${texts.map(quoted).join(", ")} | ${readBy(name)} |`,
      ),
    "",
    `GGUF files, whole or split, open where their architecture is ${gguf}. Their matrices stay in the file's own types: ${types.join(", ")}.`,
    "Those of one to three bits (IQ1, IQ2, IQ3, TQ, Q1_0, Q2_0) become codes of four bits that stand for the same numbers: 4.3 to 4.6 bits a",
    "weight on a processor, 4.5 to 6 on a GPU, whatever less the file has.",
    "Keys and tensors that would change the mathematics and are not known of the architecture are refused by name, and so is a `pre`",
    "whose way of cutting texts is not known. A file from before May 2024, which has no `pre`, is cut as its vocabulary's size (Llama 3) or its",
    "architecture tells, and the log says how.",
    "A folder is its one GGUF model where it holds no other weights, whatever else lies there: a `config.json`, an `imatrix`, an `mmproj`.",
    "Of Gemma 3 and 4, LFM2-VL, Llama 3.2 Vision, Llama 4, Mistral Small from 3.1 on, Ministral 3, Qwen 2.5 VL, Qwen 3 VL and Qwen 3.5, the files that",
    "Ollama's converter wrote open, too.",
    "Files of whisper.cpp (`ggml-base.en.bin`) open by how they begin, with floats and blocks of those types ([audio.md](audio.md#files-of-whispercpp)).",
    "What a GGUF model sees with is inside of those files, or else the `mmproj` file beside it, whose projector may be one of",
    `${mmprojNames.map(quoted).join(", ")} ([images.md](images.md#gguf)).`,
    `It hears with such a file, too, whose projector may be ${hearingMmprojNames.map(quoted).join(", ")}.`,
    "",
    "Folders that were quantised before they were published open with the `quant_method` `gptq` (4 and 8 bits, both versions), `awq`",
    "(gemm), both as `auto-round` writes them, too, `compressed-tensors` (whole numbers of 4 and 8 bits, FP8, MXFP4, NVFP4), `mxfp4` (gpt-oss's),",
    "`fp8` (for each tensor, row or block), `modelopt` (FP8, NVFP4), `bitnet` (ternary, packed or not, codes of 4 bits in memory) and `bitsandbytes` (8 bits; NF4 and FP4, which are kept as the floats that it multiplies, unless `--quantization`",
    "packs those), and as MLX's converter writes them: 2 to 6 and 8 bits over a scale and a bias, MXFP4, MXFP8, NVFP4, each matrix",
    "as it is. MLX stacks experts and keeps filters and some norms otherwise, which is known, too; of GPT-2, GPT-NeoX, Falcon-H1 and Granite 4",
    "without experts it is not, and such folders are refused. Folders of mlx-vlm see, whether their towers are packed or not ([images.md](images.md#mlx)).",
    "Their codes, scales and zeros are computed as they are: nothing is rounded anew. FP8 meets activations that are not rounded.",
    "Matrices taken out of order (`desc_act`) keep their codes with the columns sorted; those of experts, FP8 in blocks that are no multiple",
    "of 32 wide, what MLX packs of routers, and whatever makes the keys of latent attention are kept in float32. These and all of FP8",
    "`--quantization` packs. Other methods are refused by name, and what those folders say about rounding activations is not followed.",
    "",
    "Adapters (LoRA, with DoRA and whole tensors) change a model that is served with `--lora`, or named by themselves bring the model that they",
    "were trained on: as PEFT saves them, as MLX does, and in GGUF for a model in GGUF. A tokenizer beside one is the model's then. What an adapter",
    "adds is added to the weights while they are read, rounded to their floats, and costs nothing afterwards. Matrices of codes stay as they",
    "are, and it is computed beside them; but experts, tables and DoRA's rows become floats of 16 bits. Experts may be trained one by one or as",
    "PEFT's parameters. Other methods, beginnings that take from the model's weights (PiSSA, LoftQ), and tokens trained alone are refused by",
    "name. What a model sees or hears with, and what lies behind it, a projector, are changed, too, where the model lies in a published folder. Where",
    "it lies in a GGUF file or was compiled, or requests choose the adapter, images or recordings are refused with the reason, and a Whisper or a",
    "Parakeet is not served.",
    "",
    "`--lora-modules NAME=ADAPTER,NAME=ADAPTER` serves several adapters beside one model, over the same weights: requests choose one by its",
    "name, which `GET /v1/models` lists with its `parent`, and requests of all of them share steps. What an adapter adds is computed beside the",
    "matrices then, whatever these are kept in, with numbers of 32 bits: two narrow products more for each matrix that one of them changes. Such",
    "adapters add to matrices of attention, of what stands in its place and of MLPs alone (LoRA of any rank), and the model's own tokenizer and",
    "template hold for all. Numbers of theirs that are not finite or beyond 2^64 are refused: they would reach whoever has not chosen them.",
    "A `--lora` beside them changes the model for everybody.",
    "",
    "Where Mistral's own files are all that there is, `params.json` and `consolidated.safetensors` or the files that its index names, they are",
    "the model: of Mistral's, Mixtral's and Ministral 3's kinds, in floats or in FP8, with what they see with (Pixtral 12B, Mistral Small from 3.1",
    "on, Ministral 3) or hear with (Voxtral). A `config.json` with weights of its own goes first. Where nothing is said of it the context is 128,000 tokens, as vLLM has",
    "it. Latent attention and shared experts (Mistral Large 3) are refused by name in such files.",
    "",
    "Matrices are served in the folder's own floats, or packed by `--quantization`. Layers that see only a window of",
    "positions keep the keys and values of a window, also where others see and keep everything.",
    "",
  ].join("\n")
}

const readBy = (type: string) =>
  [
    readsImages(type) ? "images" : [],
    readsAudio(type) ||
    [isGemma3n, isGemma4, isGraniteSpeech].some((is) => is(type)) ||
    type === GEMMA4_UNIFIED
      ? "audio"
      : [],
  ]
    .flat()
    .join(", ")
