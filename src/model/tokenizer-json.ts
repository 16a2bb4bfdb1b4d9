// The text of a tokenizer.json. Its words stay lists and are printed one by one: an object of 128,256 names takes several times
// as long to make and to print.

import { isObject } from "./folder.ts"

/** Words by their ids, those alone of which `isWord` says so. */
export class Words {
  readonly #words: readonly string[]
  readonly #isWord: (id: number) => boolean

  constructor(words: readonly string[], isWord: (id: number) => boolean) {
    this.#words = words
    this.#isWord = isWord
  }

  print(): string {
    const members: string[] = []
    for (const [id, word] of this.#words.entries())
      if (this.#isWord(id)) members.push(`${JSON.stringify(word)}:${id}`)
    return `{${members.join()}}`
  }
}

/** JSON of parts that may hold words, outside of lists. */
export function printTokenizer(part: unknown): string {
  if (part instanceof Words) return part.print()
  if (!isObject(part)) return JSON.stringify(part)
  const members = Object.entries(part).map(
    ([name, value]) => `${JSON.stringify(name)}:${printTokenizer(value)}`,
  )
  return `{${members.join()}}`
}
