// GBNF, the notation of llama.cpp's grammars (its grammars/README.md): rules `name ::= …` of texts in quotes, sets of characters,
// groups and repetitions; the rule `root` is the whole. Alternatives may stand on lines of their own.

import { anyChar, type CharSet, charSet, complement, union } from "../charset.ts"
import { Cursor } from "./cursor.ts"
import { type Expression, GrammarFault } from "./rules.ts"

const NAME = /[A-Za-z0-9_-]+/y
const BLANKS = /(?:[ \t\r]|#[^\n]*)*/y
const BLANK_LINES = /(?:[ \t\r\n]|#[^\n]*)*/y
const BOUNDS = /\{[ \t]*(\d{0,9})[ \t]*(,?)[ \t]*(\d{0,9})[ \t]*\}/y
const MAX_DEPTH = 100

/** Its rules by name. @throws GrammarFault */
export function readGbnf(text: string): Map<string, Expression> {
  const rules = new Reader(text).rules()
  if (!rules.has("root"))
    throw new GrammarFault("the rule root is missing, with which a text begins")
  return rules
}

class Reader {
  readonly #cursor: Cursor
  #depth = 0

  constructor(text: string) {
    this.#cursor = new Cursor(text)
  }

  rules(): Map<string, Expression> {
    const cursor = this.#cursor
    const rules = new Map<string, Expression>()
    for (cursor.match(BLANK_LINES); !cursor.isAtEnd; cursor.match(BLANK_LINES)) {
      const name = cursor.match(NAME)?.[0]
      if (name === undefined) throw cursor.fault(`expected a rule's name, not ${cursor.here()}`)
      if (rules.has(name)) throw cursor.fault(`${name} is defined twice`)
      cursor.match(BLANKS)
      cursor.expect("::=")
      cursor.match(BLANK_LINES)
      rules.set(name, this.#alternatives(false))
      if (!cursor.isAtEnd && !cursor.sees("\n"))
        throw cursor.fault(`${cursor.here()} has no place here`)
    }
    return rules
  }

  #alternatives(isNested: boolean): Expression {
    if (++this.#depth > MAX_DEPTH) throw this.#cursor.fault("groups are nested too deep")
    const alt: Expression[] = []
    do alt.push(this.#sequence(isNested))
    while (this.#takesBar())
    this.#depth--
    return alt.length === 1 ? alt[0]! : { alt }
  }

  /** An alternative may begin on the next line. */
  #takesBar(): boolean {
    const cursor = this.#cursor
    const { at } = cursor
    cursor.match(BLANK_LINES)
    if (cursor.take("|")) {
      cursor.match(BLANK_LINES)
      return true
    }
    cursor.at = at
    return false
  }

  #sequence(isNested: boolean): Expression {
    const seq: Expression[] = []
    for (;;) {
      this.#cursor.match(isNested ? BLANK_LINES : BLANKS)
      const item = this.#item()
      if (!item) return seq.length === 1 ? seq[0]! : { seq }
      seq.push(this.#repeated(item))
    }
  }

  #item(): Expression | undefined {
    const cursor = this.#cursor
    const { line } = cursor
    if (cursor.take('"')) return { re: { seq: this.#characters() } }
    if (cursor.take("[")) return { re: { chars: this.#set() } }
    if (cursor.take(".")) return { re: { chars: anyChar } }
    if (cursor.take("(")) {
      const inner = this.#alternatives(true)
      cursor.match(BLANK_LINES)
      cursor.expect(")")
      return inner
    }
    if (cursor.sees("<"))
      throw cursor.fault("tokens as symbols are not supported; write their text")
    const name = cursor.match(NAME)?.[0]
    return name === undefined ? undefined : { rule: name, line }
  }

  #characters(): { chars: CharSet }[] {
    const characters: { chars: CharSet }[] = []
    while (!this.#cursor.take('"')) characters.push({ chars: charSet(range(this.#character())) })
    return characters
  }

  #set(): CharSet {
    const cursor = this.#cursor
    const isNegated = cursor.take("^")
    let set: CharSet = []
    while (!cursor.take("]")) {
      const from = this.#character()
      const isRange = cursor.sees("-") && !cursor.sees("-]")
      if (isRange) cursor.take("-")
      const to = isRange ? this.#character() : from
      if (to < from) throw cursor.fault("a range out of order")
      set = union(set, charSet([from, to]))
    }
    return isNegated ? complement(set) : set
  }

  #character(): number {
    const cursor = this.#cursor
    if (cursor.sees("\n")) throw cursor.fault("a text or a set goes on past its line")
    const character = cursor.character()
    if (character !== "\\") return character.codePointAt(0)!
    const hex = cursor.match(/x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})/y)
    if (hex) return Number.parseInt(hex[1] ?? hex[2] ?? hex[3]!, 16)
    const escaped = cursor.character()
    const control = { t: 9, r: 13, n: 10 }[escaped]
    if (control !== undefined) return control
    if (/[\w\s]/.test(escaped)) throw cursor.fault(`the unknown escape \\${escaped}`)
    return escaped.codePointAt(0)!
  }

  #repeated(item: Expression): Expression {
    const cursor = this.#cursor
    cursor.match(BLANKS)
    if (cursor.take("*"))
      return this.#repeated({ repeat: item, min: 0, max: Number.POSITIVE_INFINITY })
    if (cursor.take("+"))
      return this.#repeated({ repeat: item, min: 1, max: Number.POSITIVE_INFINITY })
    if (cursor.take("?")) return this.#repeated({ repeat: item, min: 0, max: 1 })
    if (!cursor.sees("{")) return item
    const [, least, comma, most] = cursor.match(BOUNDS) ?? []
    if (comma === undefined || (least === "" && most === "")) throw cursor.fault("malformed bounds")
    const min = Number(least)
    const unbounded = most === "" ? Number.POSITIVE_INFINITY : Number(most)
    const max = comma === "" ? min : unbounded
    if (min > max) throw cursor.fault("bounds out of order")
    return this.#repeated({ repeat: item, min, max })
  }
}

function range(codePoint: number): [number, number] {
  return [codePoint, codePoint]
}
