// What runs in the thread of encode-thread.ts: is handed the tokenizer's file and reads it, then takes texts and answers with
// tokens. Encoding is the library's, on yet another thread, so that a short text that comes after a long one is taken up at
// once.

import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { parentPort } from "node:worker_threads"
import type { Answer, Order } from "./encode-thread.ts"
import { type Encoding, openEncoding } from "./encoding.ts"
import { readTokenizer, type TokenizerSource } from "./tokenizer-file.ts"

// The library lets go of an encoding when V8 collects its handle; V8 sees a few bytes where 20 MB lie for 400 KB of text.
setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc") as () => void
const LARGE = 64 * 1024 // characters

const port = parentPort!
let opened: Promise<Encoding>
port.on("message", (message: TokenizerSource | Order) => {
  if ("id" in message) {
    void answer(message)
    return
  }
  opened = open(message)
  opened.catch(({ message: failure }: Error) => port.postMessage({ failure } satisfies Answer))
})

async function open(source: TokenizerSource): Promise<Encoding> {
  const { vocabulary, files } = readTokenizer(source)
  const encoding = await openEncoding(files)
  port.postMessage({ prefix: encoding.prefix, vocabulary } satisfies Answer)
  return encoding
}

async function answer({ id, text }: Order): Promise<void> {
  try {
    const encoding = await opened
    const tokens = await encoding.encode(text)
    port.postMessage({ id, tokens } satisfies Answer, [tokens.buffer])
    if (text.value.length > LARGE) collect()
  } catch (error) {
    port.postMessage({ id, failure: (error as Error).message } satisfies Answer)
  }
}
