// DeepSeek V3.2's conversation, which its folder has no template of, held against the model's own encoder.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { TemplateMessage } from "../../src/chat/rendering.ts"
import { openTemplate, type Template } from "../../src/chat/template.ts"
import { Fields } from "../../src/model/fields.ts"
import { Folder } from "../../src/model/folder.ts"
import { openModel } from "../../src/model/model.ts"
import { readTexts } from "../../src/model/texts.ts"

interface GoldenMessage {
  role: string
  content: string | null
  reasoning_content?: string | null
  tool_calls?: { function: { name: string; arguments: string } }[]
}

interface Golden {
  conversations: {
    name: string
    tools: unknown[] | null
    messages: GoldenMessage[]
    prompts: Record<"chat" | "thinking", string>
  }[]
}

const root = join(import.meta.dirname, "../golden/deepseek")
const golden: Golden = JSON.parse(readFileSync(join(root, "golden.json"), "utf8"))

/** What a folder of that model has for a template, beside files of these texts. */
async function templateOf(files: Record<string, string>, type = "deepseek_v32") {
  const path = mkdtempSync(join(tmpdir(), "deepseek-"))
  for (const [name, text] of Object.entries({ "tokenizer.json": "{}", ...files }))
    writeFileSync(join(path, name), text)
  const fields = new Fields({}, (what) => new Error(what) as never)
  const { templates } = await readTexts(new Folder(path), fields, 8, type)
  rmSync(path, { recursive: true })
  return templates.get("default")
}

let template: Template
beforeAll(async () => {
  const { text, file } = (await templateOf({}))!
  expect(file).toMatch(/config\.json$/)
  template = openTemplate(text, file, { specialTokens: {}, now: new Date(0) })
})
afterAll(() => template.close())

function messageOf({ role, content, ...more }: GoldenMessage): TemplateMessage {
  const calls = more.tool_calls?.map(({ function: its }, at) => ({ id: `${at}`, ...its }))
  return {
    role,
    content,
    ...(calls && { toolCalls: calls }),
    ...(more.reasoning_content && { reasoning: more.reasoning_content }),
  }
}

async function rendered(
  messages: readonly TemplateMessage[],
  variables: Record<string, unknown> = {},
  tools?: readonly unknown[],
): Promise<string> {
  const generationPrompt = messages.at(-1)!.content !== "21 degrees."
  return (await template.render({ messages, tools, variables, generationPrompt })).value
}

test.each(golden.conversations)("$name, as the encoder writes it", async (given) => {
  const { messages, tools, prompts } = given
  const [own, shown] = [messages.map(messageOf), tools ?? undefined]
  expect(await rendered(own, {}, shown)).toBe(prompts.chat)
  expect(await rendered(own, { thinking: true }, shown)).toBe(prompts.thinking)
})

const user: TemplateMessage = { role: "user", content: "Why?" }
const HEAD = "<｜begin▁of▁sentence｜><｜User｜>Why?<｜Assistant｜>"

test("whether it thinks is said in three ways", async () => {
  for (const variables of [
    { thinking: true, enable_thinking: false },
    { enable_thinking: true },
    { reasoning_effort: "low" },
  ])
    expect(await rendered([user], variables)).toBe(`${HEAD}<think>`)
  for (const variables of [
    { thinking: false, enable_thinking: true },
    { enable_thinking: false, reasoning_effort: "high" },
    { reasoning_effort: "none" },
  ])
    expect(await rendered([user], variables)).toBe(`${HEAD}</think>`)
})

test("what the encoder refuses is written all the same", async () => {
  const answer = { role: "assistant", content: "So." }
  const end = "<｜end▁of▁sentence｜>"
  expect(await rendered([user, answer], { thinking: true })).toBe(
    `${HEAD}<think></think>So.${end}<｜Assistant｜><think>`,
  )
  const result = { role: "tool", content: "1" }
  expect(await rendered([user, answer, result, result])).toBe(
    `${HEAD}</think>So.${end}\n\n<function_results>\n<result>1</result>\n<result>1</result>\n</function_results>\n\n</think>`,
  )
})

test("arguments that are no object, and other roles, are refused", async () => {
  const calling = {
    role: "assistant",
    content: "",
    toolCalls: [{ id: "", name: "f", arguments: "5" }],
  }
  await expect(rendered([user, calling])).rejects.toThrow("arguments of a call are no JSON object")
  await expect(rendered([{ role: "critic", content: "" }])).rejects.toThrow("a message is of the")
})

test("a folder with a template of its own has that one, and other models have none", async () => {
  const own = await templateOf({ "chat_template.jinja": "{{ messages }}" })
  expect(own!.text).toBe("{{ messages }}")
  expect(await templateOf({}, "deepseek_v3")).toBeUndefined()
})

test("a GGUF file without a template has the same", async () => {
  const bytes = readFileSync(join(root, "../gguf/architectures/deepseek-v32.gguf"))
  const key = Buffer.from("tokenizer.chat_template")
  bytes.write("tokenizer.chat_unknown_", bytes.indexOf(key))
  const path = mkdtempSync(join(tmpdir(), "deepseek-"))
  writeFileSync(join(path, "it.gguf"), bytes)
  const model = await openModel(join(path, "it.gguf"))
  expect(model.texts.templates.get("default")!.text).toBe(template.source)
  await model.close()
  rmSync(path, { recursive: true })
})
