// Families of numbers in Prometheus' text form, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format): what is counted, how values are spread, and what is
// looked up when the page is asked for. Labels stand in the order in which they are given, so a caller gives always the same.

/** The page's media type. */
export const PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

export type Labels = Readonly<Record<string, string | number>>

interface Family {
  name: string
  help: string
  type: "counter" | "gauge" | "histogram"
  lines: () => readonly string[]
}

export class Families {
  readonly #families: Family[] = []

  /** A sum for each set of labels that was met. */
  counter(name: string, help: string): Counter {
    const counter = new Counter(name)
    this.#families.push({ name, help, type: "counter", lines: () => counter.lines() })
    return counter
  }

  /** @param bounds of its buckets, ascending @param isLabelled else it is there before its first value */
  histogram(name: string, help: string, bounds: readonly number[], isLabelled = false): Histogram {
    const histogram = new Histogram(name, bounds, isLabelled)
    this.#families.push({ name, help, type: "histogram", lines: () => histogram.lines() })
    return histogram
  }

  /** @param read is called at each print; undefined, which is not known now, has no line */
  gauge(name: string, help: string, read: () => number | undefined): void {
    const lines = () => {
      const value = read()
      return value === undefined ? [] : [sample(name, "", value)]
    }
    this.#families.push({ name, help, type: "gauge", lines })
  }

  print(): string {
    const printed = this.#families.map(({ name, help, type, lines }) => {
      const head = [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${type}`]
      return [...head, ...lines()].join("\n")
    })
    return `${printed.join("\n\n")}\n`
  }
}

class Counter {
  readonly #name: string
  readonly #sums = new Map<string, number>() // by printed labels

  constructor(name: string) {
    this.#name = name
  }

  add(labels: Labels, value = 1): void {
    const key = pairs(labels)
    this.#sums.set(key, (this.#sums.get(key) ?? 0) + value)
  }

  lines(): string[] {
    return Array.from(this.#sums, ([labels, sum]) => sample(this.#name, labels, sum))
  }
}

interface Spread {
  counts: number[] // [bounds] of values in each bucket alone
  sum: number
  count: number
}

class Histogram {
  readonly #name: string
  readonly #bounds: readonly number[]
  readonly #spreads = new Map<string, Spread>() // by printed labels

  constructor(name: string, bounds: readonly number[], isLabelled: boolean) {
    this.#name = name
    this.#bounds = bounds
    if (!isLabelled) this.#spreadOf("")
  }

  observe(value: number, labels: Labels = {}): void {
    const spread = this.#spreadOf(pairs(labels))
    const bucket = this.#bounds.findIndex((bound) => value <= bound)
    if (bucket >= 0) spread.counts[bucket]!++
    spread.sum += value
    spread.count++
  }

  lines(): string[] {
    return Array.from(this.#spreads, ([labels, { counts, sum, count }]) => {
      let below = 0
      const buckets = this.#bounds.map((bound, at) => {
        below += counts[at]!
        return this.#bucket(`${bound}`, labels, below)
      })
      const rest = [this.#bucket("+Inf", labels, count)]
      rest.push(sample(`${this.#name}_sum`, labels, sum))
      rest.push(sample(`${this.#name}_count`, labels, count))
      return [...buckets, ...rest]
    }).flat()
  }

  #bucket(bound: string, labels: string, count: number): string {
    const le = `le="${bound}"`
    return sample(`${this.#name}_bucket`, labels ? `${le},${labels}` : le, count)
  }

  #spreadOf(key: string): Spread {
    let spread = this.#spreads.get(key)
    if (!spread) {
      spread = { counts: this.#bounds.map(() => 0), sum: 0, count: 0 }
      this.#spreads.set(key, spread)
    }
    return spread
  }
}

/** @param labels printed */
function sample(name: string, labels: string, value: number): string {
  const number =
    Math.abs(value) === Number.POSITIVE_INFINITY ? (value > 0 ? "+Inf" : "-Inf") : value
  return `${name}${labels ? `{${labels}}` : ""} ${number}`
}

const pairs = (labels: Labels) =>
  Object.entries(labels)
    .map(([label, value]) => `${label}="${escaped(`${value}`).replaceAll('"', '\\"')}"`)
    .join(",")

const escaped = (text: string) => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")
