// What a soak found, as people read it: sentences and a table in Markdown, and a plot of its minutes.

import { median } from "./contenders/api.ts"
import type { Report } from "./load.ts"

export interface Minute {
  number: number
  /** The fault that was put in, in words; empty: none. */
  trouble: string
  told: Report
  /** How many programs wanted to run, on the last minute's average. */
  load: number
  holds: boolean
  /** Open files, and threads, of the server's process. */
  descriptors: number
  threads: number
  /** Bytes of log that reached its disk. */
  logged: number
}

export interface Soak {
  machine: string
  date: string
  /** Whether the log's disk could be filled. */
  hasDisk: boolean
  minutes: Minute[]
  /** The server's, after SIGTERM. */
  exitCode: number | null
}

const MIB = 2 ** 20

/** @param plot the file name of the plot */
export function soakMarkdown(
  { machine, date, hasDisk, minutes, exitCode }: Soak,
  plot: string,
): string {
  const loads = minutes.map(({ load }) => load)
  const busy = median(loads) > 4 ? " **Others were at work: times are those of a crowd.**" : ""
  const rows = minutes.map(({ number, trouble, told, descriptors, threads, holds }) => {
    const { answered, left, refused, busy, hit, fault } = told.outcomes
    const counts = [answered, left, refused, busy, hit, fault]
    const times = [told.firstToken.p95, told.betweenTokens.p95].map((time) => time.toFixed(1))
    const size = (told.resident / MIB).toFixed(0)
    const cells = [number, trouble, ...counts, ...times, size, descriptors, threads]
    return `| ${cells.join(" | ")} | ${holds ? "yes" : "**no**"} |`
  })
  return `# ${minutes.length} minutes of everything at once, with faults put in

${machine}, ${date}; the embedded model, the server and its visitors on the same machine. Programs that wanted to run (load):
${median(loads).toFixed(1)} (${Math.min(...loads).toFixed(1)} to ${Math.max(...loads).toFixed(1)}), of which the soak is two.${busy}

${verdict(minutes, exitCode)}
${hasDisk ? "" : "\nNo disk could be filled: that takes a user who may mount one.\n"}
![plot](${plot})

| minute | fault put in | answered | left | refused | busy | hit | wrong | first token, p95, ms | between, p95, ms | MiB at rest | files | threads | holds |
|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|
${rows.join("\n")}
`
}

function verdict(minutes: readonly Minute[], exitCode: number | null): string {
  const sum = (count: (minute: Minute) => number) =>
    minutes.reduce((total, minute) => total + count(minute), 0).toLocaleString("en")
  const wrong = minutes.filter(({ holds }) => !holds).length
  const { from, to, share } = growth(minutes)
  return [
    `- ${sum(({ told }) => told.outcomes.answered)} requests were answered with what each is told alone; ${sum(({ told }) => told.outcomes.left)} clients left; ${sum(({ told }) => told.outcomes.refused)} were refused as they had to be.`,
    `- Tokens that the server counted less those that clients were told of: ${sum(({ told }) => told.unbalanced.prompt)} of prompts, ${sum(({ told }) => told.unbalanced.completion)} of replies. Left behind: ${sum(({ told }) => Object.values(told.left).reduce((a, b) => a + b, 0))}.`,
    `- ${sum(({ told }) => told.outcomes.hit)} requests lost their answer to a process that was killed.`,
    `- Memory at rest, median of the first third of the minutes after the first sixth and of the last: ${mib(from)} and ${mib(to)} MiB, ${(share * 100).toFixed(1)} %.`,
    `- SIGTERM ended the server with code ${exitCode}. Minutes in which something did not hold: ${wrong}.`,
  ].join("\n")
}

const mib = (bytes: number) => (bytes / MIB).toFixed(1)

/** Of memory, once allocators and workers have what they need. */
export function growth(minutes: readonly Minute[]): { from: number; to: number; share: number } {
  const settled = minutes.slice(Math.floor(minutes.length / 6)).map(({ told }) => told.resident)
  const third = Math.ceil(settled.length / 3)
  const [from, to] = [median(settled.slice(0, third)), median(settled.slice(-third))]
  return { from, to, share: to / from - 1 }
}

// ---- the plot ----

const [WIDTH, HEIGHT, LEFT, TOP, GAP] = [720, 130, 70, 40, 50]

/** Memory at rest and tokens a second, minute by minute; a mark under each minute with a fault. */
export function soakSvg({ minutes }: Soak): string {
  const rows = [
    { title: "memory at rest, MiB", values: minutes.map(({ told }) => told.resident / MIB) },
    { title: "tokens a second", values: minutes.map(({ told }) => told.tokensPerSecond) },
  ]
  const x = (index: number) => LEFT + (WIDTH * index) / Math.max(1, minutes.length - 1)
  const parts = rows.map(({ title, values }, row) => {
    const top = TOP + row * (HEIGHT + GAP)
    const most = Math.max(...values, 1)
    const y = (value: number) => top + HEIGHT - (HEIGHT * value) / most
    const points = values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`)
    const marks = minutes.flatMap(({ trouble, holds }, index) =>
      trouble === ""
        ? []
        : [
            `<circle cx="${x(index).toFixed(1)}" cy="${top + HEIGHT + 6}" r="2.5" fill="${holds ? "#868e96" : "#e03131"}"/>`,
          ],
    )
    return `<text x="${LEFT}" y="${top - 8}">${title}</text>
<text x="${LEFT - 8}" y="${top + 4}" text-anchor="end">${most.toFixed(0)}</text>
<text x="${LEFT - 8}" y="${top + HEIGHT + 4}" text-anchor="end">0</text>
<path d="M${LEFT} ${top}V${top + HEIGHT}H${LEFT + WIDTH}" fill="none" stroke="#adb5bd"/>
<polyline points="${points.join(" ")}" fill="none" stroke="#0b7285" stroke-width="1.5"/>
${marks.join("")}`
  })
  const height = TOP + rows.length * (HEIGHT + GAP)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${LEFT + WIDTH + 20} ${height}" font-family="sans-serif" font-size="12" fill="#212529">
<title>A soak, minute by minute</title>
<rect width="100%" height="100%" fill="white"/>
${parts.join("\n")}
<text x="${LEFT + WIDTH}" y="${height - 14}" text-anchor="end">minutes 1 to ${minutes.length}; a mark: a fault was put in</text>
</svg>
`
}
