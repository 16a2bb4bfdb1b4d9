// A model that sees as far as chat knows of it: a tokenizer and templates of test/golden/seeing, a vision whose rows an image's bytes
// decide, and an engine that answers with fixed tokens. Any bytes but none are an image.

import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { onTestFinished } from "vitest"
import { createChat, type OpenChat } from "../src/chat/chat.ts"
import { Text } from "../src/chat/jinja/text.ts"
import type { ChatMedium, PreparedMedium } from "../src/chat/media.ts"
import { openTemplate } from "../src/chat/template.ts"
import { openTokenizer, type Tokenizer } from "../src/chat/tokenizer.ts"
import type { GenerationEvent, GenerationRequest } from "../src/engine/generation.ts"
import { problem } from "../src/errors.ts"

export interface GoldenModel {
  name: string
  mark: string
  soft: string
  image: string
  rows: number
  template: string
  cases: readonly GoldenCase[]
}

export interface GoldenCase {
  what: string
  /** A part is a text, or "image". */
  turns: readonly { role: "system" | "user" | "assistant"; parts: readonly string[] }[]
  text: string
  ids: readonly number[]
  at: readonly number[]
}

const golden = `${import.meta.dirname}/golden`
const { added, models: goldens } = JSON.parse(readFileSync(`${golden}/seeing/prompts.json`, "utf8"))

export const models: readonly GoldenModel[] = goldens

export function modelNamed(name: string): GoldenModel {
  return models.find((model) => model.name === name)!
}

let opened: Promise<Tokenizer> | undefined

/** One for a file's tests. */
function seeingTokenizer(): Promise<Tokenizer> {
  const json = JSON.parse(readFileSync(`${golden}/tokenizers/qwen/tokenizer.json`, "utf8"))
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false }
  for (const token of added) json.added_tokens.push({ ...token, ...flags, special: true })
  opened ??= openTokenizer(JSON.stringify(json), "tokenizer.json", 1000)
  return opened
}

export const HIDDEN = 2

/** The rows [rows, HIDDEN] that an image has. */
export function rowsOf(bytes: Uint8Array, rows: number): number[] {
  return Array.from({ length: rows * HIDDEN }, (_, at) => bytes[0]! + at / 16)
}

export interface SeeingChat {
  chat: OpenChat
  tokenizer: Tokenizer
  soft: number
  /** Every request that reached the engine. */
  asked: GenerationRequest[]
  /** Of every image that was prepared, what the request calls it. */
  prepared: string[]
  /** The first byte of every image that was encoded. */
  encoded: number[]
}

export interface Seeing {
  /** Instead of the model's. */
  template?: string
  /** The most tokens of a prompt. */
  context?: number
  /** What is waited for while an image is encoded. */
  encoding?: (signal: AbortSignal) => Promise<void>
  /** Instead of the model's: an image's rows by its first byte. */
  rows?: (first: number) => number
  /** Milliseconds. */
  requestTimeout?: number
  /** It hears, too: what stands for a recording, which has as many rows as its first byte says. */
  hears?: { mark: string; soft: string }
}

export async function seeingChat(
  { mark, soft: text, image, rows, template }: GoldenModel,
  seeing: Seeing = {},
): Promise<SeeingChat> {
  const { context = 10_000, encoding = async () => {} } = seeing
  const tokenizer = await seeingTokenizer()
  const soft = tokenizer.control(text)!
  const asked: GenerationRequest[] = []
  const prepared: string[] = []
  const encoded: number[] = []
  const preparing =
    (standing: (first: number) => { text: string; rows: number }): ChatMedium["prepare"] =>
    async (bytes, field, { signal }): Promise<PreparedMedium> => {
      signal?.throwIfAborted()
      prepared.push(field)
      if (bytes.length === 0)
        throw problem("invalid_value", { problem: `${field} is no image.` }, field)
      const own = standing(bytes[0]!)
      return {
        hash: createHash("sha256").update(bytes).digest("hex"),
        ...own,
        encode: async ({ signal: leaving }) => {
          encoded.push(bytes[0]!)
          await encoding(leaving!)
          return Float32Array.from(rowsOf(bytes, own.rows))
        },
      }
    }
  const media: ChatMedium[] = [
    {
      kind: "image",
      mark,
      soft: { text, id: soft },
      prepare: preparing((first) => {
        const own = seeing.rows?.(first) ?? rows
        return { text: seeing.rows ? text.repeat(own) : image, rows: own }
      }),
    },
  ]
  if (seeing.hears) {
    const { mark, soft } = seeing.hears
    const prepare = preparing((first) => ({ text: soft.repeat(first), rows: first }))
    media.push({ kind: "audio", mark, soft: { text: soft, id: tokenizer.control(soft)! }, prepare })
  }
  const reply = await tokenizer.encode(new Text("A cat."))
  async function* choice(): AsyncGenerator<GenerationEvent> {
    for (const token of reply) yield { kind: "token", token, logprob: -1, top: [] }
    yield { kind: "end", reason: "stop" }
  }
  const now = new Date(2025, 6, 4)
  const source = seeing.template ?? template
  const chat = createChat({
    media,
    tokenizer,
    template: openTemplate(source, "chat_template", { specialTokens: {}, now }),
    endTokens: new Set([517]),
    vocabulary: 1000,
    constraints: "here",
    requestTimeout: seeing.requestTimeout,
    engine: {
      generate: async (request) => {
        asked.push(request)
        const choices = Array.from({ length: request.choices }, choice)
        return { promptTokens: request.prompt.length, cachedTokens: 0, choices }
      },
      assertRoom: (tokens, field) => {
        if (tokens <= context) return
        const values = { tokens, limit: context, cure: "Shorten it." }
        throw problem("context_length_exceeded", values, field)
      },
    },
  })
  onTestFinished(() => chat.close())
  return { chat, tokenizer, soft, asked, prepared, encoded }
}
