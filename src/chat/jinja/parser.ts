// Tokens to a tree, by Jinja 2's grammar (github.com/pallets/jinja, src/jinja2/parser.py): its statements without those that
// load other templates, its precedences, its tests with arguments. `generation`, which transformers adds, is its body in a
// scope of its own, as a `call` block's is.

import { SyntaxFault, type Token, tokenize } from "./lexer.ts"
import type {
  Argument,
  BlockFunction,
  Expression,
  Filter,
  Parameter,
  Slice,
  Statement,
  Target,
} from "./syntax.ts"
import { integerOf, NONE, type None } from "./values.ts"

/** Throws an Error that says what is wrong with the template, and where. */
export function parse(template: string): Statement[] {
  return new Parser(tokenize(template)).body([])
}

const CONSTANTS: ReadonlyMap<string, None | boolean> = new Map<string, None | boolean>([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", NONE],
  ["None", NONE],
])

class Parser {
  readonly #tokens: readonly Token[]
  readonly #reads = new Map<string, number>() // where a variable was read last
  #at = 0

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens
  }

  /** Statements up to a block that one of `ends` names, which stays open; up to the end when there are none. */
  body(ends: readonly string[]): Statement[] {
    const statements: Statement[] = []
    for (;;) {
      const token = this.#tokens[this.#at++]
      if (!token) {
        if (ends.length === 0) return statements
        throw this.#fault(`${ends.at(-1)} is missing`)
      }
      if (token.kind === "text") statements.push({ type: "text", text: token.text })
      else if (token.kind === "open" && token.of === "print") {
        statements.push({ type: "print", value: this.#tuple(true) })
        this.#close("print")
      } else {
        const name = this.#name()
        if (ends.includes(name)) {
          this.#at--
          return statements
        }
        statements.push(this.#statement(name))
      }
    }
  }

  #statement(name: string): Statement {
    switch (name) {
      case "if":
        return this.#if()
      case "for":
        return this.#for()
      case "set":
        return this.#set()
      case "macro":
        return this.#macro()
      case "call":
        return this.#callBlock()
      case "filter":
        return this.#filterBlock()
      case "with":
        return this.#with()
      case "generation":
        this.#close("block")
        return { type: "with", sets: [], body: this.#blockBody("endgeneration") }
      case "break":
      case "continue":
        this.#close("block")
        return { type: name }
      default:
        throw this.#fault(`there is no statement ${JSON.stringify(name)}`)
    }
  }

  #if(): Statement {
    const test = this.#tuple(false)
    this.#close("block")
    const body = this.body(["elif", "else", "endif"])
    const next = this.#name()
    if (next === "elif") return { type: "if", test, body, otherwise: [this.#if()] }
    this.#close("block")
    return { type: "if", test, body, otherwise: next === "else" ? this.#blockBody("endif") : [] }
  }

  #for(): Statement {
    const target = this.#target()
    this.#expectName("in")
    const items = this.#tuple(false)
    const test = this.#takesName("if") ? this.#expression() : undefined
    const recursive = this.#takesName("recursive")
    this.#close("block")
    const start = this.#at
    const body = this.body(["else", "endfor"])
    const looksAtLoop = this.#readsSince(start, "loop")
    const next = this.#name()
    this.#close("block")
    const otherwise = next === "else" ? this.#blockBody("endfor") : []
    return { type: "for", target, items, test, looksAtLoop, recursive, body, otherwise }
  }

  #set(): Statement {
    const target = this.#target()
    if (this.#takes("=")) {
      const value = this.#tuple(true)
      this.#close("block")
      return { type: "set", target, value }
    }
    const filters = this.#filters()
    this.#close("block")
    return { type: "set block", target, filters, body: this.#blockBody("endset") }
  }

  #macro(): Statement {
    const name = this.#name()
    const parameters = this.#parameters()
    this.#close("block")
    return { type: "macro", name, run: this.#function(parameters, "endmacro") }
  }

  #callBlock(): Statement {
    const parameters = this.#is("(") ? this.#parameters() : []
    const call = this.#expression()
    if (call.type !== "call") throw this.#fault("call needs a call")
    this.#close("block")
    return { type: "call block", call, run: this.#function(parameters, "endcall") }
  }

  #function(parameters: Parameter[], end: string): BlockFunction {
    const start = this.#at
    const body = this.#blockBody(end)
    const takesMore = this.#readsSince(start, "varargs")
    return { parameters, takesMore, takesNames: this.#readsSince(start, "kwargs"), body }
  }

  #filterBlock(): Statement {
    const filters = [this.#filter(), ...this.#filters()]
    this.#close("block")
    return { type: "filter block", filters, body: this.#blockBody("endfilter") }
  }

  #with(): Statement {
    const sets: { target: Target; value: Expression }[] = []
    while (!this.#isClose()) {
      if (sets.length > 0) this.#expect(",")
      const target = this.#target()
      this.#expect("=")
      sets.push({ target, value: this.#expression() })
    }
    this.#close("block")
    return { type: "with", sets, body: this.#blockBody("endwith") }
  }

  #blockBody(end: string): Statement[] {
    const statements = this.body([end])
    this.#expectName(end)
    this.#close("block")
    return statements
  }

  #parameters(): Parameter[] {
    const parameters: Parameter[] = []
    this.#expect("(")
    while (!this.#takes(")")) {
      if (parameters.length > 0) this.#expect(",")
      const name = this.#name()
      parameters.push({ name, fallback: this.#takes("=") ? this.#expression() : undefined })
    }
    return parameters
  }

  #target(): Target {
    const items = [this.#oneTarget()]
    if (!this.#is(",")) return items[0]!
    while (this.#takes(",") && !this.#isName("in") && !this.#is("=")) items.push(this.#oneTarget())
    return { type: "tuple", items }
  }

  #oneTarget(): Target {
    if (this.#takes("(")) {
      const target = this.#target()
      this.#expect(")")
      return target
    }
    const name = this.#name()
    if (CONSTANTS.has(name)) throw this.#fault(`${name} cannot be assigned to`)
    if (!this.#takes(".")) return { type: "name", name }
    return { type: "attribute", object: this.#read(name), name: this.#name() }
  }

  /** Expressions with commas between them are a tuple; `choices`: whether a bare `if` belongs to them. */
  #tuple(choices: boolean): Expression {
    const one = () => (choices ? this.#expression() : this.#or())
    const first = one()
    if (!this.#is(",")) return first
    const items = [first]
    while (this.#takes(",") && !this.#endsTuple()) items.push(one())
    return { type: "tuple", items }
  }

  #endsTuple(): boolean {
    return this.#isClose() || this.#is(")") || this.#is("]")
  }

  #expression(): Expression {
    let value = this.#or()
    while (this.#takesName("if")) {
      const test = this.#or()
      const no = this.#takesName("else") ? this.#expression() : undefined
      value = { type: "choice", test, yes: value, no }
    }
    return value
  }

  #or(): Expression {
    let left = this.#and()
    while (this.#takesName("or")) left = { type: "or", left, right: this.#and() }
    return left
  }

  #and(): Expression {
    let left = this.#not()
    while (this.#takesName("and")) left = { type: "and", left, right: this.#not() }
    return left
  }

  #not(): Expression {
    return this.#takesName("not") ? { type: "not", operand: this.#not() } : this.#compare()
  }

  #compare(): Expression {
    const first = this.#sum()
    const rest: { operator: string; value: Expression }[] = []
    for (;;) {
      const operator = this.#comparison()
      if (operator === undefined) break
      rest.push({ operator, value: this.#sum() })
    }
    return rest.length === 0 ? first : { type: "compare", first, rest }
  }

  #comparison(): string | undefined {
    const operator = ["==", "!=", "<", "<=", ">", ">="].find((known) => this.#takes(known))
    if (operator !== undefined) return operator
    if (this.#takesName("in")) return "in"
    const next = this.#tokens[this.#at + 1]
    if (this.#isName("not") && next?.kind === "name" && next.text === "in") {
      this.#at += 2
      return "not in"
    }
    return undefined
  }

  #sum(): Expression {
    return this.#operations(["+", "-"], () =>
      this.#operations(["~"], () =>
        this.#operations(["*", "/", "//", "%"], () =>
          this.#operations(["**"], () => this.#unary(true)),
        ),
      ),
    )
  }

  #operations(operators: readonly string[], operand: () => Expression): Expression {
    let left = operand()
    for (;;) {
      const operator = operators.find((known) => this.#takes(known))
      if (operator === undefined) return left
      left = { type: "operation", operator, left, right: operand() }
    }
  }

  // A sign binds closer than a filter: -1 | abs is (-1) | abs.
  #unary(filtered: boolean): Expression {
    let value: Expression
    if (this.#takes("-")) value = { type: "sign", operator: "-", operand: this.#unary(false) }
    else if (this.#takes("+")) value = { type: "sign", operator: "+", operand: this.#unary(false) }
    else value = this.#primary()
    value = this.#postfix(value)
    return filtered ? this.#filtered(value) : value
  }

  #filtered(operand: Expression): Expression {
    let value = operand
    for (;;) {
      if (this.#is("|")) {
        for (const filter of this.#filters()) value = { type: "filter", operand: value, filter }
      } else if (this.#takesName("is")) value = this.#test(value)
      else if (this.#is("(")) value = { type: "call", callee: value, given: this.#arguments() }
      else return value
    }
  }

  #filters(): Filter[] {
    const filters: Filter[] = []
    while (this.#takes("|")) filters.push(this.#filter())
    return filters
  }

  #filter(): Filter {
    const name = this.#name()
    return { name, given: this.#is("(") ? this.#arguments() : [] }
  }

  #test(operand: Expression): Expression {
    const negated = this.#takesName("not")
    const name = this.#name()
    const given: Argument[] = this.#is("(") ? this.#arguments() : []
    // `x is divisibleby 3`: a test may take one argument without parentheses.
    if (given.length === 0 && this.#beginsValue()) {
      given.push({ type: "positional", value: this.#postfix(this.#primary()) })
    }
    return { type: "test", operand, test: { name, given }, negated }
  }

  #beginsValue(): boolean {
    const token = this.#tokens[this.#at]
    if (token?.kind === "name")
      return !["else", "or", "and", "if", "is", "in", "not"].includes(token.text)
    if (token?.kind === "operator") return token.text === "[" || token.text === "{"
    return token?.kind === "string" || token?.kind === "integer" || token?.kind === "float"
  }

  #postfix(operand: Expression): Expression {
    let value = operand
    for (;;) {
      if (this.#takes(".")) value = this.#attribute(value)
      else if (this.#takes("[")) value = this.#subscript(value)
      else if (this.#is("(")) value = { type: "call", callee: value, given: this.#arguments() }
      else return value
    }
  }

  #attribute(object: Expression): Expression {
    const token = this.#next()
    if (token.kind === "name") return { type: "attribute", object, name: token.text }
    if (token.kind === "integer") {
      return { type: "item", object, key: { type: "integer", value: Number(token.text) } }
    }
    throw this.#unexpected(token)
  }

  #subscript(object: Expression): Expression {
    const bound = () => (this.#is(":") || this.#is("]") ? undefined : this.#expression())
    const start = bound()
    if (!this.#is(":")) {
      if (start === undefined) throw this.#fault("a subscript is empty")
      const key = this.#is(",") ? this.#restOfTuple(start) : start
      this.#expect("]")
      return { type: "item", object, key }
    }
    const slice: Slice = { type: "slice", object, start, stop: undefined, step: undefined }
    if (this.#takes(":")) slice.stop = bound()
    if (this.#takes(":")) slice.step = bound()
    this.#expect("]")
    return slice
  }

  #restOfTuple(first: Expression): Expression {
    const items = [first]
    while (this.#takes(",") && !this.#endsTuple()) items.push(this.#expression())
    return { type: "tuple", items }
  }

  #arguments(): Argument[] {
    const given: Argument[] = []
    this.#expect("(")
    while (!this.#takes(")")) {
      if (given.length > 0) {
        this.#expect(",")
        if (this.#takes(")")) break
      }
      given.push(this.#argument())
    }
    return given
  }

  #argument(): Argument {
    if (this.#takes("**")) return { type: "spread names", value: this.#expression() }
    if (this.#takes("*")) return { type: "spread", value: this.#expression() }
    const [name, equals] = [this.#tokens[this.#at], this.#tokens[this.#at + 1]]
    if (name?.kind === "name" && equals?.kind === "operator" && equals.text === "=") {
      this.#at += 2
      return { type: "named", name: name.text, value: this.#expression() }
    }
    return { type: "positional", value: this.#expression() }
  }

  #read(name: string): Expression {
    this.#reads.set(name, this.#at)
    return { type: "name", name }
  }

  #readsSince(start: number, name: string): boolean {
    return (this.#reads.get(name) ?? -1) >= start
  }

  #primary(): Expression {
    const token = this.#next()
    switch (token.kind) {
      case "name": {
        const value = CONSTANTS.get(token.text)
        return value === undefined ? this.#read(token.text) : { type: "constant", value }
      }
      case "string":
        return { type: "string", value: token.text + this.#furtherStrings() }
      case "integer":
        return { type: "integer", value: integerOf(token.text) }
      case "float":
        return { type: "float", value: Number(token.text) }
      case "operator":
        if (token.text === "(") return this.#parenthesis()
        if (token.text === "[") return { type: "list", items: this.#items("]") }
        if (token.text === "{") return this.#dict()
    }
    throw this.#unexpected(token)
  }

  /** Strings next to each other are one. */
  #furtherStrings(): string {
    let text = ""
    for (let token = this.#tokens[this.#at]; token?.kind === "string"; ) {
      text += token.text
      token = this.#tokens[++this.#at]
    }
    return text
  }

  #parenthesis(): Expression {
    if (this.#takes(")")) return { type: "tuple", items: [] }
    const value = this.#tuple(true)
    this.#expect(")")
    return value
  }

  #items(end: string): Expression[] {
    const items: Expression[] = []
    while (!this.#takes(end)) {
      if (items.length > 0) {
        this.#expect(",")
        if (this.#takes(end)) break
      }
      items.push(this.#expression())
    }
    return items
  }

  #dict(): Expression {
    const entries: [Expression, Expression][] = []
    while (!this.#takes("}")) {
      if (entries.length > 0) {
        this.#expect(",")
        if (this.#takes("}")) break
      }
      const key = this.#expression()
      this.#expect(":")
      entries.push([key, this.#expression()])
    }
    return { type: "dict", entries }
  }

  #next(): Token {
    const token = this.#tokens[this.#at++]
    if (!token) throw this.#fault("the template ends too early")
    return token
  }

  #name(): string {
    const token = this.#next()
    if (token.kind === "name") return token.text
    throw this.#unexpected(token)
  }

  #is(operator: string): boolean {
    const token = this.#tokens[this.#at]
    return token?.kind === "operator" && token.text === operator
  }

  #takes(operator: string): boolean {
    const matches = this.#is(operator)
    if (matches) this.#at++
    return matches
  }

  #expect(operator: string): void {
    if (!this.#takes(operator)) throw this.#unexpected(this.#next(), `"${operator}"`)
  }

  #isName(name: string): boolean {
    const token = this.#tokens[this.#at]
    return token?.kind === "name" && token.text === name
  }

  #takesName(name: string): boolean {
    const matches = this.#isName(name)
    if (matches) this.#at++
    return matches
  }

  #expectName(name: string): void {
    if (!this.#takesName(name)) throw this.#unexpected(this.#next(), name)
  }

  #isClose(): boolean {
    return this.#tokens[this.#at]?.kind === "close"
  }

  #close(of: "block" | "print"): void {
    const token = this.#next()
    if (token.kind !== "close" || token.of !== of) throw this.#unexpected(token, "the tag's end")
  }

  #unexpected(token: Token, wanted?: string): SyntaxFault {
    const shown = "text" in token ? JSON.stringify(token.text) : "the tag's end"
    return new SyntaxFault(
      wanted === undefined ? `an unexpected ${shown}` : `${shown} stands where ${wanted} should be`,
      token.line,
    )
  }

  #fault(words: string): SyntaxFault {
    return new SyntaxFault(
      words,
      this.#tokens[Math.min(this.#at, this.#tokens.length) - 1]?.line ?? 1,
    )
  }
}
