// The front door: a conversation in, one stream of events out; the same for plain text. The parts are put together here: the
// model's own ways (chat-model.ts), prompts (prompts.ts), what replies are held to (constraint.ts), and what admits a request
// (admission.ts). The engine sees token ids only.

import { problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { admitChat, admitText, type ChatEngine, type Parts } from "./admission.ts"
import { withoutDefinition } from "./calls.ts"
import { type ChatModel, chatModelOf, type ModelTexts } from "./chat-model.ts"
import { anyTokens, Constraints, constraintOptions } from "./constraint.ts"
import { ConstraintThreads } from "./constraint-threads.ts"
import type { Chat, Embeddings, PlainText, Rankings, SchemaChecks } from "./conversation.ts"
import { spelled } from "./detokenizer.ts"
import { Embedder, type EmbeddingModel } from "./embedding.ts"
import { foreign } from "./jinja/text.ts"
import { type ChatMedium, Senses } from "./media.ts"
import { begun, Prompts } from "./prompts.ts"
import { FROM_REQUEST } from "./rendering.ts"

export interface ChatOptions extends ModelTexts {
  engine: ChatEngine
  /** How its rows become one; absent: nothing embeds. */
  embedding?: EmbeddingModel
  /** What the model sees with and what it hears with; images and recordings of other kinds are refused. */
  media?: readonly ChatMedium[]
  /** Rows of the model's logits, at least the tokenizer's size. */
  vocabulary: number
  /** Where schemas are compiled and masks made: in threads unless said otherwise. Here, a slow one holds up everybody. */
  constraints?: "threads" | "here"
  /** Schemas that may wait for being compiled. */
  maxQueue?: number | undefined
  /** Milliseconds that a request may take, from its arrival on; absent: any number. The engine has the same. */
  requestTimeout?: number | undefined
  /** Where the loss of a thread is told. */
  log?: Log | undefined
}

export type Answering = Chat & PlainText & Embeddings & Rankings & SchemaChecks

/** The engine ends before it, as sequences need its masks; its tokenizer and its templates end after it. */
export type OpenChat = Answering & {
  /** The same, where every sequence has chosen that one of the model's adapters, from 1 on. */
  choosing(adapter: number): Answering
  close(): Promise<void>
}

export function createChat(options: ChatOptions): OpenChat {
  const parts = openParts(options)
  return {
    ...answering(parts, options),
    choosing: (adapter) => {
      const { engine } = parts
      const generate: ChatEngine["generate"] = (request, signal) =>
        engine.generate({ ...request, adapter }, signal)
      return answering({ ...parts, engine: { generate } }, options)
    },
    close: async () => parts.constraints.close(),
  }
}

function answering(parts: Parts, { tokenizer, embedding }: ChatOptions): Answering {
  const { engine, prompts, constraints } = parts
  const embedder = embedding && new Embedder(engine, tokenizer, embedding)
  return {
    reply: async (request, signal, client = request.scope) => {
      assertWrites(embedding, "messages")
      return admitChat(parts, request, { client, signal })
    },
    complete: async (request, signal, client = request.scope) => {
      assertWrites(embedding, "prompt")
      return admitText(parts, request, { client, signal })
    },
    embed: async (request, signal, client = request.scope) => {
      if (embedder && embedding?.made !== "to transcribe")
        return embedder.embed(request, { client, signal })
      const words = "This model computes no embeddings."
      throw problem("unsupported_value", { problem: words }, request.field)
    },
    rank: async (request, signal, client = request.scope) => {
      if (embedder && embedding?.made !== "to transcribe")
        return embedder.rank(request, { client, signal })
      throw problem("unsupported_value", { problem: "This model does not rank." }, "query")
    },
    checkSchema: async (asked, caller = { client: "" }) =>
      constraints.check("name" in asked ? withoutDefinition(asked) : asked, caller),
    tokenize: async (text, { control, isBegun }, caller) => {
      const tokens = await tokenizer.encode(foreign(text, control ? 0 : FROM_REQUEST), caller)
      return isBegun ? begun(tokens, tokenizer) : tokens
    },
    tokenizeChat: (request, caller) => prompts.ofConversation(request, caller),
    detokenize: (tokens) => spelled(tokens, tokenizer),
  }
}

const writes = (embedding: EmbeddingModel | undefined) =>
  embedding === undefined || embedding.made === "to write"

function assertWrites(embedding: EmbeddingModel | undefined, field: string): void {
  if (!embedding || embedding.made === "to write") return
  const words = `This model ${doing[embedding.made]}.`
  throw problem("unsupported_value", { problem: words }, field)
}

const doing = {
  "to rank": "writes no text; POST /v1/rerank ranks documents by a query",
  "to embed": "writes no text; POST /v1/embeddings turns texts into vectors",
  "to transcribe":
    "writes down what is said in recordings, and nothing else; POST /v1/audio/transcriptions takes one",
} as const

function openParts(options: ChatOptions): Parts {
  const { engine, tokenizer, vocabulary, media = [] } = options
  const model = chatModelOf(options)
  const any = anyTokens(Math.min(tokenizer.size, vocabulary), vocabulary)
  return {
    model,
    engine,
    prompts: new Prompts(model, engine, new Senses(media)),
    constraints: openConstraints(options, model),
    any,
    free: tokenizer.size < vocabulary ? any : undefined,
    requestTimeout: options.requestTimeout,
  }
}

function openConstraints(
  { constraints, maxQueue = 256, log, vocabulary, embedding }: ChatOptions,
  { tokenizer, endTokens, toolFormat, markers }: ChatModel,
): Constraints | ConstraintThreads {
  const settings = constraintOptions(tokenizer, endTokens, toolFormat, { markers, vocabulary })
  if (constraints === "here") return new Constraints(settings)
  const compiling = { queue: maxQueue, log }
  const areAhead = writes(embedding) // else schemas can be checked, and nothing more
  return new ConstraintThreads(settings, { compiling, quick: { log }, slow: { log }, areAhead })
}
