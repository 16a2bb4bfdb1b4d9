// Tools of three forms become functions for the model: functions as they are, free-form tools as functions of one text, and
// those of a namespace under a joined name. What a call is in the client's own words is looked up here.

import { createHash } from "node:crypto"
import type { Tool, ToolChoice } from "../../../chat/conversation.ts"
import { problem } from "../../../errors.ts"
import { fault, mustBe, show } from "../../check.ts"
import { isMembers, type Json, type Members, withFloats } from "../../json.ts"
import { assertNames, assertOfObjects, known } from "../chat/tools.ts"

/** Of what no schema has looked at. */
export function membersOf(item: Json, path: string): Members {
  if (isMembers(item)) return item
  throw mustBe(path, "an object", item)
}

/** A tool in the client's words. */
export interface Callable {
  kind: "function" | "custom"
  name: string
  namespace?: string
  tool: Tool
}

export interface Callables {
  all: readonly Callable[]
  /** By the name that the model calls it. */
  byName: ReadonlyMap<string, Callable>
  /** Tools that OpenAI runs, which are not offered. */
  ignored: readonly string[]
}

const HOSTED = /^(web_search|tool_search|image_generation|local_shell)/

export function readCallables(given: readonly Members[]): Callables {
  const all: Callable[] = []
  const ignored: string[] = []
  for (const [index, tool] of given.entries()) {
    const path = `tools[${index}]`
    if (typeof tool.type === "string" && HOSTED.test(tool.type)) ignored.push(tool.type)
    else all.push(...readTool(tool, path))
  }
  if (ignored.length > 0 && all.length === 0) {
    const what = `tools are of the type ${ignored[0]} alone, which OpenAI runs; this server has none.`
    throw problem("unsupported_value", { problem: what }, "tools")
  }
  const tools = all.map(({ tool }) => tool)
  assertNames(tools, "name")
  const byName = new Map(all.map((each) => [each.tool.name, each]))
  return { all, byName, ignored }
}

function readTool(tool: Members, path: string): Callable[] {
  switch (tool.type) {
    case "function":
      return [readFunction(tool, path)]
    case "custom":
      return [readCustom(tool, path)]
    case "namespace": {
      const namespace = nameOf(tool, path)
      if (!Array.isArray(tool.tools)) throw mustBe(`${path}.tools`, "a list", tool.tools ?? null)
      return (tool.tools as Members[]).flatMap((inner, index) => {
        const place = `${path}.tools[${index}]`
        if (inner?.type === "namespace") throw fault(`${place}.type`, "must not be namespace")
        return readTool(inner ?? {}, place).map((each) => within(namespace, each))
      })
    }
    default: {
      const what = `${path}.type is ${show(tool.type ?? null)}; function, custom and namespace are supported.`
      throw problem("unsupported_value", { problem: what }, `${path}.type`)
    }
  }
}

function readFunction(given: Members, path: string): Callable {
  const { description, strict } = given
  const name = nameOf(given, path)
  const field = `${path}.parameters`
  const parameters = given.parameters ?? undefined
  if (parameters !== undefined && !isMembers(parameters)) {
    throw mustBe(field, "an object", parameters)
  }
  assertOfObjects(parameters, field)
  const described = typeof description === "string" && { description }
  const shown = { name, ...described, ...(parameters && { parameters: withFloats(parameters) }) }
  const definition = { type: "function", function: shown }
  const tool = { name, definition, parameters, field, strict: strict === true }
  return { kind: "function", name, tool }
}

function readCustom(given: Members, path: string): Callable {
  const name = nameOf(given, path)
  const { lark, pattern } = readGrammar((given.format ?? {}) as Members, `${path}.format`)
  const said = typeof given.description === "string" ? given.description : ""
  const description =
    lark === undefined ? said : `${said}\n\nThe input follows this Lark grammar:\n${lark}`
  const parameters = {
    type: "object",
    properties: { input: { type: "string", ...(pattern !== undefined && { pattern }) } },
    required: ["input"],
    additionalProperties: false,
  }
  const definition = { type: "function", function: { name, description, parameters } }
  const strict = pattern !== undefined
  const held = lark !== undefined && { input: { kind: "lark" as const, grammar: lark } }
  const tool = { name, definition, parameters, ...held, field: `${path}.format`, strict }
  return { kind: "custom", name, tool }
}

interface Grammar {
  pattern?: string
  lark?: string
}

/** What a free-form text is held to. */
function readGrammar({ type = "text", syntax, definition }: Members, field: string): Grammar {
  if (type === "text") return {}
  if (type !== "grammar") throw mustBe(`${field}.type`, '"text" or "grammar"', type)
  if (typeof definition !== "string") {
    throw mustBe(`${field}.definition`, "a string", definition ?? null)
  }
  if (syntax === "regex") return { pattern: `^(?:${definition})$` }
  if (syntax === "lark") return { lark: definition }
  throw mustBe(`${field}.syntax`, '"regex" or "lark"', syntax ?? null)
}

function nameOf({ name }: Members, path: string): string {
  if (typeof name === "string") return name
  throw mustBe(`${path}.name`, "a string", name ?? null)
}

function within(namespace: string, { kind, name, tool }: Callable): Callable {
  const joined = joinedName(namespace, name)
  const { function: inner, ...rest } = tool.definition as { function: object }
  const definition = { ...rest, function: { ...inner, name: joined } }
  return { kind, name, namespace, tool: { ...tool, name: joined, definition } }
}

const MAX_NAME = 64
const DIGEST = 8

/** What the model calls a tool of a namespace. */
export function joinedName(namespace: string, name: string): string {
  const joined = `${namespace}__${name}`
  if (joined.length <= MAX_NAME) return joined
  const digest = createHash("sha256").update(joined).digest("hex").slice(0, DIGEST)
  return `${joined.slice(0, MAX_NAME - DIGEST - 1)}_${digest}`
}

export function readChoice(
  given: string | Members | null | undefined,
  { all }: Callables,
): ToolChoice {
  const names = all.map(({ tool }) => tool.name)
  if (given === "none") return { mode: "none" }
  if (given === undefined || given === null || given === "auto") return { mode: "auto", names }
  if (names.length === 0) throw fault("tool_choice", "asks for a call, but there are no tools")
  if (given === "required") return { mode: "required", names }
  const { type, mode, tools } = given as Members
  if (type === "function" || type === "custom") {
    return { mode: "required", names: chosen(given as Members, names, "tool_choice") }
  }
  if (type !== "allowed_tools") {
    const what = `tool_choice.type is ${show(type ?? null)}; function, custom and allowed_tools are supported.`
    throw problem("unsupported_value", { problem: what }, "tool_choice.type")
  }
  if (mode !== "auto" && mode !== "required")
    throw mustBe("tool_choice.mode", '"auto" or "required"', mode ?? null)
  if (!Array.isArray(tools) || tools.length === 0)
    throw mustBe("tool_choice.tools", "a list that is not empty", tools ?? null)
  const allowed = (tools as Json[]).flatMap((tool, index) => {
    const path = `tool_choice.tools[${index}]`
    return chosen(membersOf(tool, path), names, path)
  })
  return { mode, names: allowed }
}

function chosen(given: Members, names: readonly string[], path: string): readonly string[] {
  const name = nameOf(given, path)
  const called = typeof given.namespace === "string" ? joinedName(given.namespace, name) : name
  return known([called], names, `${path}.name`)
}
