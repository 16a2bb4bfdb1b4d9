// What drafts bring that nobody asked for, and what they cost: servers over one file, which are asked for replies that copy from their
// prompt (code that is edited, quotations) and for replies that do not. Random weights copy nothing, so the file is made for these
// texts: each token of a reply is followed by the next (random_gguf.py). For that, every token of a reply is another; where reply and
// prompt have the same words in the same order, they have the same tokens.
//
//   npx tsx bench/copying.ts --write texts.json       then: python bench/random_gguf.py FOLDER copying.gguf Q4_0 texts.json.chains
//   npm run bench:copying -- --model copying.gguf --texts texts.json --llama PATH/llama-server --rounds 5
//
// Servers take turns within a round. What counts is the time between a reply's first token and its last, and the processor time of the
// server's process in it (Linux). A program that says something else with drafts than without ends the run.

import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { availableParallelism, loadavg } from "node:os"
import { dirname, join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { parseArgs } from "node:util"
import { mulberry32 } from "../test/random.ts"
import { versionOf } from "./contenders/servers.ts"
import { pageOf, REPLY, type Results, type Sample } from "./copying-report.ts"
import { machine } from "./machine.ts"

const root = join(import.meta.dirname, "..")

const { values: options } = parseArgs({
  options: {
    write: { type: "string" },
    model: { type: "string", default: "copying.gguf" },
    texts: { type: "string", default: "texts.json" },
    llama: { type: "string" },
    rounds: { type: "string", default: "5" },
    only: { type: "string" },
    output: { type: "string", default: "bench/results/copying-1B-q4_0" },
  },
})

// ------------------------------------------------------------------ texts

interface Text {
  name: string
  prompt: readonly number[]
  reply: readonly number[]
}

const FIRST_ID = 1000 // of words; lower ones are bytes
const WORDS = /[A-Za-z]{1,6}|\d{1,3}|\s+|_|[^\w\s]+/g // about as long as tokens are

function writeTexts(output: string): void {
  const ids = new Ids()
  const file = read("src/engine/scheduler.ts")
  const code = file.slice(file.indexOf("export class")).slice(0, 3500)
  const page = read("docs/architecture.md").slice(0, 3500)
  const quotes = page.split(/\. /).filter((_, i) => i % 3 === 1)
  const edited = code
    .replace("preemptions = 0", "preempted = 0")
    .replace("get running()", "/** Those with a place. */\n  get placed()")
    .replace("return this.#limits.sequences", "return this.#limits.places")
  const pairs: readonly (readonly [name: string, prompt: string, reply: string])[] = [
    ["code, three places edited", code, edited],
    ["code, a name changed everywhere", code, code.replaceAll("sequence", "row")],
    [
      "sentences quoted as JSON",
      page,
      JSON.stringify(
        quotes.map((quote, id) => ({ id, quote })),
        undefined,
        1,
      ),
    ],
  ]
  const texts = pairs.map(([name, prompt, reply]) =>
    alike(name, wordsOf(prompt), wordsOf(reply), ids),
  )
  texts.push(fresh("nothing repeated", ids), misleading("repetitions that break off", ids))
  writeFileSync(output, JSON.stringify(texts))
  // What a prompt ends with is followed by the reply's first token.
  const chains = texts.map(({ prompt, reply }) => [prompt.at(-1)!, ...reply])
  writeFileSync(`${output}.chains`, JSON.stringify(chains))
}

const read = (path: string) => readFileSync(join(root, path), "utf8")
const wordsOf = (text: string) => text.match(WORDS)!

/** Hands out tokens, none of them twice, in no order that a model could know. */
class Ids {
  readonly #next = mulberry32(1)
  readonly #used = new Set<number>()

  take(): number {
    for (;;) {
      const id = FIRST_ID + (this.#next() % 126_000)
      if (this.#used.has(id)) continue
      this.#used.add(id)
      return id
    }
  }

  many(count: number): number[] {
    return Array.from({ length: count }, () => this.take())
  }
}

/** Tokens of the reply's own; a prompt's word that belongs to one of the reply's has its token. */
function alike(name: string, prompt: string[], reply: string[], ids: Ids): Text {
  const said = reply.slice(0, REPLY)
  const tokens = ids.many(said.length)
  const twin = commonWords(prompt, said)
  return {
    name,
    prompt: [...prompt.map((_, i) => tokens[twin[i]!] ?? ids.take()), ids.take()],
    reply: tokens,
  }
}

/** Of the longest sequence of words that both have: for each word of `a` the place in `b`, -1: it is not of it. */
function commonWords(a: readonly string[], b: readonly string[]): number[] {
  const longest = Array.from({ length: a.length + 1 }, () => new Int32Array(b.length + 1))
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i]![j] =
        a[i] === b[j]
          ? longest[i + 1]![j + 1]! + 1
          : Math.max(longest[i + 1]![j]!, longest[i]![j + 1]!)
  const twin = a.map(() => -1)
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) twin[i++] = j++
    else if (longest[i + 1]![j]! >= longest[i]![j + 1]!) i++
    else j++
  }
  return twin
}

const PROMPT = 800 // tokens, where nobody wrote them

function fresh(name: string, ids: Ids): Text {
  return { name, prompt: ids.many(PROMPT), reply: ids.many(REPLY) }
}

/** Four or five tokens of the prompt, again and again, and each time something else behind them. */
function misleading(name: string, ids: Ids): Text {
  const prompt = ids.many(PROMPT)
  const reply: number[] = []
  for (let at = 0; reply.length < REPLY; at += 9) {
    reply.push(...prompt.slice(at, at + 4 + (at % 2)), ...ids.many(5))
  }
  return { name, prompt, reply: reply.slice(0, REPLY) }
}

// ------------------------------------------------------------------ servers

interface Server {
  name: string
  url: string
  model: string
  child: ChildProcess
}

type Kind = readonly [name: string, command: readonly string[], model: string]

function kinds(): Kind[] {
  const threads = String(availableParallelism())
  const { llama, model } = options
  const own = (mode: string): Kind => [
    `sinter, ${mode}`,
    [
      process.execPath,
      join(root, "build/cli/main.js"),
      "serve",
      model,
      "--speculative-mode",
      mode,
      "--overrides",
      "context_window_size=4096",
    ],
    model.replace(/^.*\/|\.gguf$/g, ""),
  ]
  const other = (type: string): Kind => [
    `llama-server, ${type}`,
    [
      llama!,
      "-m",
      model,
      "-t",
      threads,
      "-tb",
      threads,
      "-np",
      "1",
      "-c",
      "4096",
      "--no-webui",
      "--spec-type",
      type,
      "--host",
      "127.0.0.1",
    ],
    "any",
  ]
  const all = [
    ...["disable", "auto", "lookup"].map(own),
    ...(llama
      ? ["none", "ngram-simple", "ngram-map-k", "ngram-mod", "ngram-cache"].map(other)
      : []),
  ]
  const wanted = options.only?.split(";")
  return wanted ? all.filter(([name]) => wanted.includes(name)) : all
}

async function startServer(
  [name, [command, ...given], model]: Kind,
  port: number,
): Promise<Server> {
  const child = spawn(command!, [...given, "--port", `${port}`], { stdio: "ignore" })
  const url = `http://127.0.0.1:${port}`
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}`)
    const isHealthy = await fetch(`${url}/health`).then(
      async (answer) => {
        await answer.arrayBuffer()
        return answer.ok
      },
      () => false,
    )
    if (isHealthy) return { name, url, model, child }
    await sleep(50)
  }
}

async function endServer({ child }: Server): Promise<void> {
  child.kill("SIGTERM")
  await once(child, "exit")
}

interface Reply extends Sample {
  text: string
}

async function ask({ url, model, child }: Server, { prompt, reply }: Text): Promise<Reply> {
  const answer = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, prompt, max_tokens: reply.length, temperature: 0, stream: true }),
  })
  if (!answer.ok) throw new Error(await answer.text())
  let begun: [wall: number, processor: number] | undefined
  let ended = [0, 0]
  let rest = ""
  let text = ""
  for await (const bytes of answer.body!.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + bytes).split("\n")
    rest = lines.pop()!
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue
      const piece: string = JSON.parse(line.slice(6)).choices[0]?.text ?? ""
      if (piece === "") continue
      text += piece
      ended = [performance.now(), 0]
      begun ??= [performance.now(), processorTime(child.pid!)]
    }
  }
  ended[1] = processorTime(child.pid!)
  return {
    wall: ended[0]! - begun![0],
    processor: ended[1]! - begun![1],
    text,
    load: loadavg()[0]!,
  }
}

/** Milliseconds that a process has computed, to a hundredth of a second. */
function processorTime(pid: number): number {
  if (!existsSync("/proc/self/stat")) return Number.NaN
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ")
  return (Number(fields[11]) + Number(fields[12])) * 10
}

// ------------------------------------------------------------------ the run

async function run(): Promise<void> {
  const texts: readonly Text[] = JSON.parse(readFileSync(options.texts, "utf8"))
  const file = `${options.output}.json`
  const results: Results = existsSync(file)
    ? JSON.parse(readFileSync(file, "utf8"))
    : {
        machine: machine(availableParallelism()),
        date: new Date().toISOString().slice(0, 10),
        about: options.llama ? `llama.cpp ${versionOf(options.llama)}` : "",
        samples: {},
      }
  const servers: Server[] = []
  try {
    for (const [i, kind] of kinds().entries()) servers.push(await startServer(kind, 18_600 + i))
    for (let round = 0; round < Number(options.rounds); round++)
      for (const text of texts) {
        results.samples[text.name] ??= {}
        const row = results.samples[text.name]!
        const inTurn = round % 2 ? servers.toReversed() : servers
        const said = new Map<string, string>() // by program: they cut and spell pieces of characters differently
        for (const server of inTurn) {
          // The prompt is read, and whoever learns from replies has seen none.
          if (round === 0) await ask(server, { ...text, reply: text.reply.slice(0, 2) })
          const { text: words, ...sample } = await ask(server, text)
          const [program] = server.name.split(",") as [string]
          if (words !== (said.get(program) ?? words))
            throw new Error(`${server.name} says something else to ${text.name}`)
          said.set(program, words)
          row[server.name] = [...(row[server.name] ?? []), sample]
          console.error(
            `${text.name}: ${server.name}: ${(((text.reply.length - 1) / sample.wall) * 1000).toFixed(1)} tokens a second`,
          )
        }
        write(results)
      }
  } finally {
    await Promise.all(servers.map(endServer))
  }
  console.log(pageOf(results))
}

function write(results: Results): void {
  mkdirSync(dirname(options.output), { recursive: true })
  writeFileSync(`${options.output}.json`, `${JSON.stringify(results, undefined, 1)}\n`)
  writeFileSync(`${options.output}.md`, pageOf(results))
}

if (options.write) writeTexts(options.write)
else await run()
