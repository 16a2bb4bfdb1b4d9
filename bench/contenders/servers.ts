// Servers that the benchmark starts itself, as processes: ours and llama.cpp's, by the same clients; and one that already runs
// somewhere, named by its URL.

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { readdirSync, readFileSync } from "node:fs"
import { createServer } from "node:net"
import { basename, dirname, join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { openShelf } from "../../src/runtime/shelf.ts"
import { shapes } from "../shapes.ts"
import { measureApi } from "./api.ts"
import { canForget, type Places, startCold } from "./cold.ts"
import type { Contender, Task } from "./contender.ts"
import { type FlashAttention, flashOption, helpOf } from "./llama-bench.ts"

const root = join(import.meta.dirname, "..", "..")

/** What our server is called in the results, and what its environment says. */
const names = {
  compiled: { name: "sinter", env: {} },
  /** With the kernels that a package brings (`npm run generic`). */
  generic: { name: "sinter without a compiler", env: { PATH: "/nowhere", CC: "" } },
}

/** This program, as it was built, serving a compiled folder or a file. */
export function sinter(
  served: string,
  task: Task,
  kernels: keyof typeof names = "compiled",
): Promise<Contender> {
  const total = task.sequences * 1024 + 2 * task.context
  const overrides = `max_num_sequence=${task.sequences};max_total_seq_length=${total};context_window_size=${task.context}`
  const device = `${task.device.name}:${task.device.id}`
  const mode = ["--mode", "server", "--overrides", overrides]
  const options = ["serve", served, "--device", device, ...mode]
  return startServer({
    ...names[kernels],
    about: `sinter ${commit()}, Node ${process.versions.node}, \`${options.slice(2).join(" ")}\``,
    task,
    command: process.execPath,
    options: (port) => [join(root, "build/cli/main.js"), ...options, "--port", `${port}`],
    places: [served, join(root, "build"), ...packages()],
    model: basename(served, ".gguf"),
    headers: { "x-api-dialect": "openai" },
    settled: libraryIsBuilt,
  })
}

/** A first start may serve with a package's kernels and build the model's own behind them, which are what is to be measured. */
async function libraryIsBuilt(): Promise<void> {
  const { folder } = openShelf()
  while (readdirSync(folder).some((name) => name.endsWith(".so.lock"))) await sleep(100)
}

/** Folders of those that the program needs. */
function packages(): string[] {
  const list = ["ls", "--omit=dev", "--all", "--parseable"]
  const folders = execFileSync("npm", list, { cwd: root, encoding: "utf8" }).trim().split("\n")
  return folders.slice(1) // the first is this one
}

/** llama.cpp's server; no cache between requests but the prefix that a slot holds. */
export function llamaServer(
  binary: string,
  model: string,
  task: Task,
  flash: FlashAttention,
): Promise<Contender> {
  const total = task.sequences * 1024 + 2 * task.context
  const options = ["-t", task.threads, "-tb", task.threads, "-np", task.sequences, "-c", total]
  const help = helpOf(binary)
  const prompts = help.includes("--cache-ram") ? ["--cache-ram", "0"] : []
  const said = [
    ...options.map(String),
    ...flashOption(help, flash),
    "--kv-unified",
    ...prompts,
    "--no-webui",
  ]
  const version = versionOf(binary)
  return startServer({
    name: "llama-server",
    about: `llama.cpp ${version}, ${basename(model)}, \`${said.join(" ")}\`, its default batches (2048/512) and f16 keys and values`,
    task,
    command: binary,
    options: (port) => ["-m", model, ...said, "--host", "127.0.0.1", "--port", `${port}`],
    places: [model, dirname(binary)],
    model: "any",
  })
}

export function versionOf(binary: string): string {
  const { stdout, stderr } = spawnSync(binary, ["--version"], { encoding: "utf8" })
  return /version: (.+)/.exec(stdout + stderr)?.[1] ?? "of unknown version"
}

/** A server that runs already and speaks OpenAI's API: vLLM, Ollama, LM Studio, another machine's. */
export async function running(url: string, task: Task): Promise<Contender> {
  const base = url.replace(/\/(v1\/?)?$/, "")
  const { data } = (await (await fetch(`${base}/v1/models`)).json()) as { data: { id: string }[] }
  const model = data[0]!.id
  const { vocab_size: vocabulary } = shapes[task.shape as keyof typeof shapes]
  return {
    name: "server",
    about: `${model} at ${base}`,
    ...measureApi({ url: base, model, vocabulary }),
    close: async () => {},
  }
}

// ------------------------------------------------------------------ processes

interface Program {
  name: string
  about: string
  task: Task
  command: string
  env?: NodeJS.ProcessEnv
  options: (port: number) => string[]
  /** What a start reads. */
  places: Places
  /** What the API calls the model. */
  model: string
  headers?: Record<string, string>
  /** Waits for what its first start leaves to be done; the next one finds it. */
  settled?: () => Promise<void>
}

async function startServer(program: Program): Promise<Contender> {
  const { name, about, model, headers, task } = program
  const port = await freePort()
  let { child, url } = await launch(program, port)
  if (program.settled) {
    await program.settled()
    await end(child)
    child = (await launch(program, port)).child
  }
  const start = async (env?: NodeJS.ProcessEnv) => {
    const another = await launch(program, await freePort(), env)
    await end(another.child)
    return another.seconds
  }
  const { vocab_size: vocabulary } = shapes[task.shape as keyof typeof shapes]
  return {
    name,
    about,
    ...measureApi({ url, model, vocabulary, ...(headers && { headers }) }),
    start: () => start(),
    ...(canForget && { coldStart: () => startCold(program.places, start) }),
    rest: () => end(child),
    wake: async () => {
      child = (await launch(program, port)).child
    },
    memory: () => residentBytes(child.pid!),
    close: () => end(child),
  }
}

/** Starts it and waits until it says that it is healthy, which both kinds do once the model is loaded. */
async function launch(
  { name, command, options, env: own }: Program,
  port: number,
  added: NodeJS.ProcessEnv = {},
) {
  const begun = performance.now()
  const stdio = ["ignore", "ignore", "pipe"] as const
  const child = spawn(command, options(port), {
    stdio: [...stdio],
    env: { ...process.env, ...own, ...added },
  })
  let words = ""
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(-2000)
  })
  const url = `http://127.0.0.1:${port}`
  while (!(await healthy(url))) {
    const how = child.exitCode ?? child.signalCode
    if (how !== null) throw new Error(`${name} ended (${how}): ${words}`)
    await sleep(5)
  }
  return { child, url, seconds: (performance.now() - begun) / 1000 }
}

async function healthy(url: string): Promise<boolean> {
  return fetch(`${url}/health`).then(
    async (response) => {
      await response.arrayBuffer()
      return response.ok
    },
    () => false,
  )
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, "close")
  return port
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill("SIGTERM")
  await once(child, "exit")
}

function residentBytes(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))!
  return Number(kib) * 1024
}

export function commit(): string {
  const git = (...args: string[]) =>
    execFileSync("git", ["-C", root, ...args], { encoding: "utf8" }).trim()
  return git("rev-parse", "--short", "HEAD")
}
