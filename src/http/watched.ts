// Files that operators change while the server runs. What cannot be read at the start is refused; later the server goes on with
// what it has, and says so.

import { readFileSync, statSync } from "node:fs"
import { problem, unreadable } from "../errors.ts"
import type { Log } from "../log.ts"

const EVERY = 1000 // milliseconds

export interface Watching<Value> {
  /** The option that names the files. */
  option: string
  paths: readonly string[]
  /** Of what they hold, in their order. Throws an error whose message says what is wrong with it. */
  read: (contents: readonly Buffer[]) => Value
  log: Log
}

export class Watched<Value> {
  readonly #watching: Watching<Value>
  readonly #timer: NodeJS.Timeout
  #seen: string
  #value: Value

  /**
   * @param onChange told of what is read later
   * @throws `option_invalid`
   */
  constructor(watching: Watching<Value>, onChange: (value: Value) => void = () => {}) {
    const { option, paths, read } = watching
    this.#watching = watching
    try {
      this.#seen = traces(paths)
      this.#value = read(contentsOf(paths))
    } catch (error) {
      throw problem("option_invalid", { option, problem: `${reasonOf(error)}.` })
    }
    this.#timer = setInterval(() => this.#look(onChange), EVERY).unref()
  }

  get value(): Value {
    return this.#value
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(onChange: (value: Value) => void): void {
    const { option, paths, read, log } = this.#watching
    try {
      const now = traces(paths)
      if (now === this.#seen) return
      this.#seen = now
      this.#value = read(contentsOf(paths))
      onChange(this.#value)
      log.info({ option }, "read again")
    } catch (error) {
      if (this.#seen === "") return // told already
      this.#seen = ""
      log.warn(`${option}: ${reasonOf(error)}; the server goes on with what it has read before.`)
    }
  }
}

/** What changes when a file is written, or another is put in its place. */
function traces(paths: readonly string[]): string {
  return ofEach(paths, (path) => {
    const { mtimeMs, ino, size } = statSync(path)
    return `${mtimeMs} ${ino} ${size}`
  }).join()
}

function contentsOf(paths: readonly string[]): Buffer[] {
  return ofEach(paths, (path) => readFileSync(path))
}

function ofEach<Value>(paths: readonly string[], take: (path: string) => Value): Value[] {
  return paths.map((path) => {
    try {
      return take(path)
    } catch (error) {
      throw new Error(unreadable(path, error))
    }
  })
}

function reasonOf(error: unknown): string {
  return (error as Error).message
}
