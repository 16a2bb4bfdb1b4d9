// Walks a template's tree. The rules are Jinja 2's inside transformers' sandbox: what the template cannot name it cannot
// reach (values are our own classes, never JavaScript objects), nothing it is given can be changed, and every step is paid
// for (see meter.ts). Printing goes to one builder, so that every character keeps its source (see text.ts).

import { applyFilter, applyTest } from "./filters.ts"
import { spend, TemplateError } from "./meter.ts"
import { method } from "./methods.ts"
import { arithmetic, contains } from "./operators.ts"
import { slice } from "./slices.ts"
import type {
  Argument,
  BlockFunction,
  Call,
  Expression,
  Filter,
  For,
  Statement,
  Target,
} from "./syntax.ts"
import { join, Text, TextBuilder } from "./text.ts"
import {
  type Arguments,
  Callable,
  characterAt,
  compare,
  Dict,
  equal,
  Float,
  isTrue,
  iterate,
  Namespace,
  NONE,
  numberOf,
  print,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.ts"

/** Renders `program` with `variables` on top of the names every template knows. */
export function interpret(
  program: readonly Statement[],
  variables: ReadonlyMap<string, Value>,
): Text {
  const globals = new Scope(undefined)
  for (const [name, value] of GLOBALS) globals.set(name, value)
  for (const [name, value] of variables) globals.set(name, value)
  const out = new TextBuilder()
  run(program, new Scope(globals), out)
  return out.done()
}

const STEPS_A_SCOPE = 1 / 8

class Scope {
  readonly #names = new Map<string, Value>()
  readonly #outer: Scope | undefined

  constructor(outer: Scope | undefined) {
    this.#outer = outer
  }

  get(name: string): Value {
    const value = this.#names.get(name) // undefined means absent: none of our values is
    if (value !== undefined) return value
    spend(STEPS_A_SCOPE)
    return this.#outer ? this.#outer.get(name) : new Undefined(`'${name}' is undefined`)
  }

  set(name: string, value: Value): void {
    this.#names.set(name, value)
  }
}

// Python's sandbox allows ranges up to this length.
const MAX_RANGE = 100_000

const GLOBALS: ReadonlyMap<string, Value> = new Map<string, Value>([
  ["range", new Callable("range", range)],
  ["namespace", new Callable("namespace", namespace)],
  ["dict", new Callable("dict", dict)],
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
  if (length > MAX_RANGE) {
    throw new TemplateError(`Range too big: the sandbox blocks ranges larger than ${MAX_RANGE}`)
  }
  spend(length)
  return Array.from({ length }, (_, index) => start + index * step)
}

function namespace(given: Arguments): Value {
  const made = new Namespace()
  for (const [key, member] of dict(given).entries()) made.members.set(print(key).value, member)
  return made
}

/** Python's `dict(…)`: a mapping or pairs, and names that add to them. */
function dict({ positional: [given, ...rest], named }: Arguments): Dict {
  if (rest.length > 0) throw new TemplateError("dict expected at most 1 argument")
  if (given instanceof Undefined) throw new TemplateError(given.what)
  const made = new Dict()
  for (const [key, value] of given === undefined ? [] : pairsOf(given)) made.set(key, value)
  for (const [name, value] of named) made.set(new Text(name), value)
  return made
}

function pairsOf(given: Value): Iterable<readonly [Value, Value]> {
  if (given instanceof Dict) return given.entries()
  return iterate(given).map((item) => {
    const [key, value, ...rest] = iterate(item)
    if (key !== undefined && value !== undefined && rest.length === 0) return [key, value]
    throw new TemplateError("a dict is made of pairs: an element has another length than 2")
  })
}

/** What stops a block early. */
type Jump = "break" | "continue" | undefined

function run(body: readonly Statement[], scope: Scope, out: TextBuilder): Jump {
  for (const node of body) {
    spend(1)
    const jump = statement(node, scope, out)
    if (jump) return jump
  }
  return undefined
}

function statement(node: Statement, scope: Scope, out: TextBuilder): Jump {
  switch (node.type) {
    case "text":
      out.add(new Text(node.text))
      return undefined
    case "print":
      out.add(print(evaluate(node.value, scope)))
      return undefined
    case "if":
      return run(isTrue(evaluate(node.test, scope)) ? node.body : node.otherwise, scope, out)
    case "for":
      return loop(node, evaluate(node.items, scope), scope, out)
    case "break":
    case "continue":
      return node.type
    case "set":
      assign(node.target, evaluate(node.value, scope), scope)
      return undefined
    case "set block":
      assign(node.target, filtered(block(node.body, scope), node.filters, scope), scope)
      return undefined
    case "macro": {
      const name = `macro '${node.name}'`
      const run = blockFunction(name, node.run, scope)
      scope.set(node.name, new Callable(node.name, run))
      return undefined
    }
    case "call block":
      out.add(print(callWithBlock(node, scope)))
      return undefined
    case "filter block":
      out.add(print(filtered(block(node.body, scope), node.filters, scope)))
      return undefined
    case "with": {
      const inner = new Scope(scope)
      for (const { target, value } of node.sets) assign(target, evaluate(value, scope), inner)
      return run(node.body, inner, out)
    }
  }
}

function block(body: readonly Statement[], scope: Scope): Text {
  const out = new TextBuilder()
  run(body, new Scope(scope), out)
  return out.done()
}

function loop(node: For, given: Value, scope: Scope, out: TextBuilder, depth = 1): Jump {
  const { target, test } = node
  let items = iterate(given)
  if (test) {
    items = items.filter((item) => {
      const inner = new Scope(scope)
      assign(target, item, inner)
      return isTrue(evaluate(test, inner))
    })
  }
  let isDone = false // one turn to its end: without it Jinja runs `else`, also where each turn breaks or continues
  const changed = node.looksAtLoop ? changes() : undefined
  for (let index = 0; index < items.length; index++) {
    spend(1)
    const inner = new Scope(scope)
    if (changed) {
      const state = loopState(items, index, depth)
      state.members.set("changed", changed)
      if (node.recursive)
        state.call = ({ positional: [inside] }) => again(node, inside ?? [], scope, depth + 1)
      inner.set("loop", state)
    }
    assign(target, items[index]!, inner)
    const jump = run(node.body, inner, out)
    if (jump === "break") break
    isDone ||= !jump
  }
  return isDone ? undefined : run(node.otherwise, new Scope(scope), out)
}

function again(node: For, items: Value, scope: Scope, depth: number): Text {
  const out = new TextBuilder()
  loop(node, items, scope, out, depth)
  return out.done()
}

/** `loop.changed`: whether its arguments are others than in the turn before. */
function changes(): Callable {
  let last: Value | undefined
  return new Callable("changed", ({ positional }) => {
    const before = last
    last = new Tuple([...positional])
    return before === undefined || !equal(before, last)
  })
}

function loopState(items: readonly Value[], index: number, depth: number): Namespace {
  spend(5)
  const state = new Namespace()
  const { members } = state
  members.set("index", index + 1)
  members.set("index0", index)
  members.set("revindex", items.length - index)
  members.set("revindex0", items.length - index - 1)
  members.set("first", index === 0)
  members.set("last", index === items.length - 1)
  members.set("length", items.length)
  members.set("depth", depth)
  members.set("depth0", depth - 1)
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

function assign(target: Target, value: Value, scope: Scope): void {
  switch (target.type) {
    case "name":
      scope.set(target.name, value)
      return
    case "tuple": {
      const items = iterate(value)
      if (items.length !== target.items.length) {
        const few = items.length < target.items.length ? "not enough" : "too many"
        throw new TemplateError(`${few} values to unpack (expected ${target.items.length})`)
      }
      target.items.forEach((part, index) => {
        assign(part, items[index]!, scope)
      })
      return
    }
    case "attribute": {
      const object = evaluate(target.object, scope)
      if (object instanceof Namespace) object.members.set(target.name, value)
      else throw new TemplateError("cannot assign attribute on non-namespace object")
    }
  }
}

/** A macro or a `call` block as a function: parameters with defaults, then `varargs`, `kwargs` and `caller` if used. */
function blockFunction(
  name: string,
  { parameters, takesMore, takesNames, body }: BlockFunction,
  scope: Scope,
) {
  return ({ positional, named }: Arguments): Value => {
    spend(10 + parameters.length + positional.length + named.size)
    const inner = new Scope(scope)
    const rest = new Map(named)
    inner.set("caller", rest.get("caller") ?? new Undefined("'caller' is undefined"))
    rest.delete("caller")
    parameters.forEach(({ name: key, fallback }, index) => {
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
    if (takesNames) inner.set("kwargs", dict({ positional: [], named: rest }))
    else if (rest.size > 0) {
      throw new TemplateError(`${name} takes no keyword argument '${[...rest.keys()][0]}'`)
    }
    return block(body, inner)
  }
}

function callWithBlock(node: Extract<Statement, { type: "call block" }>, scope: Scope): Value {
  const caller = blockFunction("caller", node.run, scope)
  const given = argumentsOf(node.call.given, scope)
  const named = new Map(given.named).set("caller", new Callable("caller", caller))
  return call(evaluate(node.call.callee, scope), { positional: given.positional, named })
}

function evaluate(node: Expression, scope: Scope): Value {
  spend(1)
  switch (node.type) {
    case "name":
      return scope.get(node.name)
    case "string":
      return new Text(node.value)
    case "float":
      return new Float(node.value)
    case "integer":
    case "constant":
      return node.value
    case "list":
      return node.items.map((item) => evaluate(item, scope))
    case "tuple":
      return new Tuple(node.items.map((item) => evaluate(item, scope)))
    case "dict": {
      const dict = new Dict()
      for (const [key, value] of node.entries)
        dict.set(evaluate(key, scope), evaluate(value, scope))
      return dict
    }
    case "attribute":
      return attributeOrItem(evaluate(node.object, scope), new Text(node.name))
    case "item":
      return itemOrAttribute(evaluate(node.object, scope), evaluate(node.key, scope))
    case "slice":
      return slice(evaluate(node.object, scope), {
        start: node.start && evaluate(node.start, scope),
        stop: node.stop && evaluate(node.stop, scope),
        step: node.step && evaluate(node.step, scope),
      })
    case "call":
      return called(node, scope)
    case "filter":
      return filtered(evaluate(node.operand, scope), [node.filter], scope)
    case "test": {
      const { name, given } = node.test
      return (
        applyTest(name, evaluate(node.operand, scope), argumentsOf(given, scope)) !== node.negated
      )
    }
    case "choice":
      if (isTrue(evaluate(node.test, scope))) return evaluate(node.yes, scope)
      return node.no
        ? evaluate(node.no, scope)
        : new Undefined(
            "the inline if-expression evaluated to false and no else section was defined",
          )
    case "not":
      return !isTrue(evaluate(node.operand, scope))
    case "sign":
      return signed(node.operator, evaluate(node.operand, scope))
    case "and": {
      const left = evaluate(node.left, scope)
      return isTrue(left) ? evaluate(node.right, scope) : left
    }
    case "or": {
      const left = evaluate(node.left, scope)
      return isTrue(left) ? left : evaluate(node.right, scope)
    }
    case "compare":
      return compared(node, scope)
    case "operation": {
      const [left, right] = [evaluate(node.left, scope), evaluate(node.right, scope)]
      if (node.operator === "~") return join([print(left), print(right)])
      return arithmetic(node.operator, left, right)
    }
  }
}

function filtered(operand: Value, filters: readonly Filter[], scope: Scope): Value {
  return filters.reduce(
    (value, { name, given }) => applyFilter(name, value, argumentsOf(given, scope)),
    operand,
  )
}

const NO_ARGUMENTS: Arguments = { positional: [], named: new Map() }

function argumentsOf(given: readonly Argument[], scope: Scope): Arguments {
  if (given.length === 0) return NO_ARGUMENTS
  const positional: Value[] = []
  const named = new Map<string, Value>()
  for (const argument of given) {
    const value = evaluate(argument.value, scope)
    if (argument.type === "positional") positional.push(value)
    else if (argument.type === "named") named.set(argument.name, value)
    else if (argument.type === "spread") for (const item of iterate(value)) positional.push(item)
    else {
      if (!(value instanceof Dict)) throw new TemplateError("argument after ** must be a mapping")
      spend(value.size)
      for (const [key, member] of value.entries()) named.set(print(key).value, member)
    }
  }
  return { positional, named }
}

function called(node: Call, scope: Scope): Value {
  return call(evaluate(node.callee, scope), argumentsOf(node.given, scope))
}

function call(callee: Value, given: Arguments): Value {
  if (callee instanceof Undefined) throw new TemplateError(callee.what)
  if (callee instanceof Callable || (callee instanceof Namespace && callee.call)) {
    spend(1)
    return callee.call!(given)
  }
  throw new TemplateError(`'${typeName(callee)}' object is not callable`)
}

// As in Jinja: a.b asks for the attribute first, a['b'] for the item first.
function attributeOrItem(object: Value, key: Text): Value {
  if (object instanceof Undefined) throw new TemplateError(object.what)
  return attribute(object, key) ?? item(object, key) ?? missing(object, key)
}

function itemOrAttribute(object: Value, key: Value): Value {
  if (object instanceof Undefined) throw new TemplateError(object.what)
  return item(object, key) ?? attribute(object, key) ?? missing(object, key)
}

function item(object: Value, key: Value): Value | undefined {
  if (object instanceof Dict) return object.get(key)
  if (object instanceof Namespace) return undefined
  if (typeof key !== "number") return undefined
  if (object instanceof Text) return characterAt(object, key)
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
  const kind = object === NONE ? "None" : `'${typeName(object)} object'`
  return new Undefined(
    key instanceof Text ? `${kind} has no attribute ${name}` : `${kind} has no element ${name}`,
  )
}

function signed(operator: "+" | "-", value: Value): Value {
  const number = numberOf(value)
  if (number === undefined) {
    if (value instanceof Undefined) throw new TemplateError(value.what)
    throw new TemplateError(`bad operand type for unary ${operator}: '${typeName(value)}'`)
  }
  const result = operator === "-" ? -number : number
  return value instanceof Float ? new Float(result) : result + 0 // an integer has no -0
}

/** a < b < c: each with its neighbour, up to the first that does not hold. */
function compared(node: Extract<Expression, { type: "compare" }>, scope: Scope): boolean {
  let left = evaluate(node.first, scope)
  return node.rest.every(({ operator, value }) => {
    const right = evaluate(value, scope)
    const result = holds(operator, left, right)
    left = right
    return result
  })
}

function holds(operator: string, left: Value, right: Value): boolean {
  switch (operator) {
    case "==":
      return equal(left, right)
    case "!=":
      return !equal(left, right)
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
    default:
      return compare(left, right, ">=") >= 0
  }
}
