// From a request to its reply, in one order for chats and for plain text: its prompt, what the reply is held to, how its tokens
// will be read, and the engine, which admits or refuses it. Whatever can be refused has been refused when there is a reply.

import type { Constraint, Generation, GenerationRequest } from "../engine/generation.ts"
import { problem } from "../errors.ts"
import { AtLeast } from "./at-least.ts"
import { callReading, callsOf } from "./calls.ts"
import type { ChatModel } from "./chat-model.ts"
import type { ConstraintHandle, Constraints } from "./constraint.ts"
import type { ConstraintThreads } from "./constraint-threads.ts"
import type { ChatReply, ChatRequest, CompletionRequest } from "./conversation.ts"
import { echoOf } from "./echo.ts"
import type { ConstraintSpec } from "./grammars.ts"
import { infillOf } from "./infill.ts"
import type { Prompt } from "./prompt.ts"
import type { Prompts } from "./prompts.ts"
import { thinkingIn } from "./reasoning.ts"
import { type Reading, replyEvents, tokenNames } from "./reply.ts"

export interface ChatEngine {
  /** Admits a request or rejects with the Problem that refuses it. The signal ends all its choices. */
  generate(request: GenerationRequest, signal: AbortSignal): Generation | Promise<Generation>
  /** Throws the Problem that refuses a prompt of so many tokens or more; absent: every text is encoded. */
  assertRoom?(tokens: number, field: string): void
}

export interface Parts {
  model: ChatModel
  engine: ChatEngine
  prompts: Prompts
  constraints: Constraints | ConstraintThreads
  /** All tokens may come. */
  any: () => Constraint
  /** What a reply is held to that is held to nothing; undefined: nothing at all. */
  free: (() => Constraint) | undefined
  /** Milliseconds that a request may take, from its arrival on; undefined: any number. */
  requestTimeout: number | undefined
}

/** Who asks, and until when. */
export interface Asker {
  client: string
  signal: AbortSignal
}

/** Its signal is aborted, too, when its time is over before the engine has it. */
interface Arrived extends Asker {
  /** Aborted when the client leaves. */
  leaving: AbortSignal
  /** Milliseconds since it came. */
  age: () => number
}

export function admitChat(parts: Parts, request: ChatRequest, asker: Asker): Promise<ChatReply> {
  return inTime(parts, asker, (arrived) => chatReply(parts, request, arrived))
}

export function admitText(
  parts: Parts,
  request: CompletionRequest,
  asker: Asker,
): Promise<ChatReply> {
  return inTime(parts, asker, (arrived) => textReply(parts, request, arrived))
}

/** What comes before the engine is of a request's time, too: images may wait for their turn for minutes. */
async function inTime(
  { requestTimeout }: Parts,
  { client, signal: leaving }: Asker,
  admit: (arrived: Arrived) => Promise<ChatReply>,
): Promise<ChatReply> {
  const came = performance.now()
  const late = requestTimeout === undefined ? undefined : AbortSignal.timeout(requestTimeout)
  const signal = late ? AbortSignal.any([leaving, late]) : leaving
  try {
    return await admit({ client, signal, leaving, age: () => performance.now() - came })
  } catch (error) {
    if (!late?.aborted || error !== late.reason) throw error
    throw problem("request_timeout", { seconds: requestTimeout! / 1000 })
  }
}

async function chatReply(parts: Parts, request: ChatRequest, asker: Arrived): Promise<ChatReply> {
  const { model, prompts, constraints } = parts
  const prompt = await prompts.ofChat(request, asker)
  const held = heldTo(model, request, prompt)
  const isHeld = held.calls !== undefined || held.format !== undefined
  const holding = isHeld ? await constraints.hold(held, asker) : undefined
  const reading = chatReading(model, request, prompt, held)
  return admit(parts, request, prompt, reading, asker, holding)
}

async function textReply(
  parts: Parts,
  request: CompletionRequest,
  asker: Arrived,
): Promise<ChatReply> {
  const { model, engine, prompts, constraints } = parts
  const { prompt, suffix } = request
  const infill = suffix === undefined ? undefined : infillOf(model.tokenizer)
  const tokens = infill
    ? await prompts.ofInfill(infill, { prefix: prompt, suffix: suffix! }, asker)
    : await prompts.ofText(prompt, asker)
  if (request.echo) engine.assertRoom?.(tokens.length, "prompt") // before all of them are spelled
  const echo = request.echo ? echoOf(request, tokens, model.tokenizer) : undefined
  const { format } = request
  const held = { calls: undefined, reasoning: undefined, format, continues: true }
  const holding = format && (await constraints.hold(held, asker))
  const stopTokens = [...(request.stopTokens ?? []), ...(infill?.ends ?? [])]
  const reading = textReading(model, request, echo)
  return admit(parts, { ...request, stopTokens }, { tokens }, reading, asker, holding)
}

function heldTo(
  { markers }: ChatModel,
  request: ChatRequest,
  { begun, continues }: Prompt,
): ConstraintSpec {
  const thinking = markers && thinkingIn(begun, markers, continues)
  const over = thinking === "over"
  return {
    calls: callsOf(request),
    format: request.format,
    reasoning:
      !markers || (over && (!markers.answer || continues))
        ? undefined
        : { markers, inside: thinking === "inside", ...(over && { over }) },
    continues,
  }
}

function chatReading(
  { tokenizer, toolFormat }: ChatModel,
  { id, stop, minTokens, sampling, tellsTokens, reasoning: where }: ChatRequest,
  { continues }: Prompt,
  { calls, reasoning }: ConstraintSpec,
): Reading {
  return {
    tokenizer,
    // A reply that must call has no other text, and what was cut of its call is none either.
    stop: calls?.required ? [] : stop,
    minTokens: minTokens ?? 0,
    logprobs: tellsTokens || sampling.topLogprobs !== undefined,
    continues,
    reasoning: reasoning && { ...reasoning, inline: where === "inline" },
    calls: calls && callReading(calls, toolFormat, id),
  }
}

function textReading(
  { tokenizer }: ChatModel,
  { stop, minTokens = 0, sampling, tellsTokens }: CompletionRequest,
  echo: Reading["echo"],
): Reading {
  const logprobs = tellsTokens || sampling.topLogprobs !== undefined
  const nothing = { reasoning: undefined, calls: undefined }
  return { tokenizer, stop, minTokens, logprobs, continues: true, echo, ...nothing }
}

async function admit(
  parts: Parts,
  request: ChatRequest | CompletionRequest,
  { tokens: prompt, media }: Pick<Prompt, "tokens" | "media">,
  reading: Reading,
  { client, signal, leaving, age }: Arrived,
  handle?: ConstraintHandle,
): Promise<ChatReply> {
  signal.throwIfAborted()
  const { engine } = parts
  const { id, choices, maxTokens, sampling, scope } = request
  const stopTokens = stopTokensOf(request, parts.model)
  const constraint = constraintOf(request, parts, stopTokens, handle)
  const field = "messages" in request ? "messages" : "prompt"
  if (media) engine.assertRoom?.(prompt.length, field) // before a tower takes a look at them
  const rows = await media?.encode({ client, signal })
  const waited = age()
  const generation = await engine.generate(
    {
      ...{ id, prompt, choices, maxTokens, stopTokens, sampling, scope, client },
      field,
      ...(media && { media: { ...media.placed, rows: rows! } }),
      ...(reading.echo?.scored && { scorePrompt: true }),
      ...(constraint && { constraint }),
      waited,
    },
    leaving,
  )
  return {
    promptTokens: generation.promptTokens,
    prompt,
    ...(media && { media: media.counted, mediaTokens: media.placed.at.length }),
    prepared: waited,
    ...(handle?.unenforced.length && { unenforced: handle.unenforced }),
    get queued() {
      return generation.queued
    },
    events: replyEvents(generation, reading),
    names: tokenNames(reading),
  }
}

function stopTokensOf(
  { ignoreEos, stopTokens = [] }: ChatRequest | CompletionRequest,
  { endTokens }: ChatModel,
): ReadonlySet<number> {
  const ends = ignoreEos ? [] : endTokens
  return stopTokens.length > 0 || ignoreEos ? new Set([...ends, ...stopTokens]) : endTokens
}

function constraintOf(
  { minTokens = 0 }: ChatRequest | CompletionRequest,
  { any, free }: Parts,
  ends: ReadonlySet<number>,
  handle: ConstraintHandle | undefined,
): (() => Constraint) | undefined {
  const constraint = handle?.constraint ?? free
  if (minTokens === 0) return constraint
  return () => new AtLeast(minTokens, ends, (constraint ?? any)())
}
