import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { request, setUp } from "../../test/history-engine.ts"
import { collect } from "../../test/history-program.ts"
import { type AppOptions, createApp } from "../app.ts"
import { behindFirst } from "./loaded-model.ts"

const tiny = join(import.meta.dirname, "../../models/tiny")
let folder: string // tiny's files, which nobody else opens
let damaged: string

beforeAll(() => {
  const place = mkdtempSync(join(tmpdir(), "sinter-ending-"))
  folder = join(place, "tiny")
  damaged = join(place, "damaged")
  for (const copy of [folder, damaged]) cpSync(tiny, copy, { recursive: true })
  const shard = join(damaged, "params_shard_0.bin")
  const bytes = readFileSync(shard)
  bytes[1000]! ^= 1
  writeFileSync(shard, bytes)
})

afterAll(() => rmSync(join(folder, ".."), { recursive: true }))

const linux = process.platform === "linux"
const named = (what: string) => (linux ? what : `${what} (left out: there is no /proc)`)

/** What this process has open in a folder. */
function openIn(path: string): string[] {
  const targets = readdirSync("/proc/self/fd").map((fd) => {
    try {
      return readlinkSync(join("/proc/self/fd", fd))
    } catch {
      return "" // closed since it was listed
    }
  })
  return targets.filter((target) => target.startsWith(path))
}

const start = (options: Partial<AppOptions> = {}) =>
  createApp({ model: folder, target: "reference", ...options })

test.runIf(linux)(named("a start that is refused leaves nothing open"), async () => {
  const overrides = { max_total_seq_length: 2 ** 40 }
  await expect(start({ overrides })).rejects.toMatchObject({ code: "memory_short" })
  const drafting = { mode: "small_draft", models: `${folder},./nowhere.so` } as const
  await expect(start({ drafting })).rejects.toMatchObject({ code: "library_unusable" })
  expect(openIn(folder)).toEqual([])
})

test.runIf(linux)(named("weights that are damaged: told, and nothing stays open"), async () => {
  const app = await start({ model: damaged })
  await expect(app.ready).rejects.toMatchObject({ code: "model_broken" })
  await app.close()
  expect(openIn(damaged)).toEqual([])
})

test.runIf(linux)(
  named("an end while the model is loaded frees its files and the port"),
  async () => {
    const app = await start({ drafting: { mode: "small_draft", models: folder } })
    const port = await app.listen(0)
    expect(openIn(folder)).not.toEqual([])
    await Promise.all([app.close(), app.close()])
    expect(openIn(folder)).toEqual([])
    await expect(fetch(`http://127.0.0.1:${port}/live`)).rejects.toThrow()
  },
)

test("what is for the next start begins behind the first reply, or where nobody asks for one", async () => {
  await behindFirst(setUp().engine, Promise.resolve())

  const { engine } = setUp()
  const left = () => engine.stats().running + engine.stats().waiting
  const long = engine.generate(request(20))
  const short = engine.generate(request(20, { maxTokens: 1 }))
  const never = new Promise<void>(() => {})
  const waits = [never, Promise.resolve()].map((quiet) => behindFirst(engine, quiet).then(left))
  expect(left()).toBe(2)
  await collect(short.choices[0]!)
  expect(await Promise.all(waits)).toEqual([1, 1])
  await collect(long.choices[0]!)
})

test("who is held to a schema when the server ends is told that it ends", async () => {
  const app = await start({ target: "auto" })
  const { chat, engine } = await app.ready
  const { events } = await chat.reply({
    messages: [{ role: "user", content: "Hello!" }],
    format: { schema: { type: "array", items: { type: "string" }, minItems: 1000 } },
  })
  const problems: unknown[] = []
  const read = (async () => {
    for await (const event of events)
      if (event.kind === "finish") problems.push(event.problem?.code)
  })()
  await expect.poll(() => engine.stats().replyTokens).toBeGreaterThan(2)
  await app.close()
  await read
  expect(problems).toEqual(["server_closing"])
})

// As vLLM does it, which always stops at the tokenizer's own end.
test("a reply ends at what the tokenizer calls its end, whatever the numbers say", async () => {
  const tuned = join(folder, "../tuned")
  cpSync(tiny, tuned, { recursive: true })
  writeFileSync(join(tuned, "generation_config.json"), '{"eos_token_id":0}') // not <|im_end|>
  const app = await start({ model: tuned, target: "auto" })
  const { chat } = await app.ready
  const { events } = await chat.reply({
    messages: [{ role: "user", content: "Hello!" }],
    sampling: { temperature: 0 },
  })
  const reasons: unknown[] = []
  for await (const event of events) if (event.kind === "finish") reasons.push(event.reason)
  expect(reasons).toEqual(["stop"])
  await app.close()
})
