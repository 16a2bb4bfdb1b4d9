// The tree of a template: parsed by @huggingface/jinja, which reads Jinja's syntax as transformers sets it up
// (trim_blocks, lstrip_blocks, loop controls, the `generation` tag left out). Its types are not exported; these are they.

import { parse as parseTokens, tokenize } from "@huggingface/jinja"

export type Node =
  | { type: "Program"; body: Node[] }
  | { type: "If"; test: Node; body: Node[]; alternate: Node[] }
  | { type: "For"; loopvar: Node; iterable: Node; body: Node[]; defaultBlock: Node[] }
  | { type: "Break" | "Continue" | "Comment" }
  | { type: "Set"; assignee: Node; value: Node | null; body: Node[] }
  | Macro
  | { type: "CallStatement"; call: Call; callerArgs: Node[] | null; body: Node[] }
  | { type: "FilterStatement"; filter: Identifier | Call; body: Node[] }
  | { type: "MemberExpression"; object: Node; property: Node; computed: boolean }
  | Call
  | Identifier
  | { type: "IntegerLiteral" | "FloatLiteral"; value: number }
  | { type: "StringLiteral"; value: string }
  | { type: "ArrayLiteral" | "TupleLiteral"; value: Node[] }
  | { type: "ObjectLiteral"; value: Map<Node, Node> }
  | { type: "BinaryExpression"; operator: { value: string }; left: Node; right: Node }
  | { type: "FilterExpression"; operand: Node; filter: Identifier | Call }
  | { type: "SelectExpression"; lhs: Node; test: Node }
  | { type: "TestExpression"; operand: Node; negate: boolean; test: Identifier }
  | { type: "UnaryExpression"; operator: { value: string }; argument: Node }
  | Slice
  | { type: "KeywordArgumentExpression"; key: Identifier; value: Node }
  | { type: "SpreadExpression" | "KeywordSpreadExpression"; argument: Node }
  | { type: "Ternary"; condition: Node; trueExpr: Node; falseExpr: Node }

export interface Identifier {
  type: "Identifier"
  value: string
}

export interface Call {
  type: "CallExpression"
  callee: Node
  args: Node[]
}

export interface Slice {
  type: "SliceExpression"
  start: Node | undefined
  stop: Node | undefined
  step: Node | undefined
}

export interface Macro {
  type: "Macro"
  name: Identifier
  args: Node[]
  body: Node[]
}

/** Throws an Error that says what is wrong with the template. */
export function parse(source: string): Node {
  return parseTokens(tokenize(source, { trim_blocks: true, lstrip_blocks: true })) as Node
}

/** Whether the name is read or written anywhere below. */
export function mentions(node: unknown, name: string): boolean {
  if (node instanceof Map) {
    return Array.from(node).some((pair) => mentions(pair, name))
  }
  if (Array.isArray(node)) return node.some((item) => mentions(item, name))
  if (typeof node !== "object" || node === null) return false
  if ("type" in node && node.type === "Identifier" && "value" in node) return node.value === name
  return Object.values(node).some((member) => mentions(member, name))
}
