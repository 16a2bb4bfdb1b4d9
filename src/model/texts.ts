// What a model folder says about text and talk: the tokenizer, the chat template, special tokens, end tokens, defaults of
// sampling. Handed on as plain values; what they mean is the chat room's business.

import { readdirSync, statSync } from "node:fs"
import { basename, join } from "node:path"
import { conversationPrefix, conversationStops, conversationTemplate } from "./conversation.ts"
import { DEEPSEEK_V32, DEEPSEEK_V32_TEMPLATE } from "./deepseek-template.ts"
import { Fields } from "./fields.ts"
import { type Folder, isObject, type Json } from "./folder.ts"
import { MLC } from "./mlc-config.ts"
import { PLAIN } from "./sense.ts"
import { readTekken, TEKKEN, type Tekken } from "./tekken.ts"
import { readTiktokenModel, TIKTOKEN_MODEL } from "./tiktoken-model.ts"
import { readTokenizerModel, TOKENIZER_MODEL } from "./tokenizer-model.ts"
import { PALIGEMMA, PALIGEMMA_TEMPLATE } from "./vision/paligemma.ts"

export interface ModelTexts {
  tokenizer: TokenizerText // in the words of a tokenizer.json
  /** The model's Jinja templates by name; the one for every purpose is "default". */
  templates: ReadonlyMap<string, TextFile>
  /** bos_token, eos_token and the like: how they are spelled. */
  specialTokens: Readonly<Record<string, string>>
  /** Tokens that end an answer, as far as configurations say so by number. */
  endTokens: readonly number[]
  /** One more, by its spelling: the tokenizer's own end. Absent: they are all of them. */
  endSpelling?: string | undefined
  beginToken: number | undefined
  /** Sampling as the model's makers advise; absent fields were not said. */
  sampling: AdvisedSampling
}

export interface TextFile {
  file: string // path
  text: string
}

export interface TokenizerText {
  file: string // path
  /** In UTF-8. */
  json: Buffer
  /** Where the same bytes lie, its links followed; absent: it was made of others. */
  place?: string | undefined
  /** What stands around a text where another file decides it; absent, or a side of it: as this one says. */
  around?: Around | undefined
  /** What other files say of its added tokens; absent: nothing. */
  beside?: TokensBeside | undefined
  /** What had to be guessed of it, for the log. */
  doubt?: string | undefined
}

/** Spellings of tokens before a text, and behind it. */
export interface Around {
  begin: readonly string[] | undefined
  end: readonly string[] | undefined
}

export interface TokensBeside {
  /** They count for more than the file's own of the same spelling; in the order of their numbers. */
  described: readonly DescribedToken[]
  /** They count where the file has none that is spelled so. */
  named: readonly DescribedToken[]
}

/** Flags in the words of a tokenizer.json; absent ones are false. */
export interface DescribedToken {
  content: string
  special?: boolean
  lstrip?: boolean
  rstrip?: boolean
  single_word?: boolean
}

export interface AdvisedSampling {
  temperature?: number
  topP?: number
  topK?: number
  minP?: number
  repetitionPenalty?: number
  presencePenalty?: number
  frequencyPenalty?: number
}

/** Whether a folder that need not have one has a tokenizer. */
export async function bringsTokenizer(folder: Folder): Promise<boolean> {
  const files = [TOKENIZER, TEKKEN, ...others.map(([file]) => file)]
  return (await Promise.all(files.map((file) => folder.has(file)))).includes(true)
}

/** @param type of the whole model, where the configuration is that of the text model inside */
export async function readTexts(
  folder: Folder,
  config: Fields,
  vocabulary: number,
  type = config.text("model_type", ""),
): Promise<ModelTexts> {
  const tokenizerConfig = (await folder.jsonIfThere("tokenizer_config.json")) ?? {}
  const special = (await folder.jsonIfThere("special_tokens_map.json")) ?? {}
  const generation = await generationFields(folder)
  // A default of another vocabulary's (GPT-2's 50256, ModernBERT's 50282) is never drawn.
  const drawn = (fields: Fields | undefined, name: string) =>
    fields?.ids(name).filter((id) => id < vocabulary) ?? []
  const ends = drawn(generation, "eos_token_id")
  const tekken = await tekkenOf(folder)
  const specialTokens = {
    ...tekken?.specialTokens,
    ...spellings(special),
    ...spellings(tokenizerConfig),
  }
  const read = { config: tokenizerConfig, special, specialTokens, tekken }
  return {
    tokenizer: await readTokenizer(folder, read),
    templates: await readTemplates(folder, tokenizerConfig, () => unwritten(folder, type, tekken)),
    specialTokens,
    endTokens: ends.length > 0 ? ends : drawn(config, "eos_token_id"),
    endSpelling: specialTokens.eos_token,
    beginToken: drawn(config, "bos_token_id")[0],
    sampling: generation ? advised(generation) : {},
  }
}

/** The same of a compiled folder, whose mlc-chat-config.json says all that is not in the tokenizer's files. */
export async function readMlcTexts(
  folder: Folder,
  chat: Fields,
  vocabulary: number,
): Promise<ModelTexts> {
  const texts = await readTexts(folder, chat, vocabulary)
  const templates = new Map(texts.templates)
  if (!templates.has("default")) {
    const prefix = spelled(folder, texts.tokenizer, conversationPrefix(chat, vocabulary))
    const text = conversationTemplate(chat, prefix)
    if (text !== undefined) templates.set("default", { file: `${folder.path}/${MLC}`, text })
  }
  const stops = conversationStops(chat, vocabulary)
  return {
    ...texts,
    templates,
    endTokens: [...new Set([...texts.endTokens, ...stops])],
    sampling: { ...advisedByMlc(chat), ...texts.sampling },
  }
}

async function generationFields(folder: Folder): Promise<Fields | undefined> {
  const file = "generation_config.json"
  const json = await folder.jsonIfThere(file)
  return json && new Fields(json, (what) => folder.broken(file, what))
}

const TOKENIZER = "tokenizer.json"

/** What is read where there is no tokenizer.json. */
const others = [
  [TOKENIZER_MODEL, readTokenizerModel],
  [TIKTOKEN_MODEL, readTiktokenModel],
] as const

/** Where it is the folder's tokenizer. */
async function tekkenOf(folder: Folder): Promise<Tekken | undefined> {
  return !(await folder.has(TOKENIZER)) && (await folder.has(TEKKEN))
    ? readTekken(folder)
    : undefined
}

interface Told {
  config: Json
  special: Json
  specialTokens: ModelTexts["specialTokens"]
  tekken: Tekken | undefined
}

/** A tokenizer.json, or what another file says in the words of one. */
async function readTokenizer(
  folder: Folder,
  { config, special, specialTokens, tekken }: Told,
): Promise<TokenizerText> {
  const file = TOKENIZER
  if (tekken) return { file: `${folder.path}/${TEKKEN}`, json: tekken.json }
  if (!(await folder.has(file)))
    for (const [other, read] of others)
      if (await folder.has(other))
        return { file: `${folder.path}/${other}`, json: await read(folder, config) }
  const around = aroundBy(config, specialTokens)
  const beside = await tokensBeside(folder, config, special)
  const json = await folder.utf8(file)
  return { file: `${folder.path}/${file}`, json, place: await folder.place(file), around, beside }
}

/** Whose flags count for more than the post-processor of their tokenizer.json. */
const FLAGGED = /^(Llama|CodeLlama|Gemma)Tokenizer(Fast)?$/

/**
 * What such a class makes of its flags: update_post_processor of
 * https://github.com/huggingface/transformers/blob/v4.51.3/src/transformers/models/llama/tokenization_llama_fast.py
 */
function aroundBy(config: Json, specialTokens: ModelTexts["specialTokens"]): Around | undefined {
  const { tokenizer_class: name } = config
  if (typeof name !== "string" || !FLAGGED.test(name)) return undefined
  const side = (flag: unknown, token: string | undefined) => {
    if (flag === false) return []
    return flag === true && token !== undefined ? [token] : undefined
  }
  return {
    begin: side(config.add_bos_token, specialTokens.bos_token),
    end: side(config.add_eos_token, specialTokens.eos_token),
  }
}

/**
 * Fine-tunes with tokens of their own are found whose tokenizer.json is still the base model's. A configuration that describes tokens
 * counts for more than that file; older ones had other files for them. The rule: _from_pretrained of
 * https://github.com/huggingface/transformers/blob/v4.51.3/src/transformers/tokenization_utils_base.py
 */
async function tokensBeside(folder: Folder, config: Json, special: Json): Promise<TokensBeside> {
  const { added_tokens_decoder: byId } = config
  if (isObject(byId))
    return { described: Object.values(byId).flatMap(describedToken), named: namedTokens(config) }
  const named = namedTokens({ ...config, ...special })
  const listed = Object.entries((await folder.jsonIfThere("added_tokens.json")) ?? {})
  const known = new Set(named.map(({ content }) => content))
  const later = listed
    .sort(([, one], [, other]) => Number(one) - Number(other))
    .map(([content]) => ({ content, special: known.has(content) }))
  return { described: [], named: [...later, ...named] }
}

const NAMES = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"].map((name) => `${name}_token`)

/**
 * Special tokens: those with a part of their own, and the others, in a list or by names. A single character is what texts are written
 * with ("!" that pads): taken from the model's words, none could have it.
 */
function namedTokens(config: Json): DescribedToken[] {
  const { extra_special_tokens: extra, additional_special_tokens: additional } = config
  const others = Object.values((extra ?? additional ?? {}) as object)
  const tokens = [...NAMES.map((name) => config[name]), ...others].flatMap(describedToken)
  return tokens
    .filter(({ content }) => content.length > 1)
    .map((token) => ({ ...token, special: true }))
}

/** A text, or an object with its `content`; nothing for what is neither. */
function describedToken(token: unknown): DescribedToken[] {
  const { content, special, lstrip, rstrip, single_word } = isObject(token)
    ? token
    : { content: token }
  if (typeof content !== "string" || content === "") return []
  const flags = { special, lstrip, rstrip, single_word }
  const set = Object.entries(flags).filter(([, value]) => value === true)
  return [{ content, ...Object.fromEntries(set) }]
}

async function textFile(folder: Folder, file: string): Promise<TextFile> {
  return { file: `${folder.path}/${file}`, text: await folder.text(file) }
}

/** Where newer saves keep templates for a purpose, each called by its name. */
const NAMED = "additional_chat_templates"

/** Their files, in a folder within the model's. */
export function namedTemplates({ path }: Folder): string[] {
  const inner = join(path, NAMED)
  if (!statSync(inner, { throwIfNoEntry: false })?.isDirectory()) return []
  const names = readdirSync(inner).filter((name) => name.endsWith(".jinja"))
  return names.sort().map((name) => `${NAMED}/${name}`)
}

const PROCESSOR = "chat_template.json" // of models that see, whose processor had it before there was a file of its own

/**
 * A file of its own wins over tokenizer_config.json, where a template is a text or a list of named ones, and what a processor has is
 * read where neither says one; and what nobody wrote and is known all the same, where nobody does.
 */
async function readTemplates(
  folder: Folder,
  config: Json,
  unwritten: () => TextFile | undefined,
): Promise<Map<string, TextFile>> {
  const templates = new Map<string, TextFile>()
  const file = `${folder.path}/tokenizer_config.json`
  const given = config.chat_template
  if (typeof given === "string") templates.set("default", { file, text: given })
  for (const entry of Array.isArray(given) ? given : [])
    if (isObject(entry) && typeof entry.name === "string" && typeof entry.template === "string")
      templates.set(entry.name, { file, text: entry.template })
  if (await folder.has("chat_template.jinja"))
    templates.set("default", await textFile(folder, "chat_template.jinja"))
  for (const file of namedTemplates(folder))
    templates.set(basename(file, ".jinja"), await textFile(folder, file))
  const json = templates.has("default") ? undefined : await folder.jsonIfThere(PROCESSOR)
  if (json) {
    const fields = new Fields(json, (what) => folder.broken(PROCESSOR, what))
    templates.set("default", {
      file: `${folder.path}/${PROCESSOR}`,
      text: fields.text("chat_template"),
    })
  }
  const known = templates.has("default") ? undefined : unwritten()
  if (known) templates.set("default", known)
  return templates
}

/** Of models that are published without a template: what a program of their makers writes instead. */
export const unwrittenTemplates: ReadonlyMap<string, string> = new Map([
  [PALIGEMMA, PALIGEMMA_TEMPLATE],
  [DEEPSEEK_V32, DEEPSEEK_V32_TEMPLATE],
])

/** The conversation that a tekken.json's version stands for, or that the model's own program writes. */
function unwritten(
  { path }: Folder,
  type: string,
  tekken: Tekken | undefined,
): TextFile | undefined {
  if (tekken) return { file: `${path}/${TEKKEN}`, text: tekken.template() }
  const text = unwrittenTemplates.get(type)
  return text === undefined ? undefined : { file: `${path}/${PLAIN}`, text }
}

/** A special token is spelled as a text, or as an object with its `content`. */
function spellings(config: Json): Record<string, string> {
  const tokens: Record<string, string> = {}
  for (const [name, value] of Object.entries(config)) {
    const text = isObject(value) ? value.content : value
    if (/^[a-z]+_token$/.test(name) && typeof text === "string") tokens[name] = text
  }
  return tokens
}

/** Tokens by number as the tokenizer's file spells them. */
function spelled(folder: Folder, { json }: TokenizerText, ids: readonly number[]): string {
  if (ids.length === 0) return ""
  const { added_tokens: added } = folder.parse(json.toString(), TOKENIZER)
  const spellings = new Map<unknown, unknown>()
  for (const token of Array.isArray(added) ? added : [])
    if (isObject(token)) spellings.set(token.id, token.content)
  return ids
    .map((id) => {
      const content = spellings.get(id)
      if (typeof content === "string") return content
      const what = `conv_template.system_prefix_token_ids holds ${id}, which tokenizer.json does not spell`
      throw folder.broken(MLC, what)
    })
    .join("")
}

function advisedByMlc(chat: Fields): AdvisedSampling {
  const sampling: AdvisedSampling = {}
  if (chat.has("temperature")) sampling.temperature = chat.number("temperature")
  if (chat.has("top_p")) sampling.topP = chat.number("top_p")
  if (chat.has("presence_penalty")) sampling.presencePenalty = chat.finite("presence_penalty")
  if (chat.has("frequency_penalty")) sampling.frequencyPenalty = chat.finite("frequency_penalty")
  if (chat.has("repetition_penalty"))
    sampling.repetitionPenalty = chat.positive("repetition_penalty")
  return sampling
}

/** generation_config.json; `do_sample: false` means the likeliest token always, as a temperature of 0 does, and a `top_k` of -1 or 0 no limit. */
function advised(fields: Fields): AdvisedSampling {
  const sampling: AdvisedSampling = {}
  if (fields.has("temperature")) sampling.temperature = fields.number("temperature")
  if (!fields.flag("do_sample", true)) sampling.temperature = 0
  if (fields.has("top_p")) sampling.topP = fields.positive("top_p")
  if (fields.has("top_k")) sampling.topK = Math.max(0, fields.count("top_k", undefined, -1))
  if (fields.has("min_p")) sampling.minP = fields.number("min_p")
  if (fields.has("repetition_penalty"))
    sampling.repetitionPenalty = fields.positive("repetition_penalty")
  return sampling
}
