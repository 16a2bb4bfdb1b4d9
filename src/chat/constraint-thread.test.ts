import { expect, onTestFinished, test } from "vitest"
import type { Constraint } from "../engine/generation.ts"
import { type ConstraintOptions, Constraints, type Held } from "./constraint.ts"
import { ConstraintThread, type ThreadLimits } from "./constraint-thread.ts"
import { formats } from "./formats/formats.ts"
import { TokenBytes } from "./vocabulary.ts"

// A token for each ASCII character, some words, and an end.
const texts = [
  ...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)),
  '{"',
  '":',
  '",',
  '"}',
  "name",
  " a",
  "true",
  "<end>",
]
const END = texts.length - 1

const options: ConstraintOptions = {
  tokens: {
    size: texts.length,
    bytes: new TokenBytes(
      Buffer.from(texts.join("")),
      Uint32Array.from([...texts, ""], (_, i) => texts.slice(0, i).join("").length),
    ),
    special: new Set([END]),
    stripsLeadingSpace: false,
  },
  visible: new Set(),
  ends: [END],
  spelling: formats.hermes.spelling,
}

const staying = new AbortController().signal

function thread(limits?: Partial<ThreadLimits>): ConstraintThread {
  const made = new ConstraintThread(options, {
    milliseconds: 20_000,
    megabytes: 512,
    ...limits,
  })
  onTestFinished(() => made.close())
  return made
}

function held(schema: unknown): Held {
  return { calls: undefined, format: { schema }, reasoning: undefined }
}

const person = {
  type: "object",
  properties: { name: { type: "string", maxLength: 5 }, id: { const: 9007199254740993n } },
  required: ["name"],
  additionalProperties: false,
}

/** Takes longer to compile than anybody waits. */
const heavy = {
  type: "object",
  properties: Object.fromEntries(
    Array.from({ length: 20_000 }, (_, i) => [`property_${i}`, { type: "string" }]),
  ),
  additionalProperties: false,
}

async function maskOf(constraint: Constraint): Promise<number[]> {
  while (constraint.pending) await constraint.pending
  const mask = new Uint32Array(Math.ceil(texts.length / 32))
  constraint.mask(mask)
  return [...mask]
}

/** Tokens drawn by a fixed rule, each mask with it. */
async function walk(constraint: Constraint, most: number, tokens: number[] = []) {
  const masks: number[][] = []
  while (tokens.length < most && tokens.at(-1) !== END) {
    const mask = await maskOf(constraint)
    const choices = [...texts.keys()].filter((id) => (mask[id >>> 5]! >>> (id & 31)) & 1)
    const token = choices[(tokens.length * 7 + 3) % choices.length]!
    masks.push(mask)
    tokens.push(token)
    constraint.accept(token)
  }
  return { masks, tokens }
}

test("the thread's masks are those that are made here", async () => {
  const here = new Constraints(options)
  const there = thread()
  for (const schema of [person, { type: "array", items: { enum: ["a", "b", 1] } }, true]) {
    const expected = await walk(here.hold(held(schema)).constraint(), 40)
    const { constraint, unenforced } = await there.hold(held(schema), staying)
    const [first, second] = await Promise.all([walk(constraint(), 40), walk(constraint(), 40)])
    expect(first).toEqual(expected)
    expect(second).toEqual(expected)
    expect(unenforced).toEqual([])
  }
})

test("a schema is refused with the problem that it is refused with here", async () => {
  const schema = { type: "string", pattern: "(a)\\1" }
  await expect(thread().hold(held(schema), staying)).rejects.toMatchObject({
    code: "unsupported_value",
    param: "response_format",
    message: expect.stringContaining("pattern"),
  })
  expect(await thread().check({ schema }, staying)).toMatchObject({
    isUnsatisfiable: false,
    unenforced: [{ pointer: "", keyword: "pattern" }],
  })
})

test("a client that leaves is let go at once, and the thread soon after", async () => {
  const leaving = new AbortController()
  const there = thread({ milliseconds: 3_600_000 })
  const asked = there.hold(held(heavy), leaving.signal)
  const since = performance.now()
  setTimeout(() => leaving.abort(new Error("gone")), 20)
  await expect(asked).rejects.toThrow("gone")
  expect(performance.now() - since).toBeLessThan(500)
  expect((await there.hold(held(true), staying)).unenforced).toEqual([])
})

test("an order that takes too long costs its own request; the others go on where they were", async () => {
  const expected = await walk(new Constraints(options).hold(held(person)).constraint(), 40)
  const there = thread({ milliseconds: 1500 })
  const { constraint } = await there.hold(held(person), staying)
  const running = constraint()
  const begun = await walk(running, 4)
  const stuck = there.hold(held(heavy), staying)
  const waiting = there.hold(held(true), staying)
  await expect(stuck).rejects.toMatchObject({
    code: "unsupported_value",
    message: expect.stringContaining("1.5 seconds"),
  })
  expect((await waiting).unenforced).toEqual([])
  const rest = await walk(running, 40, begun.tokens)
  expect([...begun.masks, ...rest.masks]).toEqual(expected.masks)
  expect(rest.tokens).toEqual(expected.tokens)
})
