// `sinter batch MODEL < requests > answers`: a file of requests in the form of OpenAI's batches, a line each, answered by lines in the
// same order. They are asked of a server of this process's own, over loopback and with a key that nobody else knows, so that each
// is read, checked and answered as any other request.

import { randomUUID } from "node:crypto"
import { once, setMaxListeners } from "node:events"
import { createReadStream, statSync } from "node:fs"
import type { Readable } from "node:stream"
import { text } from "node:stream/consumers"
import { createApp } from "../app.ts"
import { type Problem, unreadable } from "../errors.ts"
import { JsonText, writeJson } from "../http/json.ts"
import { http } from "../node-http.ts"
import { type AnswerFile, openAnswers } from "./batch-answers.ts"
import { type Asked, linesOf, readLine, type Unanswered } from "./batch-line.ts"
import { choicesOf, draftingOf, openingOf } from "./opening.ts"
import type { batchOptions } from "./options.ts"
import type { Values } from "./read-options.ts"
import { endNow, endSignal, INTERRUPTED } from "./signals.ts"
import { quoted, refuse } from "./values.ts"

type Options = Values<typeof batchOptions>

/** Requests under way for each sequence that there is room for: one ends, and the next is read, encoded and waits already. */
const AHEAD = 4
const MAX_AT_ONCE = 1024

export async function batch(model: string, options: Options): Promise<void> {
  const input = await openInput(options["--input"])
  const answers = await openAnswers(options["--output"], options["--resume"])
  const end = endSignal()
  const key = randomUUID()
  const app = await Promise.race([end, appOf(model, options, key)])
  if (!app) return endNow(INTERRUPTED) // nothing is open yet that outlives the process
  const ending = new AbortController()
  const { signal } = ending
  setMaxListeners(0, signal) // all requests that are under way listen
  signal.addEventListener("abort", () => input.destroy())
  let lost: Problem | undefined
  void end.then(() => ending.abort())
  void app.lost.then((problem) => {
    lost = problem
    ending.abort()
  })
  try {
    const port = await app.listen(0)
    const ready = await Promise.race([end, app.ready])
    if (!ready) return
    const atOnce = Math.min(AHEAD * ready.summary.limits.sequences.value, MAX_AT_ONCE)
    const agent = new http.Agent({ keepAlive: true, maxSockets: atOnce })
    const ask = (asked: Asked) => post(asked, { port, key, agent, signal })
    await answerAll(input, ask, answers, atOnce).catch((error) => {
      if (!signal.aborted) throw error
    })
    agent.destroy()
    console.error(answers.summary())
    if (answers.refused > 0) process.exitCode = 1
  } finally {
    input.destroy()
    await answers.close()
    await app.close()
    if (lost) console.error(`sinter: ${lost.message}`)
    if (signal.aborted) process.exitCode = lost ? 1 : INTERRUPTED
  }
}

async function openInput(path: string | undefined): Promise<Readable> {
  if (path === undefined) return process.stdin
  const stream = createReadStream(path)
  await once(stream, "open").catch((error) =>
    refuse("--input", `${unreadable(quoted(path), error)}.`),
  )
  if (statSync(path).isDirectory()) refuse("--input", `${quoted(path)} is a folder; name a file.`)
  return stream
}

function appOf(model: string, options: Options, key: string) {
  return createApp({
    ...openingOf(options),
    model,
    mode: options["--mode"],
    servedName: options["--served-model-name"],
    choices: choicesOf(options),
    drafting: draftingOf(options),
    toolFormat: options["--tool-format"],
    generationDefaults: options["--generation-defaults"],
    maxQueue: MAX_AT_ONCE,
    http: {
      host: "127.0.0.1",
      apiKeys: [key],
      dialect: "openai",
      reasoning: options["--reasoning"],
      maxBody: options["--max-body"],
      maxConnections: MAX_AT_ONCE,
    },
  })
}

/**
 * Asks what lines ask, so many at once, and hands on each answer as soon as those to the lines before it are: whoever writes a
 * line and waits for its answer gets it.
 */
async function answerAll(
  input: Readable,
  ask: (asked: Asked) => Promise<Answered | undefined>,
  answers: AnswerFile,
  atOnce: number,
): Promise<void> {
  const waiting: Promise<void>[] = []
  const seen = new Set<string>()
  let number = 0
  let last = Promise.resolve()
  for await (const line of linesOf(input)) {
    number++
    const read = readLine(line, number, seen)
    if (!read || ("asked" in read && answers.has(read.asked.id))) continue
    const answer = "asked" in read ? answerTo(read.asked, ask, answers) : refusal(read, answers)
    last = printBehind(last, answer, answers)
    last.catch((error) => input.destroy(error)) // no line need come for it to be told
    waiting.push(last)
    if (waiting.length >= atOnce) await waiting.shift()
  }
  await last
}

async function printBehind(
  before: Promise<void>,
  answer: Promise<string | undefined>,
  answers: AnswerFile,
): Promise<void> {
  const [line] = await Promise.all([answer, before])
  if (line !== undefined) await answers.print(line)
}

interface Answered {
  status: number
  request: string
  /** As the server wrote it. */
  body: JsonText
}

async function answerTo(
  asked: Asked,
  ask: (asked: Asked) => Promise<Answered | undefined>,
  answers: AnswerFile,
): Promise<string | undefined> {
  const answered = await ask(asked)
  if (!answered) return undefined
  const { status, request, body } = answered
  answers.count(status === 200)
  const response = { status_code: status, request_id: request, body }
  return writeJson({ id: `batch_${request}`, custom_id: asked.id, response, error: null })
}

async function refusal({ id, message }: Unanswered, answers: AnswerFile): Promise<string> {
  answers.count(false)
  const error = { code: "invalid_request", message }
  return writeJson({ id: `batch_${randomUUID()}`, custom_id: id, response: null, error })
}

interface Way {
  port: number
  key: string
  agent: InstanceType<typeof http.Agent>
  signal: AbortSignal
}

/** @returns undefined where the signal came first */
async function post(
  { path, body }: Asked,
  { port, key, agent, signal }: Way,
): Promise<Answered | undefined> {
  const headers = {
    authorization: `Bearer ${key}`,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  }
  try {
    const sent = http.request({
      host: "127.0.0.1",
      port,
      path,
      method: "POST",
      agent,
      headers,
      signal,
    })
    sent.end(body)
    const [response] = (await once(sent, "response")) as [import("node:http").IncomingMessage]
    const told = new JsonText(await text(response))
    const request = String(response.headers["x-request-id"])
    return { status: response.statusCode!, request, body: told }
  } catch (error) {
    if (signal.aborted) return undefined
    throw error
  }
}
