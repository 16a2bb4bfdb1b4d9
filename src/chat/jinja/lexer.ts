// A template cut into text and tags, and tags into tokens. White space around tags goes as Jinja has it with trim_blocks and
// lstrip_blocks: a line break after a block is dropped, so are blanks before a block that begins a line; "-" drops all white
// space on its side, "+" keeps it.

export type Token =
  | { kind: "text"; text: string; line: number }
  | { kind: "open" | "close"; of: "block" | "print"; line: number }
  | { kind: "name" | "string" | "integer" | "float" | "operator"; text: string; line: number }

/** What is wrong with a template, and in which line. */
export class SyntaxFault extends Error {
  constructor(words: string, line: number) {
    super(`${words} (line ${line})`)
  }
}

export function tokenize(template: string): Token[] {
  return new Lexer(template.replace(/\r\n?/g, "\n").replace(/\n$/, "")).run()
}

const OPENING = /\{(?:\{|%|#)/g
const RAW = /-?\s*raw\s*(-?)%\}/y
const END_RAW = /\{%([-+]?)\s*endraw\s*([-+]?)%\}(\n?)/g
const SPACE = /\s*/y

// The longer ones first.
const OPERATORS = /\*\*|\/\/|==|!=|<=|>=|[-+*/%~<>=.,:|()[\]{}]/y
const NAME = /[\p{L}_][\p{L}\p{N}\p{M}_]*/uy
const NUMBER = /(?:\d+_)*\d+(\.(?:\d+_)*\d+)?([eE][-+]?\d+)?/y
const STRING = /'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"/sy

class Lexer {
  readonly #source: string
  readonly #tokens: Token[] = []
  #at = 0
  #lineAt = 0 // where `#line` was counted to
  #line = 1

  constructor(source: string) {
    this.#source = source
  }

  run(): Token[] {
    for (;;) {
      OPENING.lastIndex = this.#at
      const opening = OPENING.exec(this.#source)
      if (!opening) break
      const sign = this.#source[opening.index + 2]
      const isPrint = opening[0] === "{{"
      this.#text(this.#source.slice(this.#at, opening.index), sign, !isPrint)
      this.#at = opening.index + 2 + (sign === "-" || (sign === "+" && !isPrint) ? 1 : 0)
      if (opening[0] === "{#") this.#comment()
      else if (isPrint) this.#tag("print", "}}")
      else if (!this.#raw()) this.#tag("block", "%}")
    }
    this.#push(this.#source.slice(this.#at))
    return this.#tokens
  }

  /** Text before a tag that begins with `sign`; blocks and comments that begin a line take its blanks. */
  #text(text: string, sign: string | undefined, isBlock: boolean): void {
    if (sign === "-") {
      this.#push(text.trimEnd())
      return
    }
    const line = text.lastIndexOf("\n") + 1
    const beginsLine = line > 0 || this.#at === 0 || this.#source[this.#at - 1] === "\n"
    const blank = text.slice(line).trim() === ""
    this.#push(isBlock && sign !== "+" && beginsLine && blank ? text.slice(0, line) : text)
  }

  #push(text: string): void {
    if (text !== "") this.#tokens.push({ kind: "text", text, line: this.#here() })
  }

  #comment(): void {
    const end = this.#source.indexOf("#}", this.#at)
    if (end < 0) throw new SyntaxFault("a comment has no end", this.#here())
    const sign = end > this.#at ? this.#source[end - 1] : undefined
    this.#at = end + 2
    this.#after(sign)
  }

  /** White space after a block or a comment that ended with `sign`. */
  #after(sign: string | undefined): void {
    if (sign === "-") this.#skip()
    else if (sign !== "+" && this.#source[this.#at] === "\n") this.#at++
  }

  #skip(): void {
    SPACE.lastIndex = this.#at
    this.#at += SPACE.exec(this.#source)![0].length
  }

  #raw(): boolean {
    RAW.lastIndex = this.#at
    const begin = RAW.exec(this.#source)
    if (!begin) return false
    this.#at += begin[0].length
    if (begin[1] === "-") this.#skip() // trim_blocks is for other blocks: a line break behind this one stays
    END_RAW.lastIndex = this.#at
    const end = END_RAW.exec(this.#source)
    if (!end) throw new SyntaxFault("raw has no endraw", this.#here())
    this.#text(this.#source.slice(this.#at, end.index), end[1], true)
    this.#at = end.index + end[0].length - end[3]!.length
    this.#after(end[2])
    return true
  }

  #tag(of: "block" | "print", end: string): void {
    const opened = this.#here()
    this.#tokens.push({ kind: "open", of, line: opened })
    const open: string[] = []
    for (;;) {
      this.#skip()
      if (this.#at >= this.#source.length) throw new SyntaxFault("a tag has no end", opened)
      if (open.length === 0) {
        const sign = this.#source[this.#at]!
        const signed = (sign === "-" || (sign === "+" && of === "block")) && this.#is(end, 1)
        if (signed || this.#is(end, 0)) {
          this.#at += end.length + (signed ? 1 : 0)
          this.#tokens.push({ kind: "close", of, line: this.#here() })
          if (of === "block") this.#after(signed ? sign : undefined)
          else if (signed) this.#skip()
          return
        }
      }
      this.#token(open)
    }
  }

  #is(text: string, ahead: number): boolean {
    return this.#source.startsWith(text, this.#at + ahead)
  }

  /** One token inside a tag; `open` are the brackets that wait for their partners. */
  #token(open: string[]): void {
    const line = this.#here()
    const add = (kind: Extract<Token, { text: string }>["kind"], text: string) => {
      this.#tokens.push({ kind, text, line })
    }
    const name = this.#match(NAME)
    const number = name ? null : this.#match(NUMBER)
    const string = name || number ? null : this.#match(STRING)
    if (name) add("name", name[0])
    else if (number)
      add(number[1] || number[2] ? "float" : "integer", number[0].replaceAll("_", ""))
    else if (string) add("string", unescaped(string[0].slice(1, -1)))
    else {
      const operator = this.#match(OPERATORS)?.[0]
      if (operator === undefined) {
        throw new SyntaxFault(`an unexpected ${JSON.stringify(this.#source[this.#at])}`, line)
      }
      if ("([{".includes(operator)) open.push(operator)
      if (")]}".includes(operator) && open.pop() !== PARTNER[operator]) {
        throw new SyntaxFault(`an unexpected "${operator}"`, line)
      }
      add("operator", operator)
    }
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at
    const match = pattern.exec(this.#source)
    if (match) this.#at += match[0].length
    return match
  }

  #here(): number {
    for (; this.#lineAt < this.#at; this.#lineAt++) {
      if (this.#source[this.#lineAt] === "\n") this.#line++
    }
    return this.#line
  }
}

const PARTNER: Readonly<Record<string, string>> = { ")": "(", "]": "[", "}": "{" }

const ESCAPES: Readonly<Record<string, string>> = {
  "\n": "",
  "\\": "\\",
  "'": "'",
  '"': '"',
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
}

/** Python's escapes; one that it does not know stays as it is. */
function unescaped(text: string): string {
  return text.replace(
    /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))/gs,
    (all, x: string | undefined, u: string | undefined, U: string | undefined, other: string) => {
      const digits = x ?? u ?? U
      if (digits === undefined) return ESCAPES[other] ?? all
      const code = Number.parseInt(digits, 16)
      return code > 0x10ffff ? all : String.fromCodePoint(code)
    },
  )
}
