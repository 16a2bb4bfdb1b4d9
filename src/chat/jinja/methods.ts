// Methods of Python's strings, lists and maps that templates call. Those that would change a list or a map are not here:
// what a template is given belongs to others.

import { spend, TemplateError } from "./meter.ts"
import { printf } from "./operators.ts"
import { join as joinTexts, occurrences, Text, TextBuilder } from "./text.ts"
import {
  type Arguments,
  Callable,
  characters,
  Dict,
  equal,
  iterate,
  NONE,
  None,
  print,
  repr,
  Tuple,
  typeName,
  type Value,
} from "./values.ts"

type Method<Of> = (self: Of, given: Arguments) => Value

/** The method `name` of `object`, bound to it; undefined when there is none. */
export function method(object: Value, name: string): Value | undefined {
  if (object instanceof Text) return bound(STRING, object, name)
  if (object instanceof Dict) return bound(DICT, object, name)
  if (Array.isArray(object)) return bound(LIST, object, name)
  if (object instanceof Tuple) return bound(LIST, object.items, name)
  return undefined
}

function bound<Of>(
  table: ReadonlyMap<string, Method<Of>>,
  self: Of,
  name: string,
): Callable | undefined {
  const found = table.get(name)
  return found && new Callable(name, (given) => found(self, given))
}

const STRING: ReadonlyMap<string, Method<Text>> = new Map<string, Method<Text>>([
  ["upper", (self) => self.respelled((value) => value.toUpperCase())],
  ["lower", (self) => self.respelled((value) => value.toLowerCase())],
  ["casefold", (self) => self.respelled((value) => value.toLowerCase().replaceAll("ß", "ss"))],
  ["title", (self) => title(self)],
  ["capitalize", (self) => capitalize(self)],
  ["swapcase", (self) => self.respelled(swapCase)],
  ["strip", (self, given) => strip(self, optionalText(given, 0), true, true)],
  ["lstrip", (self, given) => strip(self, optionalText(given, 0), true, false)],
  ["rstrip", (self, given) => strip(self, optionalText(given, 0), false, true)],
  ["removeprefix", (self, given) => removePrefix(self, text(given, 0).value)],
  ["removesuffix", (self, given) => removeSuffix(self, text(given, 0).value)],
  ["startswith", (self, given) => affix(given, (part) => self.value.startsWith(part))],
  ["endswith", (self, given) => affix(given, (part) => self.value.endsWith(part))],
  ["split", (self, given) => split(self, given)],
  ["rsplit", (self, given) => rsplit(self, given)],
  ["splitlines", (self) => (self.value === "" ? [] : lines(self))],
  ["partition", (self, given) => partition(self, text(given, 0).value, false)],
  ["rpartition", (self, given) => partition(self, text(given, 0).value, true)],
  ["replace", (self, given) => replace(self, text(given, 0), text(given, 1), given)],
  ["join", (self, given) => joinTexts(iterate(argument(given, 0)).map(onlyText), self)],
  ["find", (self, given) => position(self, self.value.indexOf(text(given, 0).value))],
  ["rfind", (self, given) => position(self, self.value.lastIndexOf(text(given, 0).value))],
  ["index", (self, given) => index(self, text(given, 0).value)],
  ["count", (self, given) => [...occurrences(self.value, text(given, 0).value)].length],
  ["isdigit", (self) => /^\p{Nd}+$/u.test(self.value)],
  ["isnumeric", (self) => /^\p{N}+$/u.test(self.value)],
  ["isalpha", (self) => /^\p{L}+$/u.test(self.value)],
  ["isalnum", (self) => /^[\p{L}\p{N}]+$/u.test(self.value)],
  ["isspace", (self) => self.length > 0 && strip(self, undefined, true, true).length === 0],
  ["isupper", (self) => cased(self.value) && self.value === self.value.toUpperCase()],
  ["islower", (self) => cased(self.value) && self.value === self.value.toLowerCase()],
  ["format", (self, given) => format(self, given)],
])

const LIST: ReadonlyMap<string, Method<readonly Value[]>> = new Map<
  string,
  Method<readonly Value[]>
>([
  ["count", (self, given) => self.filter((item) => equal(item, argument(given, 0))).length],
  [
    "index",
    (self, given) => {
      const at = self.findIndex((item) => equal(item, argument(given, 0)))
      if (at < 0) throw new TemplateError(`${repr(argument(given, 0)).value} is not in list`)
      return at
    },
  ],
  ["copy", (self) => [...self]],
])

const DICT: ReadonlyMap<string, Method<Dict>> = new Map<string, Method<Dict>>([
  [
    "get",
    (self, given) =>
      self.get(argument(given, 0)) ?? given.positional[1] ?? given.named.get("default") ?? NONE,
  ],
  ["items", (self) => Array.from(self.entries(), ([key, value]) => new Tuple([key, value]))],
  ["keys", (self) => self.keys()],
  ["values", (self) => self.values()],
  ["copy", (self) => self],
])

function argument(given: Arguments, index: number): Value {
  const value = given.positional[index]
  if (value === undefined) throw new TemplateError(`argument ${index + 1} is missing`)
  return value
}

function text(given: Arguments, index: number): Text {
  return onlyText(argument(given, index))
}

function onlyText(value: Value): Text {
  if (value instanceof Text) return value
  throw new TemplateError(`expected a string, found ${typeName(value)}`)
}

function optionalText(given: Arguments, index: number): string | undefined {
  const value = given.positional[index] ?? NONE
  return value instanceof None ? undefined : onlyText(value).value
}

// Python's str.isspace(); unlike JavaScript's it has the four separators of ASCII and no U+FEFF.
const SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/

export function strip(self: Text, set: string | undefined, left: boolean, right: boolean): Text {
  const drop = (unit: string) => (set === undefined ? SPACE.test(unit) : set.includes(unit))
  const { value } = self
  let from = 0
  let to = value.length
  while (left && from < to && drop(value[from]!)) from++
  while (right && to > from && drop(value[to - 1]!)) to--
  spend((self.length - (to - from)) >> 6)
  return self.slice(from, to)
}

function title(self: Text): Text {
  return self.respelled((value) =>
    value.replace(
      /\p{L}+/gu,
      (word) => (word[0] ?? "").toUpperCase() + word.slice(1).toLowerCase(),
    ),
  )
}

export function capitalize(self: Text): Text {
  return self.respelled((value) => (value[0] ?? "").toUpperCase() + value.slice(1).toLowerCase())
}

function swapCase(value: string): string {
  return value.replace(/\p{L}/gu, (letter) =>
    letter === letter.toUpperCase() ? letter.toLowerCase() : letter.toUpperCase(),
  )
}

function cased(value: string): boolean {
  return value.toUpperCase() !== value.toLowerCase()
}

function removePrefix(self: Text, prefix: string): Text {
  return self.value.startsWith(prefix) ? self.slice(prefix.length, self.length) : self
}

function removeSuffix(self: Text, suffix: string): Text {
  return self.value.endsWith(suffix) ? self.slice(0, self.length - suffix.length) : self
}

function affix(given: Arguments, test: (part: string) => boolean): boolean {
  const parts = argument(given, 0)
  if (parts instanceof Tuple) return parts.items.some((part) => test(onlyText(part).value))
  return test(onlyText(parts).value)
}

function limitOf(given: Arguments): number {
  const limit = given.positional[1] ?? given.named.get("maxsplit") ?? -1
  if (typeof limit !== "number") throw new TemplateError("maxsplit must be an integer")
  return limit < 0 ? Number.POSITIVE_INFINITY : limit
}

function separatorOf(given: Arguments): string | undefined {
  const separator = given.positional[0] ?? given.named.get("sep") ?? NONE
  if (separator instanceof None) return undefined
  if (onlyText(separator).value === "") throw new TemplateError("empty separator")
  return onlyText(separator).value
}

function split(self: Text, given: Arguments): Text[] {
  const limit = limitOf(given)
  const separator = separatorOf(given)
  const parts: Text[] = []
  let at = 0
  if (separator === undefined) {
    let rest = strip(self, undefined, true, false)
    while (rest.length > 0) {
      const end = rest.value.search(SPACE)
      if (end < 0 || parts.length === limit) {
        parts.push(rest)
        break
      }
      parts.push(rest.slice(0, end))
      rest = strip(rest.slice(end, rest.length), undefined, true, false)
      spend(1)
    }
    return parts
  }
  for (const found of occurrences(self.value, separator)) {
    if (parts.length === limit) break
    spend(1)
    parts.push(self.slice(at, found))
    at = found + separator.length
  }
  parts.push(self.slice(at, self.length))
  return parts
}

function rsplit(self: Text, given: Arguments): Text[] {
  const limit = limitOf(given)
  const separator = separatorOf(given)
  if (separator === undefined || limit === Number.POSITIVE_INFINITY) return split(self, given)
  const parts: Text[] = []
  let end = self.length
  while (parts.length < limit) {
    spend(1)
    const found =
      end < separator.length ? -1 : self.value.lastIndexOf(separator, end - separator.length)
    if (found < 0) break
    parts.unshift(self.slice(found + separator.length, end))
    end = found
  }
  parts.unshift(self.slice(0, end))
  return parts
}

function lines(self: Text): Text[] {
  const parts: Text[] = []
  let at = 0
  for (const match of self.value.matchAll(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/g)) {
    spend(1)
    parts.push(self.slice(at, match.index))
    at = match.index + match[0].length
  }
  if (at < self.length) parts.push(self.slice(at, self.length))
  return parts
}

function partition(self: Text, separator: string, fromRight: boolean): Tuple {
  if (separator === "") throw new TemplateError("empty separator")
  const at = fromRight ? self.value.lastIndexOf(separator) : self.value.indexOf(separator)
  const empty = new Text("")
  if (at < 0) return new Tuple(fromRight ? [empty, empty, self] : [self, empty, empty])
  const end = at + separator.length
  return new Tuple([self.slice(0, at), self.slice(at, end), self.slice(end, self.length)])
}

export function replace(self: Text, old: Text, by: Text, given: Arguments): Text {
  const count = given.positional[2] ?? given.named.get("count") ?? -1
  const limit = typeof count === "number" && count >= 0 ? count : Number.POSITIVE_INFINITY
  const found = old.value === "" ? betweenAll(self.value) : occurrences(self.value, old.value)
  const out = new TextBuilder()
  let at = 0
  let done = 0
  for (const start of found) {
    if (done++ >= limit) break
    spend(1)
    out.add(self.slice(at, start))
    out.add(by)
    at = start + old.length
  }
  out.add(self.slice(at, self.length))
  return out.done()
}

function* betweenAll(value: string): Generator<number> {
  for (let at = 0; at <= value.length; at++) yield at
}

function position(self: Text, at: number): number {
  return at < 0 ? -1 : characters(self.slice(0, at)).length
}

function index(self: Text, part: string): number {
  const at = self.value.indexOf(part)
  if (at < 0) throw new TemplateError("substring not found")
  return position(self, at)
}

/** `'{} of {name}'.format(…)`, with the printf-like part of format specifications. */
function format(self: Text, { positional, named }: Arguments): Text {
  const out = new TextBuilder()
  let at = 0
  let next = 0
  for (const match of self.value.matchAll(/\{\{|\}\}|\{(\w*)(?:!([rs]))?(?::([^{}]*))?\}/g)) {
    out.add(self.slice(at, match.index))
    at = match.index + match[0].length
    const [all, name, conversion, style] = match
    if (name === undefined) {
      out.add(new Text(all[0]!))
      continue
    }
    const value = /^\d*$/.test(name)
      ? positional[name === "" ? next++ : Number(name)]
      : named.get(name)
    if (value === undefined) throw new TemplateError(`format() has no argument for ${all}`)
    const shown = conversion === "r" ? repr(value) : print(value)
    out.add(
      style
        ? printf(new Text(`%${printfStyle(style)}`), style.match(/[dfxX]$/) ? value : shown)
        : shown,
    )
  }
  out.add(self.slice(at, self.length))
  return out.done()
}

// '<8' is printf's '-8', '>8' its '8'; a missing letter is 's'.
function printfStyle(style: string): string {
  const spelled = style.replace(/^</, "-").replace(/^>/, "")
  return /[sdfxX]$/.test(spelled) ? spelled : `${spelled}s`
}
