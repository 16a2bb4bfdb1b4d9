// The tree of a template.

import type { None } from "./values.ts"

export type Node = Statement | Expression

export type Statement =
  | { type: "text"; text: string }
  | { type: "print"; value: Expression }
  | { type: "if"; test: Expression; body: Statement[]; otherwise: Statement[] }
  | For
  | { type: "break" | "continue" }
  | { type: "set"; target: Target; value: Expression }
  | { type: "set block"; target: Target; body: Statement[]; filters: Filter[] }
  | { type: "macro"; name: string; run: BlockFunction }
  | { type: "call block"; call: Call; run: BlockFunction }
  | { type: "filter block"; filters: Filter[]; body: Statement[] }
  | { type: "with"; sets: { target: Target; value: Expression }[]; body: Statement[] }

/** The body of a macro or of a `call` block. */
export interface BlockFunction {
  parameters: Parameter[]
  /** Whether `varargs` and `kwargs` are read in it: else a call with more arguments than parameters is refused. */
  takesMore: boolean
  takesNames: boolean
  body: Statement[]
}

export interface For {
  type: "for"
  target: Target
  items: Expression
  test: Expression | undefined
  /** Whether `loop` is read in it: few do, and it is costly to make. */
  looksAtLoop: boolean
  /** `loop(items)` runs it again inside itself. */
  recursive: boolean
  body: Statement[]
  otherwise: Statement[]
}

/** What can be assigned to: names, and members of a namespace. */
export type Target =
  | { type: "name"; name: string }
  | { type: "attribute"; object: Expression; name: string }
  | { type: "tuple"; items: Target[] }

export interface Parameter {
  name: string
  fallback: Expression | undefined
}

/** A filter or a test with its arguments. */
export interface Filter {
  name: string
  given: Argument[]
}

export type Expression =
  | { type: "name"; name: string }
  | { type: "string"; value: string }
  | { type: "integer"; value: number | bigint }
  | { type: "float"; value: number }
  | { type: "constant"; value: None | boolean }
  | { type: "list"; items: Expression[] }
  | { type: "tuple"; items: Expression[] }
  | { type: "dict"; entries: [key: Expression, value: Expression][] }
  | { type: "attribute"; object: Expression; name: string }
  | { type: "item"; object: Expression; key: Expression }
  | Slice
  | Call
  | { type: "filter"; operand: Expression; filter: Filter }
  | { type: "test"; operand: Expression; test: Filter; negated: boolean }
  | { type: "choice"; test: Expression; yes: Expression; no: Expression | undefined }
  | { type: "not"; operand: Expression }
  | { type: "sign"; operator: "+" | "-"; operand: Expression }
  | { type: "and" | "or"; left: Expression; right: Expression }
  | { type: "compare"; first: Expression; rest: { operator: string; value: Expression }[] }
  | { type: "operation"; operator: string; left: Expression; right: Expression }

export interface Slice {
  type: "slice"
  object: Expression
  start: Expression | undefined
  stop: Expression | undefined
  step: Expression | undefined
}

export interface Call {
  type: "call"
  callee: Expression
  given: Argument[]
}

export type Argument =
  | { type: "positional"; value: Expression }
  | { type: "named"; name: string; value: Expression }
  | { type: "spread" | "spread names"; value: Expression }
