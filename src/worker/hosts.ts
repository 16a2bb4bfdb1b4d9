// What a worker runs in. Both kinds speak the same messages; run from the sources, both are taught to read TypeScript first.
//
// A process is in a group of its own, so that what a terminal sends to the server's does not reach it: the server may want to
// finish first. It ends when its server does: by its own hand when the channel breaks (serve.ts), and by this one's when this
// process exits.

import { type ChildProcess, spawn } from "node:child_process"
import { existsSync } from "node:fs"
import type { Socket } from "node:net"
import { platform, setPriority } from "node:os"
import { fileURLToPath } from "node:url"
import { Worker as Thread } from "node:worker_threads"
import type { Ending, FromWorker, ToWorker, WorkerOptions } from "./protocol.ts"

/** A running thread or process. */
export interface Host {
  post(message: ToWorker): void
  /** Whether this process lives on for it. */
  hold(isBusy: boolean): void
  end(): Promise<void>
}

export interface HostEvents {
  onMessage: (message: FromWorker) => void
  onEnd: (ending: Ending) => void
}

/** A process that took more memory than it may ends with this code, which nothing else uses. */
export const OUT_OF_MEMORY = 86

type HostOptions = Pick<WorkerOptions, "host" | "file" | "megabytes" | "nice">

/**
 * glibc keeps an arena for each thread, and the end of each arena for ever. With one, native code takes half as much at its
 * most, gives all of it back (give-back.ts), and is no slower: 4 texts of 2 MB, 300 MiB and then 56 against 690 and 167.
 */
const ONE_ARENA = { MALLOC_ARENA_MAX: "1" }

/** Megabytes of a tokenizer on large pages, where the system lends them: it is open a sixth sooner, and takes no more memory. */
const LARGE_PAGES = { GLIBC_TUNABLES: "glibc.malloc.hugetlb=1" }

/** Never throws: what cannot be started has ended. */
export function startHost(options: HostOptions, events: HostEvents): Host {
  try {
    return options.host === "thread" ? startThread(options, events) : startProcess(options, events)
  } catch (error) {
    setImmediate(() => events.onEnd(unstartable(options, error as Error)))
    return { post: () => {}, hold: () => {}, end: async () => {} }
  }
}

function startThread(options: HostOptions, { onMessage, onEnd }: HostEvents): Host {
  const { megabytes } = options
  const { url, script } = entryOf(options.file)
  const resourceLimits = megabytes === undefined ? {} : { maxOldGenerationSizeMb: megabytes }
  const { nice } = options
  const thread = new Thread(url ?? script, { eval: !url, resourceLimits, workerData: { nice } })
  let ending: Ending | undefined
  thread.on("message", (message: FromWorker) => onMessage(message))
  thread.on("error", (error: Error & { code?: string }) => {
    if (error.code === "ERR_WORKER_OUT_OF_MEMORY") ending = outOfMemory(options)
    else if (error.code === "ERR_WORKER_INIT_FAILED") ending = unstartable(options, error)
    else ending = { ...BY_ITSELF, words: error.stack }
  })
  // After an error, and after the answers that it gave before.
  thread.on("exit", (code) => onEnd(ending ?? { ...BY_ITSELF, words: `its exit code was ${code}` }))
  return {
    post: (message) => thread.postMessage(message),
    hold: (isBusy) => (isBusy ? thread.ref() : thread.unref()),
    end: async () => void (await thread.terminate()),
  }
}

function startProcess(options: HostOptions, { onMessage, onEnd }: HostEvents): Host {
  const { megabytes } = options
  const { url, script } = entryOf(options.file)
  const heap = megabytes === undefined ? [] : [`--max-old-space-size=${megabytes}`]
  const code = url ? [fileURLToPath(url)] : ["--eval", script]
  const child = spawn(process.execPath, [...heap, ...code, String(megabytes ?? 0)], {
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    serialization: "advanced",
    detached: process.platform !== "win32", // where it would open a window
    env: { ...ONE_ARENA, ...LARGE_PAGES, ...process.env },
  })
  running.add(child)
  if (child.pid !== undefined) standBack(options.nice, child.pid)
  const words = firstWords(child)
  let isHeard = false
  const over = new Promise<void>((resolve) => {
    child.once("error", (error) => {
      onEnd(unstartable(options, error))
      if (child.pid === undefined) resolve()
    })
    child.once("close", (code, signal) => {
      if (signal === "SIGABRT" && !isHeard && NO_THREADS.test(words())) {
        onEnd(unstartable(options, new Error("it got no thread")))
        resolve()
        return
      }
      const isMemory = code === OUT_OF_MEMORY || /heap out of memory/.test(words())
      const how = `its exit code was ${code}, its signal ${signal}. ${withoutStack(words())}`
      const finish = () => {
        const ending = isMemory ? outOfMemory(options) : BY_ITSELF
        onEnd({ ...ending, words: how, ...(signal && { signal }) })
        resolve()
      }
      // What it answered before may still be in the channel.
      if (child.connected) child.once("disconnect", finish)
      else finish()
    })
  }).finally(() => running.delete(child))
  child.on("message", (message) => {
    isHeard = true
    onMessage(message as FromWorker)
  })
  const hold = (isBusy: boolean) => {
    for (const handle of [child, child.channel, child.stderr as Socket]) {
      if (isBusy) handle?.ref()
      else handle?.unref()
    }
  }
  return {
    post: (message) => void child.send(message, () => {}), // a channel that is broken is told by "close"
    hold,
    end: () => {
      hold(true) // "close" comes when all of them have ended
      child.kill("SIGKILL")
      return over
    },
  }
}

/** @param pid of a process, whose later threads follow it; absent: the calling thread */
export function standBack(nice: number | undefined, pid?: number): void {
  if (nice === undefined) return
  if (pid === undefined && platform() !== "linux") return // elsewhere it would be the whole process
  try {
    setPriority(pid ?? 0, nice)
  } catch {} // it has ended, or the system does not let it
}

const running = new Set<ChildProcess>()
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL")
})

/** What Node and C++ say when they get no thread: nothing, mostly. */
const NO_THREADS = /^$|uv_thread_create|pthread_create|Resource temporarily unavailable/

const BY_ITSELF = { reason: "ended", why: "it ended by itself" } as const

function outOfMemory({ megabytes }: HostOptions): Ending {
  return { reason: "memory", why: `it took more than ${megabytes} MiB of memory` }
}

function unstartable({ host }: HostOptions, { message: words }: Error): Ending {
  return { reason: "unstartable", why: `the system has no ${host} for it`, words }
}

const MAX_WORDS = 2000 // characters

/** What it writes to stderr first, which is where panics go. */
function firstWords({ stderr }: ChildProcess): () => string {
  let words = ""
  stderr?.setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(0, MAX_WORDS)
  })
  return () => words
}

const withoutStack = (words: string) => words.split("\n----- ", 1)[0]!.trimEnd()

/** Built, a worker is a file; from the sources, it is a script that learns to read one. */
function entryOf(file: URL): { url: URL | undefined; script: string } {
  const built = new URL(`${file.href}.js`)
  if (existsSync(built)) return { url: built, script: "" }
  const [first, then] = [import.meta.resolve("tsx/esm/api"), `${file.href}.ts`].map((name) =>
    JSON.stringify(name),
  )
  const script = `import(${first}).then((tsx) => tsx.register() && import(${then}))`
  return { url: undefined, script }
}
