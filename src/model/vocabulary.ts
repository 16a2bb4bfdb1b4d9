// Whether two tokenizers mean the same by every number. A draft whose tokens mean something else would never come true,
// and its files may be much alike.

import { isObject, type Json } from "./folder.ts"
import type { TextFile } from "./texts.ts"

/** How the vocabularies of two tokenizer.json differ, in words with both figures; undefined: they do not. */
export function vocabularyDifference(one: TextFile, other: TextFile): string | undefined {
  if (one.text === other.text) return undefined
  const [first, second] = [piecesOf(one), piecesOf(other)]
  for (const [id, piece] of [...first].sort(([a], [b]) => a - b)) {
    const its = second.get(id)
    if (its === undefined) continue
    if (its !== piece)
      return `token ${id} is ${JSON.stringify(piece)} in one and ${JSON.stringify(its)} in the other`
  }
  if (first.size === second.size) return undefined
  return `one has ${first.size} tokens, the other ${second.size}`
}

/** Every token by its number. */
function piecesOf({ text }: TextFile): Map<number, string> {
  const pieces = new Map<number, string>()
  const json: Json = JSON.parse(text)
  const { vocab } = isObject(json.model) ? json.model : { vocab: undefined }
  if (Array.isArray(vocab)) {
    for (const [id, entry] of vocab.entries()) pieces.set(id, String((entry as unknown[])[0]))
  } else if (isObject(vocab)) {
    for (const [piece, id] of Object.entries(vocab)) pieces.set(Number(id), piece)
  }
  for (const added of Array.isArray(json.added_tokens) ? json.added_tokens : []) {
    if (isObject(added)) pieces.set(Number(added.id), String(added.content))
  }
  return pieces
}
