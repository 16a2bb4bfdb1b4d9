// Walks a template's tree. The rules are Jinja 2's inside transformers' sandbox: what the template cannot name it cannot
// reach (values are our own classes, never JavaScript objects), nothing it is given can be changed, and every step is paid
// for (see meter.ts). Printing goes to one builder, so that every character keeps its source (see text.ts).

import { applyFilter, applyTest } from "./filters.ts"
import { spend, TemplateError } from "./meter.ts"
import { method } from "./methods.ts"
import { arithmetic, contains } from "./operators.ts"
import type { Call, Macro, Node, Slice } from "./syntax.ts"
import { mentions } from "./syntax.ts"
import { EMPTY, join, Text, TextBuilder } from "./text.ts"
import {
  type Arguments,
  Callable,
  characters,
  compare,
  Dict,
  equal,
  Float,
  isTrue,
  iterate,
  Namespace,
  numberOf,
  print,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.ts"

/** Renders `program` with `variables` on top of the names every template knows. */
export function interpret(program: Node, variables: ReadonlyMap<string, Value>): Text {
  const globals = new Scope(undefined)
  for (const [name, value] of GLOBALS) globals.set(name, value)
  for (const [name, value] of variables) globals.set(name, value)
  const out = new TextBuilder()
  run([program], new Scope(globals), out)
  return out.done()
}

class Scope {
  readonly #names = new Map<string, Value>()
  readonly #outer: Scope | undefined

  constructor(outer: Scope | undefined) {
    this.#outer = outer
  }

  get(name: string): Value {
    const value = this.#names.get(name) // undefined means absent: none of our values is
    if (value !== undefined) return value
    return this.#outer ? this.#outer.get(name) : new Undefined(`'${name}' is undefined`)
  }

  set(name: string, value: Value): void {
    this.#names.set(name, value)
  }
}

const NO_NAMES: ReadonlyMap<string, Value> = new Map()

// Python's sandbox allows ranges up to this length.
const LONGEST_RANGE = 100_000

const GLOBALS: ReadonlyMap<string, Value> = new Map<string, Value>([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", null],
  ["None", null],
  ["range", new Callable("range", range)],
  ["namespace", new Callable("namespace", namespace)],
  ["dict", new Callable("dict", ({ named }) => dictOf(named))],
])

function range({ positional }: Arguments): Value {
  const given = positional.map((value) => {
    if (typeof value === "number") return value
    throw new TemplateError(`'${typeName(value)}' object cannot be interpreted as an integer`)
  })
  const [start, stop, step] =
    given.length === 1 ? [0, given[0]!, 1] : [given[0] ?? 0, given[1] ?? 0, given[2] ?? 1]
  if (step === 0) throw new TemplateError("range() arg 3 must not be zero")
  const length = Math.max(0, Math.ceil((stop - start) / step))
  if (length > LONGEST_RANGE) {
    throw new TemplateError(`Range too big: the sandbox blocks ranges larger than ${LONGEST_RANGE}`)
  }
  spend(length)
  return Array.from({ length }, (_, index) => start + index * step)
}

function namespace({ positional, named }: Arguments): Value {
  const made = new Namespace()
  for (const value of positional) {
    if (!(value instanceof Dict)) throw new TemplateError("namespace() takes a dict or names")
    for (const [key, member] of value.entries()) made.members.set(print(key).value, member)
  }
  for (const [name, member] of named) made.members.set(name, member)
  return made
}

function dictOf(named: ReadonlyMap<string, Value>): Dict {
  const made = new Dict()
  for (const [name, value] of named) made.set(new Text(name), value)
  return made
}

/** What stops a block early. */
type Jump = "break" | "continue" | undefined

function run(body: readonly Node[], scope: Scope, out: TextBuilder): Jump {
  for (const node of body) {
    spend(1)
    const jump = statement(node, scope, out)
    if (jump) return jump
  }
  return undefined
}

function statement(node: Node, scope: Scope, out: TextBuilder): Jump {
  switch (node.type) {
    case "Program":
      return run(node.body, scope, out)
    case "If":
      return run(isTrue(evaluate(node.test, scope)) ? node.body : node.alternate, scope, out)
    case "For":
      return loop(node, scope, out)
    case "Break":
      return "break"
    case "Continue":
      return "continue"
    case "Comment":
      return undefined
    case "Set":
      assign(
        node.assignee,
        node.value ? evaluate(node.value, scope) : block(node.body, scope),
        scope,
      )
      return undefined
    case "Macro":
      scope.set(node.name.value, macro(node, scope))
      return undefined
    case "CallStatement":
      out.add(print(callWithBlock(node, scope)))
      return undefined
    case "FilterStatement":
      out.add(print(filtered(block(node.body, scope), node.filter, scope)))
      return undefined
    default:
      out.add(print(evaluate(node, scope)))
      return undefined
  }
}

function block(body: readonly Node[], scope: Scope): Text {
  const out = new TextBuilder()
  run(body, new Scope(scope), out)
  return out.done()
}

function loop(node: Extract<Node, { type: "For" }>, scope: Scope, out: TextBuilder): Jump {
  const { iterable } = node
  const filter = iterable.type === "SelectExpression" ? iterable.test : undefined
  let items = iterate(
    evaluate(iterable.type === "SelectExpression" ? iterable.lhs : iterable, scope),
  )
  if (filter) {
    items = items.filter((item) => {
      const inner = new Scope(scope)
      assign(node.loopvar, item, inner)
      return isTrue(evaluate(filter, inner))
    })
  }
  if (items.length === 0) return run(node.defaultBlock, new Scope(scope), out)
  for (let index = 0; index < items.length; index++) {
    spend(1)
    const inner = new Scope(scope)
    inner.set("loop", loopState(items, index))
    assign(node.loopvar, items[index]!, inner)
    if (run(node.body, inner, out) === "break") break
  }
  return undefined
}

function loopState(items: readonly Value[], index: number): Namespace {
  const state = new Namespace()
  const { members } = state
  members.set("index", index + 1)
  members.set("index0", index)
  members.set("revindex", items.length - index)
  members.set("revindex0", items.length - index - 1)
  members.set("first", index === 0)
  members.set("last", index === items.length - 1)
  members.set("length", items.length)
  members.set("depth", 1)
  members.set("depth0", 0)
  members.set("previtem", items[index - 1] ?? new Undefined("there is no previous item"))
  members.set("nextitem", items[index + 1] ?? new Undefined("there is no next item"))
  members.set(
    "cycle",
    new Callable("cycle", ({ positional }) => {
      if (positional.length === 0) throw new TemplateError("no items for cycling given")
      return positional[index % positional.length]!
    }),
  )
  return state
}

function assign(target: Node, value: Value, scope: Scope): void {
  switch (target.type) {
    case "Identifier":
      scope.set(target.value, value)
      return
    case "TupleLiteral": {
      const items = iterate(value)
      if (items.length !== target.value.length) {
        const few = items.length < target.value.length ? "not enough" : "too many"
        throw new TemplateError(`${few} values to unpack (expected ${target.value.length})`)
      }
      target.value.forEach((part, index) => {
        assign(part, items[index]!, scope)
      })
      return
    }
    case "MemberExpression": {
      const object = evaluate(target.object, scope)
      if (object instanceof Namespace && target.property.type === "Identifier") {
        object.members.set(target.property.value, value)
        return
      }
      throw new TemplateError("cannot assign attribute on non-namespace object")
    }
    default:
      throw new TemplateError("cannot assign to this")
  }
}

function macro(node: Macro, scope: Scope): Callable {
  const name = `macro '${node.name.value}'`
  return new Callable(node.name.value, blockFunction(name, node.args, node.body, scope))
}

/** A macro or a `call` block as a function: parameters with defaults, then `varargs`, `kwargs` and `caller` if used. */
function blockFunction(name: string, parameters: readonly Node[], body: Node[], scope: Scope) {
  const takesMore = mentions(body, "varargs")
  const takesNames = mentions(body, "kwargs")
  return ({ positional, named }: Arguments): Value => {
    spend(10)
    const inner = new Scope(scope)
    const rest = new Map(named)
    inner.set("caller", rest.get("caller") ?? new Undefined("'caller' is undefined"))
    rest.delete("caller")
    parameters.forEach((parameter, index) => {
      const [key, fallback] =
        parameter.type === "KeywordArgumentExpression"
          ? [parameter.key.value, parameter.value]
          : [(parameter as { value: string }).value, undefined]
      let value = positional[index]
      if (value === undefined && rest.has(key)) {
        value = rest.get(key)!
        rest.delete(key)
      }
      value ??=
        fallback === undefined
          ? new Undefined(`parameter '${key}' was not provided`)
          : evaluate(fallback, inner)
      inner.set(key, value)
    })
    if (takesMore) inner.set("varargs", new Tuple(positional.slice(parameters.length)))
    else if (positional.length > parameters.length) {
      throw new TemplateError(`${name} takes not more than ${parameters.length} argument(s)`)
    }
    if (takesNames) inner.set("kwargs", dictOf(rest))
    else if (rest.size > 0) {
      throw new TemplateError(`${name} takes no keyword argument '${[...rest.keys()][0]}'`)
    }
    return block(body, inner)
  }
}

function callWithBlock(node: Extract<Node, { type: "CallStatement" }>, scope: Scope): Value {
  const caller = blockFunction("caller", node.callerArgs ?? [], node.body, scope)
  const given = argumentsOf(node.call, scope)
  const named = new Map(given.named).set("caller", new Callable("caller", caller))
  return call(evaluate(node.call.callee, scope), { positional: given.positional, named })
}

export function evaluate(node: Node, scope: Scope): Value {
  spend(1)
  switch (node.type) {
    case "Identifier":
      return scope.get(node.value)
    case "StringLiteral":
      return new Text(node.value)
    case "IntegerLiteral":
      return node.value
    case "FloatLiteral":
      return new Float(node.value)
    case "ArrayLiteral":
      return node.value.map((item) => evaluate(item, scope))
    case "TupleLiteral":
      return new Tuple(node.value.map((item) => evaluate(item, scope)))
    case "ObjectLiteral": {
      const dict = new Dict()
      for (const [key, value] of node.value) dict.set(evaluate(key, scope), evaluate(value, scope))
      return dict
    }
    case "MemberExpression":
      return member(node, scope)
    case "CallExpression":
      return call(evaluate(node.callee, scope), argumentsOf(node, scope))
    case "FilterExpression":
      return filtered(evaluate(node.operand, scope), node.filter, scope)
    case "TestExpression": {
      const none = { positional: [], named: NO_NAMES }
      return applyTest(node.test.value, evaluate(node.operand, scope), none) !== node.negate
    }
    case "Ternary":
      return isTrue(evaluate(node.condition, scope))
        ? evaluate(node.trueExpr, scope)
        : evaluate(node.falseExpr, scope)
    case "SelectExpression": // an `if` without an `else`
      return isTrue(evaluate(node.test, scope))
        ? evaluate(node.lhs, scope)
        : new Undefined(
            "the inline if-expression evaluated to false and no else section was defined",
          )
    case "UnaryExpression":
      return unary(node.operator.value, evaluate(node.argument, scope))
    case "BinaryExpression":
      return binary(node, scope)
    default:
      throw new TemplateError(`${node.type} cannot stand in an expression`)
  }
}

function filtered(operand: Value, filter: Node, scope: Scope): Value {
  if (filter.type === "Identifier") {
    return applyFilter(filter.value, operand, { positional: [], named: NO_NAMES })
  }
  const { callee } = filter as Call
  const name = callee.type === "Identifier" ? callee.value : callee.type
  return applyFilter(name, operand, argumentsOf(filter as Call, scope))
}

function argumentsOf(node: Call, scope: Scope): Arguments {
  const positional: Value[] = []
  const named = new Map<string, Value>()
  for (const argument of node.args) {
    if (argument.type === "SpreadExpression") {
      positional.push(...iterate(evaluate(argument.argument, scope)))
    } else if (argument.type === "KeywordSpreadExpression") {
      const given = evaluate(argument.argument, scope)
      if (!(given instanceof Dict)) throw new TemplateError("argument after ** must be a mapping")
      for (const [key, value] of given.entries()) named.set(print(key).value, value)
    } else if (argument.type === "KeywordArgumentExpression") {
      named.set(argument.key.value, evaluate(argument.value, scope))
    } else {
      positional.push(evaluate(argument, scope))
    }
  }
  return { positional, named }
}

function call(callee: Value, given: Arguments): Value {
  if (callee instanceof Undefined) throw new TemplateError(callee.what)
  if (!(callee instanceof Callable)) {
    throw new TemplateError(`'${typeName(callee)}' object is not callable`)
  }
  return callee.call(given)
}

function member(node: Extract<Node, { type: "MemberExpression" }>, scope: Scope): Value {
  const object = evaluate(node.object, scope)
  if (node.computed && node.property.type === "SliceExpression") {
    return slice(object, node.property, scope)
  }
  const key: Value =
    !node.computed && node.property.type === "Identifier"
      ? new Text(node.property.value)
      : evaluate(node.property, scope)
  if (object instanceof Undefined) throw new TemplateError(object.what)
  // As in Jinja: a.b asks for the attribute first, a['b'] for the item first.
  const found = node.computed
    ? (item(object, key) ?? attribute(object, key))
    : (attribute(object, key) ?? item(object, key))
  return found ?? missing(object, key)
}

function item(object: Value, key: Value): Value | undefined {
  if (object instanceof Dict) return object.get(key)
  if (object instanceof Namespace) return undefined
  if (typeof key !== "number") return undefined
  if (object instanceof Text) return characters(object).at(key)
  if (Array.isArray(object)) return object.at(key)
  return object instanceof Tuple ? object.items.at(key) : undefined
}

function attribute(object: Value, key: Value): Value | undefined {
  if (!(key instanceof Text)) return undefined
  if (object instanceof Namespace) return object.members.get(key.value)
  return method(object, key.value)
}

function missing(object: Value, key: Value): Undefined {
  const name = key instanceof Text ? `'${key.value}'` : print(key).value
  const kind = object === null ? "None" : `'${typeName(object)} object'`
  return new Undefined(
    key instanceof Text ? `${kind} has no attribute ${name}` : `${kind} has no element ${name}`,
  )
}

function slice(object: Value, node: Slice, scope: Scope): Value {
  const bound = (part: Node | undefined): number | undefined => {
    const value = part ? evaluate(part, scope) : undefined
    if (value === undefined || value === null) return undefined
    if (typeof value === "number") return value
    throw new TemplateError("slice indices must be integers or None")
  }
  const [start, stop, step] = [bound(node.start), bound(node.stop), bound(node.step) ?? 1]
  if (step === 0) throw new TemplateError("slice step cannot be zero")
  if (object instanceof Text) {
    // Most slices are of texts without characters beyond 16 bits, and step by one: those are a cut.
    if (step === 1 && !/[\ud800-\udfff]/.test(object.value)) {
      const [from, to] = bounds(object.length, start, stop, step)
      return object.slice(from, Math.max(from, to))
    }
    return join(pick(characters(object), start, stop, step))
  }
  if (object instanceof Tuple) return new Tuple(pick(object.items, start, stop, step))
  if (Array.isArray(object)) return pick(object, start, stop, step)
  if (object instanceof Undefined) throw new TemplateError(object.what)
  throw new TemplateError(`'${typeName(object)}' object is not subscriptable`)
}

function pick<Item>(
  items: readonly Item[],
  start: number | undefined,
  stop: number | undefined,
  step: number,
): Item[] {
  const [from, to] = bounds(items.length, start, stop, step)
  const picked: Item[] = []
  for (let at = from; step > 0 ? at < to : at > to; at += step) picked.push(items[at]!)
  spend(picked.length)
  return picked
}

// Python's slice.indices().
function bounds(
  length: number,
  start: number | undefined,
  stop: number | undefined,
  step: number,
): [number, number] {
  const lowest = step > 0 ? 0 : -1
  const highest = step > 0 ? length : length - 1
  const clamp = (value: number) =>
    value < 0 ? Math.max(value + length, lowest) : Math.min(value, highest)
  return [
    start === undefined ? (step > 0 ? lowest : highest) : clamp(start),
    stop === undefined ? (step > 0 ? highest : lowest) : clamp(stop),
  ]
}

function unary(operator: string, value: Value): Value {
  if (operator === "not") return !isTrue(value)
  const number = numberOf(value)
  if (number === undefined) {
    if (value instanceof Undefined) throw new TemplateError(value.what)
    throw new TemplateError(`bad operand type for unary ${operator}: '${typeName(value)}'`)
  }
  const signed = operator === "-" ? -number : number
  return value instanceof Float ? new Float(signed) : signed
}

function binary(node: Extract<Node, { type: "BinaryExpression" }>, scope: Scope): Value {
  const left = evaluate(node.left, scope)
  const operator = node.operator.value
  if (operator === "and") return isTrue(left) ? evaluate(node.right, scope) : left
  if (operator === "or") return isTrue(left) ? left : evaluate(node.right, scope)
  const right = evaluate(node.right, scope)
  switch (operator) {
    case "==":
      return equal(left, right)
    case "!=":
      return !equal(left, right)
    case "~":
      return join([print(left), print(right)], EMPTY)
    case "in":
      return contains(right, left)
    case "not in":
      return !contains(right, left)
    case "<":
      return compare(left, right, "<") < 0
    case "<=":
      return compare(left, right, "<=") <= 0
    case ">":
      return compare(left, right, ">") > 0
    case ">=":
      return compare(left, right, ">=") >= 0
    default:
      return arithmetic(operator, left, right)
  }
}
