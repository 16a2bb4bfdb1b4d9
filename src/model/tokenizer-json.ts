// The bytes of a tokenizer.json. Its words stay lists and are printed one by one: an object of 128,256 names takes several times
// as long to make and to print.

import { isObject } from "./folder.ts"
import { JsonBytes } from "./json-bytes.ts"
import { TextList, type Texts } from "./text-list.ts"

/** Words by their ids, those alone of which `isWord` says so. */
export class Words {
  readonly #words: Texts
  readonly #isWord: (id: number) => boolean

  constructor(words: Texts, isWord: (id: number) => boolean) {
    this.#words = words
    this.#isWord = isWord
  }

  putInto(json: JsonBytes): void {
    const words = this.#words
    if (words instanceof TextList) words.putMembers(json, this.#isWord)
    else {
      json.put("{")
      for (let id = 0; id < words.length; id++)
        if (this.#isWord(id)) json.put(`${JSON.stringify(words.at(id))}:${id},`)
      json.close("}")
    }
  }
}

/** JSON in UTF-8 of parts that may hold words or texts, outside of lists. */
export function printTokenizer(part: unknown): Buffer {
  const json = new JsonBytes()
  put(json, part)
  return json.bytes()
}

function put(json: JsonBytes, part: unknown): void {
  if (part instanceof Words) part.putInto(json)
  else if (part instanceof TextList) part.putArray(json)
  else if (isObject(part)) {
    json.put("{")
    for (const [name, value] of Object.entries(part)) {
      json.put(`${JSON.stringify(name)}:`)
      put(json, value)
      json.put(",")
    }
    json.close("}")
  } else json.put(JSON.stringify(part))
}
