// What a constrained reply costs, over whole documents of 300 schemas: compiling, and every mask on the way, first visits
// included. The schemas are those of test/golden/schemas and others drawn from a seed, as function calling has them; a
// document is written by drawing bytes that the grammar allows, and then cut into tokens as a real tokenizer cuts it.
//
//   npx tsx bench/grammar.ts [cl100k|o200k] [schemas] [only a name that contains]

import { readFileSync } from "node:fs"
import { cpus } from "node:os"
import { compileSchema, Grammar, type Matcher, Vocabulary } from "../src/grammar/grammar.ts"

const [which = "cl100k", count = "300", only = ""] = process.argv.slice(2)

async function main(): Promise<void> {
  const { tokens, cut } = await tokenizer()
  const before = memory()
  const began = performance.now()
  const vocabulary = new Vocabulary([...tokens, new Uint8Array()], [tokens.length])
  const built = performance.now() - began
  console.log(`${cpus()[0]!.model}; ${which}: ${tokens.length} tokens`)
  console.log(
    `vocabulary: ${built.toFixed(0)} ms, ${((memory() - before) / 2 ** 20).toFixed(0)} MiB`,
  )

  const compiles: Timed[] = []
  const cold: Timed[] = []
  const warm: Timed[] = []
  const moves: Timed[] = []
  let forced = 0
  let bytes = 0
  for (const [name, schema] of schemas().filter(([each]) => each.includes(only))) {
    const grammar = timed(compiles, name, () => new Grammar(compileSchema(schema).part))
    const document = cut(documentOf(schema, name))
    bytes += document.bytes
    for (const times of [cold, warm]) {
      const matcher = grammar.matcher(vocabulary)
      const mask = new Uint32Array(vocabulary.words)
      for (const [i, token] of [...document.ids, tokens.length].entries()) {
        timed(times, `${name}, token ${i} ${JSON.stringify(text(tokens[token]))}`, () =>
          matcher.mask(mask),
        )
        if (times === warm && isSingle(mask)) forced++
        timed(moves, name, () => expectTaken(matcher, token, name))
      }
    }
  }
  console.log(`${compiles.length} schemas, ${cold.length} masks over ${bytes} bytes`)
  print("compile", compiles)
  print("mask, first visits", cold)
  print("mask, again", warm)
  print("token taken", moves)
  console.log(`forced: ${((forced / warm.length) * 100).toFixed(1)} % of masks hold one token`)
  console.log("slowest first visits:")
  for (const { name, ms } of cold.sort((a, b) => b.ms - a.ms).slice(0, 12)) {
    console.log(`  ${ms.toFixed(2)} ms  ${name}`)
  }
  console.log("slowest compiles:")
  for (const { name, ms } of compiles.sort((a, b) => b.ms - a.ms).slice(0, 8)) {
    console.log(`  ${ms.toFixed(1)} ms  ${name}`)
  }
}

interface Timed {
  name: string
  ms: number
}

function timed<T>(times: Timed[], name: string, run: () => T): T {
  const began = performance.now()
  const result = run()
  times.push({ name, ms: performance.now() - began })
  return result
}

function print(what: string, times: readonly Timed[]): void {
  const sorted = times.map(({ ms }) => ms).sort((a, b) => a - b)
  const at = (part: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))]!
  const mean = sorted.reduce((sum, ms) => sum + ms, 0) / sorted.length
  const show = (ms: number) => (ms < 0.1 ? `${(ms * 1000).toFixed(1)} µs` : `${ms.toFixed(2)} ms`)
  console.log(
    `${what.padEnd(20)} median ${show(at(0.5))}, mean ${show(mean)}, p90 ${show(at(0.9))}, ` +
      `p99 ${show(at(0.99))}, p99.9 ${show(at(0.999))}, most ${show(at(1))}`,
  )
}

function expectTaken(matcher: Matcher, token: number, name: string): void {
  if (!matcher.accept(token)) throw new Error(`a token of its own document is refused: ${name}`)
}

function isSingle(mask: Uint32Array): boolean {
  const words = mask.filter((word) => word !== 0)
  return words.length === 1 && (words[0]! & (words[0]! - 1)) === 0
}

function memory(): number {
  globalThis.gc?.()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

function text(bytes: Uint8Array | undefined): string {
  return Buffer.from(bytes ?? []).toString()
}

async function tokenizer() {
  const { default: ranks } = await import(`gpt-tokenizer/bpeRanks/${which}_base`)
  const { encode } = await import(`gpt-tokenizer/encoding/${which}_base`)
  const tokens = Array.from(ranks as (string | number[])[], (rank) =>
    Uint8Array.from(typeof rank === "string" ? Buffer.from(rank) : rank),
  )
  const cut = (document: string) => ({
    ids: encode(document, { allowedSpecial: new Set() }) as number[],
    bytes: Buffer.byteLength(document),
  })
  return { tokens, cut }
}

// ---- schemas and documents ----

function schemas(): [string, unknown][] {
  const file = new URL("../test/golden/schemas/documents.json", import.meta.url)
  const all = Object.entries<unknown>(JSON.parse(readFileSync(file, "utf8")))
  const words = Array.from({ length: 1000 }, (_, i) => `${WORDS[i % WORDS.length]} number ${i}`)
  const properties = Object.fromEntries(
    Array.from({ length: 200 }, (_, i) => [`${WORDS[i % WORDS.length]}_${i}`, { type: "integer" }]),
  )
  const required = Object.keys(properties).slice(0, 20)
  all.push(["an enum of 1,000", { enum: words }])
  all.push(["maxLength 100,000", { type: "string", minLength: 500, maxLength: 100_000 }])
  all.push([
    "200 properties",
    { type: "object", properties, required, additionalProperties: false },
  ])
  all.push(["200 open properties", { type: "object", properties, required }])
  for (let seed = 1; all.length < Number(count); seed++) {
    all.push([`drawn ${seed}`, new Drawing(seed).parameters()])
  }
  return all.slice(0, Number(count))
}

const plainBytes = new Vocabulary(
  [...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)), new Uint8Array()],
  [256],
)

/** Strings end after a dozen letters, lists after a few items; 1,500 bytes and then whatever ends it. */
function documentOf(schema: unknown, name: string): string {
  const drawing = new Drawing(name.length * 31 + name.charCodeAt(name.length - 1))
  const matcher = new Grammar(compileSchema(schema).part).matcher(plainBytes)
  const mask = new Uint32Array(plainBytes.words)
  const mentioned = new Set(JSON.stringify(schema).match(/[^"\\]+(?=")/g) ?? [])
  const names = [...mentioned].map((each) => Buffer.from(`${each}":`))
  const lists =
    JSON.stringify(schema)
      .match(/"required":\[[^\]]*\]/g)
      ?.join() ?? ""
  const required = new Set(names.filter((each) => lists.includes(`"${each.subarray(0, -1)}`)))
  const out: number[] = []
  for (;;) {
    matcher.mask(mask)
    const allowed: number[] = []
    for (let token = 0; token <= 256; token++) {
      if ((mask[token >>> 5]! >>> (token & 31)) & 1) allowed.push(token)
    }
    const of = (kind: Uint8Array) => allowed.filter((byte) => kind[byte] === 1)
    const isText = allowed.includes(0x7e) // a tilde: any character will do
    const closing = allowed.includes(256) ? [256] : isText ? of(bytes.quote) : of(bytes.closing)
    const letters = of(bytes.letters)
    const isLate = out.length > 1500
    const hurry = isLate ? 0.9 : letters.length > 20 ? 0.08 : 0.3
    const ending = closing.length > 0 ? closing : of(bytes.short)
    const plain =
      letters.length > 0 && drawing.chance(0.95) ? letters : of(isLate ? bytes.modest : bytes.all)
    const from = ending.length > 0 && drawing.chance(hurry) ? ending : plain
    const byte = drawing.pick(from.length > 0 ? from : allowed)
    if (byte === 256) return Buffer.from(out).toString()
    matcher.accept(byte)
    out.push(byte)
    const fitting = byte === 0x22 ? names.filter((each) => fits(matcher, each)) : []
    if (fitting.length > 0 && drawing.chance(0.95)) {
      const needed = fitting.filter((each) => required.has(each))
      const chosen = drawing.pick(needed.length > 0 && drawing.chance(0.8) ? needed : fitting)
      matcher.acceptBytes(chosen)
      out.push(...chosen)
    }
    if (out.length > 20_000) throw new Error(`no end in sight: ${name}`)
  }
}

const bytes = {
  quote: kindOf(/"/),
  closing: kindOf(/[}\]]/),
  letters: kindOf(/[a-z0-9 ]/),
  short: kindOf(/["n]/),
  modest: kindOf(/[^,[{]/),
  all: kindOf(/./),
}

function kindOf(pattern: RegExp): Uint8Array {
  return Uint8Array.from({ length: 257 }, (_, byte) =>
    byte < 256 && pattern.test(String.fromCharCode(byte)) ? 1 : 0,
  )
}

function fits(matcher: Matcher, bytes: Uint8Array): boolean {
  const taken = matcher.acceptBytes(bytes)
  if (taken) matcher.rollback(1)
  return taken
}

const WORDS =
  "id name title description query location city country date start end limit offset page sort order filter status type kind value amount price currency user email phone address message body subject tags labels metadata source target path url file format language model temperature count total width height color size weight priority score reason notes category parent children items options settings enabled visible role team project account".split(
    " ",
  )

/** Parameters of functions as people publish them, drawn from a seed (mulberry32). */
class Drawing {
  private state: number

  constructor(seed: number) {
    this.state = seed * 7919
  }

  parameters(): unknown {
    const schema = this.object(2)
    return this.chance(0.2)
      ? { $schema: "https://json-schema.org/draft/2020-12/schema", ...schema }
      : schema
  }

  private object(depth: number): Record<string, unknown> {
    const names = Array.from({ length: 1 + this.below(depth === 2 ? 9 : 5) }, () => this.name())
    const properties = Object.fromEntries(names.map((name) => [name, this.value(depth)]))
    const required = Object.keys(properties).filter(() => this.chance(0.5))
    return {
      type: "object",
      properties,
      ...(required.length > 0 && { required }),
      ...(this.chance(0.6) && { additionalProperties: false }),
    }
  }

  private value(depth: number): unknown {
    const described = this.chance(0.7) && {
      description: `The ${this.name()} of the ${this.name()}`,
    }
    return { ...(this.plain(depth) as object), ...described }
  }

  private plain(depth: number): unknown {
    const word = () => this.name()
    const kinds: (() => unknown)[] = [
      () => ({ type: "string" }),
      () => ({ type: "string" }),
      () => ({ type: "string", minLength: 1, maxLength: 10 * (1 + this.below(20)) }),
      () => ({ type: "string", enum: Array.from({ length: 2 + this.below(8) }, word) }),
      () => ({ type: "integer" }),
      () => ({ type: "integer", minimum: this.below(2), maximum: 10 ** (1 + this.below(4)) }),
      () => ({ type: "number", minimum: 0, maximum: 1 }),
      () => ({ type: "number" }),
      () => ({ type: "boolean", default: false }),
      () => ({ type: "string", format: this.pick(["date", "date-time", "email", "uri", "uuid"]) }),
      () => ({ type: "string", pattern: this.pick(PATTERNS) }),
      () => ({ type: ["string", "null"] }),
      () => ({ anyOf: [{ type: "string" }, { type: "integer" }, { type: "null" }] }),
      () => ({ const: this.name() }),
    ]
    const deeper: (() => unknown)[] = [
      () => this.object(depth - 1),
      () => this.object(depth - 1),
      () => ({ type: "array", items: this.value(depth - 1) }),
      () => ({ type: "array", items: this.value(depth - 1), minItems: 1, maxItems: 5 }),
      () => ({ type: "array", items: { type: "string" }, uniqueItems: true }),
      () => ({ anyOf: [this.object(depth - 1), { type: "null" }] }),
      () => ({ type: "object", additionalProperties: { type: "string" } }),
      () => ({
        oneOf: ["create", "update", "delete"].map((kind) => ({
          type: "object",
          properties: { kind: { const: kind }, [this.name()]: this.value(0) },
          required: ["kind"],
        })),
      }),
    ]
    return this.pick(depth > 0 && this.chance(0.4) ? deeper : kinds)()
  }

  private name(): string {
    const word = this.pick(WORDS)
    return this.chance(0.5) ? word : `${word}_${this.pick(WORDS)}`
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!
  }

  chance(part: number): boolean {
    return this.next() < part
  }

  private below(n: number): number {
    return Math.floor(this.next() * n)
  }

  private next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

const PATTERNS = [
  "^[A-Z]{2,3}-\\d{3,6}$",
  "^\\+?[1-9]\\d{6,14}$",
  "^#[0-9a-f]{6}$",
  "^[a-z0-9]+(-[a-z0-9]+)*$",
  "\\S",
  "^(https?|ftp)://[^\\s/$.?#].[^\\s]*$",
  "^\\d{4}-\\d{2}-\\d{2}$",
  "^[A-Za-z0-9+/]*={0,2}$",
]

await main()
