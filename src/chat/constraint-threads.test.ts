import { expect, onTestFinished, test } from "vitest"
import type { Constraint } from "../engine/generation.ts"
import { createLog, type Log } from "../log.ts"
import { type ConstraintOptions, Constraints } from "./constraint.ts"
import { type ConstraintLimits, ConstraintThreads } from "./constraint-threads.ts"
import type { ConstraintSpec } from "./grammars.ts"
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
  toolFormat: "hermes",
}

const staying = { client: "" }
const ENDLESS = { milliseconds: 3_600_000 }

function threads(limits: Partial<ConstraintLimits> = {}): ConstraintThreads {
  const made = new ConstraintThreads(options, {
    compiling: ENDLESS,
    quick: ENDLESS,
    slow: ENDLESS,
    compiledMilliseconds: Number.POSITIVE_INFINITY,
    ...limits,
  })
  onTestFinished(() => made.close())
  return made
}

function spec(schema: unknown): ConstraintSpec {
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
    // Each of them remembers fourteen characters.
    Array.from({ length: 100 }, (_, i) => [`p${i}`, { pattern: `^(a|b)*a(a|b){13}c{${i}}$` }]),
  ),
  additionalProperties: false,
}

async function maskOf(constraint: Constraint, after?: number): Promise<number[]> {
  while (constraint.pending) await constraint.pending
  const mask = new Uint32Array(Math.ceil(texts.length / 32))
  constraint.mask(mask, after)
  return [...mask]
}

function textOf(tokens: readonly number[] | undefined): string {
  return (tokens ?? []).map((token) => texts[token]).join("")
}

function tokensOf(text: string): number[] {
  return Array.from(text, (character) => character.charCodeAt(0))
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
  const there = threads()
  for (const schema of [person, { type: "array", items: { enum: ["a", "b", 1] } }, true]) {
    const expected = await walk(here.hold(spec(schema)).constraint(), 40)
    const { constraint, unenforced } = await there.hold(spec(schema), staying)
    const [first, second] = await Promise.all([walk(constraint(), 40), walk(constraint(), 40)])
    expect(first).toEqual(expected)
    expect(second).toEqual(expected)
    expect(unenforced).toEqual([])
  }
})

test("masks along a draft are those after its tokens, up to the first that is refused", async () => {
  const here = new Constraints(options).hold(spec(person)).constraint()
  const { constraint } = await threads().hold(spec(person), staying)
  const there = constraint()
  const draft = tokensOf('{"name":"abcdefgh"}')
  const expected: number[][] = [await maskOf(here)]
  for (const token of draft.slice(0, 14)) {
    here.accept(token)
    expected.push(await maskOf(here))
  }
  for (const drafting of [there, new Constraints(options).hold(spec(person)).constraint()]) {
    await maskOf(drafting)
    drafting.draft!(draft)
    const masks: number[][] = [await maskOf(drafting, 0)]
    expect(textOf(draft.slice(0, drafting.drafted))).toBe('{"name":"abcde')
    for (let after = 1; after <= drafting.drafted!; after++) {
      masks.push(await maskOf(drafting, after))
    }
    expect(masks).toEqual(expected)
  }
})

test("the accepted part of a draft costs no waiting; what leaves it is as if there had been none", async () => {
  const here = new Constraints(options).hold(spec(person)).constraint()
  const { constraint } = await threads().hold(spec(person), staying)
  const there = constraint()
  const tokens = tokensOf('{"name":"ab","id":9007199254740993}')
  // Drafts of six, of which the first four are right.
  for (let at = 0; at < tokens.length; at += 5) {
    await maskOf(there)
    there.draft!([...tokens.slice(at, at + 4), 0, 0])
    for (const [i, token] of tokens.slice(at, at + 5).entries()) {
      expect(await maskOf(there)).toEqual(await maskOf(here))
      there.accept(token)
      here.accept(token)
      if (i < 4) expect(there.pending).toBe(undefined)
    }
  }
  expect(await maskOf(there)).toEqual(await maskOf(here))
  expect((await maskOf(there))[END >>> 5]! >>> (END & 31)).toBe(1)
})

test("what is forced is known ahead, end included, and its masks hold it alone", async () => {
  const only = { type: "object", properties: { id: { const: true } }, required: ["id"] }
  const schema = { ...only, additionalProperties: false }
  const { constraint } = await threads().hold(spec(schema), staying)
  const here: Constraint = new Constraints(options).hold(spec(schema)).constraint()
  for (const one of [constraint(), here]) {
    expect(await maskOf(one)).toEqual(bits(texts.indexOf('{"'), "{".charCodeAt(0)))
    one.accept(texts.indexOf('{"'))
    expect(await maskOf(one)).toEqual(bits("i".charCodeAt(0)))
    expect([textOf(one.forced), one.drafted]).toEqual(["id", 2])
    expect(await maskOf(one, 1)).toEqual(bits("d".charCodeAt(0)))
    expect(await maskOf(one, 2)).toEqual(bits(texts.indexOf('":'), '"'.charCodeAt(0)))
    one.accept("i".charCodeAt(0))
    expect([one.pending, textOf(one.forced)]).toEqual([undefined, "d"])
    for (const token of tokensOf('d": t')) one.accept(token)
    await maskOf(one)
    expect(textOf(one.forced)).toBe("rue}<end>")
    one.accept("r".charCodeAt(0))
    expect(await maskOf(one, 3)).toEqual(bits(END))
  }
})

function bits(...tokens: number[]): number[] {
  const mask: number[] = Array.from({ length: Math.ceil(texts.length / 32) }, () => 0)
  for (const token of tokens) mask[token >>> 5] = (mask[token >>> 5]! | (1 << (token & 31))) >>> 0
  return mask
}

test("a schema is refused with the problem that it is refused with here", async () => {
  const schema = { type: "string", pattern: "(a)\\1" }
  await expect(threads().hold(spec(schema), staying)).rejects.toMatchObject({
    code: "unsupported_value",
    param: "response_format",
    message: expect.stringContaining("pattern"),
  })
  expect(await threads().check({ schema }, staying)).toMatchObject({
    isUnsatisfiable: false,
    unenforced: [{ pointer: "", keyword: "pattern" }],
  })
})

test("a client that leaves is let go at once, and the thread soon after", async () => {
  const leaving = new AbortController()
  const there = threads()
  const asked = there.hold(spec(heavy), { client: "", signal: leaving.signal })
  setTimeout(() => leaving.abort(new Error("gone")), 20)
  await expect(asked).rejects.toThrow("gone")
  expect((await there.hold(spec(true), staying)).unenforced).toEqual([])
})

test("masks do not wait for a schema that is being compiled", async () => {
  const expected = await walk(new Constraints(options).hold(spec(person)).constraint(), 40)
  const there = threads()
  const { constraint } = await there.hold(spec(person), staying)
  const leaving = new AbortController()
  const compiling = there.check({ schema: heavy }, { client: "other", signal: leaving.signal })
  const over = expect(compiling).rejects.toThrow("over")
  // For ever, as far as this test is concerned: what was compiled before needs no compiler either.
  expect(await walk(constraint(), 40)).toEqual(expected)
  const again = await there.hold(spec(person), staying)
  expect(await walk(again.constraint(), 40)).toEqual(expected)
  leaving.abort(new Error("over"))
  await over
})

test("a schema that takes too long is refused, and at once when it is asked for again", async () => {
  const { log, losses } = counting()
  const there = threads({ compiling: { milliseconds: 1500, log } })
  const stuck = there.hold(spec(heavy), staying)
  const waiting = there.hold(spec(true), staying)
  const refusal = {
    code: "unsupported_value",
    message: "The schema cannot be compiled: it took more than 1.5 seconds.",
  }
  await expect(stuck).rejects.toMatchObject(refusal)
  expect((await waiting).unenforced).toEqual([])
  for (const again of [
    there.hold(spec(heavy), staying),
    there.check({ schema: heavy }, staying),
    there.check({ name: "tool", parameters: heavy, strict: false }, staying),
  ]) {
    await expect(again).rejects.toMatchObject(refusal)
  }
  expect(losses()).toBe(1)
})

/** A log that counts the workers that were lost. */
function counting() {
  let losses = 0
  const log = createLog("silent", false)
  const child = Object.assign(Object.create(log) as Log, { warn: () => losses++ })
  return { log: child, losses: () => losses }
}

// After an item its mask takes seconds: every other one is looked at for each that could still come.
const crowded = {
  type: "array",
  uniqueItems: true,
  items: { enum: Array.from({ length: 2000 }, (_, i) => i) },
}

test("a mask that takes too long moves its constraint; the others go on where they were", async () => {
  const { log, losses } = counting()
  const there = threads({ quick: { milliseconds: 100, log }, slow: { ...ENDLESS, log } })
  const expected = await walk(new Constraints(options).hold(spec(person)).constraint(), 40)
  const { constraint } = await there.hold(spec(person), staying)
  const [running, another] = [constraint(), constraint()]
  const begun = await walk(running, 4)
  const next = await maskOf(running)
  await maskOf(another)
  const slow = (await there.hold(spec(crowded), staying)).constraint()
  const here = new Constraints(options).hold(spec(crowded)).constraint()
  for (const token of tokensOf("[1,")) {
    await maskOf(slow)
    for (const one of [slow, here]) one.accept(token)
  }
  another.accept(expected.tokens[0]!)
  expect(another.pending).not.toBe(undefined)
  expect(await maskOf(another)).toEqual(expected.masks[1])
  expect(await maskOf(slow)).toEqual(await maskOf(here))
  expect(losses()).toBe(1)
  // What had been answered holds without the thread: a step may have been chosen for it.
  expect(running.pending).toBe(undefined)
  expect(await maskOf(running)).toEqual(next)
  const rest = await walk(running, 40, begun.tokens)
  expect([...begun.masks, ...rest.masks]).toEqual(expected.masks)
  expect(rest.tokens).toEqual(expected.tokens)
  // Asked for again, it is known.
  const again = (await there.hold(spec(crowded), staying)).constraint()
  for (const token of tokensOf("[1,")) {
    await maskOf(again)
    again.accept(token)
  }
  expect(await maskOf(again)).toEqual(await maskOf(here))
  expect(losses()).toBe(1)
})

test("what compiled slowly has its masks made beside", async () => {
  const { log, losses } = counting()
  const there = threads({ quick: { milliseconds: 100, log }, compiledMilliseconds: 0 })
  const slow = (await there.hold(spec(crowded), staying)).constraint()
  const here = new Constraints(options).hold(spec(crowded)).constraint()
  for (const token of tokensOf("[1,")) {
    await maskOf(slow)
    for (const one of [slow, here]) one.accept(token)
  }
  expect(await maskOf(slow)).toEqual(await maskOf(here))
  expect(losses()).toBe(0)
})

test("a mask that the slow thread cannot make either ends its reply, in a sentence", async () => {
  const limits = { milliseconds: 100 }
  const there = threads({ quick: limits, slow: limits })
  const { constraint } = await there.hold(spec(crowded), staying)
  const slow = constraint()
  const reply = async () => {
    for (const token of tokensOf("[1,")) {
      await maskOf(slow) // on a busy machine even one of these may take too long
      slow.accept(token)
    }
    await maskOf(slow)
  }
  await expect(reply()).rejects.toMatchObject({
    code: "unsupported_value",
    message: expect.stringMatching(
      /cannot be held to its schema: .* it took more than 0.1 seconds/,
    ),
  })
})

test("so many checks wait and no more, and a client's crowd is one client", async () => {
  const there = threads({ compiling: { ...ENDLESS, queue: 3 } })
  const leaving = new AbortController()
  const { signal } = leaving
  const crowd = Array.from({ length: 4 }, (_, i) =>
    there
      .check({ schema: [heavy, i] }, { client: "crowd", signal })
      .catch(({ message }) => message),
  )
  const beyond = there.check({ schema: false }, { client: "crowd", signal })
  await expect(beyond).rejects.toMatchObject({ code: "queue_full", status: 429 })
  const other = there.check({ schema: false }, { client: "other" })
  leaving.abort(new Error("gone"))
  expect(await other).toMatchObject({ isUnsatisfiable: true })
  expect(await Promise.all(crowd)).toContain("gone")
})
