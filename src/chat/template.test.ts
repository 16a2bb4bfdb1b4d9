import { readFileSync } from "node:fs"
import { describe, expect, test } from "vitest"
import type { Rendering, TemplateMessage } from "./rendering.ts"
import { openTemplate } from "./template.ts"
import { openTokenizer } from "./tokenizer.ts"

const folder = `${import.meta.dirname}/../../test/golden/tokenizers`

interface Conversation {
  name: string
  messages: GoldenMessage[]
  options?: Record<string, unknown>
  text?: string
  ids?: number[]
  controls?: number[]
  ids_are_naive?: boolean
  error?: string
  raised_by_template?: boolean
}

interface GoldenMessage {
  role: string
  content: unknown
  tool_calls?: { id: string; function: { name: string; arguments: unknown } }[]
  tool_call_id?: string
  reasoning_content?: string
}

// Where the reference hands a text to the template and we the map that it spells.
const OTHERWISE = {
  llama3: ["arguments as a string"],
  mistral: ["arguments as a string"],
  qwen: [],
}

describe.each(["llama3", "qwen", "mistral"] as const)("%s", async (name) => {
  const read = (file: string) => readFileSync(`${folder}/${name}/${file}`, "utf8")
  const config = JSON.parse(read("tokenizer_config.json"))
  const { now, conversations } = JSON.parse(read("chat-golden.json"))
  const tokenizer = await openTokenizer(read("tokenizer.json"), "tokenizer.json", 1000)
  const { bos_token, eos_token } = config
  const template = openTemplate(config.chat_template, "tokenizer_config.json", {
    specialTokens: { ...(bos_token && { bos_token }), eos_token },
    now: new Date(now),
  })
  const added = new Set(tokenizer.added.map(({ id }) => id))

  const cases = (conversations as Conversation[]).filter(
    (given) => !(OTHERWISE[name] as string[]).includes(given.name),
  )

  test.each(cases.filter((given) => given.text !== undefined))("$name", async (given) => {
    const rendering = renderingOf(given)
    const text = await template.render(rendering)
    const { continue_final_message: continues } = given.options ?? {}
    if (continues) {
      expect(text.value.startsWith(given.text!)).toBe(true)
      return
    }
    expect(text.value).toBe(given.text)
    const ids = Array.from(await tokenizer.encode(text))
    expect(ids.filter((id) => added.has(id))).toEqual(given.controls)
    if (!given.ids_are_naive) expect(ids).toEqual(given.ids)
  })

  test.each(cases.filter((given) => given.raised_by_template))("refuses: $name", async (given) => {
    const words = given.error!.replace("TemplateError: ", "")
    await expect(template.render(renderingOf(given))).rejects.toThrow(words)
  })
})

function renderingOf({ name, messages, options = {} }: Conversation): Rendering {
  const { tools, add_generation_prompt, continue_final_message: _, ...variables } = options
  return {
    messages: messages.map(
      (message): TemplateMessage => ({
        role: message.role,
        content: message.content,
        ...(message.reasoning_content && { reasoning: message.reasoning_content }),
        ...(message.tool_call_id && { toolCallId: message.tool_call_id }),
        ...(message.tool_calls && {
          toolCalls: message.tool_calls.map((call) => ({
            id: call.id,
            name: call.function.name,
            arguments: name.includes("JSON.parse changes")
              ? '{"a": 1.0, "b": 1e-07, "c": 12345678901234567890}'
              : argumentsText(call.function.arguments),
          })),
        }),
      }),
    ),
    tools: tools as unknown[] | undefined,
    variables,
    generationPrompt: add_generation_prompt !== false,
  }
}

function argumentsText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value)
}
