// What a reply is held to, where it is made: a grammar and the model's vocabulary make a constraint.

import type { Constraint } from "../engine/generation.ts"
import { bytesOf, NO_TEXT, Vocabulary } from "../grammar/grammar.ts"
import type { ResponseFormat, SchemaVerdict } from "./conversation.ts"
import type { TokenTexts } from "./detokenizer.ts"
import { type FormatName, formats } from "./formats/formats.ts"
import { type Arguments, type ConstraintSpec, type GrammarOptions, Grammars } from "./grammars.ts"
import { Lookahead } from "./lookahead.ts"
import { asTokens, type Markers, tokensOf } from "./markers.ts"
import { marksOf } from "./reasoning.ts"
import type { Tokenizer } from "./tokenizer.ts"

export interface ConstraintHandle<C extends Constraint = Constraint> {
  constraint: () => C
  /** Keywords of schemas that are left out, each with its place. */
  unenforced: readonly string[]
}

/** What of a model grammars need to know; all of it can be sent to a thread. */
export interface ConstraintOptions {
  tokens: TokenTexts & { readonly size: number }
  /** Special tokens that may be written, because they mark calls or thinking. */
  visible: ReadonlySet<number>
  /** Those of them whose spelling is none of theirs. */
  marks?: ReadonlySet<number>
  ends: readonly number[]
  toolFormat: FormatName
}

/** Takes as long as the schemas and masks it is asked for; ConstraintThreads do the same where nobody waits for it. */
export class Constraints {
  readonly #grammars: Grammars
  readonly #vocabulary: Vocabulary // made at once: it takes too long for the first request to wait

  /** @param grammars where they are not those of the tools' format */
  constructor(options: ConstraintOptions, grammars?: Grammars) {
    this.#grammars = grammars ?? new Grammars(grammarOptions(options))
    this.#vocabulary = readVocabulary(options)
  }

  /** Throws the problem that refuses a schema. */
  hold(spec: ConstraintSpec): ConstraintHandle<Lookahead> {
    const { grammar, unenforced } = this.#grammars.of(spec)
    return {
      unenforced,
      constraint: () => new Lookahead(grammar.matcher(this.#vocabulary), this.#vocabulary),
    }
  }

  check(schema: ResponseFormat | Arguments): SchemaVerdict {
    return this.#grammars.check(schema)
  }

  close(): void {}
}

/** What grammars need to know of it. */
export function grammarOptions({ toolFormat, tokens, marks }: ConstraintOptions): GrammarOptions {
  const { stripsLeadingSpace } = tokens
  return { toolFormat, stripsLeadingSpace, byTokens: marks !== undefined && marks.size > 0 }
}

function readVocabulary({ tokens, visible, marks, ends }: ConstraintOptions): Vocabulary {
  const { size, bytes, special } = tokens
  const nothing = new Uint8Array(0)
  const texts = Array.from({ length: size }, (_, id) => {
    if (special.has(id) && !visible.has(id)) return nothing
    const own = bytes.of(id)
    if (!marks || marks.size === 0) return own
    if (marks.has(id)) return bytesOf(asTokens(UTF8.decode(own)))
    return own.includes(NO_TEXT) ? nothing : own // a byte alone would begin a mark
  })
  return new Vocabulary(texts, ends, visible)
}

const UTF8 = new TextDecoder()

/** What a tokenizer and a way to write calls and thinking say together. */
export function constraintOptions(
  tokenizer: Tokenizer,
  ends: ReadonlySet<number>,
  toolFormat: FormatName,
  { markers, vocabulary }: { markers?: Markers | undefined; vocabulary: number },
): ConstraintOptions {
  const { bytes, special, stripsLeadingSpace } = tokenizer
  const size = Math.min(tokenizer.size, vocabulary) // tokens behind it are read and never drawn
  const format = formats[toolFormat]
  const thinking = markers ? marksOf(markers) : []
  const visible = [...format.marks, ...thinking].flatMap((mark) => tokenizer.control(mark) ?? [])
  const marks = [markers, format].flatMap((of) => tokensOf(tokenizer, of))
  return {
    tokens: { size, bytes, special, stripsLeadingSpace },
    visible: new Set(visible),
    marks: new Set(marks),
    ends: [...ends],
    toolFormat,
  }
}

/** Vocabularies are often padded: rows of the model that are no token of the tokenizer, and must never be drawn. */
export function anyTokens(tokens: number, rows: number): () => Constraint {
  const allowed = new Uint32Array(Math.ceil(rows / 32)).fill(0xffff_ffff, 0, tokens >>> 5)
  if (tokens % 32 > 0) allowed[tokens >>> 5] = 2 ** (tokens & 31) - 1
  return () => new WithinVocabulary(allowed, tokens)
}

class WithinVocabulary implements Constraint {
  readonly always: Uint32Array
  readonly #tokens: number
  #ahead: readonly number[] = []

  constructor(allowed: Uint32Array, tokens: number) {
    this.always = allowed
    this.#tokens = tokens
  }

  mask(into: Uint32Array): void {
    into.fill(0).set(this.always.subarray(0, into.length))
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
