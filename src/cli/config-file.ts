// A file of options, for services: a line each, `name = value`, named as on the command line without the dashes; `model = …` as
// often as there are models; a flag may stand alone; a line that begins with # is a comment. A value is all that stands behind
// the sign, without quotes or escapes.

import { readFileSync } from "node:fs"
import { unreadable } from "../errors.ts"
import { suggestion } from "./likely.ts"
import type { Option } from "./options.ts"
import { quoted, refuse } from "./values.ts"

/** A text that stands in a file. */
export interface Configured {
  text: string
  /** "FILE:LINE name", for refusals. */
  where: string
}

export interface ConfigFile {
  models: readonly string[]
  /** By option name. */
  values: ReadonlyMap<string, Configured>
}

const MAX_SIZE = 1 << 20 // characters

/** @throws `option_invalid` with the line of what is wrong */
export function readConfigFile(path: string, table: Readonly<Record<string, Option>>): ConfigFile {
  const models: string[] = []
  const values = new Map<string, Configured>()
  for (const [index, line] of textOf(path).split(/\r?\n/).entries()) {
    const where = `${path}:${index + 1}`
    const entry = entryIn(line, where)
    if (!entry) continue
    const { name, text = "true" } = entry
    if (/^(["']).*\1$/s.test(text))
      refuse(`${where} ${name}`, "takes its value without quotes; leave them out.") // it may be a secret
    if (name === "model") {
      if (!entry.text) refuse(`${where} ${name}`, "needs a value: model = MODEL.")
      models.push(text)
      continue
    }
    const option = optionOf(name, table, where)
    if (values.has(option)) refuse(`${where} ${name}`, "is given twice; give it once.")
    if (entry.text === undefined && table[option]!.value)
      refuse(`${where} ${name}`, `needs a value: ${name} = ${table[option]!.value}.`)
    values.set(option, { text, where: `${where} ${name}` })
  }
  return { models, values }
}

function textOf(path: string): string {
  let text = ""
  try {
    text = readFileSync(path, "utf8")
  } catch (error) {
    refuse("--config", `${unreadable(path, error)}.`)
  }
  if (text.length > MAX_SIZE) refuse("--config", `${path} is larger than any such file.`)
  return text.replace(/^\uFEFF/, "")
}

function entryIn(line: string, where: string): { name: string; text?: string } | undefined {
  const trimmed = line.trim()
  if (trimmed === "" || trimmed.startsWith("#")) return undefined
  const [, name, sign, text = ""] = /^(?:--)?([a-z][a-z-]*)\s*(?:(=)\s*(.*))?$/s.exec(trimmed) ?? []
  if (name === undefined) return refuse(where, `expected name = value, got ${quoted(trimmed)}.`)
  return sign ? { name, text } : { name }
}

function optionOf(name: string, table: Readonly<Record<string, Option>>, where: string): string {
  const given = `--${name}`
  const option = Object.keys(table).find((each) => each === given || table[each]!.also === given)
  if (option === "--config") refuse(`${where} ${name}`, "a file of options names no other.")
  const names = ["model", ...Object.keys(table).map((each) => each.slice(2))]
  return option ?? refuse(`${where} ${name}`, `is no option${suggestion(name, names) || "."}`)
}
