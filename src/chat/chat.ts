// The front door: a conversation in, one stream of events out; the same for plain text. What stands between (template,
// tokenizer, thinking, calls, stop strings) is put together here; the engine sees token ids only.

import { createHash } from "node:crypto"
import type { Generation, GenerationRequest } from "../engine/generation.ts"
import { problem } from "../errors.ts"
import type { Log } from "../log.ts"
import type { Caller } from "../worker/lane.ts"
import { Constraints, constraintOptions, type Holding, withoutPadding } from "./constraint.ts"
import { ConstraintThreads } from "./constraint-threads.ts"
import type {
  Chat,
  ChatReply,
  ChatRequest,
  CompletionRequest,
  PlainText,
  SchemaChecks,
  Tool,
} from "./conversation.ts"
import { Detokenizer } from "./detokenizer.ts"
import type { Echo } from "./echo.ts"
import { type FormatName, formatOf, formats } from "./formats/formats.ts"
import type { Arguments, Held } from "./grammars.ts"
import { foreign, type Text } from "./jinja/text.ts"
import { type Prompt, type PromptRequest, preparePrompt, visibleTools } from "./prompt.ts"
import { markersOf, thinkingIn } from "./reasoning.ts"
import { FROM_REQUEST } from "./rendering.ts"
import { type Reading, replyEvents, tokenNames } from "./reply.ts"
import type { Template } from "./template.ts"
import type { Tokenizer } from "./tokenizer.ts"

export interface ChatOptions {
  /** Admits a request or rejects with the Problem that refuses it. The signal ends all its choices. */
  engine: {
    generate(request: GenerationRequest, signal: AbortSignal): Generation | Promise<Generation>
    /** Throws the Problem that refuses a prompt of so many tokens or more; absent: every text is encoded. */
    assertRoom?(tokens: number, field: string): void
  }
  tokenizer: Tokenizer
  /** Rows of the model's logits, at least the tokenizer's size. */
  vocabulary: number
  /** Absent for models that were never taught to talk. */
  template: Template | undefined
  /** A template of its own for conversations with tools, which some models have. */
  toolTemplate?: Template | undefined
  /** Tokens that end an answer. */
  endTokens: ReadonlySet<number>
  /** How the model writes calls; undefined: as its template shows. */
  toolFormat?: FormatName | undefined
  /** Where schemas are compiled and masks made: in threads unless said otherwise. Here, a slow one holds up everybody. */
  constraints?: "threads" | "here"
  /** Schemas that may wait for being compiled. */
  maxQueue?: number | undefined
  /** Where the loss of a thread is told. */
  log?: Log | undefined
}

const ALWAYS_COUNTED = 256 * 1024 // characters; they take the tokenizer some tenths of a second

type Encode = (text: Text) => Promise<Int32Array>

const SPELLED_AT_ONCE = 1024 // tokens: a fraction of a millisecond

/** The engine ends before it, as sequences need its masks; its tokenizer and its templates end after it. */
export type OpenChat = Chat & PlainText & SchemaChecks & { close(): Promise<void> }

export function createChat(options: ChatOptions): OpenChat {
  const { engine, tokenizer, endTokens, maxQueue = 256, log } = options
  const { template } = options
  const markers = template && markersOf(template, tokenizer)
  const { toolTemplate, toolFormat } = toolsOf(options)
  const format = formats[toolFormat]
  const held = constraintOptions(tokenizer, endTokens, toolFormat, markers)
  const constraints =
    options.constraints === "here"
      ? new Constraints(held)
      : new ConstraintThreads(held, {
          compiling: { queue: maxQueue, log },
          quick: { log },
          slow: { log },
        })
  const free = withoutPadding(tokenizer.size, options.vocabulary)

  return {
    reply: async (request, signal, client = request.scope) => {
      const caller = { client, signal }
      const prompt = await promptOf(request, fitting("messages", caller), caller)
      if (prompt.tokens.length === 0) {
        const words = "it writes nothing of it, which leaves no token to go on from."
        throw problem("template_failed", { problem: words }, "messages")
      }
      const reasoning = reasoningOf(prompt)
      const calls = callsOf(request)
      const held = calls || request.format
      const holding =
        held && (await constraints.hold({ calls, format: request.format, reasoning }, caller))
      const reading = {
        ...readingOf(request),
        // A reply that must call has no other text, and what was cut of its call is none either.
        ...(calls?.required && { stop: [] }),
        continues: prompt.continues,
        reasoning: reasoning && { ...reasoning, inline: request.reasoning === "inline" },
        calls: calls && callReading(request, calls),
      }
      return admit(request, prompt.tokens, reading, { client, signal }, holding)
    },

    complete: async (request, signal, client = request.scope) => {
      const encode = fitting("prompt", { client, signal })
      const tokens = await plainPrompt(request.prompt, encode)
      if (request.echo) engine.assertRoom?.(tokens.length, "prompt") // before all of them are spelled
      const echo = request.echo ? echoOf(request, tokens) : undefined
      const reading = { ...readingOf(request), continues: true, echo }
      return admit(request, tokens, reading, { client, signal })
    },

    checkSchema: async (asked, caller = { client: "" }) =>
      constraints.check("name" in asked ? withoutDefinition(asked) : asked, caller),

    close: async () => constraints.close(),

    tokenize: (text, control, caller) =>
      tokenizer.encode(foreign(text, control ? 0 : FROM_REQUEST), caller),

    tokenizeChat: async (messages, templateArguments, caller) => {
      const encode = (text: Text) => tokenizer.encode(text, caller)
      return (await promptOf({ messages, templateArguments }, encode, caller)).tokens
    },

    detokenize,
  }

  function* detokenize(tokens: Int32Array): Iterable<string> {
    const text = new Detokenizer(tokenizer, false, tokenizer.special)
    for (let at = 0; at < tokens.length; at += SPELLED_AT_ONCE) {
      const some = tokens.subarray(at, at + SPELLED_AT_ONCE)
      yield Array.from(some, (token) => text.push(token)).join("")
    }
    yield text.flush()
  }

  /** Encodes what can fit, and what costs so little that its length is better told exactly. */
  function fitting(field: string, caller: Caller): Encode {
    return async (text) => {
      if (text.length > ALWAYS_COUNTED) engine.assertRoom?.(tokenizer.atLeast(text), field)
      return tokenizer.encode(text, caller)
    }
  }

  function textOf(tokens: Int32Array): string {
    return [...detokenize(tokens)].join("")
  }

  /** Ids show every token they name; what was put before a text does not belong to it. */
  function echoOf({ prompt, sampling }: CompletionRequest, tokens: Int32Array): Echo {
    const scored = sampling.topLogprobs !== undefined
    if (typeof prompt === "string") return { text: prompt, tokens, visible: new Set(), scored }
    return { text: textOf(prompt), tokens, visible: tokenizer.special, scored }
  }

  function promptOf(request: PromptRequest, encode: Encode, caller?: Caller): Promise<Prompt> {
    const chosen = visibleTools(request).length > 0 ? toolTemplate : template
    if (chosen) return preparePrompt(request, chosen, format.written, encode, caller)
    const words = "This model has no chat template; POST /v1/completions continues plain text."
    throw problem("unsupported_value", { problem: words }, "messages")
  }

  function readingOf({ stop, sampling }: ChatRequest | CompletionRequest): Reading {
    const logprobs = sampling.topLogprobs !== undefined
    return { tokenizer, stop, logprobs, continues: false, reasoning: undefined, calls: undefined }
  }

  function reasoningOf({ begun }: Prompt): Held["reasoning"] {
    const thinking = markers && thinkingIn(begun, markers)
    if (!markers || thinking === "over") return undefined
    return { markers, inside: thinking === "inside" }
  }

  function callsOf(request: ChatRequest): Held["calls"] {
    const tools = visibleTools(request)
    if (tools.length === 0) return undefined
    const { toolChoice, parallelToolCalls } = request
    const allowed = toolChoice && toolChoice.mode !== "none" ? new Set(toolChoice.names) : undefined
    const callable = allowed ? tools.filter(({ name }) => allowed.has(name)) : tools
    if (callable.length === 0) {
      throw problem("invalid_value", { problem: "tool_choice allows no tool." }, "tool_choice")
    }
    return {
      tools: callable.map(withoutDefinition),
      required: toolChoice?.mode === "required",
      most: parallelToolCalls === false ? 1 : Number.POSITIVE_INFINITY,
    }
  }

  function callReading(request: ChatRequest, { tools, most }: NonNullable<Held["calls"]>) {
    const names = new Set(tools.map(({ name }) => name))
    const id = (choice: number, index: number) => callId(request.id, choice, index)
    return { format, names, most, id }
  }

  async function plainPrompt(prompt: string | Int32Array, encode: Encode): Promise<Int32Array> {
    const tokens = typeof prompt === "string" ? await encodePlain(prompt, encode) : prompt
    if (tokens.length > 0) return tokens
    throw problem("invalid_value", { problem: "prompt must hold at least one token." }, "prompt")
  }

  async function encodePlain(text: string, encode: Encode): Promise<Int32Array> {
    const own = await encode(foreign(text, FROM_REQUEST))
    const { prefix } = tokenizer
    if (prefix.length === 0) return own
    const tokens = new Int32Array(prefix.length + own.length)
    tokens.set(prefix)
    tokens.set(own, prefix.length)
    return tokens
  }

  async function admit(
    request: ChatRequest | CompletionRequest,
    prompt: Int32Array,
    reading: Reading,
    { client, signal }: { client: string; signal: AbortSignal },
    holding?: Holding,
  ): Promise<ChatReply> {
    signal.throwIfAborted()
    const { id, choices, maxTokens, sampling, scope } = request
    const stopTokens = request.ignoreEos ? new Set<number>() : endTokens
    const constraint = holding?.constraint ?? free
    const generation = await engine.generate(
      {
        ...{ id, prompt, choices, maxTokens, stopTokens, sampling, scope, client },
        field: "messages" in request ? "messages" : "prompt",
        ...(reading.echo?.scored && { scorePrompt: true }),
        ...(constraint && { constraint }),
      },
      signal,
    )
    return {
      promptTokens: generation.promptTokens,
      ...(holding?.unenforced.length && { unenforced: holding.unenforced }),
      get queued() {
        return generation.queued
      },
      events: replyEvents(generation, reading),
      names: tokenNames(reading),
    }
  }
}

/** How tools are shown and calls are written. A format nobody here reads is of no use: then both are done in plain words. */
function toolsOf({ template, toolTemplate = template, toolFormat }: ChatOptions) {
  const name = toolFormat ?? (toolTemplate && formatOf(toolTemplate))
  if (name) return { toolTemplate, toolFormat: name }
  const plain = template && { ...template, knowsTools: false, knowsCalls: false }
  return { toolTemplate: plain, toolFormat: "json" as const }
}

function withoutDefinition({ name, parameters, strict, field }: Tool): Arguments {
  return { name, parameters, strict, ...(field !== undefined && { field }) }
}

function callId(request: string, choice: number, index: number): string {
  const hash = createHash("sha256").update(`${request} ${choice} ${index}`)
  return `call_${hash.digest("hex").slice(0, 24)}`
}
