import { readFileSync } from "node:fs"
import { describe, expect, test, vi } from "vitest"
import type { GenerationEvent, GenerationRequest } from "../engine/generation.ts"
import { createChat } from "./chat.ts"
import type { ChatMessage, ChatRequest, ReplyEvent, Tool } from "./conversation.ts"
import type { EmbeddingModel } from "./embedding.ts"
import { foreign, Text } from "./jinja/text.ts"
import { openTemplate } from "./template.ts"
import { openTokenizer } from "./tokenizer.ts"

const folder = `${import.meta.dirname}/../../test/golden/tokenizers`

async function modelOf(name: string, source?: string) {
  const read = (file: string) => readFileSync(`${folder}/${name}/${file}`, "utf8")
  const { bos_token, eos_token, chat_template } = JSON.parse(read("tokenizer_config.json"))
  const specialTokens = { ...(bos_token && { bos_token }), eos_token }
  const now = new Date(2025, 6, 4)
  return {
    tokenizer: await openTokenizer(read("tokenizer.json"), "tokenizer.json", 1000),
    template: openTemplate(source ?? chat_template, "chat_template", { specialTokens, now }),
    endTokens: new Set([1]),
  }
}

/** A chat over an engine that answers with the tokens of `text`, control tokens included. */
async function chatOf(name: string, text: string, source?: string, padding = 0) {
  const model = await modelOf(name, source)
  const tokens = await model.tokenizer.encode(new Text(text))
  const asked: GenerationRequest[] = []
  async function* choice(): AsyncGenerator<GenerationEvent> {
    for (const token of tokens) yield { kind: "token", token, logprob: -1, top: [] }
    yield { kind: "end", reason: "stop" }
  }
  const chat = createChat({
    ...model,
    vocabulary: model.tokenizer.size + padding,
    constraints: "here",
    engine: {
      generate: (request) => {
        asked.push(request)
        const choices = Array.from({ length: request.choices }, choice)
        return Promise.resolve({ promptTokens: request.prompt.length, cachedTokens: 0, choices })
      },
    },
  })
  const prompt = () => [...chat.detokenize(asked.at(-1)!.prompt)].join("")
  return { ...model, chat, asked, prompt }
}

const WEATHER: Tool = {
  name: "get_weather",
  definition: {
    type: "function",
    function: { name: "get_weather", parameters: { type: "object", properties: {} } },
  },
  parameters: { type: "object", properties: {} },
  strict: false,
}

const NOW: Tool = {
  name: "now",
  definition: { type: "function", function: { name: "now" } },
  parameters: undefined,
  strict: false,
}

function requestOf(more: Partial<ChatRequest> = {}): ChatRequest {
  const request: Omit<ChatRequest, "sampling"> = {
    id: "r1",
    messages: [{ role: "user", content: "Weather?" }],
    choices: 1,
    maxTokens: undefined,
    stop: [],
    ignoreEos: false,
    templateArguments: {},
    reasoning: "split",
    scope: "",
    ...more,
  }
  return { ...request, sampling: { topLogprobs: undefined } as ChatRequest["sampling"] }
}

async function eventsOf(reply: Promise<{ events: AsyncIterable<ReplyEvent> }>) {
  const events: ReplyEvent[] = []
  for await (const event of (await reply).events) events.push(event)
  return events
}

const signal = new AbortController().signal

test("a conversation of which the template writes nothing is refused by name", async () => {
  const { chat, asked } = await chatOf("qwen", "x", "{{ messages[-1].content }}")
  const messages = [{ role: "user", content: "" }] as const
  await expect(chat.reply(requestOf({ messages }), signal)).rejects.toMatchObject({
    code: "template_failed",
    param: "messages",
    message: expect.stringContaining("leaves no token to go on from"),
  })
  expect(asked).toEqual([])
})

test("the engine is told who asks, or whose scope it is", async () => {
  const { chat, asked } = await chatOf("qwen", "x")
  await chat.reply(requestOf({ scope: "key" }), signal, "somebody")
  await chat.complete({ ...requestOf(), echo: false, prompt: "x" }, signal, "connection 1")
  await chat.reply(requestOf({ scope: "key" }), signal)
  expect(asked.map(({ client }) => client)).toEqual(["somebody", "connection 1", "key"])
})

describe("calls", () => {
  const read = async (name: string, text: string, more: Partial<ChatRequest> = {}) => {
    const { chat } = await chatOf(name, text)
    const events = await eventsOf(chat.reply(requestOf({ tools: [WEATHER], ...more }), signal))
    return {
      content: events.map((event) => (event.kind === "content" ? event.text : "")).join(""),
      calls: events.flatMap((event) => (event.kind === "call" ? [event.name] : [])),
      ids: events.flatMap((event) => (event.kind === "call" ? [event.id] : [])),
      arguments: events.map((event) => (event.kind === "arguments" ? event.text : "")).join(""),
      reason: events.find((event) => event.kind === "finish")?.reason,
    }
  }
  const hermes =
    '<tool_call>\n{"name": "get_weather", "arguments": {"place": "Köln"}}\n</tool_call>'

  test("come as events, whether their marks are special tokens or text", async () => {
    const expected = {
      calls: ["get_weather"],
      arguments: '{"place": "Köln"}',
      reason: "tool_calls",
    }
    expect(await read("qwen", `Yes.\n${hermes}`)).toMatchObject({ ...expected, content: "Yes." })
    expect(
      await read(
        "mistral",
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"place": "Köln"}}]',
      ),
    ).toMatchObject({ ...expected, content: "" })
    expect(
      await read("llama3", '{"name": "get_weather", "parameters": {"place": "Köln"}}'),
    ).toMatchObject({ ...expected, content: "" })
    expect(
      await read(
        "llama3",
        '<|python_tag|>{"name": "get_weather", "parameters": {"place": "Köln"}}',
      ),
    ).toMatchObject({ ...expected, content: "" })
  })

  test("are not looked for when tools are hidden, absent, or another is allowed", async () => {
    const text = { content: hermes, calls: [], reason: "stop" }
    expect(await read("qwen", hermes, { toolChoice: { mode: "none" } })).toMatchObject(text)
    expect(await read("qwen", hermes, { tools: [] })).toMatchObject(text)
    const other = { tools: [WEATHER, NOW], toolChoice: { mode: "auto", names: ["now"] } } as const
    expect(await read("qwen", hermes, other)).toMatchObject({ ...text, reason: "error" })
  })

  test("end with the first one when only one is wanted, and have ids of their own", async () => {
    const both = await read("qwen", `${hermes}\n${hermes}`)
    expect(both.calls).toHaveLength(2)
    expect(new Set(both.ids).size).toBe(2)
    const one = await read("qwen", `${hermes}\n${hermes}`, { parallelToolCalls: false })
    expect(one).toMatchObject({ calls: ["get_weather"], reason: "tool_calls" })
  })

  test("are no place for stop strings", async () => {
    const stopped = await read("qwen", `A stop.${hermes}`, { stop: ["Köln", "get_"] })
    expect(stopped).toMatchObject({ content: "A stop.", reason: "tool_calls" })
    expect(await read("qwen", `Köln.${hermes}`, { stop: ["Köln"] })).toMatchObject({
      content: "",
      calls: [],
      reason: "stop",
    })
  })
})

describe("the prompt", () => {
  const ask = async (name: string, more: Partial<ChatRequest>, source?: string) => {
    const { chat, prompt } = await chatOf(name, "ok", source)
    await chat.reply(requestOf(more), signal)
    return prompt()
  }
  const called: ChatMessage[] = [
    { role: "user", content: "Weather?" },
    {
      role: "assistant",
      content: null,
      toolCalls: [{ id: "call_1", name: "get_weather", arguments: '{"n": 1.0}' }],
    },
    { role: "tool", content: "rain", toolCallId: "call_1" },
  ]

  test("shows tools through the template, unless they are hidden", async () => {
    expect(await ask("qwen", { tools: [WEATHER] })).toContain(
      '<tools>\n{"type": "function", "function": {"name": "get_weather", "parameters": ',
    )
    const hidden = await ask("qwen", { tools: [WEATHER], toolChoice: { mode: "none" } })
    expect(hidden).not.toContain("get_weather")
  })

  test("gives a template the form of call ids that it wants", async () => {
    const text = await ask("mistral", { messages: called, tools: [WEATHER] })
    const ids = [...text.matchAll(/"(?:call_)?id": "(\w{9})"/g)].map(([, id]) => id)
    expect(ids).toHaveLength(2)
    expect(ids[0]).toBe(ids[1])
    expect(text).toContain('"arguments": {"n": 1.0}')
  })

  test("leaves what the system says where it stands, as the user's, where a template wants it first alone", async () => {
    const strict =
      "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('first') }}{% endif %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]"
    const messages: ChatMessage[] = [
      { role: "system", content: "Help." },
      { role: "user", content: "Hi" },
      { role: "system", content: "Be brief." },
    ]
    expect(await ask("qwen", { messages }, strict)).toBe(
      "[system] Help.\n[user] Hi\n[user] Be brief.\n[assistant]",
    )
    const alternating = strict.replace(
      "{% endfor %}",
      "{% if m.role == 'user' and loop.nextitem and loop.nextitem.role == 'user' %}{{ raise_exception('turns') }}{% endif %}{% endfor %}",
    )
    expect(await ask("qwen", { messages }, alternating), "else it goes to the front").toBe(
      "[system] Help.\n\nBe brief.\n[user] Hi\n[assistant]",
    )
    const lax = strict.replace("not loop.first", "false")
    expect(await ask("qwen", { messages }, lax)).toContain("[user] Hi\n[system] Be brief.")
  })

  test("tells in plain words what a template cannot show", async () => {
    const simple = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]"
    const text = await ask("qwen", { messages: called, tools: [WEATHER] }, simple)
    expect(text).toMatch(/^\[system\] You can call these functions/)
    expect(text).toContain('\n[{"name": "its_name", "arguments": {"an argument": "its value"}}]\n')
    expect(text).toContain('{"type":"function","function":{"name":"get_weather"')
    expect(text).toContain('[assistant] [{"name": "get_weather", "arguments": {"n": 1.0}}]')
    expect(text).toContain("[user] Result:\nrain")
    // A way of writing calls that is not read here is as good as none.
    const foreign = `${simple}{% if tools %}<function=name>{% endif %}`
    expect(await ask("qwen", { messages: called, tools: [WEATHER] }, foreign)).toBe(text)
  })
})

describe("plain text", () => {
  test("is continued as it stands, after what the tokenizer puts before it", async () => {
    const { chat, asked } = await chatOf("mistral", "abc")
    const request = requestOf()
    const events = await eventsOf(
      chat.complete({ ...request, echo: false, prompt: "<s>a" }, signal),
    )
    expect(asked[0]!.prompt[0]).toBe(1)
    expect([...asked[0]!.prompt].slice(1)).not.toContain(1)
    const read = await chat.tokenize("<s>a", { control: false, isBegun: true })
    expect(read).toEqual(asked[0]!.prompt)
    expect(await chat.tokenize("<s>a", { control: false, isBegun: false })).toEqual(read.slice(1))
    // The blank at the start of what continues a text belongs to it.
    expect(events[0]).toMatchObject({ kind: "content", text: " a" })
    await chat.complete({ ...request, echo: false, prompt: Int32Array.of(5, 6) }, signal)
    expect([...asked[1]!.prompt]).toEqual([5, 6])
  })

  test("becomes tokens and comes back", async () => {
    const { chat, tokenizer } = await chatOf("llama3", "")
    const text = "é 🙂 <|eot_id|>"
    const plain = await chat.tokenize(text, { control: false, isBegun: false })
    const control = await chat.tokenize(text, { control: true, isBegun: false })
    expect([...chat.detokenize(plain)].join("")).toBe(text)
    expect([...chat.detokenize(control)].join("")).toBe(text)
    expect([...plain]).toEqual([...(await tokenizer.encode(foreign(text, 1)))])
    expect(control.length).toBeLessThan(plain.length)
    const messages: ChatMessage[] = [{ role: "user", content: "hi" }]
    const rendered = chat.detokenize(await chat.tokenizeChat({ messages, templateArguments: {} }))
    expect([...rendered].join("")).toMatch(/assistant.*\n\n$/)
  })

  test("of nothing is refused where the tokenizer puts nothing before it", async () => {
    const { chat } = await chatOf("qwen", "a")
    await expect(
      chat.complete({ ...requestOf(), echo: false, prompt: "" }, signal),
    ).rejects.toMatchObject({
      param: "prompt",
    })
  })
})

test("a request that was left while its prompt was made is not admitted", async () => {
  const { chat, asked } = await chatOf("qwen", "a")
  const gone = new AbortController()
  const reply = chat.reply(requestOf(), gone.signal)
  gone.abort()
  await expect(reply).rejects.toThrow("abort")
  expect(asked).toEqual([])
})

test("a text that cannot fit is refused before it is encoded", async () => {
  const { tokenizer, template, endTokens } = await modelOf("qwen")
  let encoded = 0
  const told: unknown[] = []
  const chat = createChat({
    template,
    endTokens,
    vocabulary: tokenizer.size,
    constraints: "here",
    tokenizer: {
      ...tokenizer,
      encode: (...given) => {
        encoded++
        return tokenizer.encode(...given)
      },
    },
    engine: {
      generate: () => {
        throw new Error("admitted")
      },
      assertRoom: (tokens, field) => {
        told.push(field)
        if (tokens > 100) throw new Error("too long")
      },
    },
  })
  const prompt = "word ".repeat(60_000)
  const request = requestOf({ messages: [{ role: "user", content: prompt }] })
  await expect(chat.reply(request, signal)).rejects.toThrow("too long")
  await expect(chat.complete({ ...request, echo: false, prompt }, signal)).rejects.toThrow(
    "too long",
  )
  expect([encoded, told]).toEqual([0, ["messages", "prompt"]])
  const ids = { ...request, echo: true, prompt: new Int32Array(101) }
  await expect(chat.complete(ids, signal)).rejects.toThrow("too long")
  expect((await chat.tokenize(prompt, { control: false, isBegun: false })).length).toBeGreaterThan(
    60_000,
  )
  await expect(
    chat.complete({ ...request, echo: false, prompt: "word ".repeat(1000) }, signal),
  ).rejects.toThrow("admitted")
})

test("rows that are no token are never drawn", async () => {
  const { chat, asked, tokenizer } = await chatOf("qwen", "a", undefined, 40)
  await chat.reply(requestOf(), signal)
  const mask = new Uint32Array(Math.ceil((tokenizer.size + 40) / 32)).fill(0xdead_beef)
  asked[0]!.constraint!().mask(mask)
  const isAllowed = (id: number) => ((mask[id >>> 5]! >>> (id & 31)) & 1) === 1
  for (let id = 0; id < mask.length * 32; id++) expect(isAllowed(id)).toBe(id < tokenizer.size)
})

test("a model without such rows is not held back at all", async () => {
  const { chat, asked } = await chatOf("qwen", "a")
  await chat.reply(requestOf(), signal)
  expect(asked[0]!.constraint).toBeUndefined()
})

test.each(["to write", "to transcribe"] as const)(
  "threads for schemas begin ahead in a model that is made %s where it writes",
  async (made) => {
    vi.useFakeTimers({ toFake: ["setTimeout"] })
    let begun = 0
    const count = () => {
      begun++
    }
    process.on("worker", count)
    const { tokenizer, ...model } = await modelOf("qwen")
    const vocabulary = tokenizer.size
    const pooling = {
      pairedBy: 0,
      hidden: 8,
      context: 8,
      mode: "lasttoken",
      dense: [],
      prompts: {},
    }
    const chat = createChat({
      ...model,
      ...{ tokenizer, vocabulary },
      embedding: { ...pooling, made } as EmbeddingModel,
      engine: { generate: () => Promise.reject(new Error("nobody asks")) },
    })
    vi.advanceTimersByTime(10_000)
    await new Promise(setImmediate) // of a new thread one is told behind what runs
    expect(begun).toBe(made === "to write" ? 2 : 0)
    process.off("worker", count)
    vi.useRealTimers()
    await chat.close()
  },
)
