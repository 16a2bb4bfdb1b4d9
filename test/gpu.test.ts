// `sinter serve --device` on a GPU, or on a processor that a GPU's driver makes one of: what it says is what it says alone, with
// drafts or without, to one client or to several. A device that is lost is a driver of the test's between the loader and lavapipe or PoCL.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import OpenAI from "openai"
import { afterAll, describe, expect, test } from "vitest"
import { findDevices } from "../src/runtime/devices.ts"
import { isLeftOut } from "./left-out.ts"
import { type Losable, plantLosableOpencl, plantLosableVulkan } from "./planted-drivers.ts"
import { built, run, type Serving, serve } from "./sinter.ts"

const found = (await findDevices(60_000)).flatMap(({ devices }) => devices)
const MILLISECONDS = 240_000 // a driver compiles dozens of kernels at the first request

const running: Serving[] = []
afterAll(async () => {
  for (const server of running) if (server.child.exitCode === null) await server.stop()
})

async function serveOn(device: string, options: readonly string[] = [], env = {}) {
  const server = await serve(["tiny", "--device", device, ...options], built, env)
  running.push(server)
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 })
  return { server, client, completions: client.chat.completions }
}

type Completions = OpenAI["chat"]["completions"]

const asked = { model: "tiny", temperature: 1, seed: 3, max_tokens: 40 } as const
const messagesOf = (content: string) => [{ role: "user" as const, content }]

/** What is said, and every bit of how likely it was. */
async function said(completions: Completions, content: string) {
  const answer = await completions.create({
    ...asked,
    messages: messagesOf(content),
    logprobs: true,
    top_logprobs: 2,
  })
  const { message, logprobs } = answer.choices[0]!
  return { text: message.content, logprobs }
}

/** Clients are told, and so is whoever started the server. @param code the driver's */
async function lose(server: Serving, completions: Completions, lost: string, code: string) {
  const endless = { ...asked, max_tokens: 2000, ignore_eos: true } // not over before they are robbed
  const reading = { ...endless, messages: messagesOf("Tell me a story.") }
  const whole = completions.create(reading)
  const stream = await completions.create({ ...reading, stream: true })
  const readAll = async () => {
    let pieces = 0 // by the tenth the other one has long been admitted
    for await (const _ of stream) if (++pieces === 10) writeFileSync(lost, "")
  }
  const sentence = new RegExp(`program is lost .+${code}\\); retry with the next one`)
  const told = { status: 503, code: "program_lost", message: expect.stringMatching(sentence) }
  await Promise.all([
    expect(readAll()).rejects.toThrow(sentence),
    expect(whole).rejects.toMatchObject(told),
  ])
  const ended = await server.ended
  expect(ended.code).toBe(1)
  expect(ended.err).toMatch(new RegExp(`^sinter: .*${sentence.source}\\.$`, "m"))
}

/** Whoever starts then is refused. */
async function startLate(env: Losable["env"]) {
  const command = ["serve", "tiny-draft", "--device", "vulkan", "--port", "0"]
  expect(await run(command, "", built, env)).toMatchObject({
    code: 2,
    err: expect.stringMatching(/^sinter: The device vulkan:0 failed [^\n]+DEVICE_LOST\. [^\n]+\n$/),
  })
}

function onDevice(name: "vulkan" | "opencl", what: string, run: () => Promise<void>): void {
  const left = isLeftOut(found.some((device) => device.name === name && !device.obstacle))
  const why = left ? ` (skipped: no device of ${name})` : ""
  test.skipIf(left)(`${what} on ${name}${why}`, run, MILLISECONDS)
}

const folder = mkdtempSync(join(tmpdir(), "sinter-losable-"))
afterAll(() => rmSync(folder, { recursive: true }))
const losable = { vulkan: plantLosableVulkan(folder), opencl: plantLosableOpencl(folder) }

/** How a server's test ends. */
const endingOn = (name: keyof typeof losable) =>
  isLeftOut(losable[name] !== undefined)
    ? "ended (loss skipped: none of mesa's or PoCL's, or no C compiler)"
    : "robbed of its device"

describe("a server", () => {
  onDevice(
    "vulkan",
    `in company, streamed, held to a schema, left by a client, ${endingOn("vulkan")},`,
    async () => {
      const { server, completions } = await serveOn("vulkan", [], losable.vulkan?.env)
      expect(server.out()).toMatch(/device +vulkan:0 \(.+\), target vulkan/)
      const prompts = ["Who are you?", "What is 3 + 4?", "Say blue.", "Tell me a story."]
      const alone = []
      for (const prompt of prompts) alone.push(await said(completions, prompt))
      expect(await Promise.all(prompts.map((prompt) => said(completions, prompt)))).toEqual(alone)

      const leaving = await completions.create({
        ...asked,
        messages: messagesOf(prompts[3]!),
        stream: true,
      })
      for await (const _ of leaving) break
      const stream = await completions.create({
        ...asked,
        messages: messagesOf(prompts[0]!),
        stream: true,
      })
      let streamed = ""
      for await (const { choices } of stream) streamed += choices[0]?.delta.content ?? ""
      expect(streamed).toBe(alone[0]!.text)

      const properties = { name: { type: "string" }, age: { type: "integer" } }
      const schema = { type: "object", properties, required: ["name", "age"] }
      const { choices } = await completions.create({
        ...asked,
        max_tokens: 200,
        messages: messagesOf("Ann is 31 years old."),
        response_format: {
          type: "json_schema",
          json_schema: { name: "person", schema: { ...schema, additionalProperties: false } },
        },
      })
      if (choices[0]!.finish_reason === "stop")
        expect(Object.keys(JSON.parse(choices[0]!.message.content!)).sort()).toEqual([
          "age",
          "name",
        ])
      const { vulkan } = losable
      if (vulkan) {
        await lose(server, completions, vulkan.lost, "VK_ERROR_DEVICE_LOST")
        await startLate(vulkan.env)
      } else expect(await server.stop()).toMatchObject({ code: 0 })
    },
  )

  onDevice("vulkan", "with drafts of a model and of a head says what it says without", async () => {
    const plain = await serveOn("vulkan")
    const expected = await said(plain.completions, "Who are you?")
    for (const [mode, model] of [
      ["small_draft", "tiny-draft"],
      ["eagle", "tiny-eagle"],
    ] as const) {
      const options = ["--speculative-mode", mode, "--additional-models", model]
      const { server, completions } = await serveOn("vulkan", options)
      expect([mode, (await said(completions, "Who are you?")).text]).toEqual([mode, expected.text])
      await server.stop()
    }
  })

  onDevice("opencl", `answers, twice the same, ${endingOn("opencl")},`, async () => {
    const { opencl } = losable
    const { server, completions } = await serveOn("opencl", [], opencl?.env)
    const once = await said(completions, "Who are you?")
    expect(await said(completions, "Who are you?")).toEqual(once)
    if (opencl) await lose(server, completions, opencl.lost, "CL_INVALID_COMMAND_QUEUE")
    else expect(await server.stop()).toMatchObject({ code: 0 })
  })
})
