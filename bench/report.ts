// Samples as people read them: a table in Markdown with medians, spread and ratios, and the same as a plot. Ratios are taken
// within a round, where contenders followed each other within seconds, and their median is what counts.

import { median } from "./contenders/api.ts"
import type { Limits } from "./machine.ts"
import { measurements, unitOf, units } from "./measurements.ts"

/** What a run has found; the file beside the report, from which it goes on. */
export interface Results {
  title: string
  machine: string
  date: string
  /** What each contender says of itself; the first one is compared with the others. */
  contenders: Record<string, string>
  /** How busy the machine was when each round began. */
  load: number[]
  /** Of each round. */
  limits: Limits[]
  /** samples[row][contender]: one number a round, or null where it failed. */
  samples: Record<string, Record<string, (number | null)[]>>
  /** Shares of the limits of their second, of our engine. */
  shares: Record<string, number[]>
  /** Samples that were asked for, whether or not there was an answer. */
  done: string[]
}

export function markdown(results: Results, plot: string): string {
  const { title, machine, date, contenders, limits, load, samples } = results
  const names = Object.keys(contenders)
  const [ours, ...peers] = names
  const head = ["", ...names, ...peers.map((peer) => `${ours} / ${peer}`)]
  const rows = Object.entries(samples).map(([row, by]) => [
    row,
    ...names.map((name) => spread(by[name])),
    ...peers.map((peer) => ratio(row, by[ours!], by[peer])),
  ])
  return `# ${title}

${machine}, ${date}. ${limitsOf(limits)}. Programs that wanted to run a minute before (load):
${range(load)}${busy(load) ? ". **Others were at work: compare ratios, not rates**" : ""}.

Medians of the rounds, with the least and the most; contenders took turns within every round. The last columns are medians of
the rounds' own ratios, turned so that **more than 1 means that ${ours} is better**; in brackets their spread. Ratios whose
spread reaches across 1 are within the noise.

![plot](${plot})

${table([head, ...rows])}
${notes(samples)}${shares(results)}
${names.map((name) => `- **${name}**: ${contenders[name]}`).join("\n")}
`
}

const table = ([head, ...rows]: string[][]) =>
  [head!, head!.map((_, i) => (i ? "---:" : "---")), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n")

const busy = (load: readonly number[]) => median(load) > 3

const range = (values: readonly number[]) =>
  values.length === 0
    ? "–"
    : `${short(median(values))} (${short(Math.min(...values))}–${short(Math.max(...values))})`

const numbers = (samples: readonly (number | null)[] | undefined) =>
  (samples ?? []).filter((sample) => sample !== null)

function spread(samples: readonly (number | null)[] | undefined): string {
  const values = numbers(samples)
  return values.length ? range(values) : "–"
}

/** Of the rounds in which both have a number. */
export function ratios(
  row: string,
  ours: readonly (number | null)[] = [],
  theirs: readonly (number | null)[] = [],
): number[] {
  const higher = units[unitOf(row)].better === "higher"
  return ours.flatMap((our, round) => {
    const their = theirs[round]
    if (our === null || their === null || their === undefined) return []
    return [higher ? our / their : their / our]
  })
}

function ratio(...of: Parameters<typeof ratios>): string {
  const values = ratios(...of)
  if (values.length === 0) return "–"
  const [least, most] = [Math.min(...values), Math.max(...values)]
  return `**${median(values).toFixed(2)}** [${least.toFixed(2)}–${most.toFixed(2)}]`
}

function limitsOf(limits: readonly Limits[]): string {
  const of = (name: keyof Limits) => limits.flatMap((each) => each[name] ?? [])
  const reads = `in the same minutes: reads ${range(of("read_gbs"))} GB/s`
  const units = of("matrix_gops").filter((gops) => gops > 0) // older runs do not say
  const int8 = range(of("int8_gops"))
  if (of("f32_gflops").length === 0) {
    const matrix = units.length > 0 ? `, those of its matrix unit ${range(units)} GOPS` : ""
    return `Limits of the machine ${reads}, 8-bit\nvector operations ${int8} GOPS${matrix}`
  }
  return [
    `Limits of the device ${reads}`,
    `dots of four bytes ${int8} GOPS`,
    ...(units.length > 0 ? [`products on its matrix units ${range(units)} GOPS`] : []),
    `multiply-adds ${range(of("f32_gflops"))} GFLOPS`,
    `a launch\nbehind another ${range(of("launch_us"))} µs, a submission ${range(of("submission_us"))} µs`,
  ].join(", ")
}

function shares({ shares }: Results): string {
  const rows = Object.entries(shares)
  if (rows.length === 0) return ""
  const list = rows.map(([what, values]) => `| ${what} | ${range(values.map((v) => v * 100))} |`)
  return `\n| our engine, % of the limit measured beside it | |\n|---|---:|\n${list.join("\n")}\n`
}

/** Of the measurements that have rows here. */
function notes(samples: Results["samples"]): string {
  const rows = Object.keys(samples)
  const lines = measurements.flatMap(({ group, note }) =>
    note && rows.some((row) => row.startsWith(group)) ? [`\n${note}\n`] : [],
  )
  return lines.join("")
}

const short = (value: number) =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)

// ------------------------------------------------------------------ the plot

const COLOURS = ["#0b7285", "#e8590c", "#5f3dc4", "#868e96", "#2b8a3e", "#a61e4d"]
const [LEFT, BAR, GAP, WIDTH] = [300, 13, 12, 460]

/** Bars beside each other: every row scaled by its longest, the numbers behind them. */
export function svg({ title, contenders, samples }: Results): string {
  const names = Object.keys(contenders)
  const parts: string[] = []
  let y = 64 + 18 * names.length
  names.forEach((name, i) => {
    parts.push(rect(20, 44 + 18 * i, 12, 12, COLOURS[i]!), text(40, 54 + 18 * i, name))
  })
  for (const [row, by] of Object.entries(samples)) {
    const bars = names.flatMap((name, i) => {
      const values = numbers(by[name])
      return values.length ? [{ value: median(values), colour: COLOURS[i]! }] : []
    })
    if (bars.length < 2) continue
    const longest = Math.max(...bars.map(({ value }) => value))
    parts.push(text(LEFT - 10, y + (bars.length * BAR) / 2 + 4, row, "end"))
    for (const { value, colour } of bars) {
      const width = Math.max(1, (WIDTH * value) / longest)
      parts.push(rect(LEFT, y, width, BAR - 2, colour))
      parts.push(text(LEFT + width + 6, y + BAR - 3, short(value)))
      y += BAR
    }
    y += GAP
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${LEFT + WIDTH + 80} ${y}" font-family="sans-serif" font-size="12">
<title>${title}</title>
<rect width="100%" height="100%" fill="white"/>
${text(20, 26, title, "start", 16)}
${parts.join("\n")}
</svg>
`
}

const rect = (x: number, y: number, width: number, height: number, fill: string) =>
  `<rect x="${x}" y="${y}" width="${width.toFixed(1)}" height="${height}" fill="${fill}"/>`

function text(x: number, y: number, words: string, anchor = "start", size = 12): string {
  const escaped = words.replaceAll("&", "&amp;").replaceAll("<", "&lt;")
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" font-size="${size}" fill="#212529">${escaped}</text>`
}
