// The README's tables of results, printed from the results' files by `npm run docs`: medians of rounds, the best of each row
// in bold. They are what somebody who works alone notices, what a server's clients do, and what starts take.

import { medianOf, readResults, shown } from "./figures.ts"
import { unitOf, units } from "./measurements.ts"
import type { Results } from "./report.ts"

interface Table {
  /** The name of the results' file. */
  results: string
  title: string
  /** Contenders by their names in the results, and what a reader calls them. */
  columns: Record<string, string>
  /** Rows by their names in the results, and the words for them. */
  rows: Record<string, string>
}

const tables: readonly Table[] = [
  {
    results: "1B-q4f16_1",
    title: "One request at a time, weights of 4 bits",
    columns: {
      sinter: "sinter, over HTTP",
      "llama-bench": "llama.cpp",
      "OpenVINO GenAI": "OpenVINO GenAI",
      "node-llama-cpp": "node-llama-cpp",
    },
    rows: {
      "prefill 512, tok/s": "prompt of 512 tokens, tok/s",
      "prefill 4096, tok/s": "prompt of 4,096 tokens, tok/s",
      "decode 1 together, tok/s": "decoding, tok/s",
      "decode 1 together at depth 4096, tok/s": "decoding after 4,096 tokens, tok/s",
    },
  },
  {
    results: "1B-q4f16_1",
    title: "Eight clients of a server, 200 tokens in and 64 out each",
    columns: { sinter: "sinter", "llama-server": "llama.cpp's server" },
    rows: {
      "8 clients: first token, ms": "first token, ms",
      "8 clients: between tokens, ms": "between tokens, ms",
      "8 clients: output, tok/s": "all clients together, tok/s",
    },
  },
  {
    results: "1B-q4f16_1-beside",
    title: "One client's stream while another's 2,000 tokens are read, on an EPYC with AVX-512",
    columns: { sinter: "sinter", "llama-server": "llama.cpp's server" },
    rows: {
      "between tokens p95, beside a prompt of 2000, ms": "between tokens, 95th percentile, ms",
      "between tokens at most, beside a prompt of 2000, ms": "between tokens, the longest, ms",
      "prompt of 2000, beside a stream: first token, ms": "first token of those 2,000, ms",
    },
  },
  {
    results: "1B-q4f16_1-start",
    title: "From the command to the first healthy answer, on an EPYC with AVX-512",
    columns: {
      sinter: "sinter",
      "llama-server": "llama.cpp's server",
      "OpenVINO GenAI": "OpenVINO GenAI",
      "node-llama-cpp": "node-llama-cpp",
    },
    rows: {
      "start to ready, s": "every start but the first, s",
      "cold start to ready, s": "the first, with nothing in memory, s",
    },
  },
]

export function readmeTables(): string {
  return tables.map((table) => print(table, readResults(table.results))).join("\n\n")
}

function print({ results, title, columns, rows }: Table, { samples }: Results): string {
  const lines = Object.entries(rows).map(([row, words]) => {
    const medians = Object.keys(columns).map((name) => medianOf(samples[row]?.[name]))
    const known = medians.filter((value) => value !== undefined)
    const best = units[unitOf(row)].better === "higher" ? Math.max(...known) : Math.min(...known)
    const cells = medians.map((value) => {
      const cell = value === undefined ? "–" : shown(value)
      return value === best ? `**${cell}**` : cell
    })
    return `| ${[words, ...cells].join(" | ")} |`
  })
  const head = [`[${title}](bench/results/${results}.md)`, ...Object.values(columns)]
  return [`| ${head.join(" | ")} |`, `|---|${"---:|".repeat(head.length - 1)}`, ...lines].join("\n")
}
