// Schemas that have been compiled, kept for everybody who asks for the same, whether in a format, in a tool or in a check.
// What was refused is kept as well: asking again costs nothing. The one used longest ago is forgotten first.

import { type CompiledSchema, compileSchema, SchemaRefusal } from "../grammar/grammar.ts"
import type { ResponseFormat, SchemaVerdict, Tool } from "./conversation.ts"

const MOST = 256

export class CompiledSchemas {
  readonly #known = new Map<string, CompiledSchema | SchemaRefusal>()

  /** `lenient`: what cannot be enforced is left out. Throws a SchemaRefusal. */
  compile(schema: unknown, lenient: boolean): CompiledSchema {
    const exact = this.#outcome(schema, false)
    const outcome = lenient && exact instanceof SchemaRefusal ? this.#outcome(schema, true) : exact
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

  #outcome(schema: unknown, lenient: boolean): CompiledSchema | SchemaRefusal {
    const key = `${lenient} ${textOf(schema)}`
    const outcome = this.#known.get(key) ?? attempt(schema, lenient)
    this.#known.delete(key)
    this.#known.set(key, outcome)
    if (this.#known.size > MOST) this.#known.delete(this.#known.keys().next().value!)
    return outcome
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
export function formatSchema({ schema }: ResponseFormat): unknown {
  return schema === undefined ? { type: "object" } : schema
}

/** Text that tells values apart; integers beyond doubles and the absence of a bound included. */
export function textOf(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    if (typeof each === "string") return `"${each}` // so that no string looks like what follows
    return typeof each === "bigint" || each === Number.POSITIVE_INFINITY ? String(each) : each
  })
}

function attempt(schema: unknown, lenient: boolean): CompiledSchema | SchemaRefusal {
  try {
    return compileSchema(schema, { lenient, plainIntegers: true })
  } catch (error) {
    if (error instanceof SchemaRefusal) return error
    throw error
  }
}
