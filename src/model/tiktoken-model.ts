// A tiktoken.model, which Moonshot's models have instead of a tokenizer.json: a line for each token, its bytes in base64 and its
// rank, which is its id. Byte pairs are merged that make the token of the lowest rank; a tokenizer.json lists pairs, so each token
// is taken apart by those before it. How texts are cut no file says: it is Moonshot's way. Sources: tiktoken's _educational.py
// and tokenization_kimi.py, which lies beside the weights.

import { byteLevelCharacter } from "../byte-alphabet.ts"
import type { Problem } from "../errors.ts"
import type { Folder, Json } from "./folder.ts"
import { bytePairs } from "./gguf/cuts.ts"
import { KINDS } from "./sentence-pieces.ts"
import { printTokenizer, Words } from "./tokenizer-json.ts"
import { withExtraTokens } from "./tokenizer-model.ts"

export const TIKTOKEN_MODEL = "tiktoken.model"

/** The text of a tokenizer.json. `config`: the folder's tokenizer_config.json, which names the tokens behind the file's. */
export async function readTiktokenModel(folder: Folder, config: Json): Promise<string> {
  const broken = (what: string) => folder.broken(TIKTOKEN_MODEL, what)
  const spelled = parseRanks(await folder.text(TIKTOKEN_MODEL), broken)
  const own = { tokens: spelled, kinds: spelled.map(() => KINDS.NORMAL) }
  const { added } = await withExtraTokens(folder, config, own)
  return printTokenizer({
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: added,
    ...bytePairs("kimi-k2", new Words(spelled, () => true), mergesOf(spelled, broken)),
    post_processor: null,
  })
}

/** Each token by its rank, a character a byte. */
function parseRanks(text: string, broken: (what: string) => Problem): string[] {
  const lines = text.trimEnd().split("\n")
  return lines.map((line, rank) => {
    const [, word, number] = /^([A-Za-z0-9+/]+={0,2}) (\d+)\r?$/.exec(line) ?? []
    if (word === undefined || Number(number) !== rank)
      throw broken(`its line ${rank + 1} is not a token in base64 and its rank, ${rank}`)
    return Array.from(Buffer.from(word, "base64"), byteLevelCharacter).join("")
  })
}

const MAX_TOKEN = 1024 // bytes, of which every pair is looked at after every merge

/** Of each token of several bytes the two that it is made of; of one that no merge makes, and only a text that is all of it has, none. */
function mergesOf(tokens: readonly string[], broken: (what: string) => Problem): string[] {
  const ranks = new Map(tokens.map((token, rank) => [token, rank]))
  return tokens.flatMap((token, rank) => {
    if (token.length > MAX_TOKEN) throw broken(`it has a token of ${token.length} bytes`)
    const starts = Array.from({ length: token.length + 1 }, (_, i) => i) // of its parts, and its end
    const pairAt = (i: number) => ranks.get(token.slice(starts[i], starts[i + 2])) ?? rank
    const pairs = starts.slice(2).map((_, i) => pairAt(i)) // of each part with the next one
    while (pairs.length > 1) {
      const least = Math.min(...pairs)
      if (least >= rank) return []
      const at = pairs.indexOf(least)
      starts.splice(at + 1, 1)
      pairs.splice(at, 1)
      if (at > 0) pairs[at - 1] = pairAt(at - 1)
      if (at < pairs.length) pairs[at] = pairAt(at)
    }
    return pairs.length === 0 ? [] : `${token.slice(0, starts[1])} ${token.slice(starts[1])}`
  })
}
