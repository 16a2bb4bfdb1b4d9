// What the benchmark of drafts has found, and its page. What is reached is held against what the steps' own times and the
// chance that drafts are right allow:
//
//   expected tokens of a step, (1 - a^(k+1)) / (1 - a), over the time of a step over k + 1 rows, at the best k

import { median } from "./contenders/api.ts"

/** That a stand-in is right. */
export const CHANCES = [0.5, 0.6, 0.7, 0.8, 0.9]
export const FIXED = { chance: 0.8, length: 4 }
/** Lengths of drafts whose steps are timed, for one sequence and for four. */
export const LENGTHS = {
  1: [0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15],
  4: [0, 1, 2, 3, 4, 5, 7, 9],
} as const
export const HOSTILE_REPLY = 128 // tokens
export const CALM = 64 // tokens after which a drafter that is never right is left alone

export type Sequences = keyof typeof LENGTHS

export interface Round {
  sequences: Sequences
  load: number
  /** Milliseconds of a step by the length of each sequence's draft. */
  costs: Record<number, number>
  /** Tokens a second: without drafts, and with them by the chance that they are right. */
  plain: number
  adaptive: Record<number, number>
  fixed: number
}

export interface Hostile {
  load: number
  /** Time without a drafter over time with one that is never right. */
  ratio: number
  /** Of the steps after CALM tokens, the share with drafts. */
  late: number
}

/** What runs have found; rounds are added to it. */
export interface Drafts {
  title: string
  machine: string
  date: string
  rounds: Round[]
  hostile: Hostile[]
}

/** Tokens of a step, expected with drafts of such a length that are right with a chance. */
const expected = (chance: number, length: number) => (1 - chance ** (length + 1)) / (1 - chance)

/** How much faster than without drafts the steps' times allow to be, at the best length. */
function allowed(costs: Record<number, number>, chance: number): number {
  const gains = Object.entries(costs).map(
    ([length, ms]) => (expected(chance, Number(length)) * costs[0]!) / ms,
  )
  return Math.max(...gains)
}

/** Of each round with so many sequences: how much faster it was, what was allowed, and the share of that. */
export function gains(rounds: readonly Round[], sequences: Sequences, chance: number) {
  const of = rounds.filter((round) => round.sequences === sequences)
  const gained = of.map(({ adaptive, plain }) => adaptive[chance]! / plain)
  const most = of.map(({ costs }) => allowed(costs, chance))
  return { gained, allowed: most, reached: gained.map((gain, i) => gain / most[i]!) }
}

const share = (value: number) => `${(100 * value).toFixed(0)} %`
const times = (value: number) => value.toFixed(2)

export function draftsPage({ title, machine, date, rounds, hostile }: Drafts): string {
  const of = (sequences: Sequences) => rounds.filter((round) => round.sequences === sequences)
  const rows = ([1, 4] as const).flatMap((sequences) =>
    CHANCES.map((chance) => {
      const of = gains(rounds, sequences, chance)
      return `| ${sequences} | ${chance} | ${spread(of.gained, times)} | ${spread(of.allowed, times)} | ${spread(of.reached, share)} |`
    }),
  )
  const fixed = ([1, 4] as const).map((sequences) => {
    const gains = of(sequences).map(({ fixed, plain }) => fixed / plain)
    return `| ${sequences} | ${spread(gains, times)} |`
  })
  const costs = ([1, 4] as const).flatMap((sequences) =>
    of(sequences).length === 0
      ? []
      : LENGTHS[sequences].map((length) => {
          const ratios = of(sequences).map(({ costs }) => costs[length]! / costs[0]!)
          return `| ${sequences} | ${length} | ${spread(ratios, times)} |`
        }),
  )
  const loads = [...rounds, ...hostile].map(({ load }) => load)
  return `# Drafts: ${title}

${machine}, ${date}; programs that wanted to run a minute before (load): ${spread(loads, times)}. Those who propose are stand-ins
that are right with a chance a and take no time; replies are drawn at temperature 1, and were the same with drafts and without.
Medians of ${of(1).length} rounds with one sequence and ${of(4).length} with four, with the least and the most.

*Allowed* is the most that the times of steps and a allow: the best over lengths k of (1 - a^(k+1)) / (1 - a) tokens over the time
of a step with drafts of k, beside one token over the time of a step without.

| sequences | a | times as fast | allowed | reached |
| ---: | ---: | ---: | ---: | ---: |
${rows.join("\n")}

Drafts of ${FIXED.length} always, right with ${FIXED.chance}:

| sequences | times as fast |
| ---: | ---: |
${fixed.join("\n")}

A drafter that is never right, ${hostile.length} pairs of replies of ${HOSTILE_REPLY} tokens with it and without: the speed is
${spread(
  hostile.map(({ ratio }) => ratio),
  times,
)} of that without, and after ${CALM} tokens ${spread(
    hostile.map(({ late }) => late),
    share,
  )} of the steps try a draft.

Times of steps, beside one without drafts:

| sequences | draft of each | time |
| ---: | ---: | ---: |
${costs.join("\n")}
`
}

function spread(values: readonly number[], written: (value: number) => string): string {
  if (values.length === 0) return "–"
  const [least, most] = [Math.min(...values), Math.max(...values)]
  return `${written(median(values))} (${written(least)}–${written(most)})`
}
