// The whole way, as a user meets it: `sinter serve` as a process, the official client, signals, and what goes wrong.

import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import OpenAI from "openai"
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest"
import { built, fromSources, run, type Serving, serve, start } from "./sinter.ts"

let server: Serving
let client: OpenAI
beforeAll(async () => {
  server = await serve(["tiny"])
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 })
})
afterAll(() => server?.stop())

const messages = [{ role: "user" as const, content: "Hello! Who are you?" }]

test("the start-up lines name the addresses, the model, the device, what was chosen and why", () => {
  const out = server.out()
  expect(out).toContain(`${server.url}/v1 `)
  expect(out).toContain(`${server.url}/openai/v1 `)
  expect(out).toContain(`${server.url}/docs `)
  expect(out).toContain(`${server.url}/ `) // the page of README.md
  expect(out).toMatch(/model +tiny: llama, [\d.]+ M parameters/)
  expect(out).toMatch(/device +cpu:0 \(.+, \d+ threads?\), target \w+/)
  expect(out).toMatch(/sequences +4 at once \(local\)/)
  expect(out).toMatch(/context +4096 tokens, the model's/)
  // 512 as options.md has it of any step; 16 that a grammar may force, as EngineLimits has them
  expect(out).toMatch(
    /prefill +at most 512 prompt tokens a step \(a step's most\), and 16 proposed ones\n/,
  )
  expect(out).toMatch(
    /memory +weights [\d.]+ MiB, KV [\d.]+ MiB, activations [\d.]+ MiB, buffers [\d.]+ MiB of [\d.]+ MiB that may be taken, 100 % of what (this machine|this process's control group) has left/,
  )
})

test("models", async () => {
  const { data } = await client.models.list()
  expect(data.map(({ id }) => id)).toContain("tiny")
})

test("a whole answer", async () => {
  const { choices, usage } = await client.chat.completions.create({
    model: "tiny",
    messages,
    temperature: 0,
  })
  expect(choices[0]!.message.content).toMatch(/\w{2,}/)
  expect(choices[0]!.finish_reason).toBe("stop")
  expect(usage!.total_tokens).toBe(usage!.prompt_tokens + usage!.completion_tokens)
})

test("a stream says what the whole answer says", async () => {
  const request = { model: "tiny", messages, temperature: 0 }
  const whole = await client.chat.completions.create(request)
  const stream = await client.chat.completions.create({ ...request, stream: true })
  let text = ""
  for await (const { choices } of stream) text += choices[0]?.delta.content ?? ""
  expect(text).toBe(whole.choices[0]!.message.content)
})

test("logprobs list exactly the text, most likely first", async () => {
  const { choices } = await client.chat.completions.create({
    model: "tiny",
    messages,
    temperature: 0,
    logprobs: true,
    top_logprobs: 3,
  })
  const listed = choices[0]!.logprobs!.content!
  const bytes = listed.flatMap((entry) => entry.bytes!)
  expect(Buffer.from(bytes).toString()).toBe(choices[0]!.message.content)
  for (const { logprob, top_logprobs: top } of listed) {
    expect(top).toHaveLength(3)
    expect(top[0]!.logprob).toBe(logprob)
    expect(top[0]!.logprob).toBeGreaterThanOrEqual(top[1]!.logprob)
  }
})

test("n = 3 gives three; the same seed gives the same three again", async () => {
  const ask = (seed: number) =>
    client.chat.completions
      .create({ model: "tiny", messages, n: 3, seed, temperature: 1.5, max_tokens: 24 })
      .then(({ choices }) => choices.map(({ message }) => message.content))
  const first = await ask(7)
  expect(first).toHaveLength(3)
  expect(new Set(first).size).toBeGreaterThan(1)
  expect(await ask(7)).toEqual(first)
  expect(await ask(8)).not.toEqual(first)
})

test("alone or in a crowd: the same answer", async () => {
  const ask = (seed: number) =>
    client.chat.completions
      .create({ model: "tiny", messages, seed, temperature: 1, max_tokens: 16 })
      .then(({ choices }) => choices[0]!.message.content)
  const alone = await ask(1)
  const crowd = await Promise.all([1, 2, 3, 4, 5, 6].map(ask))
  expect(crowd[0]).toBe(alone)
})

test("pages of the origins that are named may send what is named, and others nothing", async () => {
  const named = {
    "--allowed-origins": ["http://page.example"],
    "--allowed-methods": ["POST"],
    "--allowed-headers": ["x-mine"],
  }
  const lists = Object.entries(named).flatMap(([name, list]) => [name, JSON.stringify(list)])
  const open = await serve(["tiny", "--allow-credentials", ...lists])
  onTestFinished(async () => void (await open.stop()))
  const ask = async ({ url }: Serving, origin: string) => {
    const answer = await fetch(`${url}/v1/chat/completions`, {
      method: "OPTIONS",
      headers: { origin, "access-control-request-method": "POST" },
    })
    const of = (what: string) => answer.headers.get(`access-control-allow-${what}`)
    const [credentials, methods, headers] = ["credentials", "methods", "headers"].map(of)
    return [answer.status, of("origin"), credentials, methods, /\bx-mine\b/.test(headers ?? "")]
  }
  const page = "http://page.example"
  expect(await ask(open, page)).toEqual([200, page, "true", "POST", true])
  expect(await ask(open, "http://other.example")).toEqual([400, null, "true", "POST", true])
  expect((await ask(server, page)).slice(1)).toEqual([null, null, null, false])
  const { headers } = await fetch(`${open.url}/v1/models`, { headers: { origin: page } })
  expect(headers.get("access-control-allow-origin")).toBe(page)
})

test("Ctrl-C while streaming: the stream ends, exit code 0, no stack", async () => {
  const own = await serve(["tiny"])
  const response = await fetch(`${own.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "tiny", messages, stream: true, max_tokens: 20 }),
  })
  const ended = own.stop("SIGINT")
  expect(await response.text()).toMatch(/data: \[DONE\]\n\n$/)
  expect(await ended).toMatchObject({
    code: 0,
    signal: null,
    err: expect.not.stringContaining("    at "),
  })
})

test("SIGHUP ends it as SIGTERM does", async () => {
  const own = await serve(["tiny"])
  expect(await own.stop("SIGHUP")).toMatchObject({ code: 0, signal: null, err: "" })
})

test("under nohup SIGHUP is ignored", async () => {
  const command = ["bash", "-c", 'nohup "$@"', "bash", ...fromSources.command]
  const own = await serve(["tiny"], { ...fromSources, command })
  process.kill(-own.child.pid!, "SIGHUP")
  expect((await fetch(`${own.url}/health`)).status).toBe(200)
  expect(await own.stop("SIGTERM")).toMatchObject({ code: 0, signal: null })
})

test("SIGUSR1 opens no inspector, in the server and in what it has started", async () => {
  const own = await serve(["tiny"])
  process.kill(-own.child.pid!, "SIGUSR1")
  expect((await fetch(`${own.url}/health`)).status).toBe(200)
  expect(await own.stop("SIGTERM")).toMatchObject({ code: 0, err: "" })
})

test("a signal while it compiles ends it at once", async () => {
  const cache = mkdtempSync(join(tmpdir(), "sinter-cache-"))
  const running = start(["serve", "tiny", "--port", "0"], built, { XDG_CACHE_HOME: cache })
  while (!running.out()) await new Promise((wake) => setTimeout(wake, 5))
  process.kill(-running.child.pid!, "SIGTERM")
  const { code, err } = await running.ended
  expect({ code, err }).toEqual({ code: 0, err: "" })
  const kept = readdirSync(cache, { recursive: true, encoding: "utf8" })
  expect(kept.filter((name) => name.endsWith(".so"))).toEqual([]) // it did not compile to the end
  rmSync(cache, { recursive: true })
})

test("a port that is taken: one sentence, exit code 2", async () => {
  const { port } = new URL(server.url)
  const { code, err } = await run(["serve", "tiny", "--port", port])
  expect(code).toBe(2)
  expect(err).toMatch(new RegExp(`^sinter: --port: ${port} .+in use.+\n$`))
})

test("a model that is not there: where it looked, and what is there", async () => {
  const { code, err } = await run(["serve", "nosuchmodel"])
  expect(code).toBe(2)
  expect(err).toMatch(/^sinter: No model nosuchmodel: looked in .+tiny.*\n$/)
})

test("of a folder of models those are served that can be; the others are named, and refused where they are typed", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-models-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const name of ["tiny", "tiny-eagle", "tiny-medusa"])
    symlinkSync(resolve("models", name), join(folder, name))
  mkdirSync(join(folder, "rwkv7"))
  writeFileSync(join(folder, "rwkv7/config.json"), '{"model_type": "rwkv7"}')
  const own = await serve([folder, "--log-level", "warn"])
  const { data } = await new OpenAI({ baseURL: `${own.url}/v1`, apiKey: "none" }).models.list()
  expect(data.map(({ id }) => id)).toEqual([join(folder, "tiny"), "tiny"])
  const { code, err } = await own.stop()
  const said = err.trim().split("\n")
  expect([code, said.map((line) => JSON.parse(line).msg)]).toEqual([
    0,
    [
      expect.stringMatching(
        /rwkv7 is passed over: .+config\.json: model_type is "rwkv7", which is/,
      ),
      expect.stringMatching(
        /tiny-eagle is passed over: it holds an EAGLE head, .+--additional-mod/,
      ),
      expect.stringMatching(
        /tiny-medusa is passed over: it holds Medusa heads, .+--additional-mod/,
      ),
    ],
  ])
  const refused = /^sinter: .+config\.json: model_type is "rwkv7", which is not known.+\n$/
  const typed = await run(["serve", join(folder, "tiny"), join(folder, "rwkv7")])
  expect([typed.code, typed.err]).toEqual([2, expect.stringMatching(refused)])
  renameSync(join(folder, "tiny"), join(folder, "rwkv7/tiny"))
  const none = await run(["serve", folder])
  expect([none.code, none.err]).toEqual([2, expect.stringMatching(refused)])
})

const metal = process.platform === "darwin" ? "cuda" : "metal" // no driver of it is for this system
test.each([
  [["--device", "cuda:63"], "--device cuda:63 is not on this machine"],
  [["--target", metal], `--target ${metal} runs on ${metal}, which is not on this machine`],
])("a device that is not here, by %j: what was found", async (typed, words) => {
  const { code, err } = await run(["serve", "tiny", ...typed])
  expect(code).toBe(2)
  expect(err).toMatch(/; found: .*cpu:0 \(.+\)\. sinter devices lists .+\n$/)
  expect(err.startsWith(`sinter: ${words}`)).toBe(true)
})

test.each([
  ["that is not this machine's", "203.0.113.7", "0.0.0.0 means all of them"],
  ["without its interface", "fe80::1", "as in fe80::1%eth0"], // EINVAL of Linux: ipv6(7) on sin6_scope_id
  ["as URLs have it", "[::1]", "without brackets"],
])("an address %s", async (_, host, cure) => {
  const { code, err } = await run(["serve", "tiny", "--host", host, "--port", "0"])
  expect(code).toBe(2)
  expect(err).toMatch(/^sinter: --host: .+\n$/)
  expect(err).toContain(`: ${host} `)
  expect(err).toContain(cure)
})
