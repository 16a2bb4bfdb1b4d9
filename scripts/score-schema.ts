// Scores the structured-output engine on the official JSON Schema Test Suite: `npm run score:schema -- --suite DIR`.
// Each instance is fed in its own spelling, byte by byte and token by token; then random walks over the masks look for dead
// ends, and what they wrote is judged by ajv. `--walks N` sets how many per schema, `--draft NAME` picks one, `--write` puts
// the tables into bench/results/structured-output.md.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Ajv, type AnySchema, type Options } from "ajv"
import { Ajv2019 } from "ajv/dist/2019.js"
import { Ajv2020 } from "ajv/dist/2020.js"
import {
  compileSchema,
  type Dialect,
  Grammar,
  type Matcher,
  SchemaRefusal,
  Vocabulary,
} from "../src/grammar/grammar.ts"
import { seedOf, uniform } from "../test/random.ts"

interface Test {
  description: string
  /** The instance as the suite spells it, without blanks between tokens. */
  text: string
  valid: boolean
}

interface Group {
  keyword: string
  description: string
  schema: unknown
  schemaText: string
  tests: Test[]
  formats: boolean
}

interface Row {
  keyword: string
  tests: number
  exact: number
  lenient: number
  strict: number
  refused: number
  walks: number
  judged: number
  deadEnds: number
  invalid: number
}

const drafts: Record<string, { dialect: Dialect; ajv: (options: Options) => Ajv }> = {
  draft7: { dialect: "draft-07", ajv: (options) => new Ajv(options) },
  "draft2019-09": { dialect: "2019-09", ajv: (options) => new Ajv2019(options) },
  "draft2020-12": { dialect: "2020-12", ajv: (options) => new Ajv2020(options) },
}

// Files about documents from outside: the remotes of the suite and vocabularies of custom metaschemas.
const outside = ["refRemote", "vocabulary"]
const customDialect = '"$schema":"http://localhost:1234'
const outsideReason = "documents from outside are not read"

const { values: options } = parseArgs({
  options: {
    suite: { type: "string" },
    draft: { type: "string" },
    keyword: { type: "string" },
    walks: { type: "string", default: "200" },
    verbose: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
  },
})
if (!options.suite) {
  console.error("Name the suite's folder: npm run score:schema -- --suite DIR")
  process.exit(2)
}
const notes: string[] = []
const pages: string[] = []
let bad = 0

function scoreGroup(
  group: Group,
  dialect: Dialect,
  ajv: (options: Options) => Ajv,
  vocabulary: Vocabulary,
  rows: Map<string, Row>,
): void {
  const { keyword, formats } = group
  const fresh = { keyword, tests: 0, exact: 0, lenient: 0, strict: 0, refused: 0 }
  const row: Row = rows.get(keyword) ?? { ...fresh, walks: 0, judged: 0, deadEnds: 0, invalid: 0 }
  rows.set(keyword, row)
  row.tests += group.tests.length
  const note = (kind: string, what: string) =>
    notes.push(`${dialect} ${keyword}: ${kind}: ${group.description}: ${what}`)
  let grammar: Grammar
  try {
    grammar = new Grammar(compileSchema(group.schemaText, { dialect, formats }).part)
  } catch (error) {
    if (!(error instanceof SchemaRefusal)) throw error
    // Refusing what nothing satisfies is exact: no instance may be accepted, and none is.
    const unsatisfiable = error.fault.reason === "no value satisfies this schema"
    for (const test of group.tests) {
      if (unsatisfiable && !test.valid) row.exact++
      else if (unsatisfiable) row.strict++
      else row.refused++
    }
    if (!unsatisfiable) note("refused", error.message)
    if (unsatisfiable && group.tests.some((t) => t.valid)) note("too strict", error.message)
    return
  }
  for (const test of group.tests) {
    const byBytes = acceptsBytes(grammar.matcher(vocabulary), test.text)
    const byTokens = acceptsTokens(grammar.matcher(vocabulary), vocabulary, test.text)
    if (byBytes !== byTokens) note("bytes and tokens differ", test.text)
    if (byBytes === test.valid && byTokens === test.valid) row.exact++
    else if (byBytes || byTokens) row.lenient++
    else row.strict++
    if (byBytes !== test.valid) note(byBytes ? "too lenient" : "too strict", test.text)
    if (byBytes && !test.valid) bad++
  }
  if (formats) return
  const judge = judgeOf(group, ajv)
  if (!judge) note("walks not judged", "ajv fails tests of this schema itself")
  const random = uniform(seedOf(group.description))
  for (let i = 0; i < Number(options.walks); i++) {
    row.walks++
    const { text, ended } = walk(grammar.matcher(vocabulary), group, vocabulary, random)
    if (!ended) {
      row.deadEnds++
      bad++
      note("dead end", text)
      break
    }
    if (!judge) continue
    row.judged++
    const verdict = judge(text)
    if (verdict !== true) {
      row.invalid++
      bad++
      note("walked to an invalid value", `${text} ${verdict}`)
      break
    }
  }
}

function acceptsBytes(matcher: Matcher, text: string): boolean {
  for (const byte of Buffer.from(text)) if (!matcher.acceptBytes(Uint8Array.of(byte))) return false
  return matcher.canEnd()
}

function acceptsTokens(matcher: Matcher, vocabulary: Vocabulary, text: string): boolean {
  const mask = new Uint32Array(vocabulary.words)
  for (const token of tokenize(vocabulary, text)) {
    matcher.mask(mask)
    if (!isSet(mask, token)) return false
    if (!matcher.accept(token)) throw new Error(`the mask allows what the matcher refuses: ${text}`)
  }
  matcher.mask(mask)
  return isSet(mask, vocabulary.ends[0]!)
}

/** Draws tokens until an end token; past 400 bytes it is brought to an end by pieces that fit. */
function walk(matcher: Matcher, group: Group, vocabulary: Vocabulary, random: () => number) {
  const mask = new Uint32Array(vocabulary.words)
  const bytes: number[] = []
  while (bytes.length < 400) {
    matcher.mask(mask)
    const allowed: number[] = []
    for (let token = 0; token < vocabulary.size; token++)
      if (isSet(mask, token)) allowed.push(token)
    if (allowed.length === 0) return { text: textOf(bytes), ended: false }
    const token = allowed[Math.floor(random() * allowed.length)]!
    if (vocabulary.ends.includes(token)) return { text: textOf(bytes), ended: true }
    if (!matcher.accept(token)) throw new Error("the mask allows what the matcher refuses")
    bytes.push(...vocabulary.tokens[token]!)
  }
  const whole = finish(matcher, bytes, piecesOf(group), random)
  return { text: textOf(whole ?? bytes), ended: whole !== undefined }
}

/** Texts to try, each list in any order but one list after the other. */
interface Pieces {
  inside: readonly (readonly Uint8Array[])[] // quotes
  outside: readonly (readonly Uint8Array[])[]
}

/** What closes comes first; then the schema's own words and numbers, and then whatever there is. */
function piecesOf({ schemaText }: Group): Pieces {
  const matches = (pattern: RegExp) => [...new Set(schemaText.match(pattern) ?? [])]
  const listed = (...texts: string[]) => texts.map((text) => Buffer.from(text))
  const words = matches(/"(?:[^"\\]|\\.)*"/g).map((word) => word.slice(1))
  const parts = matches(/[A-Za-z]+/g).flatMap((part) => [part, `a${part}`])
  const bytes = Array.from({ length: 224 }, (_, i) => Uint8Array.of(0x20 + i))
  const plain = bytes.slice(0, 95)
  const numbers = matches(/-?\d+(\.\d+)?/g)
  return {
    inside: [listed('"'), listed(...words), listed(...parts), plain, bytes],
    outside: [
      listed("}", "]"),
      listed(":", '"', ",", "null", "true", "false", "0", ...numbers),
      listed("[", "{"),
      plain,
    ],
  }
}

/**
 * Goes on with pieces that fit until the text may end: as nothing leads astray, no step has to be taken back. Where it takes
 * too long it begins again, and draws other pieces.
 */
function finish(
  matcher: Matcher,
  bytes: readonly number[],
  { inside, outside }: Pieces,
  random: () => number,
): number[] | undefined {
  for (let round = 0; round < 20; round++) {
    const written = [...bytes]
    let moves = 0
    for (; moves < 1000 && !matcher.canEnd(); moves++) {
      // At times a name is better than a closed quote, and whatever fits is better than a name.
      const within = inside.slice(random() < 0.2 ? 1 : 0)
      const lists = !isInside(written) ? outside : random() < 0.1 ? within.toReversed() : within
      const piece = firstOf(lists, matcher, random)
      if (!piece) return undefined
      written.push(...piece)
    }
    if (matcher.canEnd()) return written
    matcher.rollback(moves)
  }
  return undefined
}

function isInside(bytes: readonly number[]): boolean {
  return (textOf(bytes).replace(/\\./g, "").split('"').length & 1) === 0
}

/** The first piece that fits, which the matcher takes. */
function firstOf(lists: Pieces["inside"], matcher: Matcher, random: () => number) {
  for (const list of lists) {
    const start = Math.floor(random() * list.length)
    for (let i = 0; i < list.length; i++) {
      const piece = list[(start + i) % list.length]!
      if (matcher.acceptBytes(piece)) return piece
    }
  }
  return undefined
}

function textOf(bytes: readonly number[]): string {
  return Buffer.from(bytes).toString("utf8")
}

/** ajv, when it gets this schema's own tests right; undefined when it does not, because then it is no judge. */
function judgeOf(group: Group, ajv: (options: Options) => Ajv) {
  try {
    const options: Options = { strict: false, logger: false, validateFormats: false }
    const validate = ajv(options).compile(group.schema as AnySchema)
    if (group.tests.some(({ text, valid }) => validate(JSON.parse(text)) !== valid))
      return undefined
    return (text: string): true | string =>
      validate(JSON.parse(text)) === true || (validate.errors?.[0]?.schemaPath ?? "")
  } catch {
    return undefined
  }
}

// ---- reading the suite ----

function readGroups(folder: string): Group[] {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".json"),
  )
  return files.sort().flatMap((file) => {
    const keyword = file.replace(/\.json$/, "")
    const list = new Spelled(readFileSync(join(folder, file), "utf8")).value()
    return list.items!.map((group): Group => {
      const schemaText = group.members!.get("schema")!.text
      return {
        keyword,
        description: JSON.parse(group.members!.get("description")!.text),
        schema: JSON.parse(schemaText),
        schemaText,
        formats: file.startsWith(join("optional", "format", "")),
        tests: group.members!.get("tests")!.items!.map((test) => ({
          description: JSON.parse(test.members!.get("description")!.text),
          text: test.members!.get("data")!.text,
          valid: test.members!.get("valid")!.text === "true",
        })),
      }
    })
  })
}

function needsOutside({ keyword, schemaText }: Group, dialect: Dialect): boolean {
  if (outside.includes(keyword) || schemaText.includes(customDialect)) return true
  try {
    compileSchema(schemaText, { dialect })
    return false
  } catch (error) {
    return error instanceof SchemaRefusal && error.fault.reason.includes(outsideReason)
  }
}

/** A JSON value and its text without blanks: numbers stay as they are spelled, which JSON.parse would lose. */
interface SpelledValue {
  text: string
  items?: SpelledValue[]
  members?: Map<string, SpelledValue>
}

class Spelled {
  private readonly source: string
  private at = 0

  constructor(source: string) {
    this.source = source
  }

  value(): SpelledValue {
    this.blanks()
    const c = this.source[this.at]
    if (c === "[") {
      const items = this.listed("]", () => this.value())
      return { text: `[${items.map(({ text }) => text).join()}]`, items }
    }
    if (c === "{") {
      const members = this.listed("}", (): [string, SpelledValue] => {
        const key = this.match(/"(?:[^"\\]|\\.)*"/y)
        this.match(/\s*:/y)
        return [key, this.value()]
      })
      const text = `{${members.map(([key, value]) => `${key}:${value.text}`).join()}}`
      return { text, members: new Map(members.map(([key, value]) => [JSON.parse(key), value])) }
    }
    return { text: this.match(/"(?:[^"\\]|\\.)*"|[^\s,\]}]+/y) }
  }

  private listed<T>(close: string, read: () => T): T[] {
    const out: T[] = []
    this.at++
    for (this.blanks(); this.source[this.at] !== close; this.blanks()) {
      if (this.source[this.at] === ",") this.at++
      this.blanks()
      out.push(read())
    }
    this.at++
    return out
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at
    const match = pattern.exec(this.source)!
    this.at = pattern.lastIndex
    return match[0]
  }

  private blanks(): void {
    this.match(/\s*/y)
  }
}

// ---- a vocabulary made of the suite itself: every byte, and the pieces that occur most ----

function vocabularyOf(groups: Group[]): Vocabulary {
  const counts = new Map<string, number>()
  for (const { tests, schemaText } of groups) {
    for (const text of [schemaText, ...tests.map((test) => test.text)]) {
      const bytes = Buffer.from(text).toString("latin1").slice(0, 2000)
      for (let length = 2; length <= 5; length++) {
        for (let i = 0; i + length <= bytes.length; i++) {
          const piece = bytes.slice(i, i + length)
          counts.set(piece, (counts.get(piece) ?? 0) + 1)
        }
      }
    }
  }
  const pieces = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 3000)
  const tokens = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte))
  tokens.push(...pieces.map(([piece]) => new Uint8Array(Buffer.from(piece, "latin1"))))
  tokens.push(new Uint8Array())
  return new Vocabulary(tokens, [tokens.length - 1])
}

const byPiece = new WeakMap<Vocabulary, Map<string, number>>()

/** The longest token at each place. */
function tokenize(vocabulary: Vocabulary, text: string): number[] {
  let known = byPiece.get(vocabulary)
  if (!known) {
    known = new Map(vocabulary.tokens.map((b, id) => [Buffer.from(b).toString("latin1"), id]))
    byPiece.set(vocabulary, known)
  }
  const bytes = Buffer.from(text).toString("latin1")
  const out: number[] = []
  for (let at = 0; at < bytes.length; ) {
    let length = Math.min(5, bytes.length - at)
    while (!known.has(bytes.slice(at, at + length))) length--
    out.push(known.get(bytes.slice(at, at + length))!)
    at += length
  }
  return out
}

function isSet(mask: Uint32Array, token: number): boolean {
  return ((mask[token >>> 5]! >>> (token & 31)) & 1) === 1
}

// ---- tables ----

function page(draft: string, rows: Row[], skipped: Group[]): string {
  const columns = [
    "tests",
    "exact",
    "lenient",
    "strict",
    "refused",
    "walks",
    "deadEnds",
    "judged",
    "invalid",
  ] as const
  const line = (name: string, of: readonly Row[]) =>
    `| ${name} | ${columns.map((c) => of.reduce((sum, row) => sum + row[c], 0)).join(" | ")} |`
  const isRequired = (row: Row) => !row.keyword.startsWith("optional")
  const required = rows.filter(isRequired)
  const optional = rows.filter((row) => !isRequired(row))
  const names = [...new Set(skipped.map((g) => `${g.keyword}: ${g.description}`))]
  const tests = skipped.reduce((sum, g) => sum + g.tests.length, 0)
  return [
    `### ${draft}`,
    "",
    "| keyword | tests | exact | too lenient | too strict | refused | walks | dead ends | judged | invalid |",
    "|---|---|---|---|---|---|---|---|---|---|",
    line("**required**", required),
    ...required.map((row) => line(row.keyword, [row])),
    line("**optional**", optional),
    ...optional.map((row) => line(row.keyword, [row])),
    "",
    `Not counted, because they need documents from outside (${tests} tests in ${skipped.length} schemas): ${names.join("; ")}.`,
    "",
  ].join("\n")
}

function writePage(): void {
  const path = new URL("../bench/results/structured-output.md", import.meta.url)
  const [start, end] = ["<!-- score -->", "<!-- end of score -->"]
  const text = readFileSync(path, "utf8")
  const [before, rest] = text.split(start)
  const after = rest?.split(end)[1]
  if (after === undefined)
    throw new Error("bench/results/structured-output.md has lost the marks of its tables")
  const list = notes
    .map((note) => `- ${note.length > 160 ? `${note.slice(0, 160)}…` : note}`)
    .join("\n")
  const tables = pages.join("\n")
  writeFileSync(
    path,
    `${before}${start}\n\n${tables}\nWhat is not exact:\n\n${list}\n\n${end}${after}`,
  )
}

const folder = existsSync(join(options.suite, "tests"))
  ? join(options.suite, "tests")
  : options.suite
for (const [draft, { dialect, ajv }] of Object.entries(drafts)) {
  if ((options.draft && options.draft !== draft) || !existsSync(join(folder, draft))) continue
  const groups = readGroups(join(folder, draft))
  const skipped = groups.filter((group) => needsOutside(group, dialect))
  const counted = groups.filter((group) => !skipped.includes(group))
  const vocabulary = vocabularyOf(groups)
  const rows = new Map<string, Row>()
  for (const group of counted) {
    if (options.keyword && group.keyword !== options.keyword) continue
    scoreGroup(group, dialect, ajv, vocabulary, rows)
  }
  pages.push(page(draft, [...rows.values()], skipped))
  console.log(pages.at(-1))
}
for (const note of notes) console.log(note)
if (options.write) writePage()
process.exitCode = bad > 0 ? 1 : 0
