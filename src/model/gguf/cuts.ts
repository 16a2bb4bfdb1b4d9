// How texts are cut before byte pairs are merged: GGUF keeps but a name for it. Each row has the patterns, one after the other,
// and all names that mean them; an unknown name is refused, since texts would be cut wrongly. Patterns: llama-vocab.cpp of
// llama.cpp and the tokenizer.json files that the names were given to.

import type { Json } from "../folder.ts"
import { bpe, type Merges } from "../sentence-pieces.ts"
import type { Words } from "../tokenizer-json.ts"

export interface Cuts {
  names: readonly string[]
  /** In Oniguruma's language, which tokenizer.json speaks. */
  patterns: readonly string[]
}

export const cuts: readonly Cuts[] = [
  {
    names: [
      "gpt-2",
      "mpt",
      "olmo",
      "phi-2",
      "jais",
      "trillion",
      "gigachat",
      "exaone4",
      "mellum",
      "modern-bert",
      "granite-docling",
      "a.x-4.0",
      "jina-v2-de",
      "jina-v2-es",
      "jina-v1-en",
      "jina-v2-code",
      "roberta-bpe",
    ],
    patterns: [
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: [
      "llama-bpe",
      "llama3",
      "llama-v3",
      "falcon3",
      "falcon-h1",
      "pixtral",
      "lfm2",
      "midm-2.0",
      "dbrx",
      "smaug-bpe",
      "glm4",
      "chatglm-bpe",
    ],
    patterns: [
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: [
      "qwen2",
      "deepseek-r1-qwen",
      "stablelm2",
      "hunyuan",
      "megrez",
      "solar-open",
      "grok-2",
      "kormo",
      "f2llmv2",
    ],
    patterns: [
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: ["qwen35"],
    patterns: [
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: [
      "starcoder",
      "refact",
      "command-r",
      "smollm",
      "codeshell",
      "exaone",
      "minerva-7b",
      "mellum2",
    ],
    patterns: [
      "\\p{N}",
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: ["falcon"],
    patterns: [
      "[\\p{P}$+<=>^`|~]+",
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      "[0-9][0-9][0-9]",
    ],
  },
  {
    names: ["deepseek-llm"],
    patterns: [
      "[\\r\\n]",
      "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
      "\\s?[!-/:-~！-／：-～‘-‟\\u3000-。]+",
      "\\s+$",
      "[一-龥ࠀ-一가-퟿]+",
      "\\p{N}+",
    ],
  },
  {
    names: ["deepseek-coder"],
    patterns: ["[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"],
  },
  {
    names: ["deepseek-v3", "hunyuan-dense", "joyai-llm"],
    patterns: [
      "\\p{N}{1,3}",
      "[一-龥぀-ゟ゠-ヿ]+",
      "[!\\\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: ["tekken"],
    patterns: [
      "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: ["gpt-4o", "llama4", "kanana2", "minimax-m2", "granite-embed-multi-97m"],
    patterns: [
      "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: ["bailingmoe", "bailingmoe2", "llada-moe"],
    patterns: [
      "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: ["seed-coder"],
    patterns: [
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: ["bloom", "poro-chat", "gpt3-finnish"],
    patterns: [" ?[^(\\s|.,!?…。，、।۔،)]+"],
  },
  {
    names: ["viking"],
    patterns: [" ?[^(\\s|.,!?…。，、।۔،)]+", "\\p{N}"],
  },
  {
    names: ["default"],
    patterns: [
      "[\\p{P}$+<=>^~|]+",
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      "\\p{N}+",
      "[0-9][0-9][0-9]",
    ],
  },
  {
    names: ["minicpm5"],
    patterns: [
      "\\p{N}{1,3}",
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: ["tiny_aya", "cohere2moe"],
    patterns: [
      "\\d{1,3}(?=(?:\\d{3})*\\b)",
      "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: ["kimi-k2"],
    patterns: [
      "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: ["youtu"],
    patterns: [
      "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
      "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: ["afmoe"],
    patterns: [
      "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
      "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
  {
    names: ["jais-2"],
    patterns: [
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}",
    ],
  },
  {
    names: ["laguna"],
    patterns: [
      "[^\\n]+|[\\n]+",
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    ],
  },
]

/** Models of these were trained on texts in Unicode's form NFC, which a file has no way to say. */
const composed: ReadonlySet<string> = new Set([
  "qwen2",
  "qwen35",
  "deepseek-r1-qwen",
  "megrez",
  "stablelm2",
  "f2llmv2",
])

/** Vocabularies of Llama 3's kind, whose texts begin with a token unless the file says otherwise. */
export const begun: ReadonlySet<string> = new Set([
  ...["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2", "midm-2.0"],
  "tekken",
])

/** A word that is a token is taken whole, whatever its merges: not all tokens can be reached by merging. */
const wholeWords: ReadonlySet<string> = new Set([
  ...begun,
  ...["glm4", "minicpm5", "youtu", "granite-embed-multi-97m"],
  "kimi-k2", // tiktoken's order, in which it was made
])

/** Byte-level BPE behind the cuts of that name, as parts of a tokenizer.json; nothing where the name is not known. */
export function bytePairs(pre: string, vocab: Words, merges: Merges): Json | undefined {
  const row = cuts.find(({ names }) => names.includes(pre))
  const how = { composes: composed.has(pre), wholeWords: wholeWords.has(pre) }
  return row && byteLevel(row.patterns, vocab, merges, how)
}

/** The same behind any cuts, for texts that are brought into form NFC first or not, and words that are taken whole or not. */
export function byteLevel(
  patterns: readonly string[],
  vocab: Words,
  merges: Merges,
  { composes, wholeWords: isWhole }: { composes: boolean; wholeWords: boolean },
): Json {
  const isolated = patterns.map((pattern) => ({
    type: "Split",
    pattern: { Regex: pattern },
    behavior: "Isolated",
    invert: false,
  }))
  const bytes = {
    type: "ByteLevel",
    add_prefix_space: false,
    trim_offsets: false,
    use_regex: false,
  }
  return {
    normalizer: composes ? { type: "NFC" } : null,
    pre_tokenizer: { type: "Sequence", pretokenizers: [...isolated, bytes] },
    decoder: { ...bytes, add_prefix_space: true, use_regex: true },
    model: {
      ...bpe(vocab, merges),
      unk_token: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: isWhole,
    },
  }
}
