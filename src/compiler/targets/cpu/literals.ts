// How C is told a value, so that it reads exactly this one, and a struct, so that a reader sees which field is what.

/** Those that are undefined are left out. */
export type StructFields = Readonly<Record<string, string | number | undefined>>

/** An initialiser that names every field. */
export function initialiser(fields: StructFields): string {
  return `{${fieldTexts(fields).join(", ")}}`
}

/** The same over several lines, each of 100 columns where its fields allow; `indent`: of the line on which it begins. */
export function longInitialiser(fields: StructFields, indent: string): string {
  const lines: string[] = []
  for (const field of fieldTexts(fields)) {
    const line = lines.at(-1)
    const joined = `${line}, ${field}`
    if (line === undefined || indent.length + joined.length > 94) lines.push(field)
    else lines[lines.length - 1] = joined
  }
  return `{${lines.join(`,\n${indent} `)}}`
}

/** Lines: what the preprocessor knows. */
export function defines(values: StructFields): string[] {
  const given = Object.entries(values).filter(([, value]) => value !== undefined)
  return given.map(([name, value]) => `#define ${name} ${value}`)
}

function fieldTexts(fields: StructFields): string[] {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined)
  return given.length > 0 ? given.map(([name, value]) => `.${name} = ${value}`) : ["0"]
}

export const double = (x: number) => (Number.isInteger(x) ? `${x}.0` : String(x))
export const float = (x: number) => `(float)${double(x)}`
