// Fields of a configuration, read strictly: a value of another type, a fraction where a count belongs, zero layers are
// found here, each in a sentence with the field's name. `null` counts as absent, as the files' writers mean it.

import type { Problem } from "../errors.ts"
import { isObject, type Json } from "./folder.ts"

/** Where the file has a field: what stands before all names, or of each all of it. */
type Place = string | ((name: string) => string)

export class Fields {
  readonly json: Json
  readonly #broken: (what: string) => Problem
  readonly #place: Place

  /** @param place what these fields are inside of, "rope_scaling." */
  constructor(json: Json, broken: (what: string) => Problem, place: Place = "") {
    this.json = json
    this.#broken = broken
    this.#place = place
  }

  /** The problem of a field. */
  wrong(name: string, what: string): Problem {
    return this.#broken(`${this.#placeOf(name)} ${what}`)
  }

  #placeOf(name: string): string {
    return typeof this.#place === "string" ? this.#place + name : this.#place(name)
  }

  has(name: string): boolean {
    return Object.hasOwn(this.json, name) && (this.json[name] ?? null) !== null
  }

  /** A whole number from `least` to `most`, which is what 32 bits hold unless said otherwise. */
  count(name: string, otherwise?: number, least = 1, most = 0x7fffffff): number {
    const value = this.#get(name, otherwise)
    if (typeof value !== "number" || !Number.isInteger(value))
      throw this.wrong(name, `is ${shown(value)}, not a whole number`)
    if (value < least || value > most)
      throw this.wrong(name, `is ${value}, not between ${least} and ${most}`)
    return value
  }

  /** A finite number greater than 0. */
  positive(name: string, otherwise?: number): number {
    const value = this.#get(name, otherwise)
    if (typeof value !== "number" || !Number.isFinite(value) || value <= 0)
      throw this.wrong(name, `is ${shown(value)}, not a number greater than 0`)
    return value
  }

  finite(name: string): number {
    const value = this.#get(name, undefined)
    if (typeof value !== "number" || !Number.isFinite(value))
      throw this.wrong(name, `is ${shown(value)}, not a number`)
    return value
  }

  /** A finite number from 0 on. */
  number(name: string): number {
    const value = this.#get(name, undefined)
    if (typeof value !== "number" || !Number.isFinite(value) || value < 0)
      throw this.wrong(name, `is ${shown(value)}, not a number from 0 on`)
    return value
  }

  flag(name: string, otherwise: boolean): boolean {
    const value = this.#get(name, otherwise)
    if (typeof value !== "boolean") throw this.wrong(name, `is ${shown(value)}, not true or false`)
    return value
  }

  text(name: string, otherwise?: string): string {
    const value = this.#get(name, otherwise)
    if (typeof value !== "string") throw this.wrong(name, `is ${shown(value)}, not a text`)
    return value
  }

  /** A whole number from 0 on, as large as it may be and still be exact: of bytes. */
  size(name: string): number {
    const value = this.#get(name, undefined)
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0)
      throw this.wrong(name, `is ${shown(value)}, not a number of bytes`)
    return value
  }

  /** A list of whole numbers from 0 on, at most `most` of them. */
  counts(name: string, most = SHORT): number[] {
    const value = this.#get(name, undefined)
    if (!isListOfCounts(value, most)) throw this.wrong(name, "is not a list of whole numbers")
    return value
  }

  /** A list of finite numbers greater than 0. */
  positives(name: string): number[] {
    const value = this.#get(name, undefined)
    const isPositive = (n: unknown) => typeof n === "number" && Number.isFinite(n) && n > 0
    if (Array.isArray(value) && value.every(isPositive)) return value
    throw this.wrong(name, "is not a list of numbers greater than 0")
  }

  /** A list of finite numbers from 0 on. */
  numbers(name: string): number[] {
    const value = this.#get(name, undefined)
    const isNumber = (n: unknown) => typeof n === "number" && Number.isFinite(n) && n >= 0
    if (Array.isArray(value) && value.every(isNumber)) return value
    throw this.wrong(name, "is not a list of numbers from 0 on")
  }

  /** A list of finite numbers, or lists of them within each other. */
  finites(name: string): number[] {
    const value = this.#get(name, undefined)
    const numbers: unknown = Array.isArray(value) ? value.flat(2) : undefined
    if (Array.isArray(numbers) && numbers.every((n) => Number.isFinite(n))) return numbers
    throw this.wrong(name, "is not a list of numbers")
  }

  texts(name: string): string[] {
    const value = this.#get(name, undefined)
    if (Array.isArray(value) && value.length > 0 && value.every((text) => typeof text === "string"))
      return value
    throw this.wrong(name, "is not a list of texts")
  }

  /** The same fields, and others where these say nothing. */
  with(others: Json): Fields {
    const absent = Object.entries(others).filter(([name]) => !this.has(name))
    const json = { ...this.json, ...Object.fromEntries(absent) }
    return new Fields(json, this.#broken, this.#place)
  }

  /** The same fields, and others instead of these where they say something. */
  over(others: Json): Fields {
    return new Fields({ ...this.json, ...others }, this.#broken, this.#place)
  }

  /** The same fields but for one. */
  without(name: string): Fields {
    const { [name]: _, ...json } = this.json
    return new Fields(json, this.#broken, this.#place)
  }

  /** An object's fields; nothing when it is absent. */
  object(name: string): Fields | undefined {
    if (!this.has(name)) return undefined
    const value = this.json[name]
    if (!isObject(value)) throw this.wrong(name, `is ${shown(value)}, not an object`)
    return new Fields(value, this.#broken, `${this.#placeOf(name)}.`)
  }

  /** The same fields, and those of an object among them where these say nothing; each is named as it stands. */
  withThoseOf(name: string): Fields {
    const inner = this.object(name)
    if (!inner) return this
    const placeOf = (field: string) => (this.has(field) ? this : inner).#placeOf(field)
    return new Fields(this.with(inner.json).json, this.#broken, placeOf)
  }

  /** The same fields, and some by other names that files give them, where these say nothing; each is named as it stands. */
  alsoCalled(names: Readonly<Record<string, string>>): Fields {
    const stored = (name: string) => names[name] ?? name
    const placeOf = (name: string) =>
      this.#placeOf(this.has(name) || !this.has(stored(name)) ? name : stored(name))
    const others = Object.entries(names).map(([name, other]) => [name, this.json[other]])
    return new Fields(this.with(Object.fromEntries(others)).json, this.#broken, placeOf)
  }

  /** Token ids: one number, a list of them, or none. */
  tokens(name: string, vocabulary: number): number[] {
    const ids = this.ids(name)
    const far = ids.find((id) => id >= vocabulary)
    if (far === undefined) return ids
    throw this.wrong(name, `holds ${far}, but the vocabulary has ${vocabulary} tokens`)
  }

  /** The same, whatever the vocabulary is. */
  ids(name: string): number[] {
    if (!this.has(name)) return []
    const value = this.json[name]
    return (Array.isArray(value) ? value : [value]).map((id: unknown) => {
      if (typeof id === "number" && Number.isInteger(id) && id >= 0) return id
      throw this.wrong(name, `holds ${shown(id)}, which is no token id`)
    })
  }

  #get(name: string, otherwise: unknown): unknown {
    if (this.has(name)) return this.json[name]
    if (otherwise === undefined) throw this.wrong(name, "is missing")
    return otherwise
  }
}

const SHORT = 16

/** A shape, or offsets: a short list, every entry exact. */
export function isListOfCounts(value: unknown, most = SHORT): value is number[] {
  return (
    Array.isArray(value) &&
    value.length <= most &&
    value.every((n) => typeof n === "number" && Number.isSafeInteger(n) && n >= 0)
  )
}

/** As the file has it: Python writes numbers that are not finite by their names (`parseJson` of folder.ts). */
function shown(value: unknown): string {
  const text = JSON.stringify(value).replace(/\{"__float__":"(-?\w+)"\}/g, "$1")
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}
