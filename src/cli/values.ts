// How the text of an option becomes a value, or a sentence that says what it should have been. Strict on purpose: no
// rounding, no trimming of numbers, no yes/no/on/off. Each reader is a function of the text and of the option's name.

import { problem } from "../errors.ts"
import { type DeviceRequest, deviceNames } from "../runtime/devices.ts"

/** Reads the text given for `option`; throws `option_invalid`. */
export type Reader<T> = (text: string, option: string) => T

export function refuse(option: string, problemText: string): never {
  throw problem("option_invalid", { option, problem: problemText })
}

export const text: Reader<string> = (given, option) =>
  given === "" ? refuse(option, "expected a text, got nothing.") : given

/** Of a server. */
export const address: Reader<string> = (given, option) =>
  /^https?:/.test(given) && URL.canParse(given)
    ? given
    : refuse(option, `expected an address like http://127.0.0.1:8000, got ${quoted(given)}.`)

export const flag: Reader<boolean> = (given, option) => {
  if (given === "true" || given === "1") return true
  if (given === "false" || given === "0") return false
  return refuse(option, `expected true or false, got ${quoted(given)}.`)
}

export function integer(least: number, most = Number.MAX_SAFE_INTEGER): Reader<number> {
  const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `${least} to ${most}`
  return (given, option) => {
    const value = /^-?\d+$/.test(given) ? Number(given) : Number.NaN
    if (value >= least && value <= most) return value
    return refuse(option, `expected a whole number, ${range}, got ${quoted(given)}.`)
  }
}

export function decimal(least: number, most: number): Reader<number> {
  return (given, option) => {
    const value = /^-?\d*\.?\d+$/.test(given) ? Number(given) : Number.NaN
    if (value >= least && value <= most) return value
    return refuse(option, `expected a number from ${least} to ${most}, got ${quoted(given)}.`)
  }
}

export const seed: Reader<bigint> = (given, option) => {
  const value = /^-?\d{1,20}$/.test(given) ? BigInt(given) : undefined
  if (value !== undefined && value >= -(2n ** 63n) && value < 2n ** 64n)
    return BigInt.asUintN(64, value)
  return refuse(option, `expected a whole number of 64 bits, got ${quoted(given)}.`)
}

export function oneOf<const T extends string>(...names: readonly T[]): Reader<T> {
  return (given, option) =>
    names.find((name) => name === given) ??
    refuse(option, `expected one of ${names.join(", ")}, got ${quoted(given)}.`)
}

/** Texts separated by commas. */
export const list: Reader<string[]> = (given, option) => {
  const texts = given.split(",")
  if (texts.includes("")) return refuse(option, "an entry of the list is empty.")
  return texts
}

/** Texts by names, as NAME=TEXT with commas between them; each name once. */
export const namedList: Reader<{ name: string; text: string }[]> = (given, option) => {
  const entries = list(given, option).map((entry) => {
    const [, name, text] = /^([^=]+)=(.+)$/.exec(entry) ?? []
    if (name && text) return { name, text }
    return refuse(option, `expected NAME=ADAPTER, got ${quoted(entry)}.`)
  })
  if (new Set(entries.map(({ name }) => name)).size < entries.length)
    refuse(option, `expected each name once, got ${quoted(given)}.`)
  return entries
}

/** An entry of `variantsOf`, and what stood behind its name. */
export interface Variants<T extends string> {
  name: T
  variants: string[]
}

/**
 * Some of these, separated by commas, and `NAME:VARIANT` where a name has such; those of one name become one entry.
 * @param variants what they look like
 */
export function variantsOf<const T extends string>(
  names: readonly T[],
  variants: Partial<Record<T, { pattern: RegExp; example: string }>>,
): Reader<Variants<T>[]> {
  const known = oneOf(...names)
  const read = (entry: string, option: string): Variants<T> => {
    const colon = entry.indexOf(":")
    const name = names.find((name) => name === entry.slice(0, colon))
    const kind = name && variants[name]
    if (!name || !kind) return { name: known(entry, option), variants: [] }
    const variant = entry.slice(colon + 1)
    if (kind.pattern.test(variant)) return { name, variants: [variant] }
    return refuse(
      option,
      `expected an architecture behind ${name}: like ${name}:${kind.example}, got ${quoted(entry)}.`,
    )
  }
  return (given, option) => {
    const entries = list(given, option)
    if (new Set(entries).size !== entries.length)
      return refuse(option, `expected each entry once, got ${quoted(given)}.`)
    const own = entries.map((entry) => read(entry, option))
    return [...new Set(own.map(({ name }) => name))].map((name) => ({
      name,
      variants: own.filter((each) => each.name === name).flatMap(({ variants }) => variants),
    }))
  }
}

/** Bytes: a whole number, or one with KiB, MiB or GiB behind it. */
export const bytes: Reader<number> = (given, option) => {
  const [, digits, unit = ""] = /^(\d{1,15})(KiB|MiB|GiB)?$/.exec(given) ?? []
  const value = Number(digits) * UNITS[unit as keyof typeof UNITS]
  if (value >= 1 && value <= Number.MAX_SAFE_INTEGER) return value
  return refuse(option, `expected bytes like 65536, 512KiB, 2MiB or 1GiB, got ${quoted(given)}.`)
}

const UNITS = { "": 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 }

/** Milliseconds, from days or hours. */
export const age: Reader<number> = (given, option) => {
  const [, digits, unit] = /^(\d{1,6})([dh])$/.exec(given) ?? []
  if (digits) return Number(digits) * (unit === "d" ? 24 : 1) * 3_600_000
  return refuse(option, `expected days or hours like 30d or 12h, got ${quoted(given)}.`)
}

/** NAME or NAME:ID. */
export const device: Reader<DeviceRequest> = (given, option) => {
  const [, name, id = "0"] = /^([a-z]+)(?::(\d{1,4}))?$/.exec(given) ?? []
  const known = [...deviceNames, "auto"] as const
  const kind = known.find((candidate) => candidate === name)
  if (kind) return { name: kind, id: Number(id) }
  return refuse(
    option,
    `expected NAME or NAME:ID with NAME one of ${known.join(", ")}, got ${quoted(given)}.`,
  )
}

/** A JSON list of strings, each of which `matches`; `what` names one entry in the refusal. */
export function jsonList(what: string, matches: RegExp, example: string): Reader<string[]> {
  return (given, option) => {
    const list = parsed(given)
    if (!Array.isArray(list) || list.some((entry) => typeof entry !== "string")) {
      return refuse(
        option,
        `expected a JSON list of strings like ${example}, got ${quoted(given)}.`,
      )
    }
    const odd = list.find((entry: string) => !matches.test(entry))
    if (odd !== undefined) refuse(option, `${quoted(odd)} is no ${what}; an example: ${example}.`)
    return list as string[]
  }
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

/** What was typed, on one line and not too long. */
export function quoted(given: string): string {
  const cut = given.length > 60 ? `${given.slice(0, 59)}…` : given
  return JSON.stringify(cut)
}
