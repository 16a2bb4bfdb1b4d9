// Arithmetic and `in`, as Python does them.

import { printf } from "./formatting.ts"
import { spend, spendOnSearch, TemplateError } from "./meter.ts"
import { join, replaceEach, Text } from "./text.ts"
import {
  Dict,
  equal,
  Float,
  iterate,
  Namespace,
  numberOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.ts"

const MAX_ITEMS = 1_000_000

export function contains(container: Value, value: Value): boolean {
  if (container instanceof Text) {
    if (value instanceof Text) {
      spendOnSearch(container.length, value.length)
      return container.value.includes(value.value)
    }
    throw new TemplateError(`'in <string>' requires string as left operand, not ${typeName(value)}`)
  }
  if (container instanceof Dict) return container.has(value)
  if (container instanceof Namespace) {
    throw new TemplateError("argument of type 'Namespace' is not iterable")
  }
  return iterate(container).some((item) => equal(item, value))
}

export function arithmetic(operator: string, left: Value, right: Value): Value {
  if (left instanceof Undefined) throw new TemplateError(left.what)
  if (left instanceof Text && operator === "%") return printf(left, right)
  if (right instanceof Undefined) throw new TemplateError(right.what)
  if (operator === "+") {
    if (left instanceof Text && right instanceof Text) return concatenate(left, right)
    if (Array.isArray(left) && Array.isArray(right)) return together(left, right)
    if (left instanceof Tuple && right instanceof Tuple) {
      return new Tuple(together(left.items, right.items))
    }
  }
  if (operator === "*") {
    if (typeof right === "number") return repeated(left, right) ?? numbers(operator, left, right)
    if (typeof left === "number") return repeated(right, left) ?? numbers(operator, left, right)
  }
  return numbers(operator, left, right)
}

/** Text marked as safe for HTML makes what it is joined with safe, by escaping it. */
function concatenate(left: Text, right: Text): Text {
  if (!left.markup && !right.markup) return join([left, right])
  return join([escaped(left), escaped(right)]).marked()
}

/** For HTML. */
export function escaped(text: Text): Text {
  if (text.markup) return text
  const change = (run: string) => replaceEach(run, /[&<>"']/g, (found) => ENTITIES[found]!)
  return text.mapRuns(change).marked()
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&#34;",
  "'": "&#39;",
}

function together(left: readonly Value[], right: readonly Value[]): Value[] {
  assertItems(left.length + right.length)
  return [...left, ...right]
}

function assertItems(count: number): void {
  if (count > MAX_ITEMS) {
    throw new TemplateError(`it makes a list of more than ${MAX_ITEMS} items`)
  }
  spend(count)
}

function repeated(value: Value, times: number): Value | undefined {
  if (value instanceof Text) return value.repeated(times)
  if (Array.isArray(value)) return itemsRepeated(value, times)
  return value instanceof Tuple ? new Tuple(itemsRepeated(value.items, times)) : undefined
}

function itemsRepeated(given: readonly Value[], times: number): Value[] {
  const count = given.length === 0 ? 0 : Math.max(0, times)
  assertItems(given.length * count)
  const items: Value[] = []
  for (let i = 0; i < count; i++) for (const item of given) items.push(item)
  return items
}

function numbers(operator: string, left: Value, right: Value): Value {
  const a = numberOf(left)
  const b = numberOf(right)
  if (a === undefined || b === undefined) {
    const kinds = `'${typeName(left)}' and '${typeName(right)}'`
    throw new TemplateError(`unsupported operand type(s) for ${operator}: ${kinds}`)
  }
  if (b === 0 && (operator === "/" || operator === "//" || operator === "%")) {
    throw new TemplateError("division by zero")
  }
  const float = left instanceof Float || right instanceof Float
  const result = (value: number): Value => {
    if (!Number.isFinite(value)) throw new TemplateError("the result is not a finite number")
    return float ? new Float(value) : value + 0 // an integer has no -0
  }
  switch (operator) {
    case "+":
      return result(a + b)
    case "-":
      return result(a - b)
    case "*":
      return result(a * b)
    case "/":
      return new Float(a / b)
    case "//": // the quotient of what the remainder leaves: 1 // 0.1 is 9
      return result(Math.round((a - remainder(a, b)) / b))
    case "%":
      return result(remainder(a, b))
    case "**":
      return !float && b < 0 ? new Float(a ** b) : result(a ** b)
    default:
      throw new TemplateError(`there is no operator ${operator}`)
  }
}

/** With the sign of the divisor, as in Python. */
function remainder(a: number, b: number): number {
  const rest = a % b
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest
}
