// What a command was given: each option's text from the command line or the environment, read as its row of the table says.

import { type Option, unbuilt } from "./options.ts"
import { refuse } from "./values.ts"

export type Values<Table extends Record<string, Option>> = {
  [Name in keyof Table]: ReturnType<Table[Name]["read"]> | Table[Name]["absent"]
}

/**
 * The values of a command's options.
 * @param given what the command line said, by option name: a text, or true for a flag.
 * @param environment where an option that was not given is looked for, under `environmentName`; an empty text is as none.
 */
export function readOptions<Table extends Record<string, Option>>(
  table: Table,
  given: Readonly<Record<string, string | true | undefined>>,
  environment: Readonly<Record<string, string | undefined>>,
): Values<Table> {
  const values: Record<string, unknown> = {}
  for (const [name, option] of Object.entries(table)) {
    const typed = given[name]
    const inherited = environment[environmentName(name)]
    if (typed !== undefined) values[name] = option.read(typed === true ? "true" : typed, name)
    else if (inherited) values[name] = option.read(inherited, environmentName(name))
    else values[name] = option.absent
    if (values[name] !== option.absent) refuseUnbuilt(name, values[name])
  }
  return values as Values<Table>
}

export function environmentName(option: string): string {
  return `SINTER_${option.slice(2).replaceAll("-", "_").toUpperCase()}`
}

function refuseUnbuilt(name: string, value: unknown): void {
  const row = unbuilt[name]
  if (row?.refused(value)) refuse(name, row.because)
  if (name !== "--overrides") return
  for (const [field, inner] of Object.entries(value as object)) {
    refuseUnbuilt(`${name} ${field}`, inner)
  }
}
