// Lark, the notation of the Python library of that name (its docs/grammar.md), as far as it describes texts: rules in small
// letters, terminals in capitals, texts in quotes, patterns between slashes, %import from `common` and %ignore. `start` is the
// whole. Terminals are not cut out of the text before rules look at it: whatever way of reading fits, fits. How a tree would be
// shaped (`?`, `!`, `->`, priorities) makes no difference to the texts.

import { charSet, inBothCases } from "../charset.ts"
import type { Re } from "../nfa.ts"
import { PatternFault, parsePattern } from "../regex.ts"
import { Cursor } from "./cursor.ts"
import { type Expression, GrammarFault, looksAround } from "./rules.ts"

const BLANKS = /(?:[ \t\r\f]|\/\/[^\n]*|#[^\n]*|\\[ \t]*\r?\n)*/y
const BLANK_LINES = /(?:[ \t\r\f\n]|\/\/[^\n]*|#[^\n]*)*/y
const RULE = /_?[a-z][_a-z0-9]*/y
const TERMINAL = /_?[A-Z][_A-Z0-9]*/y
const TEXT = /"((?:[^"\\\n]|\\.)*)"(i?)/y
const PATTERN = /\/((?:[^/\\\n]|\\.)+)\/([imslux]*)/y
const MAX_DEPTH = 100

const ENDLESS = Number.POSITIVE_INFINITY

/** What `%import common.NAME` brings, as the library defines it. */
const COMMON: Record<string, string> = {
  DIGIT: "[0-9]",
  HEXDIGIT: "[0-9A-Fa-f]",
  INT: "[0-9]+",
  SIGNED_INT: "[+-]?[0-9]+",
  DECIMAL: "(?:[0-9]+\\.[0-9]*|\\.[0-9]+)",
  FLOAT: "(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)",
  SIGNED_FLOAT: "[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)",
  NUMBER: "(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
  SIGNED_NUMBER: "[+-]?(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
  ESCAPED_STRING: '"(?:[^"\\\\\\n]|\\\\[^\\n])*"',
  LCASE_LETTER: "[a-z]",
  UCASE_LETTER: "[A-Z]",
  LETTER: "[A-Za-z]",
  WORD: "[A-Za-z]+",
  CNAME: "[A-Za-z_][A-Za-z_0-9]*",
  WS_INLINE: "[ \\t]+",
  WS: "[ \\t\\f\\r\\n]+",
  CR: "\\r",
  LF: "\\n",
  NEWLINE: "(?:\\r?\\n)+",
  SH_COMMENT: "#[^\\n]*",
  CPP_COMMENT: "//[^\\n]*",
  C_COMMENT: "/\\*(?:[^*]|\\*+[^*/])*\\*+/",
  SQL_COMMENT: "--[^\\n]*",
}

export interface LarkGrammar {
  rules: Map<string, Expression>
  start: string
}

/** @throws GrammarFault */
export function readLark(text: string): LarkGrammar {
  return new Reader(text).whole()
}

// No rule of the grammar's own can have these names.
const WHOLE = "(whole)"
const IGNORED = "(ignored)"

class Reader {
  readonly #cursor: Cursor
  readonly #rules = new Map<string, Expression>()
  readonly #ignored: Expression[] = []
  #depth = 0

  constructor(text: string) {
    this.#cursor = new Cursor(text)
  }

  whole(): LarkGrammar {
    const cursor = this.#cursor
    for (cursor.match(BLANK_LINES); !cursor.isAtEnd; cursor.match(BLANK_LINES)) {
      if (cursor.take("%")) this.#directive()
      else this.#definition()
      cursor.match(BLANKS)
      if (!cursor.isAtEnd && !cursor.sees("\n"))
        throw cursor.fault(`${cursor.here()} has no place here`)
    }
    if (!this.#rules.has("start")) {
      throw new GrammarFault("the rule start is missing, with which a text begins")
    }
    if (this.#ignored.length === 0) return { rules: this.#rules, start: "start" }
    this.#rules.set(IGNORED, { repeat: { alt: this.#ignored }, min: 0, max: ENDLESS })
    const start: Expression = { rule: "start", line: 1 }
    this.#rules.set(WHOLE, { seq: [start, { rule: IGNORED, line: 1 }] })
    return { rules: withIgnored(this.#rules), start: WHOLE }
  }

  #directive(): void {
    const cursor = this.#cursor
    const name = cursor.match(/[a-z]+/y)?.[0]
    cursor.match(BLANKS)
    if (name === "ignore") this.#ignored.push(this.#alternatives())
    else if (name === "import") this.#import()
    else if (name === "llguidance") cursor.match(/[^\n]*/y)
    else throw cursor.fault(`%${name ?? ""} is not supported`)
  }

  #import(): void {
    const cursor = this.#cursor
    if (!cursor.take("common")) throw cursor.fault("only names of common can be imported")
    if (cursor.take(".")) {
      const name = this.#terminalName()
      cursor.match(BLANKS)
      const isRenamed = cursor.match(/->[ \t]*/y) !== undefined
      this.#importAs(name, isRenamed ? this.#terminalName() : name)
      return
    }
    cursor.match(BLANKS)
    cursor.expect("(")
    do {
      cursor.match(BLANK_LINES)
      const name = this.#terminalName()
      this.#importAs(name, name)
      cursor.match(BLANK_LINES)
    } while (cursor.take(","))
    cursor.expect(")")
  }

  #terminalName(): string {
    const name = this.#cursor.match(TERMINAL)?.[0]
    if (name === undefined) {
      throw this.#cursor.fault(`expected a terminal's name, not ${this.#cursor.here()}`)
    }
    return name
  }

  #importAs(name: string, alias: string): void {
    const pattern = COMMON[name]
    if (pattern === undefined) throw this.#cursor.fault(`common has no ${name}`)
    this.#define(alias, { re: parsePattern(pattern) })
  }

  #define(name: string, expression: Expression): void {
    if (this.#rules.has(name)) throw this.#cursor.fault(`${name} is defined twice`)
    this.#rules.set(name, expression)
  }

  #definition(): void {
    const cursor = this.#cursor
    cursor.match(/[?!]*/y)
    const name = (cursor.match(RULE) ?? cursor.match(TERMINAL))?.[0]
    if (name === undefined) throw cursor.fault(`expected a name, not ${cursor.here()}`)
    if (cursor.sees("{")) throw cursor.fault("templates are not supported")
    // llguidance's mark of what a client picks out of the reply: the texts are the same without.
    cursor.match(/\[capture(?:="[^"\n]*")?\]/y)
    if (cursor.sees("[")) {
      throw cursor.fault("attributes of rules are not supported, except capture")
    }
    cursor.match(/\.-?\d+/y)
    cursor.match(BLANKS)
    cursor.expect(":")
    this.#define(name, this.#alternatives())
  }

  #alternatives(): Expression {
    if (++this.#depth > MAX_DEPTH) throw this.#cursor.fault("groups are nested too deep")
    const alt: Expression[] = []
    do alt.push(this.#sequence())
    while (this.#takesBar())
    this.#depth--
    return alt.length === 1 ? alt[0]! : { alt }
  }

  /** An alternative may begin on the next line. */
  #takesBar(): boolean {
    const cursor = this.#cursor
    const { at } = cursor
    cursor.match(BLANK_LINES)
    if (cursor.take("|")) return true
    cursor.at = at
    return false
  }

  #sequence(): Expression {
    const cursor = this.#cursor
    const seq: Expression[] = []
    for (;;) {
      cursor.match(BLANKS)
      const item = this.#item()
      if (!item) break
      seq.push(this.#repeated(item))
    }
    if (cursor.match(/->[ \t]*/y) && !cursor.match(RULE)) throw cursor.fault("-> without a name")
    return seq.length === 1 ? seq[0]! : { seq }
  }

  #item(): Expression | undefined {
    const cursor = this.#cursor
    const { line } = cursor
    if (cursor.take("(")) return this.#group(")")
    if (cursor.take("[")) return { repeat: this.#group("]"), min: 0, max: 1 }
    if (cursor.sees('"')) return this.#text()
    if (cursor.sees("/")) return this.#pattern()
    if (cursor.sees("<"))
      throw cursor.fault("tokens as symbols are not supported; write their text")
    if (cursor.sees("%")) throw cursor.fault("grammars within the grammar are not supported")
    const name = (cursor.match(RULE) ?? cursor.match(TERMINAL))?.[0]
    if (name === undefined) return undefined
    if (cursor.sees("{")) throw cursor.fault("templates are not supported")
    return { rule: name, line }
  }

  #group(end: string): Expression {
    const cursor = this.#cursor
    cursor.match(BLANK_LINES)
    const inner = this.#alternatives()
    cursor.match(BLANK_LINES)
    cursor.expect(end)
    return inner
  }

  #text(): Expression {
    const cursor = this.#cursor
    const from = this.#quoted()
    const { at } = cursor
    cursor.match(BLANKS)
    if (!cursor.take("..")) {
      cursor.at = at
      return { re: from }
    }
    cursor.match(BLANKS)
    const [low, high] = [from, this.#quoted()].map(onlyCharacter)
    if (low === undefined || high === undefined || low > high) {
      throw cursor.fault("a range goes from one character to a later one")
    }
    return { re: { chars: charSet([low, high]) } }
  }

  #quoted(): Re & { seq: Re[] } {
    const [, text, isLoose] = this.#cursor.match(TEXT) ?? []
    if (text === undefined) throw this.#cursor.fault("a text that is not closed")
    const characters = Array.from(this.#unescaped(text))
    return {
      seq: characters.map((one) => ({ chars: isLoose ? inBothCases(exactly(one)) : exactly(one) })),
    }
  }

  #unescaped(text: string): string {
    return text.replace(ESCAPE, (whole, hex: string | undefined, other: string | undefined) => {
      if (hex !== undefined) return this.#codePoint(Number.parseInt(hex.slice(1), 16))
      const known = CONTROLS[other!]
      if (known === undefined && /\w/.test(other!)) {
        throw this.#cursor.fault(`the unknown escape ${whole}`)
      }
      return known ?? other!
    })
  }

  #codePoint(value: number): string {
    if (value > 0x10ffff) throw this.#cursor.fault("an escape of no character")
    return String.fromCodePoint(value)
  }

  #pattern(): Expression {
    const cursor = this.#cursor
    const [, pattern, flags = ""] = cursor.match(PATTERN) ?? []
    if (pattern === undefined) throw cursor.fault("a pattern that is not closed")
    if (/[mlx]/.test(flags)) throw cursor.fault(`the flags ${flags} of a pattern are not supported`)
    const re = this.#parsed(pattern.replaceAll("\\/", "/"), flags)
    if (looksAround(re)) {
      throw cursor.fault("a pattern that looks around itself (^, $, \\b, (?=…)) is not supported")
    }
    return { re }
  }

  #parsed(pattern: string, flags: string): Re {
    try {
      return parsePattern(pattern, { anyCase: flags.includes("i"), dotAll: flags.includes("s") })
    } catch (error) {
      if (!(error instanceof PatternFault)) throw error
      throw this.#cursor.fault(`a pattern with ${error.message}`)
    }
  }

  #repeated(item: Expression): Expression {
    const cursor = this.#cursor
    if (cursor.take("*")) return { repeat: item, min: 0, max: ENDLESS }
    if (cursor.take("+")) return { repeat: item, min: 1, max: ENDLESS }
    if (cursor.take("?")) return { repeat: item, min: 0, max: 1 }
    const [, least, most = least] =
      cursor.match(/[ \t]*~[ \t]*(\d{1,9})(?:[ \t]*\.\.[ \t]*(\d{1,9}))?/y) ?? []
    if (least === undefined) return item
    if (Number(least) > Number(most)) throw cursor.fault("bounds out of order")
    return { repeat: item, min: Number(least), max: Number(most) }
  }
}

const ESCAPE = /\\(?:(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|(.))/g
const CONTROLS: Record<string, string> = { n: "\n", r: "\r", t: "\t", f: "\f", v: "\v", "0": "\0" }

function exactly(character: string) {
  const codePoint = character.codePointAt(0)!
  return charSet([codePoint, codePoint])
}

function onlyCharacter({ seq }: { seq: Re[] }): number | undefined {
  const [first] = seq
  return seq.length === 1 && first && "chars" in first ? first.chars[0] : undefined
}

/** Before each terminal of a rule, what is ignored may stand. */
function withIgnored(rules: ReadonlyMap<string, Expression>): Map<string, Expression> {
  const isTerminal = (name: string) => /^_?[A-Z(]/.test(name)
  return new Map(
    Array.from(rules, ([name, expression]) => [
      name,
      isTerminal(name) ? expression : spacedOut(expression, isTerminal),
    ]),
  )
}

function spacedOut(expression: Expression, isTerminal: (name: string) => boolean): Expression {
  if ("seq" in expression) return { seq: expression.seq.map((one) => spacedOut(one, isTerminal)) }
  if ("alt" in expression) return { alt: expression.alt.map((one) => spacedOut(one, isTerminal)) }
  if ("repeat" in expression) {
    return { ...expression, repeat: spacedOut(expression.repeat, isTerminal) }
  }
  if ("rule" in expression && !isTerminal(expression.rule)) return expression
  return { seq: [{ rule: IGNORED, line: 1 }, expression] }
}
