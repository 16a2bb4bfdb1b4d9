// What runs in the process of encoder.ts: is handed the tokenizer's file and reads it, then takes texts and answers with
// tokens. Encoding is the library's, on other threads, so that a short text that comes after a long one is taken up at once.

import { createHash } from "node:crypto"
import { readFileSync, statSync } from "node:fs"
import { collect } from "../worker/give-back.ts"
import { serve } from "../worker/serve.ts"
import type { Answer, Opened, Opening, Order } from "./encoder.ts"
import { type Encoding, hasLongRun, MAX_RUN, openEncoding } from "./encoding.ts"
import { readTokenizer } from "./tokenizer-file.ts"
import { isComplete } from "./tokens-beside.ts"

// The library lets go of an encoding when V8 collects its handle; V8 sees a few bytes where 20 MB lie for 400 KB of text.
const LARGE = 64 * 1024 // characters

/** No sound file is larger, and none has so many tokens; room is made for as many as its highest id says. */
const MAX_AHEAD = 128 << 20 // bytes
const MOST_TOKENS = 1 << 20

const LONG_RUN = `The text has more than ${MAX_RUN} characters in a row without a blank, or nothing but blanks, which is more than the tokenizer's pattern can take; break them up.`

let encoding: Encoding

/** What was read before anybody said that it is the one. */
let ahead: { path: string; read: Promise<Read | undefined> } | undefined

interface Read {
  encoding: Encoding
  opened: Opened
}

async function read({ from, limit, beside }: Opening): Promise<Read> {
  const text = "json" in from ? from.json : readFileSync(from.path)
  const hash = createHash("sha256").update(text)
  const json = text.toString()
  const { vocabulary, files, longest, isAlone } = readTokenizer({ json, limit, beside })
  if (!isAlone) hash.update(JSON.stringify(vocabulary.added))
  const encoding = await openEncoding(files)
  const { prefix, suffix, between } = encoding
  return {
    encoding,
    opened: { prefix, suffix, between, vocabulary, longest, hash: hash.digest("hex") },
  }
}

/** Read again with what is known of the model now, it would be the same. */
function fits({ vocabulary }: Opened, { limit, beside }: Opening): boolean {
  return (
    vocabulary.size <= limit && vocabulary.beyond.length === 0 && isComplete(vocabulary, beside)
  )
}

/** What stands around a text is said by number, whatever becomes of the tokens of those numbers. */
function checkAround({ prefix, suffix, between }: Opened, limit: number): void {
  const far = [...prefix, ...between, ...suffix].find((id) => id >= limit)
  if (far === undefined) return
  throw new Error(`its post_processor adds the token ${far}, but the model has ${limit} tokens`)
}

serve({
  async open(opening: Opening): Promise<Opened> {
    const { from, limit } = opening
    const before = "path" in from && from.path === ahead?.path ? await ahead.read : undefined
    ahead = undefined
    const isRight = before && fits(before.opened, opening)
    const { encoding: right, opened } = isRight ? before : await read(opening)
    checkAround(opened, limit)
    encoding = right
    return opened
  },
  /** Whatever is wrong with a file is said when it is opened. */
  tell(message) {
    const path = message as string
    if (path === ahead?.path) return
    const stats = statSync(path, { throwIfNoEntry: false })
    if (!stats?.isFile() || stats.size > MAX_AHEAD) return
    ahead = {
      path,
      read: read({ from: { path }, limit: MOST_TOKENS, beside: undefined }).catch(() => undefined),
    }
  },
  async answer(text: Order): Promise<Answer> {
    if (hasLongRun(text.value)) return { refusal: LONG_RUN }
    const tokens = await encoding.encode(text)
    if (text.value.length > LARGE) setImmediate(collect) // when the tokens are on their way
    return { tokens }
  },
})
