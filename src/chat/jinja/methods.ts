// Methods of Python's strings, lists and maps that templates call. Those that would change a list or a map are not here:
// what a template is given belongs to others.

import { format } from "./formatting.ts"
import { spend, spendOnCharacters, spendOnEach, spendOnSearch, TemplateError } from "./meter.ts"
import { slice } from "./slices.ts"
import {
  codePointCount,
  join as joinTexts,
  nextCodePoint,
  occurrences,
  previousCodePoint,
  replaceEach,
  Text,
  TextBuilder,
} from "./text.ts"
import {
  type Arguments,
  Callable,
  Dict,
  equal,
  isTrue,
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

/** The method `name` of `object`, bound to it, or a tuple's item of that name; undefined when there is none. */
export function method(object: Value, name: string): Value | undefined {
  if (object instanceof Text) return bound(STRING, object, name)
  if (object instanceof Dict) return bound(DICT, object, name)
  if (Array.isArray(object)) return bound(LIST, object, name)
  if (object instanceof Tuple) return object.named(name) ?? bound(LIST, object.items, name)
  return undefined
}

function bound<Of>(
  table: ReadonlyMap<string, Method<Of>>,
  self: Of,
  name: string,
): Callable | undefined {
  const body = table.get(name)
  return body && new Callable(name, (given) => body(self, given))
}

export const STRING: ReadonlyMap<string, Method<Text>> = new Map<string, Method<Text>>([
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
  ["startswith", (self, given) => affix(self, given, startsWith)],
  ["endswith", (self, given) => affix(self, given, endsWith)],
  ["split", (self, given) => split(self, given)],
  ["rsplit", (self, given) => rsplit(self, given)],
  [
    "splitlines",
    (self, given) =>
      lines(self, isTrue(given.positional[0] ?? given.named.get("keepends") ?? false)),
  ],
  ["partition", (self, given) => partition(self, text(given, 0).value, false)],
  ["rpartition", (self, given) => partition(self, text(given, 0).value, true)],
  ["replace", (self, given) => replace(self, text(given, 0), text(given, 1), given)],
  ["join", (self, given) => joinTexts(iterate(argument(given, 0)).map(onlyText), self)],
  ["find", (self, given) => position(self, given, find)],
  ["rfind", (self, given) => position(self, given, findLast)],
  ["index", (self, given) => found(position(self, given, find))],
  ["rindex", (self, given) => found(position(self, given, findLast))],
  ["count", (self, given) => count(within(self, given), text(given, 0).value)],
  ["center", (self, given) => justified(self, given, centered)],
  ["ljust", (self, given) => justified(self, given, () => 0)],
  ["rjust", (self, given) => justified(self, given, (room) => room)],
  ["zfill", (self, given) => zeroFilled(self, width(given))],
  ["isascii", (self) => matches(self, /^[\0-\x7f]*$/)],
  ["isdecimal", (self) => matches(self, /^\p{Nd}+$/u)],
  ["isdigit", (self) => matches(self, /^\p{Nd}+$/u)],
  ["isnumeric", (self) => matches(self, /^\p{N}+$/u)],
  ["isalpha", (self) => matches(self, /^\p{L}+$/u)],
  ["isalnum", (self) => matches(self, /^[\p{L}\p{N}]+$/u)],
  ["isspace", (self) => self.length > 0 && strip(self, undefined, true, true).length === 0],
  ["isupper", (self) => isCased(self, (value) => value.toUpperCase())],
  ["islower", (self) => isCased(self, (value) => value.toLowerCase())],
  ["istitle", (self) => matches(self, TITLE)],
  ["isidentifier", (self) => matches(self, /^[\p{XID_Start}_]\p{XID_Continue}*$/u)],
  ["isprintable", (self) => matches(self, /^(?: |[^\p{C}\p{Z}])*$/u)],
  ["expandtabs", expandTabs],
  ["format", format],
  ["format_map", (self, given) => format(self, { positional: [], named: namesOf(given) })],
])

export const LIST: ReadonlyMap<string, Method<readonly Value[]>> = new Map<
  string,
  Method<readonly Value[]>
>([
  [
    "count",
    (self, given) => iterate(self).filter((item) => equal(item, argument(given, 0))).length,
  ],
  [
    "index",
    (self, given) => {
      const at = iterate(self).findIndex((item) => equal(item, argument(given, 0)))
      if (at < 0) throw new TemplateError(`${repr(argument(given, 0)).value} is not in list`)
      return at
    },
  ],
  ["copy", (self) => [...iterate(self)]],
])

export const DICT: ReadonlyMap<string, Method<Dict>> = new Map<string, Method<Dict>>([
  [
    "get",
    (self, given) =>
      self.get(argument(given, 0)) ?? given.positional[1] ?? given.named.get("default") ?? NONE,
  ],
  ["items", items],
  ["keys", (self) => [...iterate(self)]],
  ["values", values],
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

function items(self: Dict): Tuple[] {
  spend(self.size)
  return Array.from(self.entries(), ([key, value]) => new Tuple([key, value]))
}

function values(self: Dict): Value[] {
  spend(self.size)
  return self.values()
}

// Python's str.isspace(); unlike JavaScript's it has the four separators of ASCII and no U+FEFF.
const SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/
const NO_SPACE = new RegExp(SPACE.source.replace("[", "[^"))

export function strip(self: Text, set: string | undefined, left: boolean, right: boolean): Text {
  const drops = set === undefined ? isSpace : isOneOf(set)
  const { value } = self
  let from = 0
  let to = value.length
  for (let next = 0; left && from < to; from = next) {
    next = nextCodePoint(value, from)
    if (!drops(value.slice(from, next))) break
    spendOnEach(1)
  }
  for (let next = 0; right && to > from; to = next) {
    next = previousCodePoint(value, to)
    if (!drops(value.slice(next, to))) break
    spendOnEach(1)
  }
  return self.slice(from, to)
}

function isSpace(character: string): boolean {
  return character === " " || character === "\n" || SPACE.test(character)
}

function isOneOf(characters: string): (character: string) => boolean {
  spendOnEach(characters.length)
  const set = new Set(characters)
  return (character) => set.has(character)
}

function title(self: Text): Text {
  return self.respelled((value) =>
    replaceEach(
      value,
      /\p{L}+/gu,
      (word) => (word[0] ?? "").toUpperCase() + word.slice(1).toLowerCase(),
    ),
  )
}

export function capitalize(self: Text): Text {
  return self.respelled((value) => (value[0] ?? "").toUpperCase() + value.slice(1).toLowerCase())
}

function swapCase(value: string): string {
  return replaceEach(value, /\p{L}/gu, (letter) =>
    letter === letter.toUpperCase() ? letter.toLowerCase() : letter.toUpperCase(),
  )
}

function matches(self: Text, pattern: RegExp): boolean {
  spendOnCharacters(4 * self.length) // classes of Unicode are looked up
  return pattern.test(self.value)
}

export function isCased({ value }: Text, change: (value: string) => string): boolean {
  spendOnCharacters(4 * value.length)
  return value === change(value) && value.toUpperCase() !== value.toLowerCase()
}

function startsWith(self: Text, prefix: string): boolean {
  spendOnCharacters(Math.min(prefix.length, self.length))
  return self.value.startsWith(prefix)
}

function endsWith(self: Text, suffix: string): boolean {
  spendOnCharacters(Math.min(suffix.length, self.length))
  return self.value.endsWith(suffix)
}

function removePrefix(self: Text, prefix: string): Text {
  return startsWith(self, prefix) ? self.slice(prefix.length, self.length) : self
}

function removeSuffix(self: Text, suffix: string): Text {
  return endsWith(self, suffix) ? self.slice(0, self.length - suffix.length) : self
}

function affix(self: Text, given: Arguments, test: typeof startsWith): boolean {
  const parts = argument(given, 0)
  const part = within(self, given)
  if (!(parts instanceof Tuple)) return test(part, onlyText(parts).value)
  return iterate(parts).some((one) => test(part, onlyText(one).value))
}

/** What is searched of a text: from the second argument up to the third, as a slice has them. */
function within(self: Text, { positional: [, start, stop] }: Arguments): Text {
  if (start === undefined) return self
  return slice(self, { start, stop, step: undefined }) as Text
}

function find(self: Text, part: string): number {
  spendOnSearch(self.length, part.length)
  return self.value.indexOf(part)
}

function findLast(self: Text, part: string): number {
  spendOnSearch(self.length, part.length)
  return self.value.lastIndexOf(part)
}

function count({ value }: Text, part: string): number {
  let total = 0
  for (const _ of part === "" ? betweenAll(value) : occurrences(value, part)) {
    spend(1)
    total++
  }
  return total
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
  if (separator === undefined) return words(self, limit)
  const parts: Text[] = []
  let at = 0
  for (const start of occurrences(self.value, separator)) {
    if (parts.length === limit) break
    parts.push(self.slice(at, start))
    at = start + separator.length
  }
  parts.push(self.slice(at, self.length))
  return parts
}

/** What stands between white space; of more than `limit` + 1 parts the last one has the rest. */
function words(self: Text, limit: number): Text[] {
  spendOnCharacters(2 * self.length)
  const parts: Text[] = []
  const [word, space] = [new RegExp(NO_SPACE, "g"), new RegExp(SPACE, "g")]
  const next = (pattern: RegExp, from: number) => {
    pattern.lastIndex = from
    return pattern.exec(self.value)?.index ?? self.length
  }
  for (let at = next(word, 0); at < self.length; ) {
    const end = parts.length === limit ? self.length : next(space, at)
    parts.push(self.slice(at, end))
    at = next(word, end)
  }
  return parts
}

function rsplit(self: Text, given: Arguments): Text[] {
  const limit = limitOf(given)
  const separator = separatorOf(given)
  if (limit === Number.POSITIVE_INFINITY) return split(self, given)
  if (separator === undefined) return lastWords(self, limit)
  spendOnSearch(self.length, separator.length)
  const parts: Text[] = [] // from the right
  let end = self.length
  while (parts.length < limit) {
    const start =
      end < separator.length ? -1 : self.value.lastIndexOf(separator, end - separator.length)
    if (start < 0) break
    parts.push(self.slice(start + separator.length, end))
    end = start
  }
  parts.push(self.slice(0, end))
  return parts.reverse()
}

/** What stands between white space; of more than `limit` + 1 parts the first one has the rest. */
function lastWords(self: Text, limit: number): Text[] {
  const parts: Text[] = [] // from the right
  let rest = strip(self, undefined, false, true)
  while (rest.length > 0) {
    let start = parts.length === limit ? 0 : rest.length
    while (start > 0 && !isSpace(rest.value[start - 1]!)) start--
    spendOnEach(rest.length - start)
    parts.push(rest.slice(start, rest.length))
    rest = strip(rest.slice(0, start), undefined, false, true)
  }
  return parts.reverse()
}

export function lines(self: Text, keepEnds = false): Text[] {
  spendOnCharacters(self.length)
  const parts: Text[] = []
  let at = 0
  for (const match of self.value.matchAll(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/g)) {
    const end = match.index + match[0].length
    parts.push(self.slice(at, keepEnds ? end : match.index))
    at = end
  }
  if (at < self.length) parts.push(self.slice(at, self.length))
  return parts
}

function partition(self: Text, separator: string, fromRight: boolean): Tuple {
  if (separator === "") throw new TemplateError("empty separator")
  const at = fromRight ? findLast(self, separator) : find(self, separator)
  const empty = new Text("")
  if (at < 0) return new Tuple(fromRight ? [empty, empty, self] : [self, empty, empty])
  const end = at + separator.length
  return new Tuple([self.slice(0, at), self.slice(at, end), self.slice(end, self.length)])
}

export function replace(self: Text, old: Text, by: Text, given: Arguments): Text {
  const count = given.positional[2] ?? given.named.get("count") ?? -1
  const limit = typeof count === "number" && count >= 0 ? count : Number.POSITIVE_INFINITY
  const starts = old.value === "" ? betweenAll(self.value) : occurrences(self.value, old.value)
  const out = new TextBuilder()
  let at = 0
  let done = 0
  for (const start of starts) {
    if (done++ >= limit) break
    out.add(self.slice(at, start))
    out.add(by)
    at = start + old.length
  }
  out.add(self.slice(at, self.length))
  return out.done()
}

function* betweenAll(value: string): Generator<number> {
  for (let at = 0; at < value.length; at = nextCodePoint(value, at)) yield at
  yield value.length
}

/** Where a search finds the first argument, in characters of the whole text; -1 where it does not. */
function position(self: Text, given: Arguments, search: typeof find): number {
  const part = within(self, given)
  const at = search(part, text(given, 0).value)
  if (at < 0) return -1
  const start = typeof given.positional[1] === "number" ? given.positional[1] : 0
  const before = start < 0 ? Math.max(0, codePointCount(self.value) + start) : start
  return before + codePointCount(part.value.slice(0, at))
}

function found(at: number): number {
  if (at < 0) throw new TemplateError("substring not found")
  return at
}

function width(given: Arguments): number {
  const value = argument(given, 0)
  if (typeof value === "number") return value
  throw new TemplateError(`'${typeName(value)}' object cannot be interpreted as an integer`)
}

/** `left`: how much of the room stands on the text's left. */
function justified(
  self: Text,
  given: Arguments,
  left: (room: number, width: number) => number,
): Text {
  const fill = given.positional[1] === undefined ? new Text(" ") : text(given, 1)
  if (codePointCount(fill.value) !== 1) {
    throw new TemplateError("The fill character must be exactly one character long")
  }
  const room = Math.max(0, width(given) - codePointCount(self.value))
  const before = left(room, width(given))
  return joinTexts([fill.repeated(before), self, fill.repeated(room - before)])
}

/** Python puts the odd blank on the left when the width is odd. */
export function centered(room: number, width: number): number {
  return Math.floor(room / 2) + (room & width & 1)
}

/** Whose words begin with an upper letter and go on with lower ones. */
const TITLE = (() => {
  const [upper, lower] = ["[\\p{Uppercase}\\p{Lt}]", "\\p{Lowercase}"]
  const others = "[^\\p{Uppercase}\\p{Lt}\\p{Lowercase}]"
  return new RegExp(`^${others}*(?:${upper}${lower}*${others}+)*${upper}${lower}*${others}*$`, "u")
})()

function expandTabs(self: Text, given: Arguments): Text {
  const size = given.positional[0] ?? given.named.get("tabsize") ?? 8
  if (typeof size !== "number") throw new TemplateError("tabsize must be an integer")
  const out = new TextBuilder()
  let at = 0
  let column = 0
  for (const tab of occurrences(self.value, "\t")) {
    const piece = self.slice(at, tab)
    const line = Math.max(piece.value.lastIndexOf("\n"), piece.value.lastIndexOf("\r")) + 1
    column = (line > 0 ? 0 : column) + codePointCount(piece.value.slice(line))
    const room = size > 0 ? size - (column % size) : 0
    column += room
    out.add(piece)
    out.add(new Text(" ").repeated(room))
    at = tab + 1
  }
  out.add(self.slice(at, self.length))
  return out.done()
}

function namesOf(given: Arguments): ReadonlyMap<string, Value> {
  const dict = argument(given, 0)
  if (!(dict instanceof Dict)) throw new TemplateError("format_map() needs a mapping")
  spend(dict.size)
  return new Map(Array.from(dict.entries(), ([key, value]) => [print(key).value, value]))
}

function zeroFilled(self: Text, width: number): Text {
  const sign = /^[-+]/.test(self.value) ? 1 : 0
  const zeros = new Text("0").repeated(width - codePointCount(self.value))
  return joinTexts([self.slice(0, sign), zeros, self.slice(sign, self.length)])
}
