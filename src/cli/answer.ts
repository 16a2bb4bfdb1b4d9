// A model opened for one person, and an answer printed as it comes: what `sinter run` and `sinter chat` share.

import { said } from "../app/defaults.ts"
import type { AppChat } from "../app/requests.ts"
import { type App, createApp } from "../app.ts"
import type { ChatMessage, ReplyEvent } from "../chat/conversation.ts"
import type { SamplingParams } from "../engine/generation.ts"
import type { EngineStats } from "../engine/stats.ts"
import { draftingOf, openingOf } from "./opening.ts"
import type { chatOptions, samplingOptions } from "./options.ts"
import type { Values } from "./read-options.ts"

export type ChatOptions = Values<typeof chatOptions>
export type SamplingOptions = Values<typeof samplingOptions>

export function openForOne(model: string, options: ChatOptions): Promise<App> {
  return createApp({
    ...openingOf(options),
    model,
    mode: "interactive",
    generationDefaults: options["--generation-defaults"],
    drafting: draftingOf(options),
  })
}

export function begunWith(options: ChatOptions): ChatMessage[] {
  const content = options["--system"]
  return content === undefined ? [] : [{ role: "system", content }]
}

/**
 * Prints the answer to the last message as it comes.
 * @returns its text, as far as it got when the signal ended it
 * @throws the problem that refuses or ends it
 */
export function printAnswer(
  chat: AppChat,
  messages: readonly ChatMessage[],
  options: SamplingOptions,
  signal: AbortSignal,
): Promise<string> {
  const call = { messages, maxTokens: options["--max-tokens"], sampling: samplingOf(options) }
  return printEvents(async () => (await chat.reply(call, signal)).events, signal)
}

/** The same of a reply that begins now. */
export async function printEvents(
  begin: () => Promise<AsyncIterable<ReplyEvent>>,
  signal: AbortSignal,
): Promise<string> {
  let answer = ""
  try {
    for await (const event of await begin()) {
      if (event.kind === "reasoning") process.stdout.write(dim(event.text))
      if (event.kind === "content") process.stdout.write(event.text)
      if (event.kind === "content") answer += event.text
      if (event.kind === "finish" && event.problem) throw event.problem
      if (event.kind === "finish" && event.reason === "length") process.stdout.write(dim(" …"))
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    process.stdout.write("\n")
  }
  return answer
}

export function samplingOf(options: SamplingOptions): Partial<SamplingParams> {
  const given = {
    temperature: options["--temperature"],
    topP: options["--top-p"],
    topK: options["--top-k"],
    minP: options["--min-p"],
    presencePenalty: options["--presence-penalty"],
    frequencyPenalty: options["--frequency-penalty"],
    repetitionPenalty: options["--repetition-penalty"],
    seed: options["--seed"],
  }
  return said(given) as Partial<SamplingParams> // whose fields are there or not, and never undefined
}

/** Has `work` done, and says how fast answers came meanwhile where that is asked for. */
export async function counted<Result>(
  stats: (() => EngineStats) | undefined,
  work: () => Promise<Result>,
): Promise<Result> {
  const [begun, before] = [performance.now(), stats?.()]
  const result = await work()
  if (before) console.error(statsLine(before, stats!(), performance.now() - begun))
  return result
}

/** "41 tokens in 1.2 s, 34 a second; 31 of 44 proposed came true" */
function statsLine(before: EngineStats, after: EngineStats, ms: number): string {
  const tokens = after.replyTokens - before.replyTokens
  const sum = (counts: readonly number[] = []) => counts.reduce((all, count) => all + count, 0)
  const since = (counts: "drafted" | "accepted") =>
    sum(after.drafts?.[counts]) - sum(before.drafts?.[counts])
  const speed = `${tokens} tokens in ${(ms / 1000).toFixed(1)} s, ${((tokens * 1000) / ms).toFixed(0)} a second`
  return after.drafts
    ? `${speed}; ${since("accepted")} of ${since("drafted")} proposed came true`
    : speed
}

/** Beside the answer itself: for eyes, not for pipes. */
function dim(text: string): string {
  return process.stdout.isTTY ? `\x1b[2m${text}\x1b[22m` : ""
}
