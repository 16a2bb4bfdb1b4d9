// Schemas and languages that have been compiled, kept for everybody who asks for the same, whether in a format, in a tool or in a
// check. What was refused is kept as well: asking again costs nothing.

import {
  type CompiledSchema,
  compileLanguage,
  compileSchema,
  type Language,
  LanguageRefusal,
  type Part,
  type SchemaOptions,
  SchemaRefusal,
  type TextForm,
} from "../grammar/grammar.ts"
import { LruMap } from "../lru.ts"
import type { SchemaFormat, SchemaVerdict, Tool } from "./conversation.ts"

const MAX_KEPT = 256

/** Told what is compiled, by its text: `begin` may throw what refuses it. */
export interface Watch {
  begin(schema: string): void
  end(): void
}

/** What a value is held to beside its schema. */
type Held = Pick<SchemaOptions, "names" | "without">

export class CompiledSchemas {
  readonly #watch: Watch | undefined
  readonly #schemas = new LruMap<CompiledSchema | SchemaRefusal>(MAX_KEPT)
  readonly #languages = new LruMap<Part | LanguageRefusal>(MAX_KEPT)

  constructor(watch?: Watch) {
    this.#watch = watch
  }

  /** `lenient`: what cannot be enforced is left out. Throws a SchemaRefusal. */
  compile(schema: unknown, lenient: boolean, held: Held = {}): CompiledSchema {
    const exact = this.#outcome(schema, false, held)
    const isRefused = exact instanceof SchemaRefusal
    const outcome = lenient && isRefused ? this.#outcome(schema, true, held) : exact
    if (outcome instanceof SchemaRefusal) throw outcome
    return outcome
  }

  check(schema: unknown): SchemaVerdict {
    const exact = this.#outcome(schema, false)
    if (!(exact instanceof SchemaRefusal)) return { isUnsatisfiable: false, unenforced: [] }
    const { isUnsatisfiable, fault } = exact
    const lenient = isUnsatisfiable ? exact : this.#outcome(schema, true)
    return {
      isUnsatisfiable,
      unenforced: lenient instanceof SchemaRefusal ? [fault] : lenient.unenforced,
    }
  }

  /** Throws a LanguageRefusal. */
  language(language: Language, form: TextForm = "plain", without?: string): Part {
    const outcome = this.#languageOutcome(language, form, without)
    if (outcome instanceof LanguageRefusal) throw outcome
    return outcome
  }

  checkLanguage(language: Language): SchemaVerdict {
    const outcome = this.#languageOutcome(language, "plain")
    if (!(outcome instanceof LanguageRefusal)) return { isUnsatisfiable: false, unenforced: [] }
    const { isUnsatisfiable, message } = outcome
    return { isUnsatisfiable, unenforced: [{ pointer: "", keyword: "", reason: message }] }
  }

  #languageOutcome(language: Language, form: TextForm, without?: string): Part | LanguageRefusal {
    const text = `${form} ${textOf([language, without])}`
    const compile = () => refusedOr(LanguageRefusal, () => compileLanguage(language, form, without))
    return this.#languages.get(text) ?? this.#languages.put(text, this.#watched(text, compile))
  }

  #outcome(schema: unknown, lenient: boolean, held: Held = {}): CompiledSchema | SchemaRefusal {
    const text = textOf(schema)
    const options = { ...held, lenient, portable: true }
    const compile = () => refusedOr(SchemaRefusal, () => compileSchema(schema, options))
    const key = `${lenient} ${textOf(held)} ${text}`
    return this.#schemas.get(key) ?? this.#schemas.put(key, this.#watched(text, compile))
  }

  #watched<Outcome>(text: string, compile: () => Outcome): Outcome {
    this.#watch?.begin(text)
    const outcome = compile()
    this.#watch?.end()
    return outcome
  }
}

function refusedOr<Value, Refusal extends Error>(
  kind: abstract new (...args: never[]) => Refusal,
  make: () => Value,
): Value | Refusal {
  try {
    return make()
  } catch (error) {
    if (error instanceof kind) return error
    throw error
  }
}

/**
 * A tool without a schema takes no arguments; what is no object cannot be a tool's arguments, whatever its schema says. A
 * type that JSON Schema does not know stays beside it, so that it is told.
 */
export function argumentsSchema({ parameters }: Partial<Tool>): unknown {
  if (parameters === undefined || parameters === null) {
    return { type: "object", additionalProperties: false }
  }
  if (typeof parameters !== "object") return parameters
  const { type = "object" } = parameters as { type?: unknown }
  return { ...parameters, type: [type].flat().includes("object") ? "object" : ["object", type] }
}

/** A format without a schema is any object. */
export function formatSchema({ schema }: SchemaFormat): unknown {
  return schema === undefined ? { type: "object" } : schema
}

/** Text that tells values apart; integers beyond doubles and the absence of a bound included. */
export function textOf(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    if (typeof each === "string") return `"${each}` // so that no string looks like what follows
    return typeof each === "bigint" || each === Number.POSITIVE_INFINITY ? String(each) : each
  })
}
