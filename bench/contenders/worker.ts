// Engines that are libraries of their own: each in a process that answers a line of JSON with a line of JSON.

import { type ChildProcessByStdio, spawn } from "node:child_process"
import { once } from "node:events"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import type { Readable, Writable } from "node:stream"
import { canForget, type Places, startCold } from "./cold.ts"
import type { Contender, Task } from "./contender.ts"

/**
 * @param python an interpreter that has openvino-genai
 * @param group columns whose activations share a scale when they are rounded; absent: OpenVINO's default
 */
export const openvino = (
  python: string,
  model: string,
  { threads, context }: Task,
  group?: number,
) =>
  library(
    "OpenVINO GenAI",
    python,
    "openvino_worker.py",
    { model, threads, context, group },
    [model, dirname(dirname(python))], // of a virtual environment
  )

/** @param folder where node-llama-cpp is installed */
export const nodeLlamaCpp = (folder: string, model: string, { threads, context }: Task) =>
  library(
    "node-llama-cpp",
    process.execPath,
    "node_llama_cpp_worker.js",
    { folder, model, threads, context },
    [model, folder],
  )

async function library(
  name: string,
  command: string,
  script: string,
  options: object,
  places: Places,
): Promise<Contender> {
  const launch = async (env: NodeJS.ProcessEnv = {}) => {
    const begun = performance.now()
    const args = [join(import.meta.dirname, script), JSON.stringify(options)]
    const child = spawn(command, args, {
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...process.env, ...env },
    })
    const worker = new Worker(name, child)
    const { about } = (await worker.next()) as { about: string }
    return { worker, about, seconds: (performance.now() - begun) / 1000 }
  }
  const start = async (env?: NodeJS.ProcessEnv) => {
    const another = await launch(env)
    await another.worker.close()
    return another.seconds
  }
  let { worker, about } = await launch()
  return {
    name,
    about,
    prefill: (tokens) => worker.rate({ prefill: tokens }),
    decode: (sequences, depth) => worker.rate({ sequences, depth }),
    start: () => start(),
    ...(canForget && { coldStart: () => startCold(places, start) }),
    rest: () => worker.close(),
    wake: async () => {
      worker = (await launch()).worker
    },
    close: () => worker.close(),
  }
}

class Worker {
  readonly #name: string
  readonly #child: ChildProcessByStdio<Writable, Readable, null>
  readonly #lines: AsyncIterator<string>

  constructor(name: string, child: ChildProcessByStdio<Writable, Readable, null>) {
    this.#name = name
    this.#child = child
    this.#lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  }

  async next(): Promise<unknown> {
    const { value, done } = await this.#lines.next()
    if (done) throw new Error(`the process of ${this.#name} ended`)
    return JSON.parse(value)
  }

  async rate(question: object): Promise<number> {
    this.#child.stdin.write(`${JSON.stringify(question)}\n`)
    return ((await this.next()) as { rate: number }).rate
  }

  async close(): Promise<void> {
    this.#child.stdin.end()
    if (this.#child.exitCode === null) await once(this.#child, "exit")
  }
}
