// What a constrained reply costs, over whole documents of 300 schemas: compiling, and every mask on the way, first visits
// included. The schemas are those of test/golden/schemas and others drawn from a seed, as function calling has them; a
// document is written by drawing bytes that the grammar allows, and then cut into tokens as a real tokenizer cuts it. Times
// are the processor's (all threads: what collects garbage counts), so that a busy machine does not change them much. As in a
// server, the code has been warmed up with schemas of its own before.
//
// Then 16 sequences are stepped together as the server steps them: tokens go to the thread of the constraints, masks come
// back. It runs from what tsc makes of everything, because tsx wraps every function, and that costs as much as a mask:
//
//   npx tsc -p . --noEmit false --rootDir . --outDir build.partial-bench
//   node build.partial-bench/bench/grammar.js [cl100k|o200k] [schemas] [only a name that contains]

import { readFileSync } from "node:fs"
import { cpus } from "node:os"
import { setTimeout as passed } from "node:timers/promises"
import { type ConstraintOptions, Constraints } from "../src/chat/constraint.ts"
import { ConstraintThreads } from "../src/chat/constraint-threads.ts"
import { TokenBytes } from "../src/chat/vocabulary.ts"
import { warmUpPieces } from "../src/chat/warm-up.ts"
import type { Constraint } from "../src/engine/generation.ts"
import { compileSchema, Grammar, type Matcher, Vocabulary } from "../src/grammar/grammar.ts"
import { uniform } from "../test/random.ts"

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

  const options = optionsOf(tokens)
  const pieces: Timed[] = []
  const warming = warmUpPieces(new Constraints(options), options.tokens)
  while (!timed(pieces, "a piece of the warm-up", () => warming.next().done));
  const whole = pieces.reduce((sum, { ms }) => sum + ms, 0)
  const longest = pieces.reduce((most, { ms }) => Math.max(most, ms), 0)
  console.log(
    `warm-up: ${whole.toFixed(0)} ms in ${pieces.length} pieces of ${longest.toFixed(0)} at most`,
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
      const isCut = document.bytes >= 1500
      const matcher = grammar.matcher(vocabulary)
      const mask = new Uint32Array(vocabulary.words)
      for (const [i, token] of [...document.ids, ...(isCut ? [] : [tokens.length])].entries()) {
        timed(times, name, () => matcher.mask(mask))
        const last = times.at(-1)!
        if (last.ms > 2) last.name += `, token ${i} ${JSON.stringify(text(tokens[token]))}`
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
  if (only === "") await together(options, cut)
}

const sequences = 16
const WARM_UP = 10_000 // milliseconds after which a thread has warmed up, its pauses included

/** Steps of 16 sequences: what passes until all masks are there, and what of it the main thread is busy. */
async function together(
  options: ConstraintOptions,
  cut: (text: string) => { ids: number[] },
): Promise<void> {
  const thread = new ConstraintThreads(options)
  await passed(WARM_UP)
  const replies = schemas()
    .slice(-40)
    .map(([name, schema]) => ({ schema, ids: cut(documentOf(schema, name)).ids }))
    .sort((a, b) => b.ids.length - a.ids.length)
    .slice(0, sequences)
  const mask = new Uint32Array(Math.ceil(options.tokens.size / 32))
  for (const what of [`${sequences} at once, first`, `${sequences} at once, again`]) {
    const constraints: Constraint[] = []
    for (const { schema } of replies) {
      const spec = { calls: undefined, reasoning: undefined, format: { schema } }
      const { constraint } = await thread.hold(spec, { client: "" })
      constraints.push(constraint())
    }
    const steps: Timed[] = []
    const busy: Timed[] = []
    for (let step = 0; step < replies.at(-1)!.ids.length; step++) {
      const began = performance.now()
      const before = performance.eventLoopUtilization()
      await Promise.all(constraints.map(({ pending }) => pending))
      for (const constraint of constraints) constraint.mask(mask)
      replies.forEach(({ ids }, i) => {
        constraints[i]!.accept(ids[step]!)
      })
      // Let the thread's answers in, as a step of the model would.
      await new Promise((resolve) => setImmediate(resolve))
      steps.push({ name: what, ms: performance.now() - began })
      busy.push({ name: what, ms: performance.eventLoopUtilization(before).active })
    }
    print(what, steps)
    print("  main thread", busy)
    for (const constraint of constraints) constraint.close?.()
  }
  await thread.close()
}

function optionsOf(texts: readonly Uint8Array[]): ConstraintOptions {
  const offsets = new Uint32Array(texts.length + 2)
  texts.forEach((text, id) => {
    offsets[id + 1] = offsets[id]! + text.length
  })
  offsets[texts.length + 1] = offsets[texts.length]! // the end has no text
  const bytes = new TokenBytes(Buffer.concat(texts), offsets)
  return {
    tokens: { size: texts.length + 1, bytes, special: new Set(), stripsLeadingSpace: false },
    visible: new Set(),
    ends: [texts.length],
    toolFormat: "hermes",
  }
}

interface Timed {
  name: string
  ms: number
}

function timed<T>(times: Timed[], name: string, run: () => T): T {
  const began = process.cpuUsage()
  const result = run()
  const { user, system } = process.cpuUsage(began)
  times.push({ name, ms: (user + system) / 1000 })
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
  let single = 0
  for (const word of mask) {
    if (word === 0) continue
    if (single !== 0 || (word & (word - 1)) !== 0) return false
    single = word
  }
  return single !== 0
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
  const documents = readFileSync("test/golden/schemas/documents.json", "utf8")
  const all = Object.entries<unknown>(JSON.parse(documents))
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

/** Strings end after a dozen letters, lists after a few items; after 500 bytes nothing begins that need not. */
function documentOf(schema: unknown, name: string): string {
  const drawing = new Drawing(name.length * 31 + name.charCodeAt(name.length - 1))
  const matcher = new Grammar(compileSchema(schema).part).matcher(plainBytes)
  const text = JSON.stringify(schema)
  const names = [...new Set(text.match(/"[^"\\]+(?=":)/g) ?? [])].map((each) => each.slice(1))
  const lists = text.match(/"required":\[[^\]]*\]/g)?.join() ?? ""
  const required = names.filter((each) => lists.includes(`"${each}"`))
  const letters = Array.from("etaoinshrdlucmfwypvbgkjqxz0123456789ABCDEFT-./:@ ")
  const marks = Array.from('",:{[0123456789-ntfe}]')
  const others = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte))
  const take = (piece: string) => matcher.acceptBytes(Buffer.from(piece, "latin1")) && piece
  const first = (pieces: readonly string[]) => {
    const from = drawing.next() * pieces.length
    for (let i = 0; i < pieces.length; i++) {
      const taken = take(pieces[Math.floor(from + i) % pieces.length]!)
      if (taken) return taken
    }
    return false
  }
  let out = ""
  while (out.length < 1500) {
    const late = out.length > 500
    if (matcher.canEnd() && drawing.chance(late ? 1 : 0.3)) return decoded(out)
    const isText = fits(matcher, "~")
    const closers = isText ? ['"'] : out.endsWith('"') ? [] : ["}", "]", '"']
    const close = drawing.chance(late ? 0.9 : isText ? 0.08 : 0.3) && first(closers)
    const named =
      close ||
      (!isText && out.endsWith('"') && drawing.chance(0.7) && first(required.map(member))) ||
      (!isText && out.endsWith('"') && drawing.chance(0.9) && first(names.map(member)))
    const piece = named || (isText && first(letters)) || first(marks) || first(letters)
    out += piece || first(others) || ""
  }
  return decoded(out) // its beginning will do
}

function member(name: string): string {
  return `${Buffer.from(name).toString("latin1")}":`
}

function decoded(bytes: string): string {
  return Buffer.from(bytes, "latin1").toString()
}

function fits(matcher: Matcher, piece: string): boolean {
  const taken = matcher.acceptBytes(Buffer.from(piece))
  if (taken) matcher.rollback(1)
  return taken
}

const WORDS =
  "id name title description query location city country date start end limit offset page sort order filter status type kind value amount price currency user email phone address message body subject tags labels metadata source target path url file format language model temperature count total width height color size weight priority score reason notes category parent children items options settings enabled visible role team project account".split(
    " ",
  )

/** Parameters of functions as people publish them, drawn from a seed (mulberry32). */
class Drawing {
  readonly next: () => number

  constructor(seed: number) {
    this.next = uniform(seed * 7919)
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
