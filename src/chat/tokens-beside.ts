// Added tokens of which a tokenizer.json knows nothing, or something else: other files of its folder describe them. Put in as by
// transformers and the library: where a token is a word of the model, or added already, it keeps its number, and others
// get the next one. __init__ of https://github.com/huggingface/transformers/blob/v4.51.3/src/transformers/tokenization_utils_fast.py,
// add_tokens of https://github.com/huggingface/tokenizers/blob/v0.21.1/tokenizers/src/tokenizer/added_vocabulary.rs

import type { Lists, TokenizerFile } from "./tokenizer-text.ts"
import type { AddedToken, Vocabulary } from "./vocabulary.ts"

export interface TokensBeside {
  /** They count for more than the file's own of the same spelling; in the order of their numbers. */
  described: readonly DescribedToken[]
  /** They count where the file has none that is spelled so. */
  named: readonly DescribedToken[]
}

/** Flags in the words of a tokenizer.json; absent ones are false. */
interface DescribedToken {
  content: string
  special?: boolean
  lstrip?: boolean
  rstrip?: boolean
  single_word?: boolean
}

/** Whether the file alone says all of it, as nearly every one does. */
export function isComplete(
  { added, beyond }: Pick<Vocabulary, "added" | "beyond">,
  beside: TokensBeside | undefined,
): boolean {
  if (!beside) return true
  const known = new Map([...added, ...beyond].map((token) => [token.content, token]))
  return (
    describedBy(beside).every((token) => isSame(token, known.get(token.content))) &&
    beside.named.every(({ content }) => known.has(content))
  )
}

/** What is named as special is, whatever its description says. */
function describedBy({ described, named }: TokensBeside): DescribedToken[] {
  const names = new Set(named.filter(({ special }) => special).map(({ content }) => content))
  return described.map((token) => (names.has(token.content) ? { ...token, special: true } : token))
}

/** A token that was special once stays so. */
function isSame(token: DescribedToken, known: AddedToken | undefined): boolean {
  const { special = false, lstrip = false, rstrip = false, single_word = false } = token
  return (
    known !== undefined &&
    (known.special || !special) &&
    known.lstrip === lstrip &&
    known.rstrip === rstrip &&
    known.singleWord === single_word
  )
}

/** The file with all of them. */
export function withTokensBeside(
  file: TokenizerFile,
  lists: Lists,
  beside: TokensBeside,
): TokenizerFile {
  const tokens = new Map((file.added_tokens ?? []).map((token) => [token.content, token]))
  const described = describedBy(beside)
  const named = beside.named.filter(({ content }) => !tokens.has(content))
  const { ids, size } = wordsOf(file, lists)
  let next = Array.from(tokens.values()).reduce((most, { id }) => Math.max(most, id + 1), size)
  for (const token of [...described, ...named]) {
    const { content } = token
    const known = tokens.get(content)
    const id = known?.id ?? ids.get(content) ?? next++
    const special = token.special === true || known?.special === true
    tokens.set(content, { ...PLAIN, ...token, id, special })
  }
  return { ...file, added_tokens: [...tokens.values()] }
}

const PLAIN = { single_word: false, lstrip: false, rstrip: false, normalized: false }

/** Words of the model by their spelling, and how many there are. */
function wordsOf(
  { model: { vocab } }: TokenizerFile,
  { words }: Lists,
): { ids: ReadonlyMap<string, number>; size: number } {
  const ids = new Map<string, number>()
  words?.forEach((word, id) => {
    ids.set(word, id as number)
  })
  if (Array.isArray(vocab)) for (const [id, [piece]] of vocab.entries()) ids.set(piece, id)
  return { ids, size: ids.size }
}
