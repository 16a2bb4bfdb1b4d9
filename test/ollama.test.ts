// Models in Ollama's store, as a user meets them: by name, where they lie, and nothing of them is changed. The truth is golden: the
// same file and adapter by their paths.

import { createHash } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { adapterFile, OllamaStore, weightsFile } from "./ollama-store.ts"
import { built, run, serve } from "./sinter.ts"

const store = new OllamaStore()
store.manifest("small/1b", [store.weights, store.template])
store.manifest("registry.ollama.ai/me/small/latest", [store.weights, store.adapter])
const contents = () => {
  const names = readdirSync(store.folder, { recursive: true, encoding: "utf8" }).sort()
  const sums = readdirSync(join(store.folder, "blobs")).map((name) =>
    createHash("sha256")
      .update(readFileSync(join(store.folder, "blobs", name)))
      .digest("hex"),
  )
  return { names, sums }
}
const before = contents()
const scratch = mkdtempSync(join(tmpdir(), "sinter-ollama-out-"))
afterAll(() => {
  store.remove()
  rmSync(scratch, { recursive: true, force: true })
})

const env = {
  ...store.env,
  XDG_CACHE_HOME: join(scratch, "cache"),
  HF_HUB_CACHE: join(scratch, "hub"),
}
const sinter = (...args: string[]) => run(args, "", built, env)
const interpreted = ["--target", "reference"] // in less time than it takes to compile
const weights = store.blob(store.weights)

test("it is served under its name, short and as typed, and says what the file says", async () => {
  const models = ["ollama:small:1b", weightsFile, "ollama:me/small"]
  const server = await serve([...models, ...interpreted], built, env)
  const said = async (model: string): Promise<string> => {
    const messages = [{ role: "user", content: "Hi" }]
    const answer = await fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, messages, max_tokens: 12, temperature: 0 }),
    })
    const { choices } = (await answer.json()) as { choices: [{ message: { content: string } }] }
    return choices[0].message.content
  }
  try {
    const listed = (await (await fetch(`${server.url}/v1/models`)).json()) as {
      data: { id: string }[]
    }
    expect(listed.data.map(({ id }) => id)).toEqual([
      "ollama:small:1b",
      "small:1b",
      weightsFile,
      "llama-q4_0",
      "ollama:me/small",
      "me/small",
    ])
    const expected = await said(weightsFile)
    expect(expected).not.toBe("")
    expect(await said("ollama:small:1b")).toBe(expected)
    expect(await said("small:1b")).toBe(expected)
    expect(await said("me/small:latest")).not.toBe(expected)
  } finally {
    await server.stop()
  }
})

test("its adapters change it, and another model", async () => {
  const rest = ["Hi", "--temperature", "0", "--max-tokens", "12", ...interpreted]
  const [plain, tuned, ...same] = await Promise.all([
    sinter("run", weightsFile, ...rest),
    sinter("run", weightsFile, ...rest, "--lora", adapterFile),
    sinter("run", "ollama:me/small", ...rest),
    sinter("run", "ollama:small:1b", ...rest, "--lora", "ollama:me/small"),
  ])
  expect(tuned).toMatchObject({ code: 0, out: expect.stringMatching(/./) })
  expect(tuned!.out).not.toBe(plain!.out)
  for (const { out } of same) expect(out).toBe(tuned!.out)
})

test("it is inspected, and compiled into a folder that is found again", async () => {
  const { out } = await sinter("inspect", "ollama:me/small")
  expect(out).toContain(`changed by    ${store.blob(store.adapter)}\n`)
  const output = join(scratch, "small")
  const compiled = await sinter("compile", "ollama:small:1b", "--weights-only", "--output", output)
  expect(compiled).toMatchObject({ code: 0, err: "" })
  expect(readdirSync(output).sort()).toEqual(["sinter.json", "small-1b.gguf"])
  expect(readFileSync(join(output, "small-1b.gguf"))).toEqual(readFileSync(weightsFile))
  expect((await sinter("inspect", output)).out).toMatch(/^made from +small:1b, by sinter/m)
})

test("models are listed and shown; fetching them and taking them away is Ollama's", async () => {
  const { out } = await sinter("list")
  expect(out).toMatch(/^ollama:small:1b +200\.1 KiB +\d{4}-\d\d-\d\d$/m)
  expect(out).toMatch(/^ollama:me\/small +304\.2 KiB /m)
  expect(out).toContain(`${store.folder}: 2 models, 304.2 KiB\n`)
  expect((await sinter("show", "ollama:small:1b")).out).toContain(`ollama:small:1b: ${weights}\n`)
  for (const command of ["pull", "rm"])
    expect(await sinter(command, "ollama:small:1b")).toMatchObject({
      code: 2,
      out: "",
      err: `sinter: ${command}: Ollama's store is its own; ollama ${command} small:1b does that.\n`,
    })
  const absent = await sinter("serve", "ollama:smal")
  expect(absent).toMatchObject({ code: 2, err: expect.stringContaining("ollama:small:1b") })
  expect(contents()).toEqual(before)
})
