// What JSON of a file must be like before anybody reads its members: a shape for each type, with a row for each member, which
// the compiler holds to the type. Files are sealed, so what is wrong here was written by something else than this version.

/** @throws Error that says where a value is not as it must be, for people */
export type Shape = (value: unknown, path: string) => void

/** A shape of values that a test tells apart. */
function shapeOf(what: string, holds: (value: unknown) => boolean): Shape {
  return (value, path) => {
    if (!holds(value))
      throw new Error(`${path} is ${value === undefined ? "missing" : `not ${what}`}`)
  }
}

export const text = shapeOf("a text", (value) => typeof value === "string")
export const number = shapeOf("a number", Number.isFinite)
export const count = shapeOf("a whole number", (n) => Number.isSafeInteger(n) && (n as number) >= 0)
export const positive = shapeOf("a number above 0", (n) => Number.isFinite(n) && (n as number) > 0)

export const isTrue = shapeOf("true", (value) => value === true)

export function oneOf(names: readonly (string | number)[]): Shape {
  return shapeOf(`one of ${names.join(", ")}`, (value) => names.includes(value as string))
}

export function absentOr(shape: Shape): Shape {
  return (value, path) => {
    if (value !== undefined) shape(value, path)
  }
}

const list = shapeOf("a list", Array.isArray)
const object = shapeOf("an object", (value) => typeof value === "object" && value !== null)

/** @param length absent: any */
export function listOf(shape: Shape, length?: number): Shape {
  return (value, path) => {
    list(value, path)
    const items = value as unknown[]
    if (length !== undefined && items.length !== length)
      throw new Error(`${path} does not have ${length} items`)
    for (let i = 0; i < items.length; i++) shape(items[i], `${path}[${i}]`)
  }
}

/** Members that no row names are nobody's business. */
export function record<T>(members: { [Name in keyof Required<T>]: Shape }): Shape {
  const shapes = Object.entries<Shape>(members)
  return (value, path) => {
    object(value, path)
    for (const [name, shape] of shapes)
      shape((value as Record<string, unknown>)[name], path === "" ? name : `${path}.${name}`)
  }
}
