// The program as a user starts it: a process of its own, its words on stdout and stderr, its exit code.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process"
import { once } from "node:events"
import { resolve } from "node:path"

const root = resolve(import.meta.dirname, "..")

/** How to start it: as built here, from the sources, or from wherever it was installed. */
export interface Installed {
  command: readonly string[]
  folder: string
}

/** Made by build.ts before the tests. */
export const built: Installed = {
  command: [process.execPath, resolve(root, "build/cli/main.js")],
  folder: root,
}

/** As contributors start it. */
export const fromSources: Installed = {
  command: [process.execPath, "--import", "tsx", resolve(root, "src/cli/main.ts")],
  folder: root,
}

export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  out: string
  err: string
}

export interface Running {
  child: ChildProcessWithoutNullStreams
  out: () => string
  /** What it has said so far; the log is written beside all else, so a line of it may come after what was printed later. */
  err: () => string
  ended: Promise<Ended>
}

/** Changes to this process's environment; undefined takes a variable away. */
type Environment = Readonly<Record<string, string | undefined>>

export function start(args: readonly string[], where = built, env: Environment = {}): Running {
  const [program, ...first] = where.command
  const child = spawn(program!, [...first, ...args], {
    cwd: where.folder,
    env: { ...process.env, ...env },
    detached: true, // a process group of its own, as a terminal gives it
  })
  let out = ""
  let err = ""
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text
  })
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text
  })
  const ended = once(child, "close").then(([code, signal]) => ({ code, signal, out, err }))
  return { child, out: () => out, err: () => err, ended }
}

/** Runs to the end, with `input` on stdin. */
export function run(
  args: readonly string[],
  input: string | Buffer = "",
  where = built,
  env: Environment = {},
): Promise<Ended> {
  const running = start(args, where, env)
  running.child.stdin.on("error", () => {}) // it may end before it has read anything
  running.child.stdin.end(input)
  return running.ended
}

export interface Serving extends Running {
  /** http://127.0.0.1:PORT, as it printed it. */
  url: string
  /** Sends a signal as a terminal does, to all processes of the command, and waits. */
  stop: (signal?: NodeJS.Signals) => Promise<Ended>
}

/** `sinter serve …` on a free port, once it says that it is ready. */
export function serve(
  args: readonly string[],
  where = built,
  env: Environment = {},
): Promise<Serving> {
  return serving(start(["serve", ...args, "--port", "0"], where, env))
}

export async function serving(running: Running): Promise<Serving> {
  let over = false
  void running.ended.then(() => {
    over = true
  })
  while (!/^ready/m.test(running.out())) {
    if (over) throw new Error(`it ended while starting: ${running.err()}`)
    await new Promise((wake) => setTimeout(wake, 20))
  }
  const [url] = /http:\/\/[^/\s]+/.exec(running.out()) ?? []
  return {
    ...running,
    url: url!,
    stop: (signal = "SIGTERM") => {
      process.kill(-running.child.pid!, signal)
      return running.ended
    },
  }
}
