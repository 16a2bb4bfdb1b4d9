// Starts a worker thread whose own file stands in this folder. Run from the sources it is TypeScript, which a thread must be
// taught to read.

import { Worker, type WorkerOptions } from "node:worker_threads"

export function startThread(name: string, options: WorkerOptions): Worker {
  if (!import.meta.url.endsWith(".ts")) {
    return new Worker(new URL(`./${name}.js`, import.meta.url), options)
  }
  const file = JSON.stringify(new URL(`./${name}.ts`, import.meta.url))
  const script = `import("tsx/esm/api").then((tsx) => tsx.register() && import(${file}))`
  return new Worker(script, { ...options, eval: true })
}
