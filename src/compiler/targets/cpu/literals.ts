// How C is told a value, so that it reads exactly this one, and a struct, so that a reader sees which field is what.

import { type GroupCodec, groupCodecs, isGroupCodec } from "../../../runtime/format.ts"
import type { Panels } from "./kept.ts"

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

function fieldTexts(fields: StructFields): string[] {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined)
  return given.length > 0 ? given.map(([name, value]) => `.${name} = ${value}`) : ["0"]
}

/** Of a struct panels, without what is zero; how many columns it has may be an expression. */
export function panelsText({
  rows,
  columns,
  pair,
  codec,
}: Omit<Panels, "columns"> & { columns: number | string }): string {
  const shape = { rows: rows || undefined, columns, pair: pair || undefined }
  if (!isGroupCodec(codec)) return initialiser({ ...shape, number: codec.toUpperCase() })
  const { bits, group, zero, minimums, dtype, sixBits, floats, block }: GroupCodec =
    groupCodecs[codec]
  return initialiser({
    ...shape,
    grouped: 1,
    codes: floats ? "CODES_E4M3" : `CODES_${sixBits ? 6 : bits}`,
    group,
    zero: zero || undefined,
    minimums: minimums ? 1 : undefined,
    block,
    number: dtype.toUpperCase(),
  })
}

export const double = (x: number) => (Number.isInteger(x) ? `${x}.0` : String(x))
export const float = (x: number) => `(float)${double(x)}`
