// Faults put into a real server, one at a time, with good requests beside them and after them: each costs at most the
// requests in it, the others get what they get alone, and every block comes back.

import { connect } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, afterEach, beforeAll, expect, test } from "vitest"
import { planOf } from "../../src/app.ts"
import { createChat } from "../../src/chat/chat.ts"
import { openTemplate } from "../../src/chat/template.ts"
import { openTokenizer } from "../../src/chat/tokenizer.ts"
import { Closing } from "../../src/closing.ts"
import { prepareProgram, traitsOf } from "../../src/compiler/targets/prepare.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { createEngine, type Engine } from "../../src/engine/engine.ts"
import { chooseLimits } from "../../src/engine/limits.ts"
import { createHttp } from "../../src/http/http.ts"
import { defaultHttpOptions } from "../../src/http/service.ts"
import { createLog } from "../../src/log.ts"
import { locateModel } from "../../src/model/locate.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import type { Program, StepInput, StepOutput } from "../../src/runtime/program.ts"
import { served } from "../parrot.ts"

/** What goes wrong in the next steps; undefined: nothing. */
let fault: ((input: StepInput, step: Step) => Promise<StepOutput>) | undefined
type Step = (input: StepInput) => Promise<StepOutput>

let url: string
let port: number
let engine: Engine
const closing = new Closing()

beforeAll(async () => {
  const log = createLog("silent", false)
  const model = await openModel(locateModel("models/tiny"))
  const { texts } = model
  const prepared = await prepareProgram(planOf(model, model.format, {}, traitsOf("cpu")), {
    device: { name: "cpu", id: 0 },
    target: "auto",
    library: undefined,
    folder: model.path,
    log,
  })
  const limits = chooseLimits({
    ...prepared,
    mode: "local",
    traits: targets.cpu.steps,
    overrides: { max_total_seq_length: 512 }, // for four sequences: blocks run out
    available: 2 ** 30,
  })
  const program = await prepared.open(limits.program)
  await loadParameters(model.weights, program.manifest, program)
  await model.close()
  const { vocabulary } = program.manifest.shapes
  const http = closing.add(createHttp({ ...defaultHttpOptions, version: "test" }, log))
  engine = createEngine(faulty(program), { limits, maxQueue: 100, log })
  const chat = createChat({
    engine,
    vocabulary,
    tokenizer: closing.add(
      await openTokenizer(texts.tokenizer.json, texts.tokenizer.file, vocabulary),
    ),
    template: openTemplate(texts.templates.get("default")!.text, "template", {
      specialTokens: texts.specialTokens,
      now: new Date(),
    }),
    endTokens: new Set(texts.endTokens),
  })
  closing.add(chat)
  closing.add(engine)
  const service = {
    chat,
    model: {
      names: ["tiny"],
      created: 0,
      contextLength: limits.context.value,
      vocabularySize: vocabulary,
      details: {},
      capabilities: [],
      sees: false,
      hears: false,
    },
    fingerprint: "fp_test",
    defaults: {},
  }
  http.open([served(service)])
  port = await http.listen(0)
  url = `http://127.0.0.1:${port}/v1/chat/completions`
})

afterAll(() => closing.close())

/** Whatever a test did: the next request is answered, and nothing is held. */
afterEach(async () => {
  fault = undefined
  expect(await ask(good)).toEqual(alone)
  await expect.poll(() => engine.stats()).toMatchObject({ running: 0, waiting: 0, blocksUsed: 0 })
  engine.audit()
})

function faulty(program: Program): Program {
  return {
    ...program,
    step: (input, cancel) => {
      const step: Step = (given) => program.step(given, cancel)
      return fault ? fault(input, step) : step(input)
    },
  }
}

interface Told {
  status: number
  text: string
}

const good = { seed: 5, max_tokens: 12 }
const alone: Told = { status: 200, text: "" }
beforeAll(async () => Object.assign(alone, await ask(good)))

interface Answer {
  choices?: { message: { content: string } }[]
  error?: { message: string }
}

async function ask(changes: object): Promise<Told> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-dialect": "openai" },
    body: bodyOf(changes),
  })
  const { choices, error } = (await response.json()) as Answer
  return { status: response.status, text: choices?.[0]?.message.content ?? error!.message }
}

function bodyOf(changes: object): string {
  const messages = [{ role: "user", content: "Hello! Who are you?" }]
  return JSON.stringify({ model: "tiny", messages, temperature: 1, ignore_eos: true, ...changes })
}

/** Breaks the steps that draw for the sequence with this seed, and no others. */
function breakFor(seed: bigint, broken: (input: StepInput, step: Step) => Promise<StepOutput>) {
  fault = (input, step) => (input.sampling.seed.includes(seed) ? broken(input, step) : step(input))
}

const VICTIM = 666

test("a step throws", async () => {
  breakFor(BigInt(VICTIM), () => Promise.reject(new Error("the roof came down")))
  const told = await ask({ ...good, seed: VICTIM })
  expect(told).toMatchObject({ status: 500, text: expect.stringContaining("the roof came down") })
})

test("the library refuses a step with a code and a sentence", async () => {
  // Rows that nobody takes, which are there when the host has looked.
  breakFor(BigInt(VICTIM), (input, step) => {
    const rows = new Float32Array(input.tokens.length * 256)
    let looks = 0
    const get = () => (looks++ === 0 ? undefined : rows)
    return step(Object.defineProperty({ ...input }, "hiddenIn", { get }))
  })
  const told = await ask({ ...good, seed: VICTIM })
  expect(told).toMatchObject({ status: 500, text: expect.stringContaining("library refuses") })
})

test("a number that is not finite costs its own sequence; who shares the step gets the same bits", async () => {
  let shared = 0
  breakFor(BigInt(VICTIM), async (input, step) => {
    const output = await step(input)
    if (output.kind === "done") output.finite[input.sampling.seed.indexOf(BigInt(VICTIM))] = 0
    if (input.sampling.seed.length > 1) shared++
    return output
  })
  // On a busy machine they may come one after the other.
  for (let round = 0; shared === 0; round++) {
    expect(round).toBeLessThan(50)
    const told = await Promise.all([
      ask(good),
      ask(good),
      ask({ ...good, seed: VICTIM }),
      ask({ ...good, seed: VICTIM, max_tokens: 3 }),
    ])
    expect(told.slice(0, 2)).toEqual([alone, alone])
    for (const { status, text } of told.slice(2)) {
      expect({ status, text }).toMatchObject({ status: 500, text: expect.stringMatching(/finite/) })
    }
  }
})

test("a stream that fails on its way is told so in an event of its own", async () => {
  let steps = 0
  fault = (input, step) => (++steps > 5 ? Promise.reject(new Error("too late")) : step(input))
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: bodyOf({ ...good, stream: true }),
  })
  expect(response.status).toBe(200)
  expect(await response.text()).toMatch(
    /data: \{"error":[^\n]*too late[^\n]*\}\n\ndata: \[DONE\]\n\n$/,
  )
})

test("blocks run out: everybody gets what they get alone", async () => {
  const long = [1, 2, 3, 4].map((seed) => ({ seed, max_tokens: 300 }))
  const each: Told[] = []
  for (const asked of long) each.push(await ask(asked))
  const before = engine.stats().preemptions
  for (let round = 0; engine.stats().preemptions === before; round++) {
    expect(round).toBeLessThan(50)
    expect(await Promise.all(long.map(ask))).toEqual(each)
  }
})

test("clients reset their connections, before and after the first word", async () => {
  const body = bodyOf({ max_tokens: 400, stream: true })
  const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`
  const resets = Array.from({ length: 30 }, async (_, i) => {
    const socket = connect(port, "127.0.0.1").on("error", () => {})
    socket.write(head + body.slice(0, i % 3 === 0 ? 20 : undefined))
    if (i % 3 === 2) await new Promise((heard) => socket.once("data", heard))
    else await sleep(i)
    socket.resetAndDestroy()
  })
  const [told] = await Promise.all([ask(good), ...resets])
  expect(told).toEqual(alone)
})

test("tokens are counted that clients were told of, and none of those who left", async () => {
  const metric = async (name: string) => {
    const page = await (await fetch(new URL("/metrics", url))).text()
    return Number(
      page
        .split("\n")
        .find((line) => line.startsWith(`${name} `))!
        .slice(name.length),
    )
  }
  const counted = () => metric('sinter_tokens_total{kind="completion"}')
  const before = await counted()
  for (let i = 0; i < 20; i++) {
    const leaving = new AbortController()
    const body = bodyOf({ max_tokens: 400, stream: true })
    const headers = { "content-type": "application/json" }
    const { signal } = leaving
    const response = await fetch(url, { method: "POST", headers, body, signal })
    await response.body!.getReader().read()
    leaving.abort()
  }
  await ask(good)
  while ((await metric("sinter_http_requests_running")) > 1) await sleep(1) // one asks
  expect((await counted()) - before).toBe(good.max_tokens)
})
