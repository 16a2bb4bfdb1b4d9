// Languages of whole texts that are no JSON: a pattern, a list of texts, and the notations of grammars. What is compiled is a part,
// like a schema's.

import { finite } from "../dfa.ts"
import type { Part } from "../parts.ts"
import { markOf } from "../plain.ts"
import { PatternFault, wholeLanguage } from "../regex.ts"
import type { TextForm } from "../strings.ts"
import { bounded, MAX_WORK, TooLarge } from "../work.ts"
import { readGbnf } from "./gbnf.ts"
import { readLark } from "./lark.ts"
import { GrammarFault, NoText, partOfDfa, partOfRules } from "./rules.ts"

/** What a text is to be. It can be sent to a thread. */
export type Language =
  /** An ECMA-262 pattern of the whole text. */
  | { kind: "regex"; pattern: string }
  /** One of these. */
  | { kind: "choice"; texts: readonly string[] }
  | { kind: "gbnf"; grammar: string }
  | { kind: "lark"; grammar: string }

/** Why a language is refused, as a clause whose subject is the field. */
export class LanguageRefusal extends Error {
  /** Whether it could be kept to, were there a text. */
  readonly isUnsatisfiable: boolean
  constructor(reason: string, isUnsatisfiable: boolean) {
    super(reason)
    this.isUnsatisfiable = isUnsatisfiable
  }
}

/**
 * @param form how its texts are written; the quotes around a quoted one are the caller's
 * @param without a mark behind the text, which a Lark grammar's then does not hold (see rules.ts)
 * @throws LanguageRefusal when it is malformed, cannot be kept to, or has no text
 */
export function compileLanguage(
  language: Language,
  form: TextForm = "plain",
  without?: string,
): Part {
  try {
    return bounded(MAX_WORK, () => partOf(language, form, without))
  } catch (error) {
    const isRefusal =
      error instanceof GrammarFault || error instanceof PatternFault || error instanceof TooLarge
    throw isRefusal ? new LanguageRefusal(error.message, error instanceof NoText) : error
  }
}

function partOf(language: Language, form: TextForm, without: string | undefined): Part {
  switch (language.kind) {
    case "regex":
      return partOfDfa(wholeLanguage(language.pattern), form)
    case "choice":
      return partOfDfa(finite(language.texts), form)
    case "gbnf":
      return partOfRules(readGbnf(language.grammar), "root", form)
    case "lark": {
      const { rules, start } = readLark(language.grammar)
      return partOfRules(rules, start, form, without === undefined ? undefined : markOf(without))
    }
  }
}
