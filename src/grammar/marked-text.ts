// Texts between marks of their own instead of quotes, and names without quotes, as Gemma 4 writes them in values. A text holds
// the mark nowhere; what is in quotes, as JSON has it, may.

import { type Dfa, finite } from "./dfa.ts"
import { type Context, type Frame, FrameRest, type Reach, Rest } from "./frames.ts"
import type { Case } from "./goal.ts"
import { canGoOn, LanguageFrame } from "./language-frame.ts"
import { LiteralFrame } from "./literal-frame.ts"
import { markOf, plainLanguage } from "./plain.ts"
import { SchemaFault } from "./schema-node.ts"
import { StringLanguage } from "./strings.ts"
import { bounded, MAX_WORK, TooLarge } from "./work.ts"

const TEXT_MARK = '<|"|>'

const MARK = Buffer.from(TEXT_MARK)

/** Whether a name can stand without quotes. */
export function isBare(name: string): boolean {
  return /^[^\s:,{}[\]"<>]+$/.test(name)
}

/** Behind the first byte of the mark before a text of a case. */
export function beginMarked(context: Context, c: Case, rest: Rest, out: Frame[]): void {
  const language = languageOf(c)
  if (language)
    out.push(new LiteralFrame(context, MARK, 1, new OpenedRest(context, language, rest)))
}

const languages = new WeakMap<Case, StringLanguage>()
let any: StringLanguage | undefined // one for all cases, since masks are kept by the language

/** Undefined: they would take too much to keep apart from the mark, or there are none. */
function languageOf(c: Case): StringLanguage | undefined {
  const known = languages.get(c)
  if (known) return known.isEmpty() ? undefined : known
  const language = madeFor(c)
  languages.set(c, language)
  return language.isEmpty() ? undefined : language
}

function madeFor(c: Case): StringLanguage {
  const of = (texts: Dfa) => new StringLanguage(texts, 0, Number.POSITIVE_INFINITY, "plain")
  try {
    const texts = bounded(MAX_WORK, () => plainLanguage([c.wholeLanguage()], false, FORM))
    if (texts) return of(texts)
    any ??= of(markOf(TEXT_MARK).others)
    return any
  } catch (error) {
    if (error instanceof TooLarge || error instanceof SchemaFault) return of(finite([]))
    throw error
  }
}

const FORM = { end: TEXT_MARK }

/** The mark before a text has been read. */
class OpenedRest extends Rest {
  private readonly language: StringLanguage
  private readonly rest: Rest

  constructor(context: Context, language: StringLanguage, rest: Rest) {
    super(context)
    this.language = language
    this.rest = rest
  }

  resume(_value: string | undefined, out: Frame[]): void {
    const { context, language } = this
    const close = new LiteralFrame(context, MARK, 0, this.rest)
    const start = language.start()
    if (language.has("")) out.push(close)
    if (canGoOn(start)) out.push(new LanguageFrame(context, start, new FrameRest(close)))
  }

  protected describe(reach: Reach): string {
    return `<${this.language.id}|${this.rest.signature(reach)}`
  }
}
