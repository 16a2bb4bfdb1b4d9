import { readFileSync } from "node:fs"
import { Ajv } from "ajv"
import { describe, expect, test } from "vitest"
import type { Constraint, GenerationEvent } from "../engine/generation.ts"
import { createChat } from "./chat.ts"
import type { ChatRequest, ReplyEvent, Tool } from "./conversation.ts"
import { type Format, type FormatName, formats, openingOf } from "./formats/formats.ts"
import { Text } from "./jinja/text.ts"
import { openTemplate } from "./template.ts"
import { openTokenizer, type Tokenizer } from "./tokenizer.ts"

const folder = `${import.meta.dirname}/../../test/golden/tokenizers`

const TOOLS: Tool[] = [
  tool("get_weather", {
    type: "object",
    properties: {
      place: { type: "string", maxLength: 8 },
      unit: { enum: ["C", "F"] },
      days: { type: "array", items: { type: "integer", minimum: 0, maximum: 6 }, maxItems: 3 },
    },
    required: ["place"],
    additionalProperties: false,
  }),
  tool("now", undefined),
]

function tool(name: string, parameters: unknown, strict = true): Tool {
  const definition = { type: "function", function: { name, parameters } }
  return { name, definition, parameters, strict }
}

const models = new Map<FormatName, ReturnType<typeof openModel>>()

/** The golden tokenizer whose template shows the format, or any with a template that shows none. */
function modelOf(format: FormatName) {
  const model = models.get(format) ?? openModel(format)
  models.set(format, model)
  return model
}

async function openModel(format: FormatName) {
  const name = { hermes: "qwen", llama3: "llama3", mistral: "mistral" }[format as string] ?? "qwen"
  const read = (file: string) => readFileSync(`${folder}/${name}/${file}`, "utf8")
  const { bos_token, eos_token, chat_template } = JSON.parse(read("tokenizer_config.json"))
  const marks = [openingOf(formats[format], [""])?.mark ?? [], controlOf(format)].flat()
  const tokens = marks.reduce(withToken, JSON.parse(read("tokenizer.json")))
  const tokenizer = await openTokenizer(JSON.stringify(tokens), "tokenizer.json", 1000)
  const source = ["hermes", "llama3", "mistral"].includes(format) ? chat_template : "{{ tools }}"
  const specialTokens = { ...(bos_token && { bos_token }), eos_token }
  return {
    tokenizer,
    template: openTemplate(source, "chat_template", { specialTokens, now: new Date() }),
    end: tokenizer.control(eos_token)!,
  }
}

/** Marks of which only the tokens count. */
function controlOf(format: FormatName): readonly string[] {
  const { byTokens, marks }: Format = formats[format]
  return byTokens ? marks.filter((mark) => mark.startsWith("<|")) : []
}

/** The tokenizer with a token that only the models have which write it. */
function withToken(tokenizer: { added_tokens: { id: number; content: string }[] }, mark: string) {
  const { added_tokens: added } = tokenizer
  if (added.some(({ content }) => content === mark)) return tokenizer
  const last = added.reduce((one, other) => (one.id > other.id ? one : other))
  return { ...tokenizer, added_tokens: [...added, { ...last, id: last.id + 1, content: mark }] }
}

/** A reply that begins with `begun` and goes on with random tokens of those that are allowed. */
async function replyTo(
  format: FormatName,
  more: Partial<ChatRequest>,
  begun: string | Text,
  random: () => number,
  source?: string,
) {
  const { tokenizer, end, ...own } = await modelOf(format)
  const template = source
    ? openTemplate(source, "chat_template", { specialTokens: {}, now: new Date() })
    : own.template
  const text = typeof begun === "string" ? new Text(begun) : begun
  const forced = text.length === 0 ? [] : [...(await tokenizer.encode(text))]
  async function* choice(constraint: Constraint): AsyncGenerator<GenerationEvent> {
    const mask = new Uint32Array(Math.ceil(tokenizer.size / 32))
    for (let count = 0; count < 1500; count++) {
      constraint.mask(mask)
      const allowed = allowedIn(mask)
      expect(allowed).not.toEqual([])
      const token = forced.shift() ?? draw(tokenizer, allowed, count, random)
      expect(allowed).toContain(token)
      constraint.accept(token)
      if (token === end) return void (yield { kind: "end", reason: "stop", token })
      yield { kind: "token", token, logprob: 0, top: [] }
    }
    yield { kind: "end", reason: "length" }
  }
  const chat = createChat({
    tokenizer,
    vocabulary: tokenizer.size,
    template,
    endTokens: new Set([end]),
    constraints: "here",
    toolFormat: format,
    engine: {
      generate: ({ constraint }) => ({
        promptTokens: 1,
        cachedTokens: 0,
        choices: [choice(constraint!())],
      }),
    },
  })
  const reply = await chat.reply(requestOf(more), new AbortController().signal)
  return { ...(await collected(reply.events)), unenforced: reply.unenforced }
}

function requestOf(more: Partial<ChatRequest>): ChatRequest {
  const request = {
    id: "r",
    messages: [{ role: "user", content: "Go" }],
    choices: 1,
    stop: [],
    templateArguments: { enable_thinking: false },
    reasoning: "split",
    sampling: { topLogprobs: undefined },
    scope: "",
    ...more,
  }
  return request as unknown as ChatRequest
}

async function collected(events: AsyncIterable<ReplyEvent>) {
  const calls: { name: string; arguments: string }[] = []
  const reply = { reasoning: "", content: "", calls, reason: "" }
  for await (const event of events) {
    if (event.kind === "reasoning") reply.reasoning += event.text
    if (event.kind === "content") reply.content += event.text
    if (event.kind === "call") reply.calls.push({ name: event.name, arguments: "" })
    if (event.kind === "arguments") reply.calls[event.index]!.arguments += event.text
    if (event.kind === "finish") reply.reason = event.reason
  }
  return reply
}

function allowedIn(mask: Uint32Array): number[] {
  const tokens: number[] = []
  mask.forEach((word, index) => {
    for (let bit = 0; bit < 32; bit++) if ((word >>> bit) & 1) tokens.push(index * 32 + bit)
  })
  return tokens
}

// After a while what closes is preferred, so that a walk ends.
function draw(
  tokenizer: Tokenizer,
  allowed: number[],
  count: number,
  random: () => number,
): number {
  const closing = allowed.filter((token) =>
    /^[\]}")\n]|^<\/?|^$/.test(Buffer.from(tokenizer.bytes.of(token)).toString()),
  )
  const ends = allowed.filter((token) => tokenizer.special.has(token))
  if (count > 40 && ends.length > 0) return ends[0]!
  const choices = count > 40 && closing.length > 0 ? closing : allowed
  return choices[Math.floor(random() * choices.length)]!
}

function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

const ajv = new Ajv()
const validators = new Map(
  TOOLS.map(({ name, parameters }) => [
    name,
    ajv.compile(parameters ?? { type: "object", additionalProperties: false }),
  ]),
)

function assertValid(calls: readonly { name: string; arguments: string }[]): void {
  for (const call of calls) {
    const validate = validators.get(call.name)!
    expect([call, validate(JSON.parse(call.arguments))]).toEqual([call, true])
  }
}

const FORMATS = Object.keys(formats) as FormatName[]

// How a call opens in free text.
const OPENINGS: Record<FormatName, string> = {
  gemma4: "Well: <|tool_call>",
  harmony: "Well:<|channel|>commentary to=functions.",
  qwen3_coder: "Well: <tool_call>",
  glm45: "Well: <tool_call>",
  hermes: "Well: <tool_call>",
  llama3: '{"name": "get_weather", "parameters": ',
  mistral: "Well: [TOOL_CALLS]",
  mistral_args: "Well: [TOOL_CALLS]",
  json: '[{"name": "get_weather", "arguments": ',
  expressions: "[get_weather(",
  lfm2: "Well: <|tool_call_start|>",
  olmo3: "Well: <function_calls>",
  deepseek: "Well: <｜tool▁calls▁begin｜>",
  deepseek_v31: "Well: <｜tool▁calls▁begin｜>",
  deepseek_v32: "Well: <｜DSML｜function_calls>",
  kimi_k2: "Well: <|tool_calls_section_begin|>",
  solar_open: "Well: <|tool_calls|>",
  cohere: "Well: <|START_ACTION|>",
  granite: "Well: <|tool_call|>",
  phi4: "Well: <|tool_call|>",
  nemotron: "Well: <TOOLCALL>",
  hunyuan: "Well: <tool_calls>",
  glm4: "\nget_weather\n",
  seed_oss: "Well: <seed:tool_call>",
  minimax_m2: "Well: <minimax:tool_call>",
  atem: "Well: <atem:function_calls>",
  hy3: "Well: <tool_calls:opensource>",
  apertus: "Well: <|tools_prefix|>",
  apriel: "Well: <tool_calls>",
}

describe.each(FORMATS)("%s", (format) => {
  const random = generator(11)

  test("a call that is required comes first, and its arguments are valid", async () => {
    const toolChoice = { mode: "required", names: ["get_weather", "now"] } as const
    for (let walk = 0; walk < 12; walk++) {
      const reply = await replyTo(format, { tools: TOOLS, toolChoice }, "", random)
      expect(reply).toMatchObject({ content: "", reason: "tool_calls" })
      assertValid(reply.calls)
    }
  })

  test("only the tools that are allowed, and only one call when one is wanted", async () => {
    const toolChoice = { mode: "required", names: ["now"] } as const
    const more = { tools: TOOLS, toolChoice, parallelToolCalls: false }
    for (let walk = 0; walk < 4; walk++) {
      const { calls, reason } = await replyTo(format, more, "", random)
      expect({ calls, reason }).toEqual({
        calls: [{ name: "now", arguments: expect.stringMatching(/^\{ ?\}$/) }],
        reason: "tool_calls",
      })
    }
  })

  test("a free-form tool's text is held to its grammar", async () => {
    const parameters = { properties: { input: { type: "string" } }, required: ["input"] }
    const grammar = 'start: "\\"" line~2..4 "é"\nline: /[ab\\\\]{1,3}/ LF\n%import common.LF'
    const toolChoice = { mode: "required", names: ["patch"] } as const
    const ask = (text: string) => {
      const tools = [
        { ...tool("patch", parameters), input: { kind: "lark" as const, grammar: text } },
      ]
      return replyTo(format, { tools, toolChoice, parallelToolCalls: false }, "", random)
    }
    for (let walk = 0; walk < 4; walk++) {
      const { calls, unenforced } = await ask(grammar)
      expect(JSON.parse(calls[0]!.arguments).input).toMatch(/^"([ab\\]{1,3}\n){2,4}é$/)
      expect(unenforced ?? []).toEqual([])
    }
    expect((await ask("start: ?")).unenforced).toEqual(["patch#/format/definition"])
  })

  test("text is free until a call opens; the call is then held to its tool", async () => {
    for (let walk = 0; walk < 8; walk++) {
      const typed = '{"type": "function", "name"'
      const opening = OPENINGS[format].replace('{"name"', walk % 4 === 0 ? typed : '{"name"')
      const reply = await replyTo(format, { tools: TOOLS }, opening, random)
      if (reply.reason !== "length") expect(reply.reason).toBe("tool_calls")
      expect(reply.calls.length).toBeGreaterThan(0)
      assertValid(reply.calls.slice(0, reply.reason === "length" ? -1 : undefined))
    }
  })
})

test.each(FORMATS)("%s: an argument that nothing satisfies is left out", async (format) => {
  // As zod writes z.never().optional(), and with a name as older drafts write it.
  const parameters = {
    $id: "https://example.com/odd#",
    properties: { a: { type: "string", maxLength: 2 }, b: { not: {} }, c: { enum: [] }, d: false },
    required: ["a"],
    additionalProperties: false,
  }
  const toolChoice = { mode: "required", names: ["odd"] } as const
  for (const strict of [true, false]) {
    const more = { tools: [tool("odd", parameters, strict)], toolChoice, parallelToolCalls: false }
    const { calls, unenforced } = await replyTo(format, more, "", generator(4))
    const a = expect.stringMatching(/^.{0,2}$/su)
    expect(calls.map((call) => JSON.parse(call.arguments))).toEqual([{ a }])
    expect(unenforced ?? []).toEqual([])
  }
})

test("Kimi K2: a call opens without a section, too, and is held to its tool", async () => {
  const begun = "Well: <|tool_call_begin|>functions."
  const { calls, content, reason } = await replyTo("kimi_k2", { tools: TOOLS }, begun, generator(3))
  expect([content, reason]).toEqual(["Well:", "tool_calls"])
  assertValid(calls)
  for (const wrong of ["get_whether", "now:x", "now:1<|tool_call_end|>"])
    await expect(
      replyTo("kimi_k2", { tools: TOOLS }, begun + wrong, generator(3)),
    ).rejects.toThrow()
})

test("GLM-4: the name of a tool opens a call in the first line and nowhere else", async () => {
  const reply = await replyTo("glm4", { tools: TOOLS }, "So:\nget_weather\nis", generator(3))
  expect(reply.content.startsWith("So:\nget_weather\nis")).toBe(true)
  await expect(replyTo("glm4", { tools: TOOLS }, "get_weather\nis", generator(3))).rejects.toThrow()
})

describe("a response format", () => {
  const schema = {
    type: "object",
    properties: { ok: { type: "boolean" }, n: { type: "integer" } },
    required: ["ok"],
    additionalProperties: false,
  }

  test("holds the whole answer", async () => {
    const random = generator(5)
    for (let walk = 0; walk < 10; walk++) {
      const { content, reason } = await replyTo("hermes", { format: { schema } }, "", random)
      expect([content, reason, ajv.validate(schema, JSON.parse(content))]).toEqual([
        content,
        "stop",
        true,
      ])
    }
  })

  test("stands beside tools: an answer is either", async () => {
    const more = { format: { schema }, tools: TOOLS }
    const random = generator(6)
    const called = await replyTo("hermes", more, "<tool_call>", random)
    expect(called.reason).toBe("tool_calls")
    assertValid(called.calls)
    const answered = await replyTo("hermes", more, '{"', random)
    expect(ajv.validate(schema, JSON.parse(answered.content))).toBe(true)
  })

  test("stands between the marks of an answer, or without them", async () => {
    const source = "{# <think></think><answer> #}{{ tools }}"
    const random = generator(12)
    for (const begun of ["<answer>", "<answer>\n", '{"', "<think>\nhm {</think>\n<answer>\n"]) {
      const more = { format: { schema }, templateArguments: {} }
      const { content, reason } = await replyTo("hermes", more, begun, random, source)
      expect([reason, ajv.validate(schema, JSON.parse(content))]).toEqual(["stop", true])
    }
  })

  test("comes after the thinking, in which nothing ends", async () => {
    const more = { format: { schema }, templateArguments: {} }
    const answered = await replyTo("hermes", more, "<think>\nhm {\n</think>\n\n", generator(7))
    expect(ajv.validate(schema, JSON.parse(answered.content))).toBe(true)
    const thinking = await replyTo("hermes", more, "<think>\nhm", generator(8))
    expect(thinking).toMatchObject({ content: "", reason: "length" })
  })
})

describe.each([
  ["qwen3_coder", "\n<function=now>\n"],
  ["qwen3_coder", "<function=now>"],
  ["glm45", "now\n"],
  ["glm45", "get_weather<arg_key>"],
  ["hermes", '\n{"name": "now", '],
  ["hermes", '{"name":"get_weather",'],
  ["kimi_k2", "<|tool_call_begin|>functions.now:"],
] as const)("a call in thinking: %s, %j", (format, head) => {
  const { mark } = formats[format].opening
  const source = "{# <think></think> #}{{ tools }}"
  const ask = (begun: string | Text, more: Partial<ChatRequest> = {}) => {
    const asked = { tools: TOOLS, templateArguments: {}, ...more }
    return replyTo(format, asked, begun, generator(14), source)
  }

  test("begins with its own token, ends the thinking and is held to its tool", async () => {
    const toolChoice = { mode: "required", names: ["get_weather", "now"] } as const
    for (const more of [{}, { toolChoice }, { parallelToolCalls: false }]) {
      const reply = await ask(`<think>\nI should look.\n${mark}${head}`, more)
      const { calls, reason, reasoning } = reply
      expect([reasoning, reason]).toEqual(["I should look.", "tool_calls"])
      assertValid(calls)
    }
    await expect(ask(`<think>\n${mark}${head}{"street`)).rejects.toThrow()
  })

  test("is a thought where it is spelled, or where nobody has offered its tool", async () => {
    const begun = `<think>\nNot ${mark}`
    const spelled = new Text(`${begun}${head} or so`, [{ from: 0, to: begun.length, source: 1 }])
    const other = `${begun}${head.replace(/now|get_weather/, "none")} or so`
    for (const text of [spelled, other]) {
      const { calls, content, reasoning } = await ask(text)
      expect([calls, content]).toEqual([[], ""])
      expect(reasoning.startsWith(`Not ${mark}`)).toBe(true)
    }
  })
})

describe("Muse Glimmer: thinking, an answer and calls are messages to somebody", () => {
  const source = "{# <|start|>assistant to=self<|message|> #}{{ tools }}"
  const thought = " to=self<|message|>hm {<|eom|><|start|>assistant "
  const toolChoice = { mode: "required", names: ["get_weather", "now"] } as const
  const ask = (begun: string, more: Partial<ChatRequest>) =>
    replyTo("atem", { templateArguments: {}, ...more }, begun, generator(21), source)

  test("a format holds the answer, behind its header and thinking or without", async () => {
    const properties = { ok: { type: "boolean" } }
    const schema = { type: "object", required: ["ok"], properties, additionalProperties: false }
    for (const begun of [' to=user<|message|>{"', `${thought}to=user<|message|>{"`]) {
      const { content, reasoning, reason } = await ask(begun, { format: { schema } })
      expect([reason, ajv.validate(schema, JSON.parse(content))]).toEqual(["stop", true])
      expect(reasoning).toBe(begun.startsWith(thought) ? "hm {" : "")
    }
    for (const wrong of ["[", '{"ok":true}<|eom|>'])
      await expect(
        ask(`${thought}to=user<|message|>${wrong}`, { format: { schema } }),
      ).rejects.toThrow()
  })

  test("a call follows thinking or an answer, and is held to its tool", async () => {
    const call = "to=now<|message|><atem:function_calls>"
    for (const [begun, more, content] of [
      [` ${call}`, { toolChoice }, ""],
      [`${thought}${call}`, { toolChoice }, ""],
      [` to=user<|message|>So:<|eom|><|start|>assistant ${call}`, {}, "So:"],
    ] as const) {
      const reply = await ask(begun, { tools: TOOLS, ...more })
      expect([reply.content, reply.reason]).toEqual([content, "tool_calls"])
      expect(reply.reasoning).toBe(begun.startsWith(thought) ? "hm {" : "")
      assertValid(reply.calls)
    }
    const odd = `${thought}to=other<|message|>`
    await expect(ask(odd, { tools: TOOLS, toolChoice })).rejects.toThrow()
  })
})

describe("Solar Open: thinking, an answer and calls are messages", () => {
  const source = "{# <|think|><|content|> #}{{ tools }}"
  const thought = "<|think|>hm {<|end|><|begin|>assistant"
  const toolChoice = { mode: "required", names: ["get_weather", "now"] } as const
  const ask = (begun: string, more: Partial<ChatRequest>) =>
    replyTo("solar_open", { templateArguments: {}, ...more }, begun, generator(21), source)

  test("a format holds the answer, behind its mark and thinking or without", async () => {
    const properties = { ok: { type: "boolean" } }
    const schema = { type: "object", required: ["ok"], properties, additionalProperties: false }
    for (const begun of ['<|content|>{"', '{"', `${thought}<|content|>{"`]) {
      const { content, reasoning, reason } = await ask(begun, { format: { schema } })
      expect([reason, ajv.validate(schema, JSON.parse(content))]).toEqual(["stop", true])
      expect(reasoning).toBe(begun.startsWith(thought) ? "hm {" : "")
    }
    for (const wrong of ["[", '{"ok":true}<|end|>'])
      await expect(ask(`${thought}<|content|>${wrong}`, { format: { schema } })).rejects.toThrow()
  })

  test("a call follows thinking or an answer, ends the thinking, and is held to its tool", async () => {
    for (const [begun, more, content] of [
      [`${thought}<|tool_calls|>`, { toolChoice }, ""],
      ["<|think|>hm {<|tool_calls|><|tool_call:begin|>", { toolChoice }, ""],
      ["<|content|>So:<|end|><|begin|>assistant<|tool_calls|>", {}, "So:"],
    ] as const) {
      const reply = await ask(begun, { tools: TOOLS, ...more })
      expect([reply.content, reply.reason]).toEqual([content, "tool_calls"])
      expect(reply.reasoning).toBe(begun.startsWith("<|think|>") ? "hm {" : "")
      assertValid(reply.calls)
    }
    const odd = `${thought}<|tool_calls|><|tool_call:begin|>NOT`
    await expect(ask(odd, { tools: TOOLS, toolChoice })).rejects.toThrow()
  })
})

test("in channels an answer and a call are messages, behind thinking or not", async () => {
  const properties = { ok: { type: "boolean" } }
  const schema = { type: "object", required: ["ok"], properties, additionalProperties: false }
  const channels = "<|start|>assistant<|channel|>{{ tools }}"
  const thinking = "<|channel|>analysis<|message|>hm {<|end|><|start|>assistant"
  const answer = '<|channel|>final<|message|>{"'
  const ask = (more: Partial<ChatRequest>, begun: string) =>
    replyTo("harmony", more, begun, generator(9), channels)
  for (const begun of [answer, thinking + answer]) {
    const { content, reason } = await ask({ format: { schema } }, begun)
    expect([reason, ajv.validate(schema, JSON.parse(content))]).toEqual(["stop", true])
  }
  const toolChoice = { mode: "required", names: ["get_weather"] } as const
  const more = { tools: TOOLS, toolChoice, format: { schema } }
  for (const begun of ["<|channel|>c", `${thinking}<|channel|>`]) {
    const { calls, reason, content } = await ask(more, begun)
    expect([content, calls.length, reason]).toEqual(["", 1, "tool_calls"])
    assertValid(calls)
  }
  await expect(ask({ format: { schema } }, '{"')).rejects.toThrow()
})

// The headers that gpt-oss' template writes, and those that llama.cpp's grammar for it (common/parsers/gpt-oss.cpp) has besides.
test.each([
  " to=functions.get_weather<|channel|>commentary json<|message|>",
  " to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>",
  "<|channel|>analysis to=functions.get_weather <|constrain|>json<|message|>",
  "Well<|end|><|start|>assistant to=functions.get_weather<|channel|>analysis json<|message|>",
])("in channels a call behind %s is held to its tool", async (header) => {
  const ask = (begun: string) =>
    replyTo("harmony", { tools: TOOLS }, begun, generator(9), "<|channel|>{{ tools }}")
  const { calls, reason } = await ask(header)
  expect([calls.length, reason]).toEqual([1, "tool_calls"])
  assertValid(calls)
  await expect(ask(`${header}{"street`)).rejects.toThrow()
  await expect(ask(header.replace("get_weather", "get_whether"))).rejects.toThrow()
})

test("in channels a text may speak of functions", async () => {
  const begun = "<|channel|>final<|message|>It went to=functions.get_weather, to=functions.none<"
  const reply = await replyTo("harmony", { tools: TOOLS }, begun, generator(9), "<|channel|>")
  expect(reply.calls).toEqual([])
  expect(reply.content).toMatch(/^It went to=functions.get_weather, to=functions.none</)
})

describe("a schema that cannot be kept", () => {
  // Nothing says how a string that matches this goes on.
  const odd = { type: "object", properties: { a: { type: "string", pattern: "(a)\\1" } } }
  const ask = (strict: boolean) => {
    const tools = [tool("odd", odd, strict)]
    const toolChoice = { mode: "required", names: ["odd"] } as const
    return replyTo("hermes", { tools, toolChoice }, "", generator(1))
  }

  test("is refused when it is strict, with its place", async () => {
    await expect(ask(true)).rejects.toMatchObject({
      code: "unsupported_value",
      message: expect.stringContaining("#/properties/a"),
    })
  })

  test("is kept as far as it can be otherwise, and what is left out is listed", async () => {
    const { reason, unenforced } = await ask(false)
    expect(reason).toBe("tool_calls")
    expect(unenforced).toEqual(["odd#/properties/a/pattern"])
  })

  test("types that other languages know are read as theirs, and told", async () => {
    const few = { maxLength: 9, maxItems: 0, maxProperties: 0 }
    const types = { n: "float", s: "str", l: "list", m: "dict" }
    const properties = Object.fromEntries(
      Object.entries(types).map(([name, type]) => [name, { type, ...few }]),
    )
    const required = Object.keys(types)
    const parameters = { type: "dict", properties, required, additionalProperties: false }
    const tools = [tool("odd", parameters, false)]
    const toolChoice = { mode: "required", names: ["odd"] } as const
    const { calls, unenforced } = await replyTo("hermes", { tools, toolChoice }, "", generator(1))
    const { n, s, l, m } = JSON.parse(calls[0]!.arguments)
    expect([typeof n, typeof s, Array.isArray(l), typeof m]).toEqual([
      "number",
      "string",
      true,
      "object",
    ])
    const places = ["", ...Object.keys(types).map((name) => `/properties/${name}`)]
    expect(new Set(unenforced)).toEqual(new Set(places.map((place) => `odd#${place}/type`)))
    const strictly = { tools: [tool("odd", parameters)], toolChoice }
    await expect(replyTo("hermes", strictly, "", generator(1))).rejects.toMatchObject({
      message: expect.stringContaining("#/type"),
    })
  })

  test("a type that nobody knows is refused, however deep it stands, beside good tools too", async () => {
    for (const [parameters, place] of [
      [{ type: "quark" }, "#/type"],
      [{ type: "object", properties: { a: { type: "quark" } } }, "#/properties/a/type"],
      [{ type: "object", properties: { a: { type: ["string", "quark"] } } }, "#/properties/a/type"],
      [{ anyOf: [{ properties: { a: { items: { type: 5 } } } }] }, "/a/items/type"],
    ] as const) {
      const tools = [tool("odd", parameters, false), tool("now", undefined)]
      await expect(replyTo("hermes", { tools }, "", generator(1))).rejects.toMatchObject({
        code: "unsupported_value",
        message: expect.stringContaining(`${place}: `),
      })
    }
    const tools = [tool("odd", { type: "quark" }, false)]
    await expect(replyTo("hermes", { tools }, "", generator(1))).rejects.toThrow(
      '"quark" names no type of JSON Schema',
    )
  })

  test("more odd keywords than anybody counts are all left out", async () => {
    const properties = Object.fromEntries(
      Array.from({ length: 40 }, (_, i) => [`p${i}`, { type: "any" }]),
    )
    const tools = [tool("odd", { properties }, false)]
    const { unenforced } = await replyTo("hermes", { tools }, "", generator(1))
    expect(unenforced).toHaveLength(40)
  })

  const unsatisfiable = { type: "object", properties: {}, minProperties: 1, maxProperties: 0 }

  test("is refused when nothing satisfies it", async () => {
    const strictly = [tool("none", unsatisfiable), tool("now", undefined)]
    for (const tools of [[tool("none", unsatisfiable, false)], strictly]) {
      await expect(replyTo("hermes", { tools }, "", generator(1))).rejects.toMatchObject({
        status: 400,
      })
    }
  })

  test("is never called when nothing satisfies it and there are others", async () => {
    const tools = [tool("none", unsatisfiable, false), tool("now", undefined)]
    const toolChoice = { mode: "required", names: ["none", "now"] } as const
    const { calls, unenforced } = await replyTo("hermes", { tools, toolChoice }, "", generator(1))
    expect(calls.map(({ name }) => name)).toContain("now")
    expect(calls.map(({ name }) => name)).not.toContain("none")
    expect(unenforced).toEqual(["none#"])
  })
})
