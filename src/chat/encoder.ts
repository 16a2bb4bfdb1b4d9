// Encodes texts in a process of its own: the library is native code, which ends whatever it runs in when it meets a pattern or
// a file that it cannot deal with. Such a text costs its own request; the others are given to a new process.
//
// Two lanes, long texts and short ones, each in fair turns and one at a time: a short one never waits for a long one.

import { existsSync, realpathSync } from "node:fs"
import { join } from "node:path"
import { codeRoot } from "../code-root.ts"
import { problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { type Caller, Lane } from "../worker/lane.ts"
import { Worker } from "../worker/worker.ts"
import type { Encodable } from "./encoding.ts"
import type { TokenizerSource } from "./tokenizer-file.ts"
import type { TokensBeside } from "./tokens-beside.ts"
import { TokenBytes, type Vocabulary } from "./vocabulary.ts"

/** Of a tokenizer.json, its bytes or where they lie: a process reads megabytes from there sooner than from another process. */
export interface Opening {
  from: { json: string | Buffer } | { path: string }
  limit: number
  beside: TokensBeside | undefined
}

export type Order = Encodable
export type Answer = { tokens: Int32Array } | { refusal: string }

export interface EncoderSource extends Omit<TokenizerSource, "json"> {
  json: string | Buffer
  path?: string | undefined
}

/** What a tokenizer's file says once it is read. */
export interface Opened {
  /** What stands before a text that is no chat. */
  prefix: readonly number[]
  suffix: readonly number[]
  between: readonly number[]
  vocabulary: Vocabulary
  /** Bytes of text that a token stands for at most; undefined where the file leaves it open. */
  longest: number | undefined
  /** SHA-256 of the text that was read, and of the tokens that others have added to it. */
  hash: string
}

const LONG = 8 * 1024 // characters; a millisecond or two

/** Nothing sound takes this long: a megabyte is encoded in a second or two. */
const MILLISECONDS = { text: 30_000, megacharacter: 30_000 }
const MEGABYTES = 4096

/** In each lane, characters: sixteen texts of the largest body that is read unless the operator says otherwise. */
const MAX_WAITING = 32 * 2 ** 20

/** Real paths of the tokenizers of those folders that have one as a file of its own, which most have. */
export function tokenizersIn(folders: readonly string[]): string[] {
  const paths = folders.map((folder) => join(folder, "tokenizer.json"))
  return paths.filter((path) => existsSync(path)).map((path) => realpathSync(path))
}

let ahead: Worker<Order, Answer> | undefined

function startedWorker(): Worker<Order, Answer> {
  const worker = new Worker<Order, Answer>({
    name: "tokenizer",
    file: new URL("chat/encode-worker", codeRoot),
    host: "process",
    nice: 5, // a long text is not worth others' next tokens
    isParallel: true,
    afterLoss: "resume",
    megabytes: MEGABYTES,
  })
  worker.start()
  return worker
}

export class Encoder {
  readonly #worker: Worker<Order, Answer>
  readonly #short = new Lane({ size: MAX_WAITING })
  readonly #long = new Lane({ size: MAX_WAITING })

  /** It loads its own code, native parts included, before its tokenizer is known. */
  constructor(log?: Log) {
    this.#worker = ahead ?? startedWorker()
    ahead = undefined
    this.#worker.log = log
  }

  /**
   * The process of the next one begins to load: before a program knows for what, it knows that it will need one.
   * @param path of a tokenizer.json, if it is likely to be that one's: see readAhead
   */
  static startAhead(path?: string): void {
    ahead ??= startedWorker()
    if (path) ahead.tell(path)
  }

  /** Reads a tokenizer.json that is likely to be the one to be opened, by its real path. */
  readAhead(path: string): void {
    this.#worker.tell(path)
  }

  /**
   * Rejects in words when the file cannot be read, the library's where it is the library's to say.
   * @param path where the same bytes lie, if they do
   */
  async open({ json, path, limit, beside }: EncoderSource): Promise<Opened> {
    const opening: Opening = { from: path ? { path } : { json }, limit, beside }
    const opened = (await this.#worker.open(opening)) as Opened
    opening.from = { json } // what a later process opens, whatever has become of the file
    const { vocabulary } = opened
    const { data, offsets } = vocabulary.bytes // what it is does not survive the way here
    return { ...opened, vocabulary: { ...vocabulary, bytes: new TokenBytes(data, offsets) } }
  }

  /**
   * Rejects with the signal's reason as soon as its client leaves, with `queue_full`, with WorkerLost, or with the problem
   * that refuses a text.
   */
  async encode(text: Encodable, caller: Caller): Promise<Int32Array> {
    const size = text.value.length
    const lane = size > LONG ? this.#long : this.#short
    const { text: base, megacharacter } = MILLISECONDS
    const milliseconds = base + (size / 2 ** 20) * megacharacter
    const answer = await lane.run(() => this.#worker.ask(text, { milliseconds }), size, caller)
    if ("tokens" in answer) return answer.tokens
    throw problem("invalid_value", { problem: answer.refusal })
  }

  async close(): Promise<void> {
    this.#short.close()
    this.#long.close()
    await this.#worker.close()
  }
}
