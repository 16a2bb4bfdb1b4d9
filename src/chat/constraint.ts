// What may be written: tools and response formats as grammars. Thinking is free; after it, a reply that must call begins
// with a call, one that may call is free text until a call opens, and a response format holds the whole answer. Grammars
// are kept for the requests that ask for the same, so that their masks are found out once.

import type { Constraint } from "../engine/generation.ts"
import { type Problem, problem } from "../errors.ts"
import {
  choice,
  Grammar,
  list,
  literal,
  type Part,
  SchemaRefusal,
  sequence,
  text,
  until,
  Vocabulary,
} from "../grammar/grammar.ts"
import { argumentsSchema, CompiledSchemas, formatSchema, textOf } from "./compiled-schemas.ts"
import type { ResponseFormat, SchemaVerdict, Tool } from "./conversation.ts"
import type { TokenTexts } from "./detokenizer.ts"
import type { Format, Spelling } from "./formats/formats.ts"
import { Lookahead } from "./lookahead.ts"
import type { Markers } from "./reasoning.ts"
import type { Tokenizer } from "./tokenizer.ts"

/** What of a tool its arguments are held to. */
export type Arguments = Pick<Tool, "name" | "parameters" | "strict" | "field">

/** What a reply is held to. */
export interface Held {
  calls: { tools: readonly Arguments[]; required: boolean; most: number } | undefined
  format: ResponseFormat | undefined
  /** How thinking is marked, and whether the reply begins inside it; undefined: there is none. */
  reasoning: { markers: Markers; inside: boolean } | undefined
}

export interface Holding<C extends Constraint = Constraint> {
  constraint: () => C
  /** Keywords of schemas that are left out, each with its place. */
  unenforced: readonly string[]
}

const MOST_GRAMMARS = 64

/** What of a model grammars need to know; all of it can be sent to a thread. */
export interface ConstraintOptions {
  tokens: TokenTexts & { readonly size: number }
  /** Special tokens that may be written, because they mark calls or thinking. */
  visible: ReadonlySet<number>
  ends: readonly number[]
  spelling: Spelling
}

/** Takes as long as the schemas and masks it is asked for; ConstraintThread does the same where nobody waits for it. */
export class Constraints {
  readonly #options: ConstraintOptions
  readonly #schemas = new CompiledSchemas()
  readonly #grammars = new Map<string, { grammar: Grammar; unenforced: readonly string[] }>()
  readonly #vocabulary: Vocabulary // made at once: it takes too long for the first request to wait

  constructor(options: ConstraintOptions) {
    this.#options = options
    this.#vocabulary = readVocabulary(options)
  }

  /** Throws the problem that refuses a schema. */
  hold(held: Held): Holding<Lookahead> {
    const key = keyOf(held)
    const known = this.#grammars.get(key) ?? this.#compile(held)
    this.#grammars.delete(key)
    this.#grammars.set(key, known) // the last one used is the last one forgotten
    if (this.#grammars.size > MOST_GRAMMARS) {
      this.#grammars.delete(this.#grammars.keys().next().value!)
    }
    const { grammar, unenforced } = known
    return {
      unenforced,
      constraint: () => new Lookahead(grammar.matcher(this.#vocabulary), this.#vocabulary),
    }
  }

  /** Whether a format or a tool's arguments can be held to their schema; what it compiles is kept for requests. */
  check(asked: ResponseFormat | Arguments): SchemaVerdict {
    return this.#schemas.check("name" in asked ? argumentsSchema(asked) : formatSchema(asked))
  }

  close(): void {}

  #compile(held: Held): { grammar: Grammar; unenforced: readonly string[] } {
    const unenforced: string[] = []
    const part = afterThinking(this.#answerPart(held, unenforced), held)
    const whole = this.#options.tokens.stripsLeadingSpace
      ? choice(part, sequence(literal(" "), part))
      : part
    return { grammar: new Grammar(whole, { spaced: true }), unenforced }
  }

  /** One odd tool must not end a session: unless it is strict, or alone, a tool that nothing can satisfy is never called. */
  #callable(tools: readonly Arguments[], unenforced: string[]): Callable[] {
    const compiled = tools.map((tool) => {
      const { field = "tools", name } = tool
      try {
        return { name, values: argumentsPart(tool, this.#schemas, unenforced) }
      } catch (error) {
        if (!(error instanceof SchemaRefusal)) throw error
        if (tool.strict || !error.isUnsatisfiable) throw refused(error, field)
        return { name, refusal: refused(error, field) }
      }
    })
    const callable = compiled.filter((tool): tool is Callable => "values" in tool)
    for (const { name, refusal } of compiled) {
      if (refusal && callable.length === 0) throw refusal
      if (refusal) unenforced.push(`${name}#`)
    }
    return callable
  }

  /** The reply without its thinking. */
  #answerPart({ calls, format }: Held, unenforced: string[]): Part {
    const { spelling } = this.#options
    const value = format && formatPart(format, this.#schemas)
    if (!calls) return value ?? text([], false)
    const tools = this.#callable(calls.tools, unenforced)
    const must = callsPart(tools, spelling, calls.most)
    if (calls.required) return must
    return value ? choice(must, value) : textWithCalls(tools, spelling, calls.most)
  }
}

/** What tells grammars apart: where in a request a schema stood does not. */
function keyOf({ calls, format, reasoning }: Held): string {
  const tools = calls?.tools.map(({ name, parameters, strict }) => ({ name, parameters, strict }))
  return textOf([{ ...calls, tools }, format && [format.schema], reasoning])
}

function readVocabulary({ tokens, visible, ends }: ConstraintOptions): Vocabulary {
  const { size, bytes, special } = tokens
  const nothing = new Uint8Array(0)
  const texts = Array.from({ length: size }, (_, id) =>
    special.has(id) && !visible.has(id) ? nothing : bytes.of(id),
  )
  return new Vocabulary(texts, ends)
}

/** What a tokenizer and a way to write calls and thinking say together. */
export function constraintOptions(
  tokenizer: Tokenizer,
  ends: ReadonlySet<number>,
  { marks, spelling }: Format,
  { open, close }: Markers = { open: "", close: "" },
): ConstraintOptions {
  const { size, bytes, special, stripsLeadingSpace } = tokenizer
  const visible = [...marks, open, close].flatMap((mark) => tokenizer.control(mark) ?? [])
  return {
    tokens: { size, bytes, special, stripsLeadingSpace },
    visible: new Set(visible),
    ends: [...ends],
    spelling,
  }
}

/**
 * Vocabularies are often padded: rows of the model that are no token of the tokenizer, and must never be drawn. Undefined
 * where there are none.
 */
export function withoutPadding(tokens: number, rows: number): (() => Constraint) | undefined {
  if (tokens >= rows) return undefined
  const allowed = new Uint32Array(Math.ceil(rows / 32)).fill(0xffff_ffff, 0, tokens >>> 5)
  allowed[tokens >>> 5] = 2 ** (tokens & 31) - 1
  return () => new WithinVocabulary(allowed, tokens)
}

class WithinVocabulary implements Constraint {
  readonly #allowed: Uint32Array
  readonly #tokens: number
  #ahead: readonly number[] = []

  constructor(allowed: Uint32Array, tokens: number) {
    this.#allowed = allowed
    this.#tokens = tokens
  }

  mask(into: Uint32Array): void {
    into.set(this.#allowed)
  }

  accept(token: number): void {
    this.#ahead = this.#ahead[0] === token ? this.#ahead.slice(1) : []
  }

  draft(tokens: readonly number[]): void {
    const beyond = tokens.findIndex((token) => token >= this.#tokens)
    this.#ahead = beyond < 0 ? tokens : tokens.slice(0, beyond)
  }

  get drafted(): number {
    return this.#ahead.length
  }
}

interface Callable {
  name: string
  values: Part
}

function callsPart(tools: readonly Callable[], spelling: Spelling, most: number): Part {
  const { open, between, close } = spelling
  const calls = list(
    choice(...tools.map((tool) => callPart(tool, spelling))),
    literal(between),
    1,
    most,
  )
  return sequence(literal(open), calls, literal(close))
}

function callPart({ name, values }: Callable, { call: [before, after, end] }: Spelling): Part {
  return sequence(literal(before + name + after), values, literal(end))
}

/** Free text in which a call, once it has opened, is held to one of the tools. */
function textWithCalls(tools: readonly Callable[], spelling: Spelling, most: number): Part {
  const { between, close, call, triggers, textAfter } = spelling
  const [, after, end] = call
  const others = choice(...tools.map((tool) => callPart(tool, spelling)))
  const further = textAfter
    ? literal("")
    : sequence(list(sequence(literal(between), others), literal(""), 0, most - 1), literal(close))
  const ending = sequence(literal(end), further)
  const opened = triggers.flatMap((trigger) => {
    if (trigger.after === undefined) {
      const named = tools.map(({ name, values }) =>
        sequence(literal(trigger.rest + name + after), values),
      )
      return [opens(trigger.before, sequence(choice(...named), ending))]
    }
    return tools.map(({ name, values }) =>
      opens(trigger.before + name + trigger.after, sequence(literal(trigger.rest), values, ending)),
    )
  })
  return text(opened, textAfter && most > 1)
}

function opens(open: string, part: Part): { open: string; then: Part } {
  // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
  return { open, then: part }
}

/** A model may think first, between its markers, and writes line breaks after them. */
function afterThinking(answer: Part, { calls, format, reasoning }: Held): Part {
  if (!reasoning) return answer
  const { open, close } = reasoning.markers
  const then = choice(answer, ...["\n", "\n\n"].map((blank) => sequence(literal(blank), answer)))
  const mustAnswer = calls?.required || format !== undefined
  const thinking = mustAnswer ? until(close, then) : text([opens(close, then)], false)
  return reasoning.inside ? thinking : choice(then, sequence(literal(open), thinking))
}

function argumentsPart(tool: Arguments, schemas: CompiledSchemas, unenforced: string[]): Part {
  const { name, strict } = tool
  const compiled = schemas.compile(argumentsSchema(tool), !strict)
  for (const { pointer, keyword } of compiled.unenforced) {
    unenforced.push(`${name}#${pointer}/${keyword}`)
  }
  return compiled.part
}

function formatPart(format: ResponseFormat, schemas: CompiledSchemas): Part {
  try {
    return schemas.compile(formatSchema(format), false).part
  } catch (error) {
    if (!(error instanceof SchemaRefusal)) throw error
    throw refused(error, format.field ?? "response_format")
  }
}

function refused({ message }: SchemaRefusal, param: string): Problem {
  const words = `The schema in ${param} is refused at ${message}.`
  return problem("unsupported_value", { problem: words }, param)
}
