// Which tools a reply may call and how its calls are told from text.

import { createHash } from "node:crypto"
import { problem } from "../errors.ts"
import { argumentsSchema } from "./compiled-schemas.ts"
import type { ChatRequest, Tool } from "./conversation.ts"
import { type FormatName, formats, openingOf } from "./formats/formats.ts"
import type { Arguments, ConstraintSpec } from "./grammars.ts"
import { visibleTools } from "./prompt.ts"
import type { CallReading } from "./reply.ts"

type Calls = NonNullable<ConstraintSpec["calls"]>

/** Undefined: the reply is told of no tools. */
export function callsOf(request: ChatRequest): Calls | undefined {
  const tools = visibleTools(request)
  if (tools.length === 0) return undefined
  const { toolChoice, parallelToolCalls } = request
  const allowed = toolChoice && toolChoice.mode !== "none" ? new Set(toolChoice.names) : undefined
  const callable = allowed ? tools.filter(({ name }) => allowed.has(name)) : tools
  if (callable.length === 0) {
    throw problem("invalid_value", { problem: "tool_choice allows no tool." }, "tool_choice")
  }
  return {
    tools: callable.map(withoutDefinition),
    required: toolChoice?.mode === "required",
    most: parallelToolCalls === false ? 1 : Number.POSITIVE_INFINITY,
  }
}

/** How they are read out of the reply to a request. */
export function callReading(
  { tools, most }: Calls,
  toolFormat: FormatName,
  requestId: string,
): CallReading {
  const schemas = new Map(tools.map((tool) => [tool.name, argumentsSchema(tool)]))
  const id = (choice: number, index: number) => callId(requestId, choice, index)
  const format = formats[toolFormat]
  return { format, tools: schemas, opening: openingOf(format, [...schemas.keys()]), most, id }
}

/** What of a tool its arguments are held to. */
export function withoutDefinition({ name, parameters, input, strict, field }: Tool): Arguments {
  return {
    name,
    parameters,
    strict,
    ...(input && { input }),
    ...(field !== undefined && { field }),
  }
}

function callId(request: string, choice: number, index: number): string {
  const hash = createHash("sha256").update(`${request} ${choice} ${index}`)
  return `call_${hash.digest("hex").slice(0, 24)}`
}
