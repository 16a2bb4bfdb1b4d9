// Forms as bodies: what they are read as, what is refused, and what reading one may cost.

import { expect, test } from "vitest"
import { formOf, rawForm, type SentForm } from "../../test/forms.ts"
import { Problem } from "../errors.ts"
import { formBody, MAX_FORM_TEXT, MAX_PARTS, readingForm } from "./form.ts"
import type { Json } from "./json.ts"
import { Type } from "./type.ts"

const schema = Type.Object({
  file: Type.Unsafe<Uint8Array>({ type: "string", format: "binary" }),
  count: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
  share: Type.Optional(Type.Number()),
  flag: Type.Optional(Type.Boolean()),
  word: Type.Optional(Type.String()),
  list: Type.Optional(Type.Array(Type.String())),
})

/** The body that a form is read as, in pieces of the given size. */
function read({ payload, headers }: SentForm, size = payload.length): Json {
  const pieces: Buffer[] = []
  for (let at = 0; at < payload.length; at += size) pieces.push(payload.subarray(at, at + size))
  const reading = formBody(schema)({ headers } as never)({ pieces, size: payload.length })
  for (;;) {
    const step = reading.next()
    if (step.done) return step.value
  }
}

function refusalOf(form: SentForm): string {
  try {
    read(form)
  } catch (error) {
    if (error instanceof Problem) return `${error.code} ${error.message}`
    throw error
  }
  return "none"
}

const bytes = Buffer.from(Array.from({ length: 1000 }, (_, i) => (i * 7) % 256))

test("what Node's own writer writes is read, in pieces of any size", async () => {
  const form = await formOf({
    file: new Blob([bytes]),
    count: "12",
    share: "0.25",
    flag: "True",
    word: "Grüße 😀\r\n--x",
    list: ["a", "b"],
    "names[]": "c",
    ["__proto__"]: "d",
    none: "",
  })
  for (const size of [1, 7, 100, form.payload.length]) {
    const body = read(form, size)
    expect(body).toEqual({
      ...{ file: bytes, count: 12, share: 0.25, flag: true, word: "Grüße 😀\r\n--x" },
      ...{ list: ["a", "b"], names: ["c"], ["__proto__"]: "d" },
    })
    expect(Object.getPrototypeOf(body)).toBe(Object.prototype)
  }
})

test("a text that is not of its field's type stays one, for the check to refuse", async () => {
  for (const [name, text] of Object.entries({ count: "0x10", share: "1,5", flag: "1", word: "7" }))
    expect(read(await formOf({ [name]: text }))).toEqual({ [name]: text })
})

test("names without quotes, a quoted boundary, spaces and an epilogue are read", () => {
  const form = rawForm(
    "--b c\ncontent-disposition:form-data; name=word\nContent-Transfer-Encoding: 8bit\n\nhi\n--b c--\nmore",
    '"b c"; charset=utf-8',
  )
  expect(read(form)).toEqual({ word: "hi" })
  const file = '--b\nContent-Disposition: form-data; name="file"; filename="C:\\"\n\n\n--b--'
  expect(read(rawForm(file))).toEqual({ file: Buffer.alloc(0) })
})

const disposition = (name: string) => `Content-Disposition: form-data; name="${name}"`
const part = (name: string, value: string) => `--b\n${disposition(name)}\n\n${value}\n`

test.each<[string, SentForm, string]>([
  ["nothing", rawForm(""), "invalid_form The body is not a valid form: it is empty."],
  [
    "no end",
    rawForm(part("word", "hi")),
    "invalid_form The body is not a valid form: it ends before its last boundary.",
  ],
  [
    "an end within a part",
    rawForm(`--b\n${disposition("word")}\n\nhi`),
    "invalid_form The body is not a valid form: it ends before its last boundary.",
  ],
  [
    "an end within headers",
    rawForm(`--b\n${disposition("word")}`),
    "invalid_form The body is not a valid form: it ends before its last boundary.",
  ],
  [
    "another boundary",
    rawForm(part("word", "hi"), "c"),
    "invalid_form The body is not a valid form: it does not begin with the boundary that its Content-Type names.",
  ],
  [
    "a boundary that goes on",
    rawForm(`${part("word", "hi")}--bb--`),
    "invalid_form The body is not a valid form: a boundary ends no line.",
  ],
  [
    "a part without a name",
    rawForm("--b\nContent-Type: text/plain\n\nhi\n--b--"),
    "invalid_form The body is not a valid form: a part has no Content-Disposition: form-data with a name.",
  ],
  [
    "a part without headers",
    rawForm("--b\n\nhi\n--b--"),
    "invalid_form The body is not a valid form: a part has no Content-Disposition: form-data with a name.",
  ],
  [
    "a part in Base64",
    rawForm(`--b\n${disposition("word")}\nContent-Transfer-Encoding: base64\n\naGk=\n--b--`),
    'invalid_form The body is not a valid form: a part has the Content-Transfer-Encoding "base64".',
  ],
  [
    "thousands of parts",
    rawForm(`${part("word", "hi").repeat(100_000)}--b--`),
    `invalid_form The body is not a valid form: it has more than ${MAX_PARTS} parts.`,
  ],
  [
    "headers of 10 KB",
    rawForm(`--b\nX: ${"x".repeat(10_000)}\n${disposition("word")}\n\nhi\n--b--`),
    "invalid_form The body is not a valid form: a part has headers of more than 4096 bytes.",
  ],
  [
    "a boundary of 10 KB",
    rawForm("", "b".repeat(10_000)),
    "unsupported_media_type The body's content type is not understood: the form's boundary must have 1 to 70 characters, not 10000.",
  ],
  [
    "an empty boundary",
    rawForm("", '""'),
    "unsupported_media_type The body's content type is not understood: the form's boundary must have 1 to 70 characters, not 0.",
  ],
  [
    "JSON",
    { payload: Buffer.from("{}"), headers: { "content-type": "application/json" } },
    'unsupported_media_type The body\'s content type is not understood: send a form, as multipart/form-data with its boundary (received: "application/json").',
  ],
  [
    "a field that stands twice",
    rawForm(`${part("word", "a")}${part("word", "b")}--b--`),
    "invalid_value word stands in the form 2 times; send it once.",
  ],
  [
    "one of an odd name",
    rawForm(`${part("a b\\\t", "a").repeat(2)}--b--`),
    'invalid_value "a b\\t" stands in the form 2 times; send it once.',
  ],
  [
    "a text that is none",
    rawForm(`${part("word", "\xff")}--b--`),
    "invalid_value word is no UTF-8.",
  ],
  [
    "a text that is too long",
    rawForm(`${part("word", "x".repeat(MAX_FORM_TEXT + 1))}--b--`),
    `invalid_value word is a text of ${MAX_FORM_TEXT + 1} bytes; in a form one may have at most ${MAX_FORM_TEXT}.`,
  ],
])("%s is refused in a sentence", (_, form, words) => {
  expect(refusalOf(form)).toBe(words)
})

test("names inside names are one field, however deep", () => {
  const form = rawForm(`${part(`word${"[a]".repeat(1000)}`, "hi")}--b--`)
  expect(read(form)).toEqual({ word: ["hi"] })
  expect(read(rawForm(`${part("[][", "hi")}--b--`))).toEqual({ "[][": "hi" })
})

test("others get their turn after every 128 KiB, whatever a file holds", () => {
  const size = 8 * 2 ** 20 + 65_500 // so that the last boundary lies in two pieces
  const boundary = "x".repeat(70)
  for (const fill of ["\r\n--", `\r\n--${"x".repeat(69)}`, "x"]) {
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n`
    const file = Buffer.alloc(size, fill)
    const whole = Buffer.concat([Buffer.from(head), file, Buffer.from(`\r\n--${boundary}--`)])
    const pieces = Array.from({ length: Math.ceil(whole.length / 65_536) }, (_, i) =>
      whole.subarray(i * 65_536, (i + 1) * 65_536),
    )
    const reading = readingForm({ pieces, size: whole.length }, boundary, schema)
    let turns = 0
    let seen = 0
    let step = reading.next()
    for (; !step.done; step = reading.next()) {
      turns++
      seen += step.value
      expect(step.value).toBeLessThanOrEqual(128 * 1024)
    }
    expect(file.equals((step.value as unknown as { file: Buffer }).file)).toBe(true)
    expect(seen).toBeGreaterThan(1.9 * size) // laid together, and searched
    expect(turns).toBeGreaterThan((1.9 * size) / (128 * 1024))
  }
})
