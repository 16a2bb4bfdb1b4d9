// One rendering of a chat template, with what transformers gives it: its variables, its `tojson`, its `raise_exception`; only
// `strftime_now` tells the day the server started, so that the same request stays the same. Runs on the event loop or in a
// thread of its own (see template.ts): everything it is given and gives back is plain data.

import { CHANNEL } from "./channels.ts"
import type { MediumKind } from "./conversation.ts"
import { interpret } from "./jinja/interpreter.ts"
import { metered, spend, spendOnCharacters, TemplateError } from "./jinja/meter.ts"
import { namesIn } from "./jinja/names.ts"
import { parse } from "./jinja/parser.ts"
import type { Statement } from "./jinja/syntax.ts"
import { foreign, join, replaceEach, Text } from "./jinja/text.ts"
import {
  type Arguments,
  Callable,
  Dict,
  fromHost,
  NONE,
  print,
  readJson,
  type Value,
} from "./jinja/values.ts"

/** Where a character of a rendered prompt came from; the template's own have no span (see jinja/text.ts). */
export const FROM_REQUEST = 1
export const FROM_LAST_MESSAGE = 2

/** What a template is given. Texts are taken as they are; `arguments` of calls are JSON text. */
export interface Rendering {
  messages: readonly TemplateMessage[]
  /** The tools' definitions as the client wrote them; floats that are whole as `Object(1)`. */
  tools: readonly unknown[] | undefined
  /** `chat_template_kwargs`. */
  variables: Readonly<Record<string, unknown>>
  /** Ends with the header of an answer; false to continue the last message. */
  generationPrompt: boolean
  /** Arguments of calls as the text they are; else as maps, which is what most templates expect. */
  argumentsAsText?: boolean
  /** Every content is a list of parts; else those with images or recordings alone are. */
  contentsAsLists?: boolean
  /** What a template writes for an image, and for a recording. Absent: there are none. */
  marks?: Marks
  /** They are marks in the text of a content; else parts of a list. */
  marksInTexts?: boolean
}

/** Of the kinds that a model takes. */
export type Marks = Readonly<Partial<Record<MediumKind, string>>>

export interface TemplateMessage {
  role: string
  content: unknown
  /** Where they stand among the texts. */
  parts?: readonly TemplatePart[]
  name?: string
  reasoning?: string
  toolCalls?: readonly { id: string; name: string; arguments: string }[]
  toolCallId?: string
}

/** A text, or which of the conversation's images or recordings. */
export type TemplatePart = { text: string } | { kind: MediumKind; number: number }

export interface TemplateOptions {
  /** bos_token and the like, by name. */
  specialTokens: Readonly<Record<string, string>>
  /** The day that `strftime_now` tells. */
  now: Date
}

/** Where templates look for tools: a variable of that name, another's, or a text that comes with the system message. */
type ToolsPlace = "tools" | "xml_tools" | "system message"

/** Undefined where a template looks nowhere: it shows none. */
export function whereToolsStand(source: string): ToolsPlace | undefined {
  const names = namesIn(source)
  if (names.has("tools")) return "tools"
  if (names.has("xml_tools")) return "xml_tools" // SmolLM3
  return /message\[(['"])tools\1\]/.test(source) ? "system message" : undefined // Phi 4 mini
}

/** Throws a TemplateError with the template's or the interpreter's words, OutOfSteps after `steps` of them. */
export type Renderer = (rendering: Rendering, steps: number) => Text

/** Throws an Error that says where the template does not parse. */
export function openRenderer(source: string, options: TemplateOptions): Renderer {
  const program: readonly Statement[] = parse(source)
  const globals = new Map<string, Value>([
    ["raise_exception", new Callable("raise_exception", raise)],
    ["strftime_now", new Callable("strftime_now", (given) => date(options.now, given))],
    ["documents", NONE],
  ])
  for (const [name, text] of Object.entries(options.specialTokens)) {
    globals.set(name, new Text(text))
  }
  const traits = { inChannels: source.includes(CHANNEL), toolsPlace: whereToolsStand(source) }
  return (rendering, steps) => {
    try {
      return metered(steps, () =>
        interpret(program, new Map([...globals, ...variablesOf(rendering, traits)])),
      )
    } catch (error) {
      if (error instanceof RangeError) throw new TemplateError("it is nested too deeply.")
      throw error
    }
  }
}

interface Traits {
  inChannels: boolean
  toolsPlace: ToolsPlace | undefined
}

function variablesOf(rendering: Rendering, { inChannels, toolsPlace }: Traits): [string, Value][] {
  const last = rendering.generationPrompt ? -1 : rendering.messages.length - 1
  const messages = rendering.messages.map((message, index) =>
    messageValue(
      inChannels ? channelMessage(message) : message,
      index === last ? FROM_LAST_MESSAGE : FROM_REQUEST,
      inChannels ? "thinking" : "reasoning_content",
      rendering,
    ),
  )
  const tools = rendering.tools?.map((tool) => fromHost(tool, FROM_REQUEST))
  if (tools && toolsPlace === "system message") {
    const first = messages[0]?.get(new Text("role"))
    const isSystem = first instanceof Text && first.value === "system"
    if (!isSystem) messages.unshift(dict({ role: new Text("system"), content: new Text("") }))
    messages[0]!.set(new Text("tools"), foreign(textOfTools(rendering.tools!), FROM_REQUEST))
  }
  return [
    ...Object.entries(rendering.variables).map(([name, value]): [string, Value] => [
      name,
      fromHost(value, FROM_REQUEST),
    ]),
    ["messages", messages],
    ["tools", tools ?? NONE],
    ...(tools && toolsPlace === "xml_tools" ? [["xml_tools", tools] as [string, Value]] : []),
    ["add_generation_prompt", rendering.generationPrompt],
  ]
}

/** gpt-oss' template searches every content there is, and of a message with calls refuses thinking beside a content. */
function channelMessage({ content, reasoning, ...message }: TemplateMessage): TemplateMessage {
  const thinking = message.toolCalls && content ? undefined : reasoning
  return {
    ...message,
    content: content ?? "",
    ...(thinking !== undefined && { reasoning: thinking }),
  }
}

/** As JSON, without what says that they are functions. */
function textOfTools(tools: readonly unknown[]): string {
  const functions = tools.map((tool) => (tool as { function?: unknown }).function ?? tool)
  return JSON.stringify(functions, (_, value: unknown) =>
    typeof value === "bigint" ? Number(value) : value,
  )
}

function messageValue(
  message: TemplateMessage,
  source: number,
  reasoning: string,
  rendering: Rendering,
): Dict {
  const callOf = rendering.argumentsAsText ? textualCall : callValue
  const value = dict({
    role: new Text(message.role),
    content: contentValue(message, source, rendering),
  })
  if (message.name !== undefined) value.set(new Text("name"), foreign(message.name, FROM_REQUEST))
  if (message.reasoning !== undefined) {
    value.set(new Text(reasoning), foreign(message.reasoning, FROM_REQUEST))
  }
  if (message.toolCalls !== undefined) {
    value.set(
      new Text("tool_calls"),
      message.toolCalls.map((call) => callOf(call)),
    )
  }
  if (message.toolCallId !== undefined) {
    value.set(new Text("tool_call_id"), foreign(message.toolCallId, FROM_REQUEST))
  }
  return value
}

/** As transformers hands contents over: a text, or a list of parts with their types. */
function contentValue(
  { content, parts }: TemplateMessage,
  source: number,
  { contentsAsLists, marksInTexts, marks = {} }: Rendering,
): Value {
  if (parts && !marksInTexts) return parts.map((part) => partValue(part, source))
  const text = parts ? marked(parts, marks, source) : fromHost(content, source)
  if (!contentsAsLists) return text
  return text === NONE ? [] : [dict({ type: new Text("text"), text })]
}

function partValue(part: TemplatePart, source: number): Dict {
  if ("kind" in part) return dict({ type: new Text(part.kind) })
  return dict({ type: new Text("text"), text: foreign(part.text, source) })
}

/** Each image or recording on a line of its own ahead of what follows, as models were taught whose templates know no parts. */
function marked(parts: readonly TemplatePart[], marks: Marks, source: number): Text {
  const pieces = parts.map((part, index) => {
    if ("text" in part) return foreign(part.text, source)
    const isLast = index === parts.length - 1
    const mark = marks[part.kind] ?? ""
    return new Text(isLast ? mark : `${mark}\n`)
  })
  return join(pieces)
}

type Call = NonNullable<TemplateMessage["toolCalls"]>[number]

/** Text that is no JSON stays text. */
function callValue(call: Call, given = readJson(call.arguments, FROM_REQUEST)): Value {
  return dict({
    id: foreign(call.id, FROM_REQUEST),
    type: new Text("function"),
    function: dict({
      name: foreign(call.name, FROM_REQUEST),
      arguments: given ?? foreign(call.arguments, FROM_REQUEST),
    }),
  })
}

const textualCall = (call: Call) => callValue(call, foreign(call.arguments, FROM_REQUEST))

function dict(members: Record<string, Value>): Dict {
  const value = new Dict()
  for (const [name, member] of Object.entries(members)) value.set(new Text(name), member)
  return value
}

function raise({ positional }: Arguments): never {
  throw new TemplateError(print(positional[0] ?? NONE).value)
}

const MONTHS =
  "January February March April May June July August September October November December"
const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday"

/** strftime in the C locale: the directives that dates and times of day need. */
function date(now: Date, { positional }: Arguments): Text {
  spend(20)
  const two = (value: number) => String(value).padStart(2, "0")
  const month = MONTHS.split(" ")[now.getMonth()]!
  const day = DAYS.split(" ")[now.getDay()]!
  const parts: Record<string, string> = {
    "%Y": String(now.getFullYear()),
    "%y": two(now.getFullYear() % 100),
    "%m": two(now.getMonth() + 1),
    "%d": two(now.getDate()),
    "%e": String(now.getDate()).padStart(2),
    "%-d": String(now.getDate()),
    "%-m": String(now.getMonth() + 1),
    "%B": month,
    "%b": month.slice(0, 3),
    "%A": day,
    "%a": day.slice(0, 3),
    "%H": two(now.getHours()),
    "%I": two(now.getHours() % 12 || 12),
    "%M": two(now.getMinutes()),
    "%S": two(now.getSeconds()),
    "%p": now.getHours() < 12 ? "AM" : "PM",
    "%F": `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`,
    "%%": "%",
  }
  const format = positional[0]
  if (!(format instanceof Text)) throw new TemplateError("strftime_now() needs a format")
  return format.respelled((text) => {
    const written = replaceEach(text, /%-?./g, (directive) => parts[directive] ?? directive)
    spendOnCharacters(written.length)
    return written
  })
}
