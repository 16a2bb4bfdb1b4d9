// From what a client sends to the tokens that a reply goes on from: a conversation through its template (prompt.ts), a text or
// tokens as they are. A text that cannot fit is refused before it is encoded.

import { problem } from "../errors.ts"
import type { Caller } from "../worker/lane.ts"
import type { ChatModel } from "./chat-model.ts"
import type { ConversationRequest } from "./conversation.ts"
import { formats } from "./formats/formats.ts"
import type { Infill } from "./infill.ts"
import { foreign, type Text } from "./jinja/text.ts"
import { Media, mediaIn, mediumOf, Senses } from "./media.ts"
import { type Prompt, preparePrompt, visibleTools } from "./prompt.ts"
import { FROM_REQUEST } from "./rendering.ts"
import type { Tokenizer } from "./tokenizer.ts"

const ALWAYS_COUNTED = 256 * 1024 // characters; they take the tokenizer some tenths of a second

/** What there is room for: see ChatEngine. */
interface Room {
  assertRoom?(tokens: number, field: string): void
}

type Encode = (text: Text) => Promise<Int32Array>

export class Prompts {
  readonly #model: ChatModel
  readonly #room: Room
  readonly #senses: Senses

  /** @param senses what it takes beside text */
  constructor(model: ChatModel, room: Room, senses = new Senses([])) {
    this.#model = model
    this.#room = room
    this.#senses = senses
  }

  /** What the engine is given of a chat. */
  async ofChat(request: ConversationRequest, caller: Caller): Promise<Prompt> {
    const prompt = await this.#rendered(request, this.#fitting("messages", caller), caller)
    if (prompt.tokens.length > 0) return prompt
    const words = "it writes nothing of it, which leaves no token to go on from."
    throw problem("template_failed", { problem: words }, "messages")
  }

  /** Its tokens, however many they are; its images and recordings alone have to fit. */
  async ofConversation(request: ConversationRequest, caller?: Caller): Promise<Int32Array> {
    const { tokenizer } = this.#model
    const encode = (text: Text) => tokenizer.encode(text, caller)
    const prompt = await this.#rendered(request, encode, caller)
    return prompt.tokens
  }

  /** What plain text goes on from: what stands before a text that is no chat, too. */
  async ofText(prompt: string | Int32Array, caller: Caller): Promise<Int32Array> {
    const tokens = typeof prompt === "string" ? await this.#encoded(prompt, caller) : prompt
    if (tokens.length > 0) return tokens
    throw problem("invalid_value", { problem: "prompt must hold at least one token." }, "prompt")
  }

  /** What asks for the text between two others. */
  async ofInfill(
    { order, middle }: Infill,
    texts: { prefix: string | Int32Array; suffix: string },
    caller: Caller,
  ): Promise<Int32Array> {
    const tokens: number[] = [...this.#model.tokenizer.prefix]
    for (const [name, mark] of order) {
      const text = texts[name]
      const field = name === "prefix" ? "prompt" : "suffix"
      tokens.push(mark)
      const own = typeof text === "string" ? await this.#plain(text, field, caller) : text
      for (const token of own) tokens.push(token)
    }
    return Int32Array.from([...tokens, ...middle])
  }

  #rendered(request: ConversationRequest, encode: Encode, caller?: Caller): Promise<Prompt> {
    const { template, toolTemplate, toolFormat } = this.#model
    const chosen = visibleTools(request).length > 0 ? toolTemplate : template
    if (chosen) {
      const media = this.#media(request, caller)
      return preparePrompt(request, chosen, formats[toolFormat], encode, caller, media)
    }
    const words = "This model has no chat template; POST /v1/completions continues plain text."
    throw problem("unsupported_value", { problem: words }, "messages")
  }

  #media({ messages }: ConversationRequest, caller?: Caller): Media | undefined {
    const given = mediaIn(messages)
    if (given.length === 0) return undefined
    const other = given.find((part) => !this.#senses.has(mediumOf(part).kind))
    const assertRoom = (tokens: number, field: string) => this.#room.assertRoom?.(tokens, field)
    if (!other) return new Media(this.#senses, given, assertRoom, caller)
    const takes = mediumOf(other).kind === "image" ? "sees no images" : "hears no recordings"
    const words = `This model ${takes}; leave them out, or ask one that does.`
    throw problem("unsupported_value", { problem: words }, other.field ?? "messages")
  }

  async #encoded(text: string, caller: Caller): Promise<Int32Array> {
    return begun(await this.#plain(text, "prompt", caller), this.#model.tokenizer)
  }

  #plain(text: string, field: string, caller: Caller): Promise<Int32Array> {
    return this.#fitting(field, caller)(foreign(text, FROM_REQUEST))
  }

  /** Encodes what can fit, and what costs so little that its length is better told exactly. */
  #fitting(field: string, caller: Caller): Encode {
    const { tokenizer } = this.#model
    return async (text) => {
      if (text.length > ALWAYS_COUNTED) this.#room.assertRoom?.(tokenizer.atLeast(text), field)
      return tokenizer.encode(text, caller)
    }
  }
}

/** What stands before a text that is no chat, and its own tokens. */
export function begun(own: Int32Array, { prefix }: Pick<Tokenizer, "prefix">): Int32Array {
  if (prefix.length === 0) return own
  const tokens = new Int32Array(prefix.length + own.length)
  tokens.set(prefix)
  tokens.set(own, prefix.length)
  return tokens
}
