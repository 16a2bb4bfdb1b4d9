// A tiktoken.model, which Moonshot's models have instead of a tokenizer.json: a line for each token, its bytes in base64 and its
// rank, which is its id. How texts are cut no file says: it is Moonshot's way. Source: tokenization_kimi.py, which lies beside the
// weights.

import type { Problem } from "../errors.ts"
import { byteLevelToken, mergesOf } from "./byte-ranks.ts"
import type { Folder, Json } from "./folder.ts"
import { bytePairs } from "./gguf/cuts.ts"
import { KINDS } from "./sentence-pieces.ts"
import { printTokenizer, Words } from "./tokenizer-json.ts"
import { withExtraTokens } from "./tokenizer-model.ts"

export const TIKTOKEN_MODEL = "tiktoken.model"

/** A tokenizer.json. `config`: the folder's tokenizer_config.json, which names the tokens behind the file's. */
export async function readTiktokenModel(folder: Folder, config: Json): Promise<Buffer> {
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
    const [, word = "", number] = /^(\S+) (\d+)\r?$/.exec(line) ?? []
    const token = byteLevelToken(word)
    if (token === undefined || Number(number) !== rank)
      throw broken(`its line ${rank + 1} is not a token in base64 and its rank, ${rank}`)
    return token
  })
}
