// What is written for a format, held to validators that others wrote: ajv-formats, the address pattern of HTML, the parsers of
// the host, and python's jsonschema and pydantic where they are installed (test/golden/formats). WALKS=1000 for more of each.

import { spawnSync } from "node:child_process"
import { Ajv, type ValidateFunction } from "ajv"
import addFormats from "ajv-formats"
import { describe, expect, test } from "vitest"
import { isLeftOut } from "../../test/left-out.ts"
import { seedOf, uniform } from "../../test/random.ts"
import { formats } from "./formats.ts"
import { compileSchema, Grammar, SchemaRefusal, Vocabulary } from "./grammar.ts"

const walks = Number(process.env.WALKS ?? 30)
const end = 256
const bytes = new Vocabulary(
  [...Array.from({ length: end }, (_, byte) => Uint8Array.of(byte)), new Uint8Array()],
  [end],
)

// html.spec.whatwg.org, "valid e-mail address".
const HTML_ADDRESS =
  /^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$/

const isUrl = (text: string, base?: string) => URL.canParse(text, base)
const isDate = (text: string) => new Date(text).toISOString().startsWith(text)

/** What readers that are no validators do with a text of the format. */
const READERS: Record<string, (text: string) => boolean> = {
  date: isDate,
  time: (text) => !Number.isNaN(Date.parse(`2000-01-01T${text}`)),
  "date-time": (text) => isDate(text.slice(0, 10)) && !Number.isNaN(Date.parse(text)),
  email: (text) => HTML_ADDRESS.test(text),
  hostname: (text) => isUrl(`http://${text}/`),
  "idn-hostname": (text) => isUrl(`http://${text}/`),
  ipv4: (text) => isUrl(`http://${text}/`),
  ipv6: (text) => isUrl(`http://[${text}]/`),
  uri: isUrl,
  iri: isUrl,
  "uri-reference": (text) => isUrl(text, "https://a.b/c"),
  "iri-reference": (text) => isUrl(text, "https://a.b/c"),
  regex: (text) => ["", "u"].every((flags) => new RegExp(text, flags)),
}

const judges = (["full", "fast"] as const).map((mode) => {
  const ajv = new Ajv({ strict: false, logger: false })
  addFormats.default(ajv, { mode })
  return ajv
})

const MORE: Record<string, string[]> = {
  uri: ["^https?://", "^[a-z]+://[^/]*@", "^ws://[^/]*:\\d", "^(file|urn|mailto):"],
  email: ["[.].*@", "@.*[.].*[.]"],
  "date-time": ["\\.\\d", "[+-]\\d\\d:\\d\\d$", "-02-29"],
}

/** Texts as the server would let them be written: every length, every second one by drawing kinds of bytes evenly. */
function texts(format: string): string[] {
  const random = uniform(seedOf(format))
  const schemas = [12, 40, 80].flatMap((maxLength) =>
    [undefined, ...(MORE[format] ?? [])].map((pattern) => ({ format, maxLength, pattern })),
  )
  const grammars = schemas.flatMap((schema) => grammarOf({ type: "string", ...schema }) ?? [])
  return Array.from({ length: walks }, (_, at) => {
    const matcher = grammars[at % grammars.length]!.matcher(bytes)
    const written: number[] = []
    while (!matcher.isComplete) {
      const allowed = kinds(matcher).filter((kind) => kind.length > 0)
      expect(allowed.length, `no way on after ${Buffer.from(written).toString()}`).toBeGreaterThan(
        0,
      )
      const from = at % 2 === 0 ? allowed[Math.floor(random() * allowed.length)]! : allowed.flat()
      const byte = from[Math.floor(random() * from.length)]!
      matcher.accept(byte)
      written.push(byte)
    }
    return JSON.parse(Buffer.from(written).toString()) as string
  })
}

function grammarOf(schema: object): Grammar | undefined {
  try {
    return new Grammar(compileSchema(schema, { portable: true }).part)
  } catch (error) {
    if (error instanceof SchemaRefusal && error.isUnsatisfiable) return undefined // too short
    throw error
  }
}

/** The bytes that may come next: small letters, large ones, digits, the rest of ASCII, all others. */
function kinds(matcher: ReturnType<Grammar["matcher"]>): number[][] {
  const mask = new Uint32Array(bytes.words)
  matcher.mask(mask)
  const groups: number[][] = [[], [], [], [], []]
  for (let byte = 0; byte < end; byte++) {
    if (((mask[byte >>> 5]! >>> (byte & 31)) & 1) === 0) continue
    const character = String.fromCharCode(byte)
    const kind = [/[a-z]/, /[A-Z]/, /[0-9]/].findIndex((each) => each.test(character))
    groups[kind >= 0 ? kind : byte < 0x80 ? 3 : 4]!.push(byte)
  }
  return groups
}

const written = new Map(Object.keys(formats).map((format) => [format, texts(format)]))

describe.each([...written])("%s", (format, samples) => {
  test("what is written satisfies ajv-formats and the readers of the host", () => {
    const validators = judges.map((ajv): ValidateFunction => ajv.compile({ format }))
    const refused = samples.filter((text) => {
      const isRead = READERS[format]?.(text) ?? true
      return !isRead || !validators.every((validate) => validate(text))
    })
    expect(refused).toEqual([])
    expect(new Set(samples).size).toBeGreaterThan(walks / 3)
  })
})

const python = process.env.PYTHON ?? "python3"
const hasPython =
  spawnSync(python, ["-c", "import jsonschema, pydantic, email_validator, rfc3987"]).status === 0

const withoutPython = isLeftOut(hasPython)

test.skipIf(withoutPython)(
  `python's jsonschema and pydantic refuse none of it${withoutPython ? " (skipped: not installed)" : ""}`,
  () => {
    const cases = [...written].flatMap(([format, samples]) =>
      samples.map((text) => ({ format, text })),
    )
    const judge = new URL("../../test/golden/formats/judge.py", import.meta.url)
    const { stdout, status } = spawnSync(python, [judge.pathname], {
      input: cases.map((each) => `${JSON.stringify(each)}\n`).join(""),
      encoding: "utf8",
    })
    expect(status).toBe(0)
    expect(stdout.trim().split("\n")).toEqual(['{"unchecked": []}'])
  },
)

describe("forms that common validators do not take", () => {
  const accepts = (schema: object, text: string, portable = true) => {
    const grammar = new Grammar(compileSchema(schema, { portable }).part)
    const matcher = grammar.matcher(bytes)
    return matcher.acceptBytes(Buffer.from(JSON.stringify(text))) && matcher.canEnd()
  }

  test.each([
    ["email", "}.di8se@v", "joe.o'neill+news@mail.example.com"],
    ["email", '"joe bloggs"@example.com', "a@b.co"],
    ["email", "joe@box.test", "joe@box.tests"],
    ["date", "0000-01-01", "0001-01-01"],
    ["time", "23:59:60Z", "23:59:59.123456+05:30"],
    ["date-time", "2024-02-29t00:00:00z", "2024-02-29T00:00:00Z"],
    ["date-time", "2024-01-01T00:00:00+23:59", "2024-01-01T00:00:00+14:00"],
    ["duration", "P99999999999Y", "P1Y2M3DT4H5M6S"],
    ["hostname", "host.1", "localhost"],
    ["uri", "http:nowhere", "http://localhost:8080/a?b=c#d"],
    ["uri", "http://1.2.3.4.5/", "urn:isbn:0451450523"],
    ["uri", "x:", "postgres://me:word@db.example.com/name"],
    ["uri-template", "/{a:1000}", "/{a:100}{?b*}"],
    ["regex", "(?<=a)b", "^(a|b)[a-z0-9_]{1,3}$"],
  ])("of %s, %s is not written, and %s is", (format, other, common) => {
    const schema = { type: "string", format }
    expect(accepts(schema, other)).toBe(false)
    expect(accepts(schema, other, false)).toBe(true)
    expect(accepts(schema, common)).toBe(true)
  })

  test("are written where the schema's author asks for them: listed, by a pattern or by nothing else that fits", () => {
    expect(accepts({ format: "email", enum: ["root@localhost"] }, "root@localhost")).toBe(true)
    expect(accepts({ format: "email", pattern: "@localhost$" }, "root@localhost")).toBe(true)
    const inAllOf = { allOf: [{ format: "email" }, { const: "root@localhost" }] }
    expect(accepts(inAllOf, "root@localhost")).toBe(true)
    expect(accepts({ type: "string", format: "email", pattern: "^a" }, "a@b")).toBe(false)
  })

  test("do not count as breaking the format either", () => {
    expect(accepts({ type: "string", not: { format: "email" } }, "a@b")).toBe(false)
    expect(accepts({ type: "string", not: { format: "email" } }, "no address")).toBe(true)
    const either = { type: "string", oneOf: [{ format: "hostname" }, { pattern: "^host" }] }
    expect(accepts(either, "host.1")).toBe(false) // both to whoever takes it for a host name
    expect(accepts(either, "host!")).toBe(true)
    expect(accepts(either, "other.example.com")).toBe(true)
  })
})
