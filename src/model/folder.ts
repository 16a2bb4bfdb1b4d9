// A model folder, as untrusted as anything that comes from elsewhere. Files are opened by plain names, inside the folder
// alone; a length is checked before anything is allocated for it; what is wrong is said with the file's name.

import { type FileHandle, open, readFile, stat } from "node:fs/promises"
import { basename, join } from "node:path"
import { type Problem, problem } from "../errors.ts"

export type Json = Readonly<Record<string, unknown>>

// The largest JSON that published folders hold are tokenizers of some 30 MB and indexes of some 5.
const LONGEST_TEXT = 128 << 20

export class Folder {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  get name(): string {
    return basename(this.path)
  }

  /** The problem `model_broken`, naming a file of this folder. */
  broken(file: string, what: string): Problem {
    return problem("model_broken", { file: join(this.path, file), problem: what })
  }

  #unreadable(file: string, { code }: NodeJS.ErrnoException): Problem {
    return this.broken(file, `it cannot be read (${code})`)
  }

  async has(file: string): Promise<boolean> {
    return (await stat(join(this.path, file)).catch(() => undefined))?.isFile() ?? false
  }

  /** Opens a file by a name that may have been read from another file. */
  async open(file: string, namedBy: string): Promise<{ handle: FileHandle; size: number }> {
    if (!/^[^/\\\0]+$/.test(file) || file === "." || file === "..")
      throw this.broken(
        namedBy,
        `it names ${JSON.stringify(file)}, which is no file of this folder`,
      )
    const path = join(this.path, file)
    // Looked at before it is opened: opening a pipe would wait for its other end.
    if (!(await stat(path).catch(() => undefined))?.isFile())
      throw this.broken(namedBy, `it names ${file}, which is not there`)
    const handle = await open(path).catch((error) => {
      throw this.#unreadable(file, error)
    })
    return { handle, size: (await handle.stat()).size }
  }

  async text(file: string): Promise<string> {
    const found = await stat(join(this.path, file)).catch(() => undefined)
    if (!found?.isFile()) throw this.broken(file, "there is no such file")
    if (found.size > LONGEST_TEXT)
      throw this.broken(file, `it is ${found.size} bytes long, more than such a file can be`)
    const bytes = await readFile(join(this.path, file)).catch((error) => {
      throw this.#unreadable(file, error)
    })
    return this.decode(bytes, file)
  }

  decode(bytes: Uint8Array, file: string): string {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
    } catch {
      throw this.broken(file, "it is not UTF-8 text")
    }
  }

  /** A file that holds a JSON object. */
  async json(file: string): Promise<Json> {
    return this.parse(await this.text(file), file)
  }

  /** The same, or nothing when the file is not there. */
  async jsonIfThere(file: string): Promise<Json | undefined> {
    return (await this.has(file)) ? this.json(file) : undefined
  }

  parse(text: string, file: string): Json {
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch (error) {
      const why = (error as Error).message.replace(/\s+/g, " ") // it may quote the text, line breaks and all
      throw this.broken(file, `it is not valid JSON (${why})`)
    }
    if (!isObject(value)) throw this.broken(file, "it holds no JSON object")
    return value
  }
}

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

/** Reads exactly `length` bytes, or says that the file became shorter. */
export async function readExactly(
  handle: FileHandle,
  position: number,
  length: number,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(length)
  for (let done = 0; done < length; ) {
    const { bytesRead } = await handle.read(bytes, done, length - done, position + done)
    if (bytesRead === 0) throw new Error(`a weights file ended early, at byte ${position + done}`)
    done += bytesRead
  }
  return bytes
}
