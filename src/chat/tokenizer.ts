// Opens a model's tokenizer.json: what its tokens are, and the thread that turns texts into them. The thread reads the file,
// too: a vocabulary of 128,256 takes it a second, in which the event loop and the weights go on.

import { problem } from "../errors.ts"
import { EncodeThread, type Started } from "./encode-thread.ts"
import type { Text } from "./jinja/text.ts"
import { controlsOf } from "./tokenizer-file.ts"
import type { Vocabulary } from "./vocabulary.ts"

export interface Tokenizer extends Vocabulary {
  /**
   * Control tokens where the template (source 0) spells them, plain tokens everywhere else. Rejects with the signal's
   * reason as soon as its client leaves.
   */
  encode(text: Text, signal?: AbortSignal): Promise<Int32Array>
  /** What stands before a text that is no chat: a begin token, mostly. */
  readonly prefix: readonly number[]
  /** The added token that is spelled so. */
  control(content: string): number | undefined
  /** Ends its thread. */
  close(): Promise<void>
}

/**
 * Opens the text of a tokenizer.json. `limit` is the number of rows of the model's embedding, `started` a
 * thread that was started before; it ends with the tokenizer, or when there is none.
 * Throws `model_broken`, naming `file`, when it is not one that can be read exactly.
 */
export async function openTokenizer(
  json: string,
  file: string,
  limit: number,
  started?: Started,
): Promise<Tokenizer> {
  const { thread, prefix, vocabulary } = await EncodeThread.open({ json, limit }, started).catch(
    (error: Error) => {
      throw problem("model_broken", { file, problem: error.message })
    },
  )
  const ids = new Map(controlsOf(vocabulary).map(({ content, id }) => [content, id]))
  return {
    ...vocabulary,
    prefix,
    control: (content) => ids.get(content),
    encode: (text, signal) => thread.encode({ value: text.value, own: ownRuns(text) }, signal),
    close: () => thread.close(),
  }
}

/** Where the template's own characters are: from, to, from, to, … */
function ownRuns(text: Text): Int32Array {
  const ends: number[] = []
  for (const { from, to, source } of text.runs()) if (source === 0) ends.push(from, to)
  return Int32Array.from(ends)
}
