// value[start:stop:step], as Python cuts lists, tuples and texts.

import { spend, TemplateError } from "./meter.ts"
import { join, positionOf, Text } from "./text.ts"
import { characters, NONE, Tuple, typeName, Undefined, type Value } from "./values.ts"

interface Bounds {
  start: Value | undefined
  stop: Value | undefined
  step: Value | undefined
}

export function slice(object: Value, given: Bounds): Value {
  const [start, stop, step] = [bound(given.start), bound(given.stop), bound(given.step) ?? 1]
  if (step === 0) throw new TemplateError("slice step cannot be zero")
  if (object instanceof Text) {
    return step === 1 ? cut(object, start, stop) : join(pick(characters(object), start, stop, step))
  }
  if (object instanceof Tuple) return new Tuple(pick(object.items, start, stop, step))
  if (Array.isArray(object)) return pick(object, start, stop, step)
  if (object instanceof Undefined) throw new TemplateError(object.what)
  throw new TemplateError(`'${typeName(object)}' object is not subscriptable`)
}

function bound(value: Value | undefined): number | undefined {
  if (value === undefined || value === NONE) return undefined
  if (typeof value === "number") return value
  throw new TemplateError("slice indices must be integers or None")
}

/** Most slices of texts step by one: only the characters up to the nearer end are counted. */
function cut(text: Text, start = 0, stop = Number.POSITIVE_INFINITY): Text {
  const end = (index: number) => positionOf(text.value, index) ?? (index < 0 ? 0 : text.length)
  const from = end(start)
  return text.slice(from, Math.max(from, end(stop)))
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
