// Values as text by a format: printf's (`'%05.1f' % x`) and str.format's (`'{:>8,.2f}'.format(x)`), which are one `Format` with
// two spellings. The rules are Python's: docs.python.org/3/library/string.html#format-specification-mini-language and
// docs.python.org/3/library/stdtypes.html#printf-style-string-formatting.

import { spendOnCharacters, TemplateError } from "./meter.ts"
import { codePointCount, join, positionOf, Text, TextBuilder } from "./text.ts"
import {
  type Arguments,
  Dict,
  Float,
  floatText,
  numberOf,
  print,
  repr,
  Tuple,
  typeName,
  type Value,
} from "./values.ts"

interface Format {
  fill: string
  /** On the left, the right, in the middle; "=": its sign left and its digits right. Absent: as texts or numbers stand. */
  align?: string | undefined
  sign: string
  width: number
  /** Stands between groups of digits. */
  separator: string
  precision: number | undefined
  /** A letter; "": as the value prints. */
  kind: string
}

// A width begins with another digit than 0, which is a flag: else each of a thousand zeros could be either.
const CONVERSION = /%(?:\((\w+)\))?([-+ 0#]*)([1-9]\d*)?(?:\.(\d+))?([diuoxXeEfFgGcrs%])/g

/** `'%s of %d' % values`. */
export function printf(pattern: Text, values: Value): Text {
  const items = values instanceof Tuple ? values.items : [values]
  let next = 0
  spendOnCharacters(pattern.length)
  const out = new TextBuilder()
  let at = 0
  for (const match of pattern.value.matchAll(CONVERSION)) {
    out.add(pattern.slice(at, match.index))
    at = match.index + match[0].length
    const [, name, flags = "", width, precision, letter = ""] = match
    if (letter === "%") {
      out.add(new Text("%"))
      continue
    }
    const value = name && values instanceof Dict ? values.named(name) : items[next++]
    if (value === undefined) throw new TemplateError("not enough arguments for format string")
    out.add(converted(value, letter, flags, Number(width ?? 0), countOf(precision)))
  }
  out.add(pattern.slice(at, pattern.length))
  return out.done()
}

function countOf(digits: string | undefined): number | undefined {
  return digits === undefined ? undefined : Number(digits)
}

function converted(
  value: Value,
  letter: string,
  flags: string,
  width: number,
  precision: number | undefined,
): Text {
  const left = flags.includes("-")
  const plain = { fill: " ", align: left ? "<" : ">", sign: "", width, separator: "", precision }
  if ("crs".includes(letter)) {
    const text = letter === "r" ? repr(value) : print(value)
    return formatted(text, { ...plain, kind: "s" })
  }
  if (numberOf(value) === undefined) {
    throw new TemplateError(`%${letter} format: a number is required, not ${typeName(value)}`)
  }
  const isDecimal = "diu".includes(letter)
  const number = isDecimal && value instanceof Float ? Math.trunc(value.value) : value
  const sign = flags.includes("+") ? "+" : flags.includes(" ") ? " " : ""
  const zeros = flags.includes("0") && !left && { fill: "0", align: "=" }
  return formatted(number, { ...plain, ...zeros, sign, kind: isDecimal ? "d" : letter })
}

const FIELD = /\{\{|\}\}|\{(\w*)(?:!([rs]))?(?::([^{}]*))?\}|[{}]/g

/** `'{} of {name:>8}'.format(…)`. */
export function format(self: Text, { positional, named }: Arguments): Text {
  spendOnCharacters(self.length)
  const out = new TextBuilder()
  let at = 0
  let next = 0
  for (const match of self.value.matchAll(FIELD)) {
    out.add(self.slice(at, match.index))
    at = match.index + match[0].length
    const [all, name, conversion, specification = ""] = match
    if (all === "{{" || all === "}}") {
      out.add(new Text(all[0]!))
      continue
    }
    if (name === undefined) throw new TemplateError(`format() cannot read the field at ${all}`)
    const value = /^\d*$/.test(name)
      ? positional[name === "" ? next++ : Number(name)]
      : named.get(name)
    if (value === undefined) throw new TemplateError(`format() has no argument for ${all}`)
    const shown = conversion === "r" ? repr(value) : conversion === "s" ? print(value) : value
    out.add(specification === "" ? print(shown) : formatted(shown, specified(specification)))
  }
  out.add(self.slice(at, self.length))
  return out.done()
}

const SPECIFICATION =
  /^(?:(.)?([<>=^]))?([-+ ])?(0)?([1-9]\d*)?([,_])?(?:\.(\d+))?([bdeEfFgGosxX%])?$/su

function specified(specification: string): Format {
  const parts = SPECIFICATION.exec(specification)
  if (!parts) throw new TemplateError(`Invalid format specifier '${specification}'`)
  const [, fill, align, sign = "", zero, width, separator = "", precision, kind = ""] = parts
  return {
    fill: fill ?? zero ?? " ",
    align: align ?? (zero && "="),
    sign: sign === "-" ? "" : sign,
    width: Number(width ?? 0),
    separator,
    precision: countOf(precision),
    kind,
  }
}

function formatted(value: Value, form: Format): Text {
  if (value instanceof Text) return formattedText(value, form)
  const number = numberOf(value)
  if (number === undefined) {
    throw new TemplateError(`unsupported format string passed to ${typeName(value)}.__format__`)
  }
  const isNegative = number < 0 || Object.is(number, -0)
  const sign = isNegative && (number < 0 || value instanceof Float) ? "-" : form.sign
  const digits = grouped(digitsOf(value, Math.abs(number), form), form)
  if (form.align !== "=") return aligned(new Text(sign + digits), form, ">")
  return join([
    new Text(sign),
    aligned(new Text(digits), { ...form, width: form.width - sign.length }, "="),
  ])
}

function formattedText(value: Text, form: Format): Text {
  if (form.kind !== "" && form.kind !== "s") {
    throw new TemplateError(`Unknown format code '${form.kind}' for object of type 'str'`)
  }
  const end = form.precision === undefined ? undefined : positionOf(value.value, form.precision)
  const align = form.align === "=" ? "<" : form.align // a 0 before the width
  return aligned(end === undefined ? value : value.slice(0, end), { ...form, align }, "<")
}

function aligned(text: Text, { fill, align, width }: Format, usual: string): Text {
  const room = Math.max(0, width - codePointCount(text.value))
  const side = align ?? usual
  const left = side === "<" ? 0 : side === "^" ? Math.floor(room / 2) : room
  const filling = new Text(fill)
  return join([filling.repeated(left), text, filling.repeated(room - left)])
}

const RADIX: Readonly<Record<string, number>> = { b: 2, o: 8, x: 16, X: 16, d: 10 }

/** A number without its sign. */
function digitsOf(value: Value, size: number, { kind, precision }: Format): string {
  const isWhole = !(value instanceof Float)
  const radix = kind === "" && isWhole ? 10 : RADIX[kind]
  if (radix !== undefined) {
    if (!isWhole) {
      throw new TemplateError(`Unknown format code '${kind}' for object of type 'float'`)
    }
    const text =
      typeof value === "bigint" ? print(value).value.replace("-", "") : size.toString(radix)
    return kind === "X" ? text.toUpperCase() : text
  }
  if (!Number.isFinite(size)) return print(new Float(size)).value
  if (kind === "" && precision === undefined) return floatText(size)
  const text = floating(size, kind.toLowerCase(), Math.min(precision ?? 6, MAX_PRECISION))
  return kind === "E" || kind === "G" ? text.toUpperCase() : text
}

const MAX_PRECISION = 100 // JavaScript's own

function floating(size: number, kind: string, precision: number): string {
  switch (kind) {
    case "f":
      return fixed(size, precision)
    case "%":
      return `${fixed(size * 100, precision)}%`
    case "e":
      return exponential(size, precision)
    default:
      return general(size, Math.max(1, precision), kind === "")
  }
}

/** As many digits as asked for, without zeros at the end; `pointed`: at least one behind the point. */
function general(size: number, precision: number, pointed: boolean): string {
  const spelled = exponential(size, precision - 1)
  const exponent = Number(spelled.split("e")[1])
  const short = (digits: string) => (digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits)
  if (exponent < -4 || exponent >= precision - (pointed ? 1 : 0)) {
    return spelled.replace(/^[\d.]+/, short)
  }
  const digits = short(fixed(size, precision - 1 - exponent))
  return pointed && !digits.includes(".") ? `${digits}.0` : digits
}

function exponential(size: number, precision: number): string {
  return size.toExponential(precision).replace(/([-+])(\d)$/, "$10$2")
}

/** `digits` behind the point; a half goes to the even neighbour, where JavaScript goes up. */
export function fixed(size: number, digits: number): string {
  if (size >= 1e21) return BigInt(size).toString() + (digits > 0 ? `.${"0".repeat(digits)}` : "")
  // A double that is half of a digit has one digit more than asked for, and all of those that follow are 0.
  const all = size.toFixed(Math.min(MAX_PRECISION, digits + 30))
  const end = all.indexOf(".") + 1 + digits
  const isHalf = /^50*$/.test(all.slice(end))
  const down = all.slice(0, digits > 0 ? end : end - 1)
  return isHalf && Number(down.at(-1)) % 2 === 0 ? down : size.toFixed(digits)
}

function grouped(digits: string, { separator, kind }: Format): string {
  if (separator === "") return digits
  const size = "boxX".includes(kind) && kind !== "" ? 4 : 3
  const [, whole = "", rest = ""] = /^([0-9a-fA-F]+)(.*)$/s.exec(digits) ?? []
  const first = whole.length % size || size
  const parts = [whole.slice(0, first)]
  for (let at = first; at < whole.length; at += size) parts.push(whole.slice(at, at + size))
  return parts.join(separator) + rest
}
