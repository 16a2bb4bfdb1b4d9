// The text of a tokenizer.json, parsed but for its two lists. Its words with their ids and its merges are nearly all of it, and
// making an object of 128,256 names, listing them and printing them again takes longer than the encoder's library takes to read
// them. Here they stay text: words are read where they stand, and both lists go to the library as they came.

import { eachMember, eachPart, endOfValue, skipBlanks } from "./json-text.ts"

export interface TokenizerFile {
  model: EncoderModel
  added_tokens?: { id: number; content: string; special?: boolean }[]
  normalizer?: unknown
  pre_tokenizer?: unknown
  [name: string]: unknown
}

export interface EncoderModel {
  type?: string
  /** Unigram's pieces; of words with their ids the braces alone. */
  vocab?: [piece: string, score: number][] | Record<string, never>
  unk_id?: number | null
  unk_token?: string
  [name: string]: unknown
}

/** What was left out of a file, in which only its brackets are left. */
export interface Lists {
  words?: Words
  merges?: Merges
}

/** Throws a SyntaxError for what is no JSON. */
export function parseTokenizer(json: string): { file: TokenizerFile; lists: Lists } {
  try {
    return cut(json)
  } catch (error) {
    JSON.parse(json) // says better what is wrong
    throw error
  }
}

function cut(json: string): { file: TokenizerFile; lists: Lists } {
  const lists: Lists = {}
  let rest = ""
  let at = 0
  const leaveOut = ({ from, to }: { from: number; to: number }) => {
    rest += json.slice(at, from + 1)
    at = to - 1
    return to
  }
  const ofModel = (name: string, from: number) => {
    switch (`${name} ${json[from]}`) {
      case "vocab {":
        lists.words = new Words(json, from)
        return leaveOut(lists.words)
      case "merges [":
        lists.merges = new Merges(json, from)
        return leaveOut(lists.merges)
      default:
        return endOfValue(json, from)
    }
  }
  const begin = skipBlanks(json, 0)
  if (json[begin] === "{")
    eachNamed(json, begin, (name, from) =>
      name === "model" && json[from] === "{"
        ? eachNamed(json, from, ofModel)
        : endOfValue(json, from),
    )
  return { file: JSON.parse(rest + json.slice(at)), lists }
}

function eachNamed(json: string, at: number, visit: (name: string, from: number) => number) {
  return eachMember(json, at, (name, end, value) => visit(JSON.parse(json.slice(name, end)), value))
}

/** Absent: nothing was left out. */
export interface PrintedLists {
  words?: string | undefined
  merges?: string | undefined
}

/** The text of a file with its lists. */
export function printTokenizer(
  { model, ...rest }: TokenizerFile,
  { words, merges }: PrintedLists,
): string {
  const others = Object.entries(model).filter(
    ([name]) => !(name === "vocab" && words) && !(name === "merges" && merges),
  )
  const parts = [
    ...others.map(([name, value]) => member(name, JSON.stringify(value))),
    ...(words ? [member("vocab", words)] : []),
    ...(merges ? [member("merges", merges)] : []),
  ]
  const before = Object.entries(rest).map(([name, value]) => member(name, JSON.stringify(value)))
  return `{${[...before, member("model", `{${parts.join()}}`)].join()}}`
}

const member = (name: string, value: string) => `${JSON.stringify(name)}:${value}`

const ZERO = "0".charCodeAt(0)
const ESCAPE = "\\"
const LONGEST_ESCAPE = 6 // characters that stand for one: \u0120

/** Words with their ids: an object in JSON. */
class Words {
  readonly from: number
  readonly to: number
  readonly #json: string
  /** Where each word's own text begins and ends. */
  readonly #begins: number[] = []
  readonly #ends: number[] = []
  /** Whole numbers, if the file is sound. */
  readonly #ids: unknown[] = []

  /** @param from where its brace stands */
  constructor(json: string, from: number) {
    this.#json = json
    this.from = from
    this.to = eachMember(json, from, (name, end, value) => {
      this.#begins.push(name + 1)
      this.#ends.push(end - 1)
      const to = endOfValue(json, value)
      this.#ids.push(numberAt(json, value, to))
      return to
    })
  }

  forEach(visit: (word: string, id: unknown) => void): void {
    for (let at = 0; at < this.#ids.length; at++) visit(this.#word(at), this.#ids[at])
  }

  /** Those of these that are among them. */
  find(wanted: ReadonlySet<string>): Set<string> {
    return new Set(this.#places(wanted).map((at) => this.#word(at)))
  }

  /** @param spellings others, for some of them */
  print(spellings: ReadonlyMap<string, string> = new Map()): string {
    let text = ""
    let from = this.from
    for (const at of this.#places(spellings)) {
      const spelling = JSON.stringify(spellings.get(this.#word(at))).slice(1, -1)
      text += this.#json.slice(from, this.#begins[at]) + spelling
      from = this.#ends[at]!
    }
    return text + this.#json.slice(from, this.to)
  }

  #word(at: number): string {
    const word = this.#json.slice(this.#begins[at], this.#ends[at])
    return word.includes(ESCAPE) ? JSON.parse(`"${word}"`) : word
  }

  #places(wanted: { keys(): Iterable<string>; has(word: string): boolean }): number[] {
    const names = [...wanted.keys()]
    const longest = LONGEST_ESCAPE * Math.max(0, ...names.map(({ length }) => length))
    const mayBegin = beginningsOf(names)
    const places: number[] = []
    for (let at = 0; at < this.#ids.length; at++) {
      const begin = this.#begins[at]!
      if (this.#ends[at]! - begin > longest || !mayBegin[this.#json.charCodeAt(begin)]) continue
      if (wanted.has(this.#word(at))) places.push(at)
    }
    return places
  }
}

/** What JSON.parse makes of it, in a twentieth of the time where it is a whole number. */
function numberAt(json: string, from: number, to: number): unknown {
  let number = 0
  for (let at = from; at < to; at++) {
    const digit = json.charCodeAt(at) - ZERO
    if (digit < 0 || digit > 9) return JSON.parse(json.slice(from, to))
    number = 10 * number + digit
  }
  return number
}

/** Pairs of words that make another, `"a b"` or `["a", "b"]`: an array in JSON. */
class Merges {
  readonly from: number
  readonly to: number
  readonly #json: string

  /** @param from where its bracket stands */
  constructor(json: string, from: number) {
    this.#json = json
    this.from = from
    this.to = endOfValue(json, from)
  }

  /** Those that make one of these. */
  making(words: ReadonlySet<string>): (readonly string[])[] {
    const mayBegin = beginningsOf(words)
    const found: (readonly string[])[] = []
    eachPart(this.#json, this.from, (begin) => {
      const quote = this.#json[begin] === "[" ? skipBlanks(this.#json, begin + 1) : begin
      const end = endOfValue(this.#json, begin)
      if (!mayBegin[this.#json.charCodeAt(quote + 1)]) return end
      const pair = pairOf(JSON.parse(this.#json.slice(begin, end)))
      if (words.has(pair.join(""))) found.push(pair)
      return end
    })
    return found
  }

  print(): string {
    return this.#json.slice(this.from, this.to)
  }

  /** Without those that make one of these. */
  printWithout(words: ReadonlySet<string>): string {
    const all: unknown[] = JSON.parse(this.print())
    return JSON.stringify(all.filter((merge) => !words.has(pairOf(merge).join(""))))
  }
}

function pairOf(merge: unknown): readonly string[] {
  if (typeof merge === "string") return merge.split(" ")
  return Array.isArray(merge) ? merge : []
}

/** By the code of the character behind its quote: whether one of these may stand there. An escape may be any. */
function beginningsOf(words: Iterable<string>): Uint8Array {
  const codes = new Uint8Array(0x10000)
  for (const word of [ESCAPE, ...words]) codes[(word || '"').charCodeAt(0)] = 1
  return codes
}
