import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { afterAll, expect, test } from "vitest"
import { openHubServer } from "../../test/hub-server.ts"
import { OllamaStore } from "../../test/ollama-store.ts"
import { Problem } from "../errors.ts"
import { openModel } from "../model/model.ts"
import { findMmproj, findModel } from "./find-model.ts"

const options = { env: { HF_HUB_OFFLINE: "1", HF_HOME: "/nonexistent" } }

// HF:// is how MLC-LLM's own documents write a name of the hub.
test.each([
  "HF://org/name",
  "hf:org/name",
  "hf.co/org/name",
  "huggingface.co/org/name",
  "org/name",
])("%s is looked for as the hub's", (name) =>
  expect(findModel(name, options)).rejects.toThrow(
    "org/name is neither a path here nor downloaded",
  ),
)

test.each(["HF://", "http:org/name", "https:"])("%s ends in a sentence", (name) =>
  expect(findModel(name, options)).rejects.toBeInstanceOf(Problem),
)

const golden = (path: string) => resolve(import.meta.dirname, "../../test/golden", path)

test("an adapter that is named as a model brings the model that it was trained on", async () => {
  const adapter = golden("adapters/llama")
  expect(await findModel(adapter, options, [golden("adapters/mlx")])).toEqual({
    path: golden("models/llama-untied"),
    adapters: [adapter, golden("adapters/mlx")],
    name: "llama",
  })
  expect(await findModel(golden("models/llama-untied"), options, [adapter])).toEqual({
    path: golden("models/llama-untied"),
    adapters: [adapter],
  })
})

test("an adapter of the hub and its model are downloaded, and used without a request then", async () => {
  const filesOf = (path: string, names: string[]) =>
    Object.fromEntries(names.map((name) => [name, readFileSync(join(golden(path), name))]))
  const weights = "adapter_model.safetensors"
  const texts = ["tokenizer.json", "tokenizer_config.json"]
  const hub = await openHubServer({
    "org/base": { files: filesOf("models/phi3", ["config.json", "model.safetensors", ...texts]) },
    "org/sees": { files: { "m-Q8_0.gguf": "eight", "eyes/mmproj-F16.gguf": "eye" } },
    "me/tuned": {
      files: {
        ...filesOf("adapters/phi3", [weights]),
        "adapter_config.json": JSON.stringify({
          ...JSON.parse(readFileSync(join(golden("adapters/phi3"), "adapter_config.json"), "utf8")),
          base_model_name_or_path: "org/base",
        }),
      },
    },
  })
  const home = mkdtempSync(join(tmpdir(), "hub-"))
  const own = { env: { HF_HOME: home, HF_ENDPOINT: hub.url, XDG_CACHE_HOME: home } }
  const { path, ...changes } = await findModel("me/tuned", own)
  const model = await openModel(path, changes)
  expect(model.name).toBe("tuned")
  expect(model.config.shapes.hidden).toBe(40)
  await model.close()
  const eye = await findMmproj("org/sees:eyes/mmproj-F16.gguf", own)
  expect(readFileSync(eye, "utf8")).toBe("eye")
  expect(hub.asked.filter(({ path }) => path.includes("m-Q8_0.gguf"))).toEqual([])
  for (const path of ["none", "gone/mmproj.gguf", "org/sees", eye])
    expect(await findMmproj(path, own)).toBe(path)
  await expect(findMmproj("org/sees:mmproj-F32.gguf", own)).rejects.toThrow(
    "has no mmproj-F32.gguf",
  )
  await expect(findMmproj("org/sees:m-Q8_0.gguf", own)).rejects.toThrow("m-Q8_0.gguf is no mmproj")
  expect(hub.asked.filter(({ path }) => path.includes("m-Q8_0.gguf"))).toEqual([])
  const { length } = hub.asked
  expect(await findMmproj("org/sees:eyes/mmproj-F16.gguf", own)).toBe(eye)
  expect(await findModel("me/tuned", own)).toEqual({ path, ...changes })
  expect(hub.asked.length).toBe(length)
  await hub.close()
  rmSync(home, { recursive: true })
})

test.each([
  ["org/base", /org\/base is neither a path here nor downloaded/],
  ["/nowhere/base", /No model \/nowhere\/base: looked in/],
  ["https://host/model.gguf", /Addresses are not followed/],
  [golden("adapters/llama"), /It is an adapter itself/],
])("an adapter of %s ends in a sentence that says what to do", async (base, words) => {
  const folder = mkdtempSync(join(tmpdir(), "adapter-"))
  writeFileSync(
    join(folder, "adapter_config.json"),
    JSON.stringify({ base_model_name_or_path: base }),
  )
  writeFileSync(join(folder, "adapter_model.safetensors"), "")
  const error = await findModel(folder, options).catch((error: unknown) => error)
  rmSync(folder, { recursive: true })
  expect(error).toBeInstanceOf(Problem)
  expect((error as Problem).message).toMatch(words)
  expect((error as Problem).message).toContain(`sinter serve MODEL --lora ${folder}`)
})

const store = new OllamaStore()
afterAll(() => store.remove())
const [weights, adapter] = [store.blob(store.weights), store.blob(store.adapter)]
store.manifest("plain/latest", [store.weights])
store.manifest("tuned/latest", [store.weights, store.adapter])
const stored = { env: { ...options.env, ...store.env } }

test("a model of Ollama's brings its adapters, and those that are named follow", async () => {
  expect(await findModel("ollama:tuned", stored, ["ollama:tuned", store.folder])).toEqual({
    path: weights,
    adapters: [adapter, adapter, store.folder],
    name: "tuned",
  })
})

test("an adapter that was trained on a model of Ollama's finds it", async () => {
  const folder = join(store.folder, "mine")
  mkdirSync(folder)
  const base = { base_model_name_or_path: "ollama:tuned" }
  writeFileSync(join(folder, "adapter_config.json"), JSON.stringify(base))
  writeFileSync(join(folder, "adapter_model.safetensors"), "")
  const found = { path: weights, adapters: [adapter, folder], name: "mine" }
  expect(await findModel(folder, stored)).toEqual(found)
})

test("a name of Ollama's is looked for nowhere else", async () => {
  await expect(findModel("ollama:org/name", stored)).rejects.toThrow(
    `No model ollama:org/name: looked in ${store.folder}; what lies there: ollama:plain, ollama:tuned;`,
  )
})
