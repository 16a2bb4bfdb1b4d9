// Widths of 1. A matrix of one column would be a vector, which no product reads, and a width may come of many fields, each of which its
// architecture reads by itself. Which one it was is found by asking what the model would be with 2 in its place.

import { OneColumn } from "../compiler/graph/builder.ts"
import type { Graph } from "../compiler/graph/graph.ts"
import { type ArchitectureName, architectures } from "./architectures.ts"
import type { Fields } from "./fields.ts"
import { isObject } from "./folder.ts"
import { decoder } from "./layers.ts"

/** @throws `model_broken` where a matrix would have one column, naming the field that says so */
export function graphOrWhy(
  architecture: ArchitectureName,
  fields: Fields,
  graphOf: () => Graph,
): Graph {
  try {
    return graphOf()
  } catch (error) {
    if (!(error instanceof OneColumn)) throw error
    const { weight: matrix } = error
    for (const { of, name, wider } of widened(fields))
      if (widens(architecture, wider, matrix))
        throw of.wrong(name, `leaves ${matrix} one column; a width is 2 or more`)
    throw fields.wrong("hidden_size", `is too small: it leaves ${matrix} one column`)
  }
}

/** Whether the matrix would not have one column: a model that cannot be read for another reason says nothing of it. */
function widens(architecture: ArchitectureName, fields: Fields, matrix: string): boolean {
  try {
    decoder(architecture, architectures[architecture].read(fields))
  } catch (error) {
    return error instanceof OneColumn && error.weight !== matrix
  }
  return true
}

/** Each field that says 1, by its name in those that it is one of, and all fields with 2 in its place. */
function* widened(fields: Fields) {
  for (const [name, value] of Object.entries(fields.json)) {
    const wide = twoForOne(value)
    if (wide !== undefined) yield { of: fields, name, wider: fields.over({ [name]: wide }) }
    if (!isObject(value)) continue
    for (const [inner, its] of Object.entries(value)) {
      const wide = twoForOne(its)
      const whole = { ...value, [inner]: wide }
      if (wide !== undefined)
        yield { of: fields.object(name)!, name: inner, wider: fields.over({ [name]: whole }) }
    }
  }
}

/** Of a list, too, which is of layers. */
function twoForOne(value: unknown): unknown {
  if (value === 1) return 2
  return Array.isArray(value) && value.includes(1)
    ? value.map((each: unknown) => twoForOne(each) ?? each)
    : undefined
}
