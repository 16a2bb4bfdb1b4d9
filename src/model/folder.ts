// A model folder, as untrusted as anything that comes from elsewhere. Files are opened by plain names, inside the folder
// alone, and a link counts as the place it leads to; a length is checked before anything is allocated for it; what is wrong is
// said with the file's name.

import { isUtf8 } from "node:buffer"
import { realpathSync } from "node:fs"
import { type FileHandle, open, readFile, realpath, stat } from "node:fs/promises"
import { basename, dirname, join, sep } from "node:path"
import { openWhole } from "../closing.ts"
import { type Problem, printable, problem, whyUnreadable } from "../errors.ts"
import { isBlob, snapshotAround } from "../hub/cache.ts"

export type Json = Readonly<Record<string, unknown>>

/** How a file begins that Git has left in another's place. https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md */
const POINTER = Buffer.from("version https://git-lfs.github.com/spec/v1\n")

// The largest JSON that published folders hold are tokenizers of some 30 MB and indexes of some 5.
const MAX_TEXT = 128 << 20

export class Folder {
  readonly path: string
  /** Where it really lies: asked once, for the first file. */
  #real: string | undefined

  constructor(path: string) {
    this.path = path
  }

  /** In a hub's cache the repository's, since a snapshot's folder is called by a hash. */
  get name(): string {
    return snapshotAround(this.path)?.repository.split("/").at(-1) ?? basename(this.path)
  }

  /** The problem `model_broken`, naming a file of this folder. */
  broken(file: string, what: string): Problem {
    return problem("model_broken", { file: join(this.path, file), problem: printable(what) })
  }

  #unreadable(file: string, error: unknown): Problem {
    return this.broken(file, `it cannot be read: ${whyUnreadable(error)}`)
  }

  #pointer(file: string): Problem {
    return this.broken(
      file,
      "it is a Git LFS pointer and not the file itself; git lfs pull fetches it",
    )
  }

  async has(file: string): Promise<boolean> {
    return (await this.#find(file)) !== undefined
  }

  /**
   * The real path of a file, through its links; undefined when there is no such file.
   * @throws `model_broken` for a link that leads out of the folder: its target is not the model's to show.
   */
  async place(file: string): Promise<string | undefined> {
    return (await this.#find(file))?.path
  }

  /** Looked at before it is opened: opening a pipe would wait for its other end. */
  async #find(file: string): Promise<{ path: string; size: number } | undefined> {
    const path = await realpath(join(this.path, file)).catch(() => undefined)
    if (path === undefined) return undefined
    const stats = await stat(path).catch(() => undefined)
    if (!stats?.isFile()) return undefined
    this.#real ??= realpathSync.native(this.path)
    if (!belongsTo(this.#real, path))
      throw this.broken(
        file,
        "it is a link that leads out of the model folder; put the file itself there",
      )
    return { path, size: stats.size }
  }

  /** Opens a file by a name that may have been read from another file. */
  async open(file: string, namedBy: string): Promise<{ handle: FileHandle; size: number }> {
    if (!isFileName(file))
      throw this.broken(
        namedBy,
        `it names ${JSON.stringify(file)}, which is no file of this folder`,
      )
    const entry = await this.#find(file)
    if (!entry) throw this.broken(namedBy, `it names ${file}, which is not there`)
    const handle = await open(entry.path).catch((error) => {
      throw this.#unreadable(file, error)
    })
    return openWhole(async (closing) => {
      closing.add(handle)
      const start = Buffer.alloc(POINTER.length)
      await handle.read(start, 0, start.length, 0)
      if (start.equals(POINTER)) throw this.#pointer(file)
      return { handle, size: (await handle.stat()).size }
    })
  }

  async text(file: string): Promise<string> {
    return this.decode(await this.bytes(file), file)
  }

  /** All of a small file. */
  async bytes(file: string): Promise<Buffer> {
    const entry = await this.#find(file)
    if (!entry) throw this.broken(file, "there is no such file")
    if (entry.size > MAX_TEXT)
      throw this.broken(file, `it is ${entry.size} bytes long, more than such a file can be`)
    const bytes = await readFile(entry.path).catch((error) => {
      throw this.#unreadable(file, error)
    })
    if (bytes.subarray(0, POINTER.length).equals(POINTER)) throw this.#pointer(file)
    return bytes
  }

  decode(bytes: Uint8Array, file: string): string {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
    } catch {
      throw this.#notText(file)
    }
  }

  /** All of a small file of text, which is not made a string. */
  async utf8(file: string): Promise<Buffer> {
    const bytes = await this.bytes(file)
    if (isUtf8(bytes)) return bytes
    throw this.#notText(file)
  }

  #notText(file: string) {
    return this.broken(file, "it is not UTF-8 text")
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
      value = parseJson(text)
    } catch (error) {
      const why = (error as Error).message.replace(/\s+/g, " ") // it may quote the text, line breaks and all
      throw this.broken(file, `it is not valid JSON (${why})`)
    }
    if (!isObject(value)) throw this.broken(file, "it holds no JSON object")
    return value
  }
}

/** JSON, and numbers that only Python writes there, which become what transformers 5 writes in their place. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const plain = text.replace(/"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g, (found) =>
      found.startsWith('"') ? found : `{"__float__":"${found}"}`,
    )
    if (plain === text) throw error
    return JSON.parse(plain)
  }
}

/**
 * Whether a file that really lies at `path` may be read as one of the model folder that really lies at `real`: it lies in there,
 * or among the blobs of a Hugging Face hub cache, since a snapshot in there is nothing but links to those:
 *
 *     models--OWNER--NAME/snapshots/REVISION/config.json -> ../../blobs/HASH
 *
 * A cache may share blobs among its repositories; those lie beside them.
 */
function belongsTo(real: string, path: string): boolean {
  if (isInside(path, real)) return true
  const snapshot = snapshotAround(real)
  if (!snapshot) return isBlob(path) // older downloads link there from any folder
  const { folder: repository } = snapshot
  return [repository, dirname(repository)].some((owner) => isInside(path, join(owner, "blobs")))
}

/** Whether a name that may have been read from another file is that of a file, and no path. */
export function isFileName(name: string): boolean {
  return /^[^/\\\0]+$/.test(name) && name !== "." && name !== ".."
}

function isInside(path: string, folder: string): boolean {
  return path.startsWith(folder + sep)
}

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

/**
 * Reads exactly `length` bytes, or says that the file became shorter.
 * @param bytes of that length, which they are put in; absent: memory of their own
 */
export async function readExactly(
  handle: FileHandle,
  position: number,
  length: number,
  bytes: Uint8Array = new Uint8Array(length),
): Promise<Uint8Array> {
  for (let done = 0; done < length; ) {
    const { bytesRead } = await handle.read(bytes, done, length - done, position + done)
    if (bytesRead === 0) throw new Error(`a weights file ended early, at byte ${position + done}`)
    done += bytesRead
  }
  return bytes
}
