// Filters (`value | name`) and tests (`value is name`): Jinja's own, as far as chat templates use them, and transformers'
// `tojson`. Two tables; a filter that is not in one is an error that names it.

import { fixed, printf } from "./formatting.ts"
import { spend, spendOnCharacters, TemplateError } from "./meter.ts"
import { capitalize, centered, isCased, lines, method, replace, strip } from "./methods.ts"
import { arithmetic, contains, escaped } from "./operators.ts"
import { codePointCount, EMPTY, join, positionOf, replaceEach, Text, TextBuilder } from "./text.ts"
import {
  type Arguments,
  Callable,
  characterAt,
  characters,
  compare,
  Dict,
  equal,
  Float,
  integerOf,
  isNumber,
  isTrue,
  iterate,
  Lazy,
  MAX_DIGITS,
  Namespace,
  NONE,
  None,
  numberOf,
  print,
  readJson,
  repr,
  Tuple,
  toJson,
  typeName,
  Undefined,
  type Value,
} from "./values.ts"

export function applyFilter(name: string, value: Value, given: Arguments): Value {
  const filter = FILTERS.get(name)
  if (!filter) throw new TemplateError(`No filter named '${name}'`)
  spend(1)
  return filter(value, given)
}

export function applyTest(name: string, value: Value, given: Arguments): boolean {
  const test = TESTS.get(name)
  if (!test) throw new TemplateError(`No test named '${name}'`)
  spend(1)
  return test(value, given)
}

type Filter = (value: Value, given: Arguments) => Value
type Test = (value: Value, given: Arguments) => boolean

export const FILTERS: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ["abs", (value) => onNumber(value, Math.abs)],
  ["attr", (value, given) => attribute(value, print(argument(given, 0, "name")).value)],
  ["batch", batch],
  ["capitalize", (value) => capitalize(print(value))],
  ["center", (value, given) => center(print(value), whole(optional(given, 0, "width") ?? 80))],
  ["count", (value) => length(value)],
  ["d", orDefault],
  ["default", orDefault],
  ["dictsort", dictSort],
  ["e", (value) => escaped(print(value))],
  ["escape", (value) => escaped(print(value))],
  ["first", (value) => end(value, 0) ?? new Undefined("No first item, sequence was empty.")],
  ["float", (value, given) => toFloat(value, optional(given, 0, "default") ?? new Float(0))],
  ["forceescape", (value) => escaped(unmarked(print(value)))],
  ["format", (value, given) => printf(print(value), new Tuple([...iterate(given.positional)]))],
  ["fromjson", fromJson],
  ["groupby", groupBy],
  ["indent", indent],
  ["int", (value, given) => toInt(value, optional(given, 0, "default") ?? 0)],
  ["items", (value) => (value instanceof Undefined ? [] : call(value, "items"))],
  ["join", joined],
  ["last", (value) => end(value, -1) ?? new Undefined("No last item, sequence was empty.")],
  ["length", (value) => length(value)],
  ["list", (value) => [...iterate(value)]],
  ["lower", (value) => print(value).respelled((text) => text.toLowerCase())],
  ["map", map],
  ["max", (value, given) => extreme(value, given, 1)],
  ["min", (value, given) => extreme(value, given, -1)],
  ["reject", (value, given) => sieve(value, (item) => !chosen(item, given, 0))],
  ["rejectattr", (value, given) => sieve(value, (item) => !chosenBy(item, given))],
  ["replace", (value, given) => replaceAll(print(value), given)],
  ["reverse", (value) => reversed(value)],
  ["round", round],
  ["safe", (value) => print(value).marked()],
  ["select", (value, given) => sieve(value, (item) => chosen(item, given, 0))],
  ["selectattr", (value, given) => sieve(value, (item) => chosenBy(item, given))],
  ["slice", columns],
  ["sort", sort],
  ["string", (value) => print(value)],
  ["sum", (value, given) => sum(value, given)],
  ["title", (value) => print(value).respelled(titled)],
  ["tojson", toJsonFilter],
  ["trim", (value, given) => strip(print(value), charactersOf(given), true, true)],
  ["truncate", truncate],
  ["unique", unique],
  ["upper", (value) => print(value).respelled((text) => text.toUpperCase())],
  ["urlencode", (value) => print(value).mapRuns(urlEncoded)],
  ["wordcount", (value) => wordCount(print(value))],
])

export const TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ["boolean", (value) => typeof value === "boolean"],
  ["callable", (value) => value instanceof Callable],
  ["defined", (value) => !(value instanceof Undefined)],
  ["divisibleby", (value, given) => divisible(value, argument(given, 0, "num"))],
  ["escaped", (value) => value instanceof Text && value.markup],
  ["even", (value) => divisible(value, 2)],
  ["false", (value) => value === false],
  ["filter", (value) => FILTERS.has(print(value).value)],
  ["float", (value) => value instanceof Float],
  ["in", (value, given) => contains(argument(given, 0, "seq"), value)],
  ["integer", (value) => typeof value === "number" || typeof value === "bigint"],
  ["iterable", (value) => isIterable(value) || value instanceof Undefined],
  ["lower", (value) => isCased(print(value), (text) => text.toLowerCase())],
  ["mapping", (value) => value instanceof Dict],
  ["none", (value) => value instanceof None],
  ["number", (value) => isNumber(value) || typeof value === "boolean"],
  ["odd", (value) => !divisible(value, 2)],
  ["sameas", (value, given) => value === argument(given, 0, "other")],
  ["sequence", (value) => isSequence(value) || value instanceof Undefined],
  ["string", (value) => value instanceof Text],
  ["test", (value) => TESTS.has(print(value).value)],
  ["true", (value) => value === true],
  ["undefined", (value) => value instanceof Undefined],
  ["upper", (value) => isCased(print(value), (text) => text.toUpperCase())],
  ...comparisons([
    ["==", "eq", "equalto"],
    ["!=", "ne"],
    ["<", "lt", "lessthan"],
    ["<=", "le"],
    [">", "gt", "greaterthan"],
    [">=", "ge"],
  ]),
])

function comparisons(names: readonly (readonly string[])[]): [string, Test][] {
  const holds: Record<string, (a: Value, b: Value) => boolean> = {
    "==": equal,
    "!=": (a, b) => !equal(a, b),
    "<": (a, b) => compare(a, b, "<") < 0,
    "<=": (a, b) => compare(a, b, "<=") <= 0,
    ">": (a, b) => compare(a, b, ">") > 0,
    ">=": (a, b) => compare(a, b, ">=") >= 0,
  }
  return names.flatMap((group) =>
    group.map((name): [string, Test] => [
      name,
      (value, given) => holds[group[0]!]!(value, argument(given, 0, "other")),
    ]),
  )
}

function optional(given: Arguments, index: number, name: string): Value | undefined {
  return given.positional[index] ?? given.named.get(name)
}

function argument(given: Arguments, index: number, name: string): Value {
  const value = optional(given, index, name)
  if (value === undefined) throw new TemplateError(`the argument ${name} is missing`)
  return value
}

function whole(value: Value): number {
  if (typeof value === "number") return value
  throw new TemplateError(`an integer is needed, not ${typeName(value)}`)
}

function isSequence(value: Value): boolean {
  return (
    value instanceof Text || Array.isArray(value) || value instanceof Tuple || value instanceof Dict
  )
}

function isIterable(value: Value): boolean {
  return isSequence(value) || value instanceof Lazy
}

function divisible(value: Value, by: Value): boolean {
  const number = numberOf(value)
  if (number === undefined) throw new TemplateError(`'${typeName(value)}' has no remainder`)
  return number % numberOf(by)! === 0
}

function onNumber(value: Value, change: (number: number) => number): Value {
  const number = numberOf(value)
  if (number === undefined) throw new TemplateError(`${typeName(value)} is not a number`)
  return value instanceof Float ? new Float(change(number)) : change(number)
}

function length(value: Value): number {
  if (value instanceof Text) return codePointCount(value.value)
  if (value instanceof Dict) return value.size
  if (value instanceof Undefined) return 0
  if (Array.isArray(value)) return value.length
  if (value instanceof Tuple) return value.items.length
  throw new TemplateError(`object of type '${typeName(value)}' has no len()`)
}

/** The first item, or the last one with -1: no others are made for it where that can be told. */
function end(value: Value, index: 0 | -1): Value | undefined {
  if (value instanceof Text) return characterAt(value, index)
  if (Array.isArray(value)) return value.at(index)
  return (value instanceof Tuple ? value.items : iterate(value)).at(index)
}

function wordCount(text: Text): number {
  spendOnCharacters(4 * text.length) // classes of Unicode are looked up
  let count = 0
  for (const _ of text.value.matchAll(/[\p{L}\p{N}_]+/gu)) {
    spend(1)
    count++
  }
  return count
}

function orDefault(value: Value, given: Arguments): Value {
  const falsy = isTrue(optional(given, 1, "boolean") ?? false) && !isTrue(value)
  if (!(value instanceof Undefined) && !falsy) return value
  return optional(given, 0, "default_value") ?? EMPTY
}

/** `a.b.0`: one attribute after another, each that does not exist as `fallback`. Digits are an index. */
function attributeOf(value: Value, path: string, fallback: Value = NONE): Value {
  spendOnCharacters(path.length)
  let target = value
  for (const name of path.split(".")) {
    spend(1)
    if (target instanceof Undefined) throw new TemplateError(target.what)
    target =
      item(target, /^\d+$/.test(name) ? Number(name) : new Text(name)) ?? attribute(target, name)
    if (target instanceof Undefined && !(fallback instanceof None)) target = fallback
  }
  return target
}

function item(value: Value, key: number | Text): Value | undefined {
  if (value instanceof Dict) return value.get(key)
  if (key instanceof Text) return undefined
  if (value instanceof Text) return characterAt(value, key)
  if (Array.isArray(value)) return value[key]
  return value instanceof Tuple ? value.items[key] : undefined
}

function attribute(value: Value, name: string): Value {
  const member = value instanceof Namespace ? value.members.get(name) : method(value, name)
  return member ?? new Undefined(`'${typeName(value)} object' has no attribute '${name}'`)
}

function call(value: Value, name: string): Value {
  const member = method(value, name)
  if (member instanceof Callable) return member.call({ positional: [], named: new Map() })
  throw new TemplateError(`'${typeName(value)}' object has no attribute '${name}'`)
}

/** Jinja walks over nothing where the value is none, also over None. */
function sieve(value: Value, keep: (item: Value) => boolean): Lazy {
  return new Lazy(() => (isTrue(value) ? iterate(value).filter(keep) : []))
}

function chosen(item: Value, given: Arguments, from: number): boolean {
  const [test, ...rest] = given.positional.slice(from)
  spend(rest.length)
  if (test === undefined) return isTrue(item)
  return applyTest(print(test).value, item, { positional: rest, named: given.named })
}

function chosenBy(item: Value, given: Arguments): boolean {
  return chosen(attributeOf(item, print(argument(given, 0, "attribute")).value), given, 1)
}

function map(value: Value, given: Arguments): Value {
  const attribute = given.named.get("attribute")
  if (attribute !== undefined) {
    const fallback = given.named.get("default")
    const one = (item: Value) => attributeOf(item, print(attribute).value, fallback)
    return new Lazy(() => (isTrue(value) ? iterate(value).map(one) : []))
  }
  const [name, ...rest] = given.positional
  if (name === undefined) throw new TemplateError("map requires a filter argument")
  const inner = { positional: rest, named: given.named }
  const filter = print(name).value
  const one = (item: Value) => applyFilter(filter, item, inner)
  return new Lazy(() => (isTrue(value) ? iterate(value).map(one) : []))
}

/** What `sort`, `unique`, `min` and `max` look at: the item or its attribute, case folded unless told. */
function sortKey(given: Arguments, caseSensitive: boolean): (item: Value) => Value {
  const attribute = given.named.get("attribute") ?? NONE
  const path = attribute instanceof None ? undefined : print(attribute).value
  const key = (item: Value) => (path === undefined ? item : attributeOf(item, path))
  return caseSensitive ? key : (item) => folded(key(item))
}

function folded(key: Value): Value {
  return key instanceof Text ? key.respelled((text) => text.toLowerCase()) : key
}

function sorted(items: readonly Value[], key: (item: Value) => Value, backwards: boolean): Value[] {
  const sign = backwards ? -1 : 1
  const keyed = items.map((item) => ({ item, key: key(item) }))
  return keyed.sort((a, b) => sign * compare(a.key, b.key, "<")).map(({ item }) => item)
}

function sort(value: Value, given: Arguments): Value {
  const backwards = isTrue(optional(given, 0, "reverse") ?? false)
  const exact = isTrue(optional(given, 1, "case_sensitive") ?? false)
  const attribute = optional(given, 2, "attribute") ?? NONE
  const paths = attribute instanceof None ? [] : print(attribute).value.split(",")
  const keys = paths.map((path) => (item: Value) => attributeOf(item, path))
  const key = (item: Value) => (keys.length === 0 ? [item] : keys.map((own) => own(item)))
  return sorted(iterate(value), exact ? key : (item) => key(item).map(folded), backwards)
}

function dictSort(value: Value, given: Arguments): Value {
  if (!(value instanceof Dict)) throw new TemplateError("dictsort needs a dict")
  const exact = isTrue(optional(given, 0, "case_sensitive") ?? false)
  const by = print(optional(given, 1, "by") ?? new Text("key")).value === "value" ? 1 : 0
  const backwards = isTrue(optional(given, 2, "reverse") ?? false)
  spend(value.size)
  const pairs = Array.from(value.entries(), ([key, member]) => new Tuple([key, member]))
  const fold = sortKey({ positional: [], named: new Map() }, exact)
  return sorted(pairs, (pair) => fold((pair as Tuple).items[by]!), backwards)
}

/** Pairs with names, as Jinja's: what the items of a group have in common, as its first one spells it, and those items. */
function groupBy(value: Value, given: Arguments): Value {
  const path = print(argument(given, 0, "attribute")).value
  const fallback = optional(given, 1, "default")
  const exact = isTrue(optional(given, 2, "case_sensitive") ?? false)
  const own = (item: Value) => attributeOf(item, path, fallback)
  const key = exact ? own : (item: Value) => folded(own(item))
  const groups: { key: Value; items: Value[] }[] = []
  for (const item of sorted(iterate(value), key, false)) {
    const last = groups.at(-1)
    if (last && equal(last.key, key(item))) last.items.push(item)
    else groups.push({ key: key(item), items: [item] })
  }
  return groups.map(({ items }) => new Tuple([own(items[0]!), items], ["grouper", "list"]))
}

function unique(value: Value, given: Arguments): Value {
  const key = sortKey(given, isTrue(optional(given, 0, "case_sensitive") ?? false))
  const [seen, seenGroups] = [new Dict(), new Dict()]
  return sieve(value, (item) => {
    const own = key(item)
    const isGroup = isSequence(own) && !(own instanceof Text)
    const [known, id] = isGroup ? [seenGroups, repr(own)] : [seen, own]
    if (known.has(id)) return false
    known.set(id, true)
    return true
  })
}

function extreme(value: Value, given: Arguments, sign: number): Value {
  const key = sortKey(given, isTrue(optional(given, 0, "case_sensitive") ?? false))
  let best: { item: Value; key: Value } | undefined
  for (const item of iterate(value)) {
    const next = { item, key: key(item) }
    if (!best || sign * compare(next.key, best.key, "<") > 0) best = next
  }
  return best?.item ?? new Undefined("No aggregated item, sequence was empty.")
}

function sum(value: Value, given: Arguments): Value {
  const attribute = optional(given, 0, "attribute") ?? NONE
  const path = attribute instanceof None ? undefined : print(attribute).value
  return iterate(value).reduce(
    (total: Value, item) =>
      arithmetic("+", total, path === undefined ? item : attributeOf(item, path)),
    optional(given, 1, "start") ?? 0,
  )
}

function batch(value: Value, given: Arguments): Value {
  const size = whole(argument(given, 0, "linecount"))
  if (size < 1) throw new TemplateError("batch needs a size of at least 1")
  const fill = optional(given, 1, "fill_with") ?? NONE
  return new Lazy(() => {
    const items = iterate(value)
    const groups: Value[][] = []
    for (let at = 0; at < items.length; at += size) groups.push(items.slice(at, at + size))
    const last = groups.at(-1)
    if (last && !(fill instanceof None)) {
      const filling = arithmetic("*", [fill], size - last.length) as Value[]
      groups[groups.length - 1] = [...last, ...filling]
    }
    return groups
  })
}

/** The items in so many lists, the first ones longer by one where that does not come out; the filler goes into the others. */
function columns(value: Value, given: Arguments): Value {
  const count = whole(argument(given, 0, "slices"))
  const fill = optional(given, 1, "fill_with") ?? NONE
  return new Lazy(() => {
    if (count === 0) throw new TemplateError("division by zero")
    const items = iterate(value)
    spend(Math.max(0, count))
    const size = Math.floor(items.length / count)
    const longer = items.length % count
    return Array.from({ length: Math.max(0, count) }, (_, index) => {
      const start = index * size + Math.min(index, longer)
      if (index < longer) return items.slice(start, start + size + 1)
      const own = items.slice(start, start + size)
      return fill instanceof None ? own : [...own, fill]
    })
  })
}

function reversed(value: Value): Value {
  if (value instanceof Text) return join(characters(value).reverse())
  return new Lazy(() => [...iterate(value)].reverse())
}

function joined(value: Value, given: Arguments): Value {
  const separator = print(optional(given, 0, "d") ?? EMPTY)
  const attribute = optional(given, 1, "attribute")
  const items = iterate(value)
  const path = attribute === undefined ? undefined : print(attribute).value
  const part = (item: Value) => print(path === undefined ? item : attributeOf(item, path))
  return join(items.map(part), separator)
}

function replaceAll(value: Text, given: Arguments): Text {
  const [old, by] = [argument(given, 0, "old"), argument(given, 1, "new")]
  return replace(value, print(old), print(by), given)
}

function charactersOf(given: Arguments): string | undefined {
  const value = optional(given, 0, "chars") ?? NONE
  return value instanceof None ? undefined : print(value).value
}

/** Lines end as Python's do, and with a line feed from then on. */
function indent(value: Value, given: Arguments): Value {
  const width = optional(given, 0, "width") ?? 4
  const first = isTrue(optional(given, 1, "first") ?? false)
  const blank = isTrue(optional(given, 2, "blank") ?? false)
  const fill = width instanceof Text ? width : blanks(whole(width))
  const lineFeed = new Text("\n")
  const out = new TextBuilder()
  for (const [index, line] of lines(join([print(value), lineFeed])).entries()) {
    if (index > 0) out.add(lineFeed)
    if (index === 0 ? first : blank || line.length > 0) out.add(fill)
    out.add(line)
  }
  return out.done()
}

function unmarked(text: Text): Text {
  return new Text(text.value, text.spans)
}

function blanks(count: number): Text {
  return new Text(" ").repeated(count)
}

function center(text: Text, width: number): Text {
  const room = Math.max(0, width - codePointCount(text.value))
  const left = centered(room, width)
  return join([blanks(left), text, blanks(room - left)])
}

function truncate(value: Value, given: Arguments): Value {
  const text = print(value)
  const limit = whole(optional(given, 0, "length") ?? 255)
  const hard = isTrue(optional(given, 1, "killwords") ?? false)
  const end = print(optional(given, 2, "end") ?? new Text("..."))
  const leeway = whole(optional(given, 3, "leeway") ?? 5)
  if (codePointCount(text.value) <= limit + leeway) return text
  const kept = Math.max(0, limit - codePointCount(end.value))
  const cut = text.slice(0, positionOf(text.value, kept) ?? text.length)
  spendOnCharacters(cut.length)
  const blank = hard ? -1 : cut.value.lastIndexOf(" ")
  return join([blank < 0 ? cut : cut.slice(0, blank), end])
}

const WHOLE = /^[-+]?\d+(?:_\d+)*$/
const DECIMAL = /^[-+]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:e[-+]?\d+(?:_\d+)*)?$/i
const BEYOND = /^([-+]?)(?:inf|infinity|(nan))$/i

/** The number that a text spells for Python's float(); undefined where it spells none. */
function spelledNumber(text: string): number | undefined {
  if (DECIMAL.test(text)) return Number(text.replaceAll("_", ""))
  const beyond = BEYOND.exec(text)
  if (!beyond) return undefined
  if (beyond[2]) return Number.NaN
  return beyond[1] === "-" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
}

function spelling(value: Text): string {
  spendOnCharacters(value.length)
  return strip(value, undefined, true, true).value
}

function toInt(value: Value, fallback: Value): Value {
  if (typeof value === "bigint") return value
  const text = value instanceof Text ? spelling(value) : undefined
  const digits = text !== undefined && WHOLE.test(text) ? text.replaceAll("_", "") : ""
  if (digits !== "" && digits.length <= MAX_DIGITS) return integerOf(digits)
  const number = text === undefined ? numberOf(value) : spelledNumber(text)
  return number === undefined || !Number.isFinite(number) ? fallback : Math.trunc(number)
}

function toFloat(value: Value, fallback: Value): Value {
  const number = value instanceof Text ? spelledNumber(spelling(value)) : numberOf(value)
  return number === undefined ? fallback : new Float(number)
}

function round(value: Value, given: Arguments): Value {
  const digits = whole(optional(given, 0, "precision") ?? 0)
  const how = print(optional(given, 1, "method") ?? new Text("common")).value
  const number = numberOf(value)
  if (number === undefined) throw new TemplateError(`${typeName(value)} is not a number`)
  const unit = 10 ** digits
  const scaled = number * unit
  if (how === "ceil") return new Float((Math.ceil(scaled) + 0) / unit) // of an integer, which has no -0
  if (how === "floor") return new Float((Math.floor(scaled) + 0) / unit)
  if (how !== "common") throw new TemplateError("method must be common, ceil or floor")
  if (typeof value === "bigint") return value
  const rounded = digits < 0 ? tens(number, 10 ** -digits) : toDigits(number, digits)
  return value instanceof Float ? new Float(rounded) : rounded
}

function toDigits(number: number, digits: number): number {
  return Number.isInteger(number) || digits > 22
    ? number
    : Math.sign(number) * Number(fixed(Math.abs(number), digits))
}

function tens(number: number, unit: number): number {
  return Math.sign(number) * Number(fixed(Math.abs(number) / unit, 0)) * unit
}

// Words begin after blanks and opening brackets; Python's own str.title() also begins one after an apostrophe.
function titled(value: string): string {
  return replaceEach(
    value,
    /[^-\s({[<]+/gu,
    (word) => word.charAt(0).toUpperCase() + word.slice(1).toLowerCase(),
  )
}

function urlEncoded(value: string): string {
  spendOnCharacters(8 * value.length) // up to nine for one, and each is looked at three times
  return encodeURIComponent(Buffer.from(value).toString()).replaceAll("%2F", "/")
}

/** The house's own, for templates that it writes itself; undefined where a text is no JSON. */
function fromJson(value: Value): Value {
  const { value: json, spans } = print(value)
  return readJson(json, spans[0]?.source ?? 0) ?? new Undefined("it is no JSON.")
}

function toJsonFilter(value: Value, given: Arguments): Value {
  const ascii = isTrue(optional(given, 0, "ensure_ascii") ?? false)
  const indentation = optional(given, 1, "indent") ?? NONE
  const separators = optional(given, 2, "separators") ?? NONE
  const keys = isTrue(optional(given, 3, "sort_keys") ?? false)
  const [item, key] =
    separators instanceof None
      ? [indentation instanceof None ? ", " : ",", ": "]
      : iterate(separators).map((part) => print(part).value)
  const step =
    indentation instanceof None
      ? undefined
      : indentation instanceof Text
        ? indentation.value
        : blanks(whole(indentation)).value
  return toJson(value, { indent: step, item: item ?? ", ", key: key ?? ": ", ascii, sorted: keys })
}
