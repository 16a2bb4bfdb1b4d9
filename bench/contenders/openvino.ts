// OpenVINO GenAI, in a Python process that answers a line of JSON with a line of JSON.

import { type ChildProcessByStdio, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { Readable, Writable } from "node:stream"
import type { Contender, Task } from "./contender.ts"

/** @param python an interpreter that has openvino-genai */
export async function openvino(python: string, model: string, task: Task): Promise<Contender> {
  const options = { model, threads: task.threads, context: task.context }
  const script = join(import.meta.dirname, "openvino_worker.py")
  const launch = async () => {
    const begun = performance.now()
    const worker = new Worker(
      spawn(python, [script, JSON.stringify(options)], { stdio: ["pipe", "pipe", "inherit"] }),
    )
    const { about } = (await worker.next()) as { about: string }
    return { worker, about, seconds: (performance.now() - begun) / 1000 }
  }
  const { worker, about } = await launch()
  return {
    name: "OpenVINO GenAI",
    about,
    prefill: (tokens) => worker.rate({ prefill: tokens }),
    decode: (sequences, depth) => worker.rate({ sequences, depth }),
    async start() {
      const another = await launch()
      await another.worker.close()
      return another.seconds
    },
    close: () => worker.close(),
  }
}

class Worker {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>
  readonly #lines: AsyncIterator<string>

  constructor(child: ChildProcessByStdio<Writable, Readable, null>) {
    this.#child = child
    this.#lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  }

  async next(): Promise<unknown> {
    const { value, done } = await this.#lines.next()
    if (done) throw new Error("OpenVINO's process ended")
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
