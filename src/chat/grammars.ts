// What may be written: tools and response formats as grammars. Thinking is free; after it, a reply that must call begins
// with a call, one that may call is free text until a call opens, and a response format holds the whole answer. Grammars
// are kept for the requests that ask for the same, so that their masks are found out once.

import { type Problem, problem } from "../errors.ts"
import {
  type CompiledSchema,
  choice,
  Grammar,
  LanguageRefusal,
  literal,
  members,
  type Part,
  type PlainForm,
  plainText,
  remainder,
  SchemaRefusal,
  sequence,
  type TokenTriggers,
  text,
  until,
} from "../grammar/grammar.ts"
import { LruMap } from "../lru.ts"
import { ANSWER, START } from "./channels.ts"
import { argumentsSchema, CompiledSchemas, formatSchema, textOf } from "./compiled-schemas.ts"
import type { LanguageFormat, ResponseFormat, SchemaVerdict, Tool } from "./conversation.ts"
import { type ArgumentKind, kindOfArgument, namesOfArguments } from "./formats/argument-kinds.ts"
import type { ArgumentForm, CallableTool, CallGrammar } from "./formats/call-grammar.ts"
import { type Format, type FormatName, formats, openingOf } from "./formats/formats.ts"
import { asSpelled, asTokens, type Markers, type Spelling } from "./markers.ts"
import { wordsOf } from "./reasoning.ts"

/** What of a tool its arguments are held to. */
export type Arguments = Pick<Tool, "name" | "parameters" | "input" | "strict" | "field">

/** What a reply is held to. */
export interface ConstraintSpec {
  calls: { tools: readonly Arguments[]; required: boolean; most: number } | undefined
  format: ResponseFormat | undefined
  /** How thinking is marked, and whether the reply begins inside or behind it; undefined: there is none. */
  reasoning: { markers: Markers; inside: boolean; over?: boolean } | undefined
  /** The reply goes on with a text, of whose first blank nothing is dropped. */
  continues?: boolean
}

export interface CompiledGrammar {
  grammar: Grammar
  /** Keywords of schemas that are left out, each with its place. */
  unenforced: readonly string[]
}

/** What of a model a grammar needs to know; it can be sent to a thread. */
export interface GrammarOptions {
  /** How calls are written. */
  toolFormat: FormatName
  /** How marks of which tokens alone count are written. */
  byTokens?: boolean
  /** Whether decoding drops one blank at the very start of a text. */
  stripsLeadingSpace: boolean
}

const MAX_GRAMMARS = 64

/** Takes as long as the schemas that it is asked for. */
export class Grammars {
  readonly #options: GrammarOptions
  readonly #schemas: CompiledSchemas
  readonly #known = new LruMap<CompiledGrammar>(MAX_GRAMMARS)
  readonly #calls: CallGrammar

  constructor(options: GrammarOptions, schemas = new CompiledSchemas()) {
    this.#options = options
    this.#schemas = schemas
    const { grammar, byTokens = grammar }: Format = formats[options.toolFormat]
    this.#calls = options.byTokens ? byTokens : grammar
  }

  /** Throws the problem that refuses a schema. */
  of(spec: ConstraintSpec): CompiledGrammar {
    const key = keyOf(spec)
    return this.#known.get(key) ?? this.#known.put(key, this.#compile(spec))
  }

  /** Whether a format or a tool's arguments can be held to their schema; what it compiles is kept for requests. */
  check(asked: ResponseFormat | Arguments): SchemaVerdict {
    if ("language" in asked) return this.#schemas.checkLanguage(asked.language)
    return this.#schemas.check("name" in asked ? argumentsSchema(asked) : formatSchema(asked))
  }

  #compile(spec: ConstraintSpec): CompiledGrammar {
    const unenforced: string[] = []
    const part = this.#afterThinking(this.#answerPart(spec, unenforced), spec)
    const whole =
      this.#options.stripsLeadingSpace && !spec.continues
        ? choice(part, sequence(literal(" "), part))
        : part
    return { grammar: new Grammar(whole, { spaced: true }), unenforced }
  }

  /** One odd tool must not end a session: unless it is strict, or alone, a tool that nothing can satisfy is never called. */
  #callable(tools: readonly Arguments[], unenforced: string[]): CallableTool[] {
    const compiled = tools.map((tool) => {
      const { field = "tools", name } = tool
      try {
        const json = argumentsPart(tool, this.#schemas, unenforced)
        return { name, json, members: this.#membersPart(tool, json, unenforced) }
      } catch (error) {
        if (!(error instanceof SchemaRefusal)) throw error
        if (tool.strict || !error.isUnsatisfiable) throw refused(error, field)
        return { name, refusal: refused(error, field) }
      }
    })
    const callable = compiled.filter((tool): tool is CallableTool => "json" in tool)
    for (const { name, refusal } of compiled) {
      if (refusal && callable.length === 0) throw refusal
      if (refusal) unenforced.push(`${name}#`)
    }
    return callable
  }

  /** Names that the schema does not mention are taken where it says that there may be others, or where it needs some. */
  #membersPart(tool: Arguments, json: Part, unenforced: string[]): Part {
    const { form } = this.#calls
    if (!form) return json
    const { names, isOpen } = namesOfArguments(argumentsSchema(tool))
    const fitting = names.filter((name) => form.names.test(name))
    if (form.whole && fitting.length < names.length) return form.whole(json)
    for (const allowed of isOpen ? [form.names.source] : [fitting, form.names.source]) {
      const part = argumentsOf(tool, form, allowed, this.#schemas, unenforced)
      if (part) return part
    }
    if (form.whole) return form.whole(json)
    const reason = `no arguments that satisfy it can be written as ${this.#options.toolFormat} calls are`
    throw new SchemaRefusal({ pointer: "", keyword: "", reason }, true)
  }

  /** The reply without its thinking. */
  #answerPart({ calls, format, reasoning }: ConstraintSpec, unenforced: string[]): Part {
    const value =
      format &&
      answering(formatPart(format, this.#schemas), reasoning?.markers, this.#spelling(reasoning))
    if (!calls) return value ?? text([], false)
    const tools = this.#callable(calls.tools, unenforced)
    const must = this.#calls.calls(tools, calls.most)
    if (calls.required) return must
    return value ? choice(must, value) : this.#calls.text(tools, calls.most)
  }

  /** A model may think first, between its markers, and writes line breaks after them; a call ends its thinking as well. */
  #afterThinking(answer: Part, { calls, format, reasoning }: ConstraintSpec): Part {
    if (!reasoning || reasoning.over) return answer
    const { lead, inChannels } = reasoning.markers
    const spelling = this.#spelling(reasoning)
    const { open, close, begins } = wordsOf(reasoning.markers, spelling)
    const mustAnswer = calls?.required || format !== undefined
    if (inChannels) {
      if (!mustAnswer) return answer // free text, and its thinking is
      const thinking = until(close, sequence(literal(spelling(START)), answer))
      return reasoning.inside ? thinking : choice(answer, sequence(literal(open), thinking))
    }
    const between = begins ? [begins] : ["\n", "\n\n"]
    const then = choice(answer, ...between.map((each) => sequence(literal(each), answer)))
    const called = this.#callIn(answer, calls)
    const thinking = mustAnswer
      ? until(close, then, called)
      : text([{ open: close, then }], false, [], called)
    if (reasoning.inside) return thinking
    const first = choice(then, sequence(literal(open), thinking))
    return lead === undefined ? first : sequence(literal(lead), first)
  }

  #spelling(reasoning: ConstraintSpec["reasoning"]): Spelling {
    return this.#options.byTokens && reasoning?.markers.byTokens ? asTokens : asSpelled
  }

  #callIn(answer: Part, calls: ConstraintSpec["calls"]): TokenTriggers | undefined {
    const names = calls?.tools.map(({ name }) => name) ?? []
    const opening = openingOf(formats[this.#options.toolFormat], names)
    if (!opening) return undefined
    const { mark, heads } = opening
    // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
    const triggers = heads.map((open) => ({ open, then: remainder(answer, mark + open) }))
    return { token: mark, triggers }
  }
}

/** What tells grammars apart: where in a request a schema stood does not. */
export function keyOf({ calls, format, reasoning, continues = false }: ConstraintSpec): string {
  const tools = calls?.tools.map(({ name, parameters, input, strict }) => ({
    name,
    parameters,
    input,
    strict,
  }))
  const { field: _, ...asked } = format ?? {}
  return textOf([{ ...calls, tools }, format && asked, reasoning, continues])
}

/** The message that an answer is, where replies are messages; between marks, where the model knows some, or without. */
function answering(answer: Part, markers: Markers | undefined, spelling: Spelling): Part {
  if (markers?.inChannels) return sequence(literal(spelling(ANSWER)), answer)
  if (!markers?.answer) return answer
  const { begins } = markers
  const [open, close] = wordsOf(markers, spelling).answer!
  if (begins) return choice(answer, sequence(literal(open), answer)) // a token ends it
  const between = (blank: string) => sequence(literal(open + blank), answer, literal(blank + close))
  return choice(answer, between(""), between("\n"))
}

function argumentsPart(tool: Arguments, schemas: CompiledSchemas, unenforced: string[]): Part {
  const { strict } = tool
  const input = inputPart(tool, schemas)
  if (input)
    return sequence(
      literal('{"input":'),
      choice(input, sequence(literal(" "), input)),
      literal("}"),
    )
  if (tool.input) list(unenforced, tool, { unenforced: [DEFINITION] })
  const compiled = schemas.compile(argumentsSchema(tool), !strict)
  list(unenforced, tool, compiled)
  return compiled.part
}

/** Where a free-form tool has its grammar. */
const DEFINITION = { pointer: "/format", keyword: "definition" }

function list(
  unenforced: string[],
  { name }: Arguments,
  compiled: {
    unenforced: readonly Pick<CompiledSchema["unenforced"][number], "pointer" | "keyword">[]
  },
): void {
  for (const { pointer, keyword } of compiled.unenforced) {
    const place = `${name}#${pointer}/${keyword}`
    if (!unenforced.includes(place)) unenforced.push(place)
  }
}

/** Arguments one by one; undefined: none of these names satisfy the schema. */
function argumentsOf(
  tool: Arguments,
  form: ArgumentForm,
  names: readonly string[] | string,
  schemas: CompiledSchemas,
  unenforced: string[],
): Part | undefined {
  const { end: without } = form
  const held = { names, ...(without !== undefined && { without }) }
  const schema = argumentsSchema(tool)
  const input = inputPart(tool, schemas)
  try {
    const compiled = schemas.compile(schema, !tool.strict, held)
    list(unenforced, tool, compiled)
    const language = input && languageWithout(tool, without, schemas)
    if (input && !language) list(unenforced, tool, { unenforced: [DEFINITION] })
    return members(compiled.part, {
      ...form,
      kindOf: (name) => kindOfArgument(schema, name),
      value: (kind, part) => {
        const json = input ?? part
        const plain = (plainForm: PlainForm) =>
          language ? textOfLanguage(language, plainForm) : plainText(json, plainForm)
        return form.value(kind as ArgumentKind, { json, plain })
      },
    })
  } catch (error) {
    if (error instanceof SchemaRefusal && error.isUnsatisfiable) return undefined
    throw error
  }
}

/** A text of a language up to and with a mark, with the line breaks that are taken away around it. */
function textOfLanguage(language: Part, { end, inLines }: PlainForm): Part {
  const [before, after] = inLines ? ["\n", "\n"] : ["", ""]
  return sequence(literal(before), language, literal(after + end))
}

/** The text of a free-form tool before a mark that ends it; undefined where it cannot do without the mark. */
function languageWithout(
  { input }: Arguments,
  mark: string | undefined,
  schemas: CompiledSchemas,
): Part | undefined {
  try {
    return input && schemas.language(input, "plain", mark)
  } catch (error) {
    if (!(error instanceof LanguageRefusal)) throw error
    return undefined
  }
}

/** The text of a free-form tool, in its quotes; undefined where it cannot be kept to its language. */
function inputPart({ input }: Arguments, schemas: CompiledSchemas): Part | undefined {
  if (!input) return undefined
  try {
    return sequence(literal('"'), schemas.language(input, "quoted"), literal('"'))
  } catch (error) {
    if (!(error instanceof LanguageRefusal)) throw error
    return undefined
  }
}

function formatPart(format: ResponseFormat, schemas: CompiledSchemas): Part {
  if ("language" in format) return languagePart(format, schemas)
  try {
    return schemas.compile(formatSchema(format), false).part
  } catch (error) {
    if (!(error instanceof SchemaRefusal)) throw error
    throw refused(error, format.field ?? "response_format")
  }
}

const NOUNS = { regex: "pattern", choice: "list", gbnf: "grammar", lark: "grammar" } as const

function languagePart({ language, field }: LanguageFormat, schemas: CompiledSchemas): Part {
  try {
    return schemas.language(language)
  } catch (error) {
    if (!(error instanceof LanguageRefusal)) throw error
    const words = `The ${NOUNS[language.kind]} in ${field} is refused: ${error.message}.`
    throw problem("unsupported_value", { problem: words }, field)
  }
}

function refused({ message }: SchemaRefusal, param: string): Problem {
  const words = `The schema in ${param} is refused at ${message}.`
  return problem("unsupported_value", { problem: words }, param)
}
