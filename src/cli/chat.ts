// `sinter chat MODEL`: a conversation in the terminal, over the same engine that serves. One line is one message. Piped, it
// answers each line of stdin on stdout and says nothing else there. Ctrl-C stops an answer; between answers it ends.

import { randomBytes } from "node:crypto"
import { createInterface, type Interface } from "node:readline"
import { createApp } from "../app.ts"
import type { Chat, ChatMessage } from "../chat/conversation.ts"
import type { EngineStats } from "../engine/stats.ts"
import { Problem } from "../errors.ts"
import { createLog } from "../log.ts"
import type { chatOptions, Values } from "./options.ts"
import { progressBar } from "./progress.ts"

type Options = Values<typeof chatOptions>

export async function chat(model: string, options: Options): Promise<void> {
  const app = await createApp({
    model,
    mode: "interactive",
    device: options["--device"],
    target: options["--target"],
    modelLib: options["--model-lib"],
    quantization: options["--quantization"],
    overrides: options["--overrides"],
    drafting: {
      mode: options["--speculative-mode"],
      models: options["--additional-models"],
    },
    shelfSize: options["--shelf-size"],
    log: createLog(options["--log-level"], process.stderr.isTTY),
    onProgress: progressBar(process.stderr),
  })
  try {
    const { chat, engine } = await app.ready
    await converse(chat, options, options["--stats"] ? () => engine.stats() : undefined)
  } finally {
    await app.close()
  }
}

async function converse(
  chat: Chat,
  options: Options,
  stats: (() => EngineStats) | undefined,
): Promise<void> {
  const begin: ChatMessage[] = []
  if (options["--system"]) begin.push({ role: "system", content: options["--system"] })
  let messages = [...begin]
  let answering: AbortController | undefined
  const lines = readLines()
  const interrupt = () => (answering ? answering.abort() : lines.close())
  lines.on("SIGINT", interrupt) // of a terminal, whose keys readline reads itself
  process.on("SIGINT", interrupt)
  if (process.stdin.isTTY) console.log("Ctrl-C stops an answer, /reset forgets, /exit ends.")
  lines.prompt()
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
    lines.prompt()
  }
  lines.close()
  process.off("SIGINT", interrupt)
}

function readLines(): Interface {
  const { stdin: input, stdout } = process
  const output = input.isTTY ? stdout : undefined // piped: no prompt, no echo
  return createInterface({ input, output, prompt: "> ", terminal: input.isTTY === true })
}

/** One message and its answer. @returns the conversation after it, or as it was when the message was refused. */
async function turn(
  chat: Chat,
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
    return before
  }
}

/** Prints the answer as it comes. @returns its text, as far as it got. */
async function say(
  chat: Chat,
  messages: ChatMessage[],
  options: Options,
  signal: AbortSignal,
): Promise<string> {
  const request = {
    id: "chat",
    messages,
    choices: 1,
    maxTokens: options["--max-tokens"],
    stop: [],
    ignoreEos: false,
    sampling: {
      temperature: options["--temperature"],
      topK: 0,
      topP: 1,
      minP: 0,
      presencePenalty: 0,
      frequencyPenalty: 0,
      repetitionPenalty: 1,
      logitBias: new Map(),
      seed: options["--seed"] ?? randomBytes(8).readBigUInt64LE(),
      topLogprobs: undefined,
    },
    templateArguments: {},
    reasoning: "split",
    scope: "",
  } as const
  let answer = ""
  try {
    const { events } = await chat.reply(request, signal)
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
