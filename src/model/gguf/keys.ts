// The pairs of a GGUF file, read strictly: a value of another kind than is wanted is a fault, and any whole number will do for
// a count.

import type { Problem } from "../../errors.ts"
import { TextList } from "../text-list.ts"
import type { Value } from "./container.ts"

export class Keys {
  readonly #pairs: ReadonlyMap<string, Value>
  readonly #broken: (what: string) => Problem
  readonly #asked = new Set<string>()

  constructor(pairs: ReadonlyMap<string, Value>, broken: (what: string) => Problem) {
    this.#pairs = pairs
    this.#broken = broken
  }

  get names(): Iterable<string> {
    return this.#pairs.keys()
  }

  wrong(key: string, what: string): Problem {
    return this.#broken(`${key} ${what}`)
  }

  has(key: string): boolean {
    return this.#pairs.has(key)
  }

  /** The value of a key that nobody has asked for. */
  unread(key: string): Value | undefined {
    return this.#asked.has(key) ? undefined : this.#pairs.get(key)
  }

  text(key: string): string {
    const value = this.textIfThere(key)
    if (value === undefined) throw this.wrong(key, "is missing")
    return value
  }

  textIfThere(key: string): string | undefined {
    const value = this.#get(key)
    if (value === undefined || typeof value === "string") return value
    throw this.wrong(key, "is not a text")
  }

  flag(key: string, otherwise: boolean): boolean {
    const value = this.#get(key) ?? otherwise
    if (typeof value === "boolean") return value
    throw this.wrong(key, "is not true or false")
  }

  numberIfThere(key: string): number | undefined {
    const value = this.#get(key)
    if (value === undefined || (typeof value === "number" && Number.isFinite(value))) return value
    throw this.wrong(key, "is not a number")
  }

  countIfThere(key: string): number | undefined {
    const value = this.#get(key)
    if (value === undefined) return undefined
    if (typeof value === "number" && Number.isInteger(value) && value >= 0) return value
    throw this.wrong(
      key,
      Array.isArray(value)
        ? "differs from layer to layer, which is not read"
        : "is not a whole number from 0 on",
    )
  }

  /** Nothing also where the key has one number. */
  countsIfThere(key: string): readonly number[] | undefined {
    if (!Array.isArray(this.#pairs.get(key))) return undefined
    const list = this.numbersIfThere(key)!
    if (list.every((count) => Number.isInteger(count) && count >= 0)) return list
    throw this.wrong(key, "is not a list of whole numbers from 0 on")
  }

  count(key: string): number {
    const value = this.countIfThere(key)
    if (value === undefined) throw this.wrong(key, "is missing")
    return value
  }

  texts(key: string): TextList {
    const value = this.textsIfThere(key)
    if (value === undefined) throw this.wrong(key, "is missing")
    return value
  }

  textsIfThere(key: string): TextList | undefined {
    const value = this.#get(key)
    if (value === undefined || value instanceof TextList) return value
    throw this.wrong(key, "is not a list of strings")
  }

  numbersIfThere(key: string): readonly number[] | undefined {
    return this.#list(key, "number") as readonly number[] | undefined
  }

  /** Some files write them as 0 and 1. Nothing also where the key has one number. */
  flagsIfThere(key: string): readonly boolean[] | undefined {
    const value = this.#pairs.get(key)
    if (typeof value === "number") return undefined
    if (Array.isArray(value) && value.every((entry) => entry === 0 || entry === 1))
      return this.numbersIfThere(key)!.map((entry) => entry === 1)
    return this.#list(key, "boolean") as readonly boolean[] | undefined
  }

  #get(key: string): Value | undefined {
    this.#asked.add(key)
    return this.#pairs.get(key)
  }

  #list(key: string, type: "number" | "boolean"): readonly unknown[] | undefined {
    const value = this.#get(key)
    if (value === undefined) return undefined
    if (Array.isArray(value) && value.every((entry) => typeof entry === type)) return value
    throw this.wrong(key, `is not a list of ${type}s`)
  }
}

/** Files by Ollama's converter, and not by llama.cpp's, have this key (llama/compat and convert/convert.go of Ollama). */
export const isByOllama = (keys: Pick<Keys, "has">) => keys.has("tokenizer.ggml.add_unknown_token")

/** Of fields that were made of keys: whoever looks into the file finds nothing that is called as they are. */
export const inOtherWords = (broken: (what: string) => Problem) => (what: string) =>
  broken(`in transformers' words, ${what}`)

/** A tower and its projector, which belong to another file's text model. Older ones have no `general.type`. */
export const isMmproj = (keys: Keys) => keys.textIfThere("general.architecture") === "clip"
