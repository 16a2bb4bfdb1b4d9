// What runs in the process of encoder.ts: is handed the tokenizer's file and reads it, then takes texts and answers with
// tokens. Encoding is the library's, on other threads, so that a short text that comes after a long one is taken up at once.

import { collect } from "../worker/give-back.ts"
import { serve } from "../worker/serve.ts"
import type { Answer, Opened, Order } from "./encoder.ts"
import { type Encoding, hasLongRun, MAX_RUN, openEncoding } from "./encoding.ts"
import { readTokenizer, type TokenizerSource } from "./tokenizer-file.ts"

// The library lets go of an encoding when V8 collects its handle; V8 sees a few bytes where 20 MB lie for 400 KB of text.
const LARGE = 64 * 1024 // characters

const LONG_RUN = `The text has more than ${MAX_RUN} characters in a row without a blank, or nothing but blanks, which is more than the tokenizer's pattern can take; break them up.`

let encoding: Encoding

serve({
  async open(source: TokenizerSource): Promise<Opened> {
    const { vocabulary, files, longest } = readTokenizer(source)
    encoding = await openEncoding(files)
    const { prefix, suffix, between } = encoding
    return { prefix, suffix, between, vocabulary, longest }
  },
  async answer(text: Order): Promise<Answer> {
    if (hasLongRun(text.value)) return { refusal: LONG_RUN }
    const tokens = await encoding.encode(text)
    if (text.value.length > LARGE) setImmediate(collect) // when the tokens are on their way
    return { tokens }
  },
})
