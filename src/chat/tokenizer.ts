// Opens a model's tokenizer.json: what its tokens are, and the process that turns texts into them. The process reads the file,
// too: a vocabulary of 128,256 takes it a second, in which the event loop and the weights go on.

import { Problem, problem } from "../errors.ts"
import type { Caller } from "../worker/lane.ts"
import { WorkerLost } from "../worker/worker.ts"
import { Encoder } from "./encoder.ts"
import type { Text } from "./jinja/text.ts"
import { controlsOf } from "./tokenizer-file.ts"
import type { TokensBeside } from "./tokens-beside.ts"
import type { Vocabulary } from "./vocabulary.ts"

export interface Tokenizer extends Vocabulary {
  /**
   * Control tokens where the template (source 0) spells them, plain tokens everywhere else. Rejects with the signal's
   * reason as soon as its client leaves, with `queue_full`, or with what went wrong (see encoder.ts).
   */
  encode(text: Text, caller?: Caller): Promise<Int32Array>
  /** How many tokens a text has at least, found without encoding it: 0 where the file leaves that open. */
  atLeast(text: Text): number
  /** What stands before a text that is no chat: a begin token, mostly. */
  readonly prefix: readonly number[]
  /** What stands behind a text that is read for its meaning alone: an end token, where the file asks for one. */
  readonly suffix: readonly number[]
  /** What stands between two texts that are read together. */
  readonly between: readonly number[]
  /** SHA-256 of its file's text, and of the tokens that others have added to it. */
  readonly hash: string
  /** The added token that is spelled so. */
  control(content: string): number | undefined
  /** Ends its thread. */
  close(): Promise<void>
}

/** What a tokenizer is opened from. */
export interface TokenizerText {
  /** A tokenizer.json, in UTF-8. */
  json: string | Buffer
  /** Where the same bytes lie, if they do. */
  path?: string | undefined
  /** Spellings of what stands before a text and behind it; a side that is absent, or not among the tokens: as the file says. */
  around?:
    | { begin?: readonly string[] | undefined; end?: readonly string[] | undefined }
    | undefined
  /** What other files say of its added tokens. */
  beside?: TokensBeside | undefined
}

/**
 * Opens a tokenizer.json. `limit` is the number of rows of the model's embedding, `encoder` a process
 * that was started before; it ends with the tokenizer, or when there is none.
 * Throws `model_broken`, naming `file`, when it is not one that can be read exactly.
 */
export async function openTokenizer(
  source: TokenizerText["json"] | TokenizerText,
  file: string,
  limit: number,
  encoder = new Encoder(),
): Promise<Tokenizer> {
  const { json, path, around, beside }: TokenizerText =
    typeof source === "string" || Buffer.isBuffer(source) ? { json: source } : source
  const { vocabulary, longest, hash, ...frame } = await encoder
    .open({ json, path, limit, beside })
    .catch(async (error: unknown) => {
      await encoder.close()
      throw refusalOf(error, file)
    })
  const ids = new Map(controlsOf(vocabulary).map(({ content, id }) => [content, id]))
  return {
    ...vocabulary,
    ...framed(frame, around, ids),
    hash,
    control: (content) => ids.get(content),
    atLeast: ({ value }) => (longest ? Math.ceil(Buffer.byteLength(value) / longest) : 0),
    encode: (text, caller = NOBODY) =>
      encoder.encode({ value: text.value, own: ownRuns(text) }, caller),
    close: () => encoder.close(),
  }
}

type Frame = Pick<Tokenizer, "prefix" | "suffix" | "between">

/** Between two texts stands what ends the first, and what begins the second. */
function framed(
  frame: Frame,
  around: TokenizerText["around"],
  ids: ReadonlyMap<string, number>,
): Frame {
  const known = (tokens: readonly string[] | undefined) => {
    const found = tokens?.flatMap((content) => ids.get(content) ?? [])
    return found?.length === tokens?.length ? found : undefined
  }
  const [begin, end] = [known(around?.begin), known(around?.end)]
  if (!begin && !end) return frame
  const [prefix, suffix] = [begin ?? frame.prefix, end ?? frame.suffix]
  return { prefix, suffix, between: [...suffix, ...prefix] }
}

const NOBODY: Caller = { client: "" }

function refusalOf(error: unknown, file: string): Problem {
  if (error instanceof WorkerLost && error.reason === "unstartable") {
    const refused = "it has no more processes, or no more threads for one"
    return problem("system_refused", { call: "a process for the tokenizer", problem: refused })
  }
  if (error instanceof WorkerLost) {
    return problem("model_broken", { file, problem: `the tokenizer cannot read it: ${error.why}` })
  }
  if (error instanceof Problem) return error
  return problem("model_broken", { file, problem: (error as Error).message })
}

/** Where the template's own characters are: from, to, from, to, … */
function ownRuns(text: Text): Int32Array {
  const ends: number[] = []
  for (const { from, to, source } of text.runs()) if (source === 0) ends.push(from, to)
  return Int32Array.from(ends)
}
