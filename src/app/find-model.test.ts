import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { expect, test } from "vitest"
import { Problem } from "../errors.ts"
import { findModel } from "./find-model.ts"

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
  const error = await findModel(folder, options).catch((error: unknown) => error)
  rmSync(folder, { recursive: true })
  expect(error).toBeInstanceOf(Problem)
  expect((error as Problem).message).toMatch(words)
  expect((error as Problem).message).toContain(`sinter serve MODEL --lora ${folder}`)
})
