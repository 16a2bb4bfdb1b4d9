// What a command was given: each option's text from the command line, a file of options or the environment, read as its row of the
// table says.

import type { Configured } from "./config-file.ts"
import { suggestion } from "./likely.ts"
import { allTables, type Option } from "./options.ts"
import { refuse } from "./values.ts"

export type Values<Table extends Record<string, Option>> = {
  [Name in keyof Table]: Read<Table[Name]> | Table[Name]["absent"]
}

type Read<Row extends Option> = Row extends { many: true }
  ? ReturnType<Row["read"]>[]
  : ReturnType<Row["read"]>

/** What the command line said of an option: a text, of one that may be given several times all of them, or true for a flag. */
export type Given = string | readonly string[] | true | undefined

export type Environment = Readonly<Record<string, string | undefined>>

/**
 * The values of a command's options.
 * @param given what the command line said, by option name
 * @param environment where an option is looked for that neither was given nor is configured, under `environmentName`; an empty
 * text is as none.
 * @param configured what a file of options says.
 */
export function readOptions<Table extends Record<string, Option>>(
  table: Table,
  given: Readonly<Record<string, Given>>,
  environment: Environment,
  configured: ReadonlyMap<string, Configured> = new Map(),
): Values<Table> {
  const values: Record<string, unknown> = {}
  for (const [name, option] of Object.entries(table)) {
    const typed = given[name]
    const { text, where } = configured.get(name) ?? inherited(name, environment)
    if (typed !== undefined) values[name] = readGiven(option, typed, name)
    else if (text !== undefined) values[name] = readGiven(option, text, where)
    else values[name] = option.absent
  }
  return values as Values<Table>
}

function readGiven(option: Option, given: NonNullable<Given>, where: string): unknown {
  const texts = (given === true ? ["true"] : [given].flat()) as readonly string[]
  const values = texts.map((text) => option.read(text, where))
  return option.many ? values : values[0]
}

function inherited(option: string, environment: Environment) {
  const where = environmentName(option)
  const text = environment[where]
  return { text: text && !isServiceLink(where, text) ? text : undefined, where }
}

/** Not options: where models are looked for. */
const OTHER_NAMES = ["SINTER_HOME"]

/**
 * A mistyped name must not be passed over. Every command knows the names of all.
 * @throws `option_invalid`
 */
export function assertKnownNames(environment: Environment): void {
  const names = allTables.flatMap((table) => Object.keys(table).map(environmentName))
  const known = new Set([...OTHER_NAMES, ...names])
  for (const [name, text = ""] of Object.entries(environment)) {
    if (!name.startsWith("SINTER_") || known.has(name) || isServiceLink(name, text)) continue
    refuse(name, `is the name of no option${suggestion(name, [...known]) || "."}`)
  }
}

/**
 * Where a service is called sinter or sinter-something, Kubernetes puts its addresses into the environment of every pod:
 * https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
 */
function isServiceLink(name: string, text: string): boolean {
  if (/^SINTER_(\w+_)?(SERVICE_(HOST|PORT\w*)|PORT_\d+_\w+)$/.test(name)) return true
  return /^SINTER_(\w+_)?PORT$/.test(name) && /^\w+:\/\//.test(text)
}

export function environmentName(option: string): string {
  return `SINTER_${option.slice(2).replaceAll("-", "_").toUpperCase()}`
}
