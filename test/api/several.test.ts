// Several models in one server of which one is loaded at a time: each answers as it does alone, whatever the others are asked.

import { cpSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { load } from "../../src/app/library.ts"
import { goldenFolder } from "../model/golden.ts"
import { ask, server } from "./server.ts"

const folder = mkdtempSync(join(tmpdir(), "several-"))
const names = ["qwen3", "llama-tied"] as const
const paths = names.map((name) => join(folder, name))
for (const [index, name] of names.entries()) {
  cpSync(goldenFolder("models", name), paths[index]!, { recursive: true })
}
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const options = { model: paths, target: "reference", maxLoaded: 1 } as const
const swapping = server(options)
const drafting = { mode: "small_draft", models: `qwen3=${paths[0]}` } as const
const resting = server({ ...options, maxLoaded: 2, idleUnload: 20, drafting })

const plain = { prompt: "Hello", max_tokens: 6, temperature: 0 }
const alone = new Map<string, string>()
beforeAll(async () => {
  for (const [index, path] of paths.entries()) {
    const model = await load(path, { target: "reference" })
    const { prompt, ...fields } = plain
    alone.set(names[index]!, await model.generate(prompt, fields).text())
    await model.close()
  }
  expect(new Set(alone.values()).size).toBe(2)
}, 60_000)

async function textOf(on: typeof swapping, model: string): Promise<string> {
  const { choices, error } = await ask(on, "/v1/completions", { ...plain, model })
  return choices?.[0].text ?? error.code
}

// biome-ignore lint/suspicious/noExplicitAny: as in `ask`
const get = async (path: string, { url } = swapping): Promise<any> =>
  (await fetch(url + path)).json()

async function running(on: typeof swapping): Promise<string[]> {
  const { models } = await get("/api/ps", on)
  return models.map(({ name }: { name: string }) => name).filter((name: string) => name[0] !== "/")
}

test("each is listed, and swapped without one wrong answer", async () => {
  const { data } = await get("/v1/models")
  expect(data.map(({ id }: { id: string }) => id)).toEqual(
    names.flatMap((name, index) => [paths[index], name]),
  )
  const asked = Array.from({ length: 12 }, (_, index) => names[(index >> 1) % 2]!)
  const texts = await Promise.all(asked.map((name) => textOf(swapping, name)))
  expect(texts).toEqual(asked.map((name) => alone.get(name)))
  expect(await running(swapping)).toHaveLength(1)
})

test("what nobody asks for is unloaded, and loaded by the next request", async () => {
  await expect.poll(() => running(resting)).toEqual([])
  const page = await (await fetch(`${resting.url}/metrics`)).text()
  expect(page).not.toContain("sinter_running{")
  const before = Date.now()
  expect(await textOf(resting, "qwen3")).toBe(alone.get("qwen3"))
  const [entry] = (await get("/api/ps", resting)).models
  if (entry) expect(Date.parse(entry.expires_at)).toBeGreaterThan(before) // else it is gone again
  expect((await get("/api/ps")).models[0].expires_at).toMatch(/^2318/)
})

test("numbers of several models are told apart", async () => {
  await textOf(swapping, "qwen3")
  const page = await (await fetch(`${swapping.url}/metrics`)).text()
  expect(page).toContain(`sinter_running{model="${paths[0]}"} 0`)
})

test("one that is gone is refused, and takes nobody's place", async () => {
  expect(await textOf(swapping, "llama-tied")).toBe(alone.get("llama-tied"))
  rmSync(paths[0]!, { recursive: true })
  expect(await textOf(swapping, "qwen3")).toBe("model_unavailable")
  expect(await running(swapping)).toEqual(["llama-tied:latest"])
})
