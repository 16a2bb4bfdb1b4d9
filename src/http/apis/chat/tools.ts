// The tools of a request: definitions, and which of them may or must be called. What their schemas mean is the chat
// room's to know; here names are held to be usable and to meet.

import type { ChatRequest, Tool, ToolChoice } from "../../../chat/conversation.ts"
import { fault, mustBe, show } from "../../check.ts"
import { type Json, withFloats } from "../../json.ts"
import { TOOL_NAME, TOOL_NAME_HELP } from "../fields.ts"
import type { ChatCompletionRequest } from "./schema.ts"

type Asked = Pick<ChatCompletionRequest, "tools" | "tool_choice" | "parallel_tool_calls">

export function readTools(
  body: Asked,
): Pick<ChatRequest, "tools" | "toolChoice" | "parallelToolCalls"> {
  const tools = readDefinitions(body.tools ?? [])
  const names = tools.map(({ name }) => name)
  const toolChoice = readChoice(body.tool_choice, names)
  if (tools.length === 0) return {}
  return { tools, toolChoice, parallelToolCalls: body.parallel_tool_calls ?? true }
}

/** Definitions alone: names that are usable and differ. */
export function readDefinitions(given: NonNullable<Asked["tools"]>): readonly Tool[] {
  const tools = given.map(readTool)
  assertNames(tools, "function.name")
  return tools
}

/** @param field where a tool of the request has its name. */
export function assertNames(tools: readonly Tool[], field: string): void {
  const seen = new Set<string>()
  for (const [index, { name }] of tools.entries()) {
    const path = `tools[${index}].${field}`
    if (!TOOL_NAME.test(name)) throw mustBe(path, TOOL_NAME_HELP, name)
    if (seen.has(name)) throw fault(path, `names ${name} a second time`)
    seen.add(name)
  }
}

type Parameters = Readonly<Record<string, unknown>> | null | undefined

const otherTypes = new Set(["null", "boolean", "integer", "number", "string", "array"])

function readTool(given: NonNullable<Asked["tools"]>[number], index: number): Tool {
  const { name, parameters, strict } = given.function
  const field = `tools[${index}].function.parameters`
  assertOfObjects(parameters, field)
  return {
    name,
    definition: { type: "function", ...(withFloats(given as Json) as object) },
    parameters: parameters ?? undefined,
    field,
    strict: strict ?? false,
  }
}

/** A schema of arguments, which are an object. */
export function assertOfObjects(schema: Parameters, field: string): void {
  const types = [schema?.type ?? "object"].flat()
  // What is no type at all, "dict" and its like, is for the chat room to refuse or to read as well as it can.
  const isOther = types.every((type) => typeof type !== "string" || otherTypes.has(type))
  if (isOther) throw mustBe(`${field}.type`, '"object"', schema?.type as Json)
}

function readChoice(given: Asked["tool_choice"], names: readonly string[]): ToolChoice {
  if (given === "none") return { mode: "none" }
  if (given === undefined || given === null || given === "auto") return { mode: "auto", names }
  if (names.length === 0) throw fault("tool_choice", "asks for a call, but there are no tools")
  if (given === "required") return { mode: "required", names }
  if (given.type === "function") {
    if (!given.function) throw fault("tool_choice.function", "is required")
    const called = [given.function.name]
    return { mode: "required", names: known(called, names, "tool_choice.function.name") }
  }
  const path = "tool_choice.allowed_tools"
  if (!given.allowed_tools) throw fault(path, "is required")
  const { mode, tools } = given.allowed_tools
  const allowed = tools.map((tool) => tool.function.name)
  if (allowed.length === 0) throw fault(`${path}.tools`, "must not be empty")
  return { mode, names: known(allowed, names, `${path}.tools`) }
}

/** @throws when one of them is none of the tools' names */
export function known(asked: readonly string[], names: readonly string[], path: string) {
  const there = new Set(names)
  const unknown = asked.find((name) => !there.has(name))
  if (unknown === undefined) return asked
  throw fault(path, `names ${show(unknown)}, which is none of the tools`)
}
