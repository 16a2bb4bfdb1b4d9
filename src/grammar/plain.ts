// Texts that stand without quotes up to a mark: they hold it nowhere, since whoever reads them ends there.

import { anything, combine, commonAlphabet, type Dfa, explore, finite, step } from "./dfa.ts"
import { wholeLanguage } from "./regex.ts"
import { type Priced, priced } from "./work.ts"

/** A mark as two languages. */
export interface Mark {
  /** The texts that hold it. */
  readonly holding: Dfa
  readonly others: Dfa
}

// Formats have few of them, and what is known of a language is known by its automaton.
const marks = new Map<string, Priced<Mark>>()

export function markOf(mark: string): Mark {
  const known = priced(marks.get(mark), () => {
    const holding = wholeLanguage(`[^]*${mark.replace(/[^\w\s]/g, "\\$&")}[^]*`)
    return { holding, others: combine([anything, holding], ([, holds]) => !holds) }
  })
  marks.set(mark, known)
  return known.value
}

/** What stands for a text, or for null. */
export interface PlainForm {
  /** The mark behind it. */
  readonly end: string
  /** Whether one line break at its beginning, and one at its end, are not part of it. */
  readonly inLines?: boolean
  /** What stands for null and for no text. */
  readonly nulls?: readonly string[]
}

/**
 * What may be written for one of some texts, or for null where that is one of the values; undefined: anything up to the mark.
 * @throws TooLarge
 */
export function plainLanguage(
  texts: readonly Dfa[],
  hasNull: boolean,
  { end, inLines = false, nulls = [] }: PlainForm,
): Dfa | undefined {
  const { holding, others } = markOf(end)
  const isFree = texts.includes(anything) || texts.includes(others)
  if (isFree && (hasNull || nulls.length === 0)) return undefined
  const words = finite(nulls)
  const kept = combine([anything, holding, words, ...texts], ([, holds, isNull, ...has]) =>
    Boolean(isNull ? hasNull : !holds && has.includes(true)),
  )
  return inLines ? betweenBreaks(kept) : kept
}

const LINE_BREAK = 0x0a

/** The texts of which one of a language is left when a line break at the beginning and one at the end are taken away. */
function betweenBreaks(language: Dfa): Dfa {
  if (language.start < 0) return language
  const alphabet = commonAlphabet([language, finite(["\n"])])
  return explore<Place>(
    alphabet,
    { state: language.start, begun: false, broken: false },
    ({ state, begun, broken }) => `${state} ${begun} ${broken}`,
    (place, into) => {
      alphabet.starts.forEach((from, at) => {
        const c = alphabet.classOf[at]!
        if (c !== 0) into[c] = after(language, place, from)
      })
    },
    ({ state }) => state >= 0 && language.accepts[state] === 1,
  )
}

/** A state of the language, and whether a line break behind it may be its own or the one that is taken away. */
interface Place {
  state: number
  begun: boolean
  broken: boolean
}

function after(language: Dfa, { state, begun, broken }: Place, character: number) {
  if (character === LINE_BREAK && !begun) return { state, begun: true, broken: false }
  const behind = broken ? step(language, state, LINE_BREAK) : state
  if (behind < 0) return undefined
  if (character === LINE_BREAK) return { state: behind, begun: true, broken: true }
  const next = step(language, behind, character)
  return next < 0 ? undefined : { state: next, begun: true, broken: false }
}
