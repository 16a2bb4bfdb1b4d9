// Whether two tokenizers mean the same by every number. A draft whose tokens mean something else would never come true,
// and its files may be much alike.

import { isDeepStrictEqual } from "node:util"
import { parseTokenizer } from "../chat/tokenizer-text.ts"
import { withTokensBeside } from "../chat/tokens-beside.ts"
import { problem } from "../errors.ts"
import { isObject } from "../model/folder.ts"
import type { TokenizerText } from "../model/texts.ts"

/**
 * How the vocabularies of two tokenizers differ, in words with a token; undefined: they do not.
 * @throws `model_broken`
 */
export function vocabularyDifference(one: TokenizerText, other: TokenizerText): string | undefined {
  if (one.json.equals(other.json) && isDeepStrictEqual(one.beside, other.beside)) return undefined
  const [first, second] = [tokensOf(one), tokensOf(other)]
  return differenceFrom(first, second) ?? differenceFrom(second, first)
}

interface Tokens {
  /** Every token by its number, also those that only other files describe. */
  served: ReadonlyMap<number, string>
  own: ReadonlySet<number> // those of the file
}

/** What other files describe, a token that pads mostly, the other tokenizer may lack: it is never drafted, or never true. */
function differenceFrom({ served, own }: Tokens, other: Tokens): string | undefined {
  for (const [id, token] of [...served].sort(([a], [b]) => a - b)) {
    const its = other.served.get(id)
    if (its === token || (its === undefined && !own.has(id))) continue
    const named = `token ${id} is ${JSON.stringify(token)} in one and`
    return its === undefined
      ? `${named} none in the other`
      : `${named} ${JSON.stringify(its)} in the other`
  }
  return undefined
}

function tokensOf({ file: path, json, beside }: TokenizerText): Tokens {
  const { file, lists } = parsed(path, json.toString())
  const served = new Map<number, string>()
  const { vocab } = file.model
  if (Array.isArray(vocab)) for (const [id, [piece]] of vocab.entries()) served.set(id, piece)
  lists.words?.forEach((word, id) => {
    served.set(Number(id), word)
  })
  for (const { id, content } of file.added_tokens ?? []) served.set(id, content)
  const own = new Set(served.keys())
  const all = beside ? withTokensBeside(file, lists, beside) : file
  for (const { id, content } of all.added_tokens ?? []) served.set(id, content)
  return { served, own }
}

function parsed(path: string, text: string): ReturnType<typeof parseTokenizer> {
  const broken = (what: string) => problem("model_broken", { file: path, problem: what })
  let read: ReturnType<typeof parseTokenizer>
  try {
    read = parseTokenizer(text)
  } catch (error) {
    throw broken(`it is not JSON: ${(error as Error).message}`)
  }
  if (!isTokenizer(read.file))
    throw broken("it is no tokenizer, or one of a form that is not known")
  return read
}

/** As far as it is read here: drafts are looked at before their file is opened as a tokenizer. */
function isTokenizer(file: unknown): boolean {
  if (!isObject(file) || !isObject(file.model)) return false
  const { added_tokens: added = [], model } = file
  const pieces = Array.isArray(model.vocab) ? model.vocab : []
  return Array.isArray(added) && added.every(isObject) && pieces.every(Array.isArray)
}
