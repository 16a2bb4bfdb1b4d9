// What the benchmark of replies that copy has found, and its page: each server's pace against that of the same round without drafts.

import { median } from "./contenders/api.ts"

export const REPLY = 256 // tokens

export interface Sample {
  /** Milliseconds between the first token and the last. */
  wall: number
  /** Of the server's process, in that time. */
  processor: number
  load: number
}

/** What runs have found; rounds are added to it. */
export interface Results {
  machine: string
  date: string
  about: string
  /** By text and server. */
  samples: Record<string, Record<string, Sample[]>>
}

const PLAIN = "sinter, disable"

/** How many times less of something each round took than without drafts. */
export function gainsOf(
  row: Record<string, Sample[]>,
  server: string,
  of: "wall" | "processor",
): number[] {
  return (row[server] ?? []).flatMap((sample, i) => {
    const plain = row[PLAIN]?.[i]
    return plain ? plain[of] / sample[of] : []
  })
}

export function pageOf({ machine, date, about, samples }: Results): string {
  const rows = Object.values(samples)
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const table = (of: "wall" | "processor") =>
    Object.entries(samples).map(([text, row]) => {
      const cells = names.map((name) => {
        const gains = gainsOf(row, name, of)
        return gains.length === 0 ? "–" : `${median(gains).toFixed(2)} (${spanOf(gains, 2)})`
      })
      return `| ${[text, ...cells].join(" | ")} |`
    })
  const head = `| ${["", ...names].join(" | ")} |\n|---|${"---:|".repeat(names.length)}`
  const all = rows.flatMap((row) => Object.values(row))
  const loads = all.flat().map(({ load }) => load)
  const rounds = Math.max(...all.map(({ length }) => length))
  return `# Replies that copy

${machine}, ${date}${about && `; ${about}`}; programs that wanted to run a minute before (load): ${median(loads).toFixed(1)} (${spanOf(loads, 1)}). A reply of ${REPLY} tokens to one client,
from the first token to the last: how many times as fast as without drafts, medians of ${rounds} rounds with the least and the most. A program says the same with drafts and without.

${head}
${table("wall").join("\n")}

Processor time of the server's process, without drafts over with:

${head}
${table("processor").join("\n")}
`
}

const spanOf = (values: readonly number[], digits: number) =>
  `${Math.min(...values).toFixed(digits)}–${Math.max(...values).toFixed(digits)}`
