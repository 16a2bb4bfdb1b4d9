// `sinter chat MODEL`: a conversation in the terminal, over the same engine that serves. One line is one message. Piped, it
// answers each line of stdin on stdout and says nothing else there; a line that is refused costs its answer, and ends the whole
// with exit code 2. Ctrl-C stops an answer; between answers it ends.

import type { AppChat } from "../app/requests.ts"
import { createApp } from "../app.ts"
import type { ChatMessage } from "../chat/conversation.ts"
import type { EngineStats } from "../engine/stats.ts"
import { Problem } from "../errors.ts"
import { openLines } from "./lines.ts"
import { openingOf } from "./opening.ts"
import type { chatOptions } from "./options.ts"
import type { Values } from "./read-options.ts"

type Options = Values<typeof chatOptions>

export async function chat(model: string, options: Options): Promise<void> {
  const app = await createApp({
    ...openingOf(options),
    model,
    mode: "interactive",
    drafting: {
      mode: options["--speculative-mode"],
      models: options["--additional-models"],
    },
  })
  try {
    const { chat, engine } = await app.ready
    await converse(chat, options, options["--stats"] ? () => engine.stats() : undefined)
  } finally {
    await app.close()
  }
}

async function converse(
  chat: AppChat,
  options: Options,
  stats: (() => EngineStats) | undefined,
): Promise<void> {
  const begin: ChatMessage[] = []
  if (options["--system"]) begin.push({ role: "system", content: options["--system"] })
  let messages = [...begin]
  let answering: AbortController | undefined
  const { stdin, stdout } = process
  const lines = openLines(stdin, stdout, stdin.isTTY === true)
  const interrupt = () => (answering ? answering.abort() : lines.close())
  lines.onInterrupt(interrupt)
  process.on("SIGINT", interrupt)
  if (stdin.isTTY) console.log("Ctrl-C stops an answer, /reset forgets, /exit ends.")
  lines.ask()
  for await (const line of lines) {
    if (line === "/exit") break
    if (line === "/reset") messages = [...begin]
    else if (line.trim() !== "") {
      answering = new AbortController()
      const [begun, before] = [performance.now(), stats?.()]
      messages = await turn(chat, messages, line, options, answering.signal)
      if (before) console.error(statsLine(before, stats!(), performance.now() - begun))
      answering = undefined
    }
    lines.ask()
  }
  lines.close()
  process.off("SIGINT", interrupt)
}

/** One message and its answer. @returns the conversation after it, or as it was when the message was refused. */
async function turn(
  chat: AppChat,
  before: ChatMessage[],
  said: string,
  options: Options,
  signal: AbortSignal,
): Promise<ChatMessage[]> {
  const messages: ChatMessage[] = [...before, { role: "user", content: said }]
  try {
    const answer = await say(chat, messages, options, signal)
    return [...messages, { role: "assistant", content: answer }]
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    console.error(error.message)
    if (!process.stdin.isTTY) process.exitCode = 2 // nobody watches, so whoever runs it must be told
    return before
  }
}

/** Prints the answer as it comes. @returns its text, as far as it got. */
async function say(
  chat: AppChat,
  messages: ChatMessage[],
  options: Options,
  signal: AbortSignal,
): Promise<string> {
  const [maxTokens, seed] = [options["--max-tokens"], options["--seed"]]
  const call = {
    messages,
    maxTokens,
    sampling: { temperature: options["--temperature"], ...(seed !== undefined && { seed }) },
  }
  let answer = ""
  try {
    const { events } = await chat.reply(call, signal)
    for await (const event of events) {
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
