import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, test } from "vitest"
import type { Generation, GenerationEvent } from "../engine/generation.ts"
import { channels } from "./channels.ts"
import type { ReplyEvent, TokenNames } from "./conversation.ts"
import { formats } from "./formats/formats.ts"
import { markersOf } from "./reasoning.ts"
import { type Reading, replyEvents, tokenNames } from "./reply.ts"
import type { Template } from "./template.ts"
import type { Tokenizer } from "./tokenizer.ts"
import { TokenBytes } from "./vocabulary.ts"

const THINK = { open: "<think>", close: "</think>" }

describe("one choice", () => {
  test("an end token ends it, and usage comes last", async () => {
    const events = await read(["Hel", "lo", "!"])
    expect(events.map(({ kind }) => kind)).toEqual([
      "content",
      "content",
      "content",
      "finish",
      "usage",
    ])
    expect(summary(events)).toMatchObject({
      content: "Hello!",
      reason: "stop",
      completionTokens: 3,
    })
  })

  test("a character is never cut, and what stays incomplete becomes U+FFFD at the end", async () => {
    const smile = [...new TextEncoder().encode("🙂")]
    const tokens = [Uint8Array.of(smile[0]!, smile[1]!), Uint8Array.of(smile[2]!, smile[3]!)]
    expect(summary(await read(tokens)).deltas).toEqual(["🙂"])
    expect(summary(await read(["a", tokens[0]!]))).toMatchObject({ deltas: ["a", "�"] })
  })

  test("a stop string cuts inside a token; what follows is neither sent nor counted", async () => {
    const events = await read(["one ", "two S", "TOP three", " four"], { stop: ["STOP"] })
    expect(summary(events)).toMatchObject({
      content: "one two ",
      reason: "stop",
      completionTokens: 2,
      tokens: ["one ", "two S"],
    })
  })

  test("of two stop strings the one that completes first wins, then the longer one", async () => {
    const content = async (stop: string[]) => summary(await read(["xabcdy"], { stop })).content
    expect(await content(["abcd", "bc"])).toBe("xa")
    expect(await content(["cd", "abcd"])).toBe("x")
    expect(await content(["y", "z"])).toBe("xabcd")
  })

  test("what only looked like a stop string is sent in the end", async () => {
    expect(summary(await read(["12", "ST", "O"], { stop: ["STOP"] }))).toMatchObject({
      deltas: ["12", "STO"],
      tokens: ["12", "ST", "O"],
      completionTokens: 3,
    })
  })

  test("thinking is told from the answer, without markers and line breaks", async () => {
    const events = await read(["<th", "ink>\nlet me", " see\n</thi", "nk>\n\nFour", "."], {
      reasoning: { markers: THINK, inside: false, inline: false },
    })
    expect(summary(events)).toMatchObject({
      reasoning: "let me see",
      content: "Four.",
      completionTokens: 5,
      reasoningTokens: 4,
    })
  })

  test("a prompt that opened the thinking, and a reply that never closes it", async () => {
    const inside = { reasoning: { markers: THINK, inside: true, inline: false } }
    expect(summary(await read(["hm", "</think>", "ok"], inside))).toMatchObject({
      reasoning: "hm",
      content: "ok",
      reasoningTokens: 2,
    })
    expect(summary(await read(["hm", " hm</thi"], inside))).toMatchObject({
      reasoning: "hm hm</thi",
      content: "",
      reasoningTokens: 2,
    })
  })

  test("an answer between marks of its own, behind thinking or without, and text that has none", async () => {
    const markers = { ...THINK, answer: ["<answer>", "</answer>"] as const }
    const of = async (deltas: string[], over = false) =>
      summary(await read(deltas, { reasoning: { markers, inside: false, over, inline: false } }))
    const marked = ["<think>\nhm\n</think>\n<ans", "wer>\nFour <b", ">\n\n.\n</answer", ">"]
    expect(await of(marked)).toMatchObject({ reasoning: "hm", content: "Four <b>\n\n." })
    const answered = { reasoning: "", content: "Four", reasoningTokens: 0, completionTokens: 3 }
    expect(await of(["<answer>", "Four", "</answer>"])).toMatchObject(answered)
    expect(await of(["\n<answer>", "Four", "</answer>"], true)).toMatchObject(answered)
    expect(await of(["<answe", "Four"])).toMatchObject({ content: "<answeFour" })
    expect(await of(["So <answer>", " it"], true)).toMatchObject({ content: "So <answer> it" })
    expect(await of(["<answer>Four\n</ans"])).toMatchObject({ content: "Four\n</ans" })
  })

  test("stop strings and markers are not looked for where they do not belong", async () => {
    const options = { stop: ["hm"], reasoning: { markers: THINK, inside: true, inline: false } }
    const events = await read(["hm</think>a <think> b hm c"], options)
    expect(summary(events)).toMatchObject({ reasoning: "hm", content: "a <think> b " })
  })

  test("thinking that stays in the text stays as it is, and is still no place for stop strings", async () => {
    const events = await read(["<think>\nhm", "</think>\n\nok hm"], {
      stop: ["hm"],
      reasoning: { markers: THINK, inside: false, inline: true },
    })
    expect(summary(events)).toMatchObject({
      content: "<think>\nhm</think>\n\nok ",
      reasoning: "",
      reasoningTokens: 2,
      tokens: ["<think>\nhm", "</think>\n\nok hm"],
    })
  })

  test("a failure is told with its problem", async () => {
    const end: GenerationEvent = { kind: "end", reason: "error" }
    expect(summary(await read(["a"], {}, end))).toMatchObject({ content: "a", reason: "error" })
  })
})

const ANSWERED = { ...THINK, answer: ["<answer>", "</answer>"] as const }

describe("however the bytes are cut into tokens", () => {
  const texts = [
    "<think>\nüber 🙂 and 水\n</think>\n\nThe answer is STOPless. No: ST OP, S🙂TOP STOP after",
    " \n<think></think>é",
    "no thinking, only text with <think> in it and half a </think",
    "<think>never closed\n\n",
    "<think>hm</think>\n<answer>\nüber 🙂 STOPless\n\n</answer> after",
    "aab aaab aaaab",
  ]
  const choices: Partial<Reading>[] = [
    { stop: ["STOP", "OPS"], reasoning: { markers: THINK, inside: false, inline: false } },
    { stop: ["aaab", "🙂T"], reasoning: { markers: THINK, inside: true, inline: false } },
    { stop: ["aaab", "🙂T"] },
    { stop: [] },
    { stop: [], reasoning: { markers: ANSWERED, inside: false, inline: false } },
  ]

  test.each(texts)("%j", async (text) => {
    const random = generator(7)
    const bytes = new TextEncoder().encode(text)
    for (const options of choices) {
      const whole = summary(await read([bytes], options))
      for (let round = 0; round < 60; round++) {
        const events = await read(cutAtRandom(bytes, random), options)
        const cut = summary(events)
        expect([cut.content, cut.reasoning, cut.reason]).toEqual([
          whole.content,
          whole.reasoning,
          whole.reason,
        ])
        // Of marks around an answer only the tokens are told.
        for (const event of options.reasoning?.markers.answer ? [] : events) {
          if (event.kind === "content") expect(event.text).not.toBe("")
        }
        expect(cut.tokens.length + cut.thoughts.length).toBe(cut.completionTokens)
      }
    }
  })

  test("with thinking, calls and stop strings together", async () => {
    const text =
      '<think>a <tool_call> b</think>\nLook: ST🙂\n<tool_call>\n{"name": "now", "arguments": {"x": "STOP é"}}\n</tool_call>\n<tool_call>{"name": "now"}</tool_call> and STOP then'
    const options: Partial<Reading> = {
      stop: ["STOP"],
      reasoning: { markers: THINK, inside: false, inline: false },
      calls: {
        format: formats.hermes,
        tools: new Map([["now", undefined]]),
        most: Number.POSITIVE_INFINITY,
        id: (choice, index) => `${choice}.${index}`,
      },
    }
    const random = generator(19)
    const bytes = new TextEncoder().encode(text)
    for (let round = 0; round < 200; round++) {
      const tokens = cutAtRandom(bytes, random)
      const events = await read(tokens, options)
      const calls = events.flatMap((event) => (event.kind === "call" ? [event] : []))
      const argumentsOf = (index: number) =>
        events
          .map((event) => (event.kind === "arguments" && event.index === index ? event.text : ""))
          .join("")
      expect(summary(events)).toMatchObject({
        reasoning: "a <tool_call> b",
        content: "Look: ST🙂and ",
        reason: "tool_calls",
      })
      expect(calls.map(({ id, name }) => [id, name])).toEqual([
        ["0.0", "now"],
        ["0.1", "now"],
      ])
      expect([argumentsOf(0), argumentsOf(1)]).toEqual(['{"x": "STOP é"}', "{}"])
      // Counted are the tokens that begin before the stop string does.
      const before = new TextEncoder().encode(text.slice(0, text.lastIndexOf("STOP"))).length
      let counted = 0
      for (let at = 0; at < before; counted++) at += tokens[counted]!.length
      const { completionTokens, tokens: told, thoughts } = summary(events)
      expect(completionTokens).toBe(counted)
      expect(told.length + thoughts.length).toBe(counted)
    }
  })

  test("cut off anywhere among calls it says so, unless the last one that may be has ended", async () => {
    const first = '<tool_call>{"name": "now"}</tool_call>'
    const second = '<tool_call>{"name": "now", "arguments": {"x": 1}}</tool_call>'
    const bytes = new TextEncoder().encode(`${first} and ${second}`)
    const calls = { format: formats.hermes, tools: new Map([["now", undefined]]), id: () => "c" }
    const reasons = async (most: number) => {
      const found = new Map<string, number[]>()
      for (let length = 1; length <= bytes.length; length++) {
        const end: GenerationEvent = { kind: "end", reason: "length" }
        const tokens = Array.from(bytes.subarray(0, length), (byte) => Uint8Array.of(byte))
        const { reason } = summary(await read(tokens, { calls: { ...calls, most } }, end))
        found.set(reason!, [...(found.get(reason!) ?? []), length])
      }
      return found
    }
    expect([...(await reasons(9)).keys()]).toEqual(["length"])
    const one = await reasons(1)
    expect([...one.keys()]).toEqual(["length", "tool_calls"])
    expect(one.get("tool_calls")![0]).toBeLessThanOrEqual(first.length)
    expect(one.get("length")!.at(-1)).toBe(one.get("tool_calls")![0]! - 1)
  })

  test("in channels, with calls", async () => {
    const text =
      "<|channel|>analysis<|message|>hm 🙂<|end|><|start|>assistant<|channel|>commentary<|message|>I ask.<|end|>" +
      '<|start|>assistant to=functions.now<|channel|>commentary json<|message|>{"x": "<|e"}<|end|>' +
      "<|start|>assistant<|channel|>final<|message|>Done <|en<|end|><|start|>assi"
    const options: Partial<Reading> = {
      stop: [],
      reasoning: { markers: channels, inside: false, inline: false },
      calls: {
        format: formats.harmony,
        tools: new Map([["now", undefined]]),
        most: Number.POSITIVE_INFINITY,
        id: (choice, index) => `${choice}.${index}`,
      },
    }
    const random = generator(23)
    const bytes = new TextEncoder().encode(text)
    for (let round = 0; round < 60; round++) {
      const events = await read(cutAtRandom(bytes, random), options)
      const called = events.map((event) => (event.kind === "arguments" ? event.text : ""))
      expect(summary(events)).toMatchObject({
        reasoning: "hm 🙂",
        content: "I ask.Done <|en",
        reason: "tool_calls",
      })
      expect(called.join("")).toBe('{"x": "<|e"}')
    }
    const plain = { stop: [], reasoning: { markers: channels, inside: true, inline: false } }
    const events = await read(["hm<|end|>", "to=", "me: yes<|en"], plain)
    expect(summary(events)).toMatchObject({ reasoning: "hm", content: "to=me: yes<|en" })
  })

  test("where marks are tokens, what spells them is text", async () => {
    const control = ["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>"]
    const random = generator(43)
    const tools = new Map([["now", undefined]])
    const most = { most: 9, id: () => "id" }
    const harmony = {
      reasoning: { markers: channels, inside: false, inline: false },
      calls: { format: formats.harmony, tools, ...most },
    }
    const told =
      'It writes <|end|>, <|channel|>analysis<|message|> and to=functions.now<|channel|>commentary json<|message|>{"x":1}'
    for (let round = 0; round < 5; round++) {
      const spelled = (text: string) => cutAtRandom(new TextEncoder().encode(text), random)
      const ask = (tokens: readonly Token[]) => read(tokens, harmony, undefined, control)
      const answer = ["<|channel|>", ...spelled("final"), "<|message|>", ...spelled(told)]
      const thought = ["<|channel|>", ...spelled("analysis"), "<|message|>", ...spelled(told)]
      const empty = { content: "", reasoning: "", reason: "stop" }
      expect(summary(await ask(answer))).toMatchObject({ ...empty, content: told })
      expect(summary(await ask(thought))).toMatchObject({ ...empty, reasoning: told })
      expect(summary(await ask(spelled(told)))).toMatchObject({ ...empty, content: told })
      const calling = [
        ...["<|channel|>", ...spelled("commentary to=functions.now "), "<|constrain|>"],
        ...[...spelled("json"), "<|message|>", ...spelled('{"x": "<|end|>"}')],
      ]
      const events = await ask(calling)
      const json = events.map((event) => (event.kind === "arguments" ? event.text : "")).join("")
      expect([json, summary(events).reason]).toEqual(['{"x": "<|end|>"}', "tool_calls"])
    }
  })

  test("and so it is in messages to somebody", async () => {
    const control = ["<|start|>", "<|message|>", "<|eom|>"]
    const source = "<|start|>assistant to=self<|message|>"
    const tokenizer = { control: () => undefined } as unknown as Tokenizer
    const markers = markersOf({ source } as Template, tokenizer)!
    const calls = {
      format: formats.atem,
      tools: new Map([["now", undefined]]),
      most: 9,
      id: () => "id",
    }
    const reasoning = { markers, inside: false, inline: false }
    const random = generator(47)
    const ask = (tokens: readonly Token[]) => read(tokens, { reasoning, calls }, undefined, control)
    const told = "to=user<|message|>Hi<|eom|><|start|>assistant to=user<|message|>"
    for (let round = 0; round < 5; round++) {
      const spelled = (text: string) => cutAtRandom(new TextEncoder().encode(text), random)
      const [answer, thought] = [" to=user", " to=self"].map((to) => [
        ...spelled(to),
        "<|message|>",
      ])
      expect(summary(await ask(spelled(told))).content).toBe(told)
      expect(summary(await ask([...answer!, ...spelled(told)])).content).toBe(told)
      expect(summary(await ask([...thought!, ...spelled(told)])).reasoning).toBe(told)
      const called = formats.atem.written([{ name: "now", arguments: '{"x":"<|eom|>"}' }])
      const [to, body] = called.split("<|message|>") as [string, string]
      const events = await ask([...spelled(to), "<|message|>", ...spelled(body)])
      const json = events.map((event) => (event.kind === "arguments" ? event.text : "")).join("")
      expect([json, summary(events).content]).toEqual(['{"x": "<|eom|>"}', ""])
    }
  })

  test("in messages whose ends look alike, as Solar Open writes them", async () => {
    const next = "<|end|><|begin|>assistant"
    const call = "<|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>now<|tool_call:args|>"
    const text = `<|think|>hm <|end| 🙂${next}<|content|>I ask.\n${next}<|tool_calls|>${call}{"x": "<|e"}<|tool_call:end|>`
    const markers = {
      open: "<|think|>",
      close: "<|end|>",
      answer: ["<|content|>", "<|end|>"] as const,
      begins: "<|begin|>assistant",
    }
    const reasoning = { markers, inside: false, inline: false }
    const tools = new Map([["now", undefined]])
    const calls = { format: formats.solar_open, tools, most: 9, id: () => "id" }
    const random = generator(37)
    for (let round = 0; round < 60; round++) {
      const cut = (whole: string) => cutAtRandom(new TextEncoder().encode(whole), random)
      const events = await read(cut(text), { reasoning, calls })
      const told = events.map((event) => (event.kind === "arguments" ? event.text : ""))
      expect(summary(events)).toMatchObject({
        reasoning: "hm <|end| 🙂",
        content: "I ask.",
        reason: "tool_calls",
      })
      expect(told.join("")).toBe('{"x": "<|e"}')
      for (const [said, thought, content] of [
        ["<|content|>Four <|content|>", "", "Four <|content|>"],
        ["<|think|>hm<|end|><|content|>A", "hm", "A"],
        [`<|think|>hm${next}<|think|>so${next}<|content|>A${next}<|content|>B`, "hmso", "AB"],
        ["<|think|>hm<|end|><|begin|>assis", "hm", ""],
        ["<|content|>A<|end|><|begin|>", "", "A"],
      ] as const)
        expect(summary(await read(cut(said), { reasoning, calls }))).toMatchObject({
          reasoning: thought,
          content,
        })
    }
  })

  test("in messages to somebody, wherever they are cut: to itself, to its user, to a function", async () => {
    const source = "<|start|>assistant to=self<|message|>"
    const tokenizer = { control: () => undefined } as unknown as Tokenizer
    const markers = markersOf({ source } as Template, tokenizer)!
    const reasoning = { markers, inside: false, inline: false }
    const tools = new Map([["now", undefined]])
    const calls = { format: formats.atem, tools, most: 9, id: () => "id" }
    const random = generator(41)
    const next = "<|eom|><|start|>assistant"
    const call = formats.atem.written([{ name: "now", arguments: '{"x":1}' }])
    for (let round = 0; round < 40; round++)
      for (const [said, thought, content, reason] of [
        [" to=user<|message|>Four to=user 🙂", "", "Four to=user 🙂", "stop"],
        [" to=user<|message|>to=user<|message|>🙂", "", "to=user<|message|>🙂", "stop"],
        [` to=self<|message|>hm 🙂${next} to=user<|message|>A`, "hm 🙂", "A", "stop"],
        [` to=self<|message|>hm${next} ${call}`, "hm", "", "tool_calls"],
        [` to=user<|message|>So:${next} ${call}${next} ${call}`, "", "So:", "tool_calls"],
        [` ${call}`, "", "", "tool_calls"],
        [` to=self<|message|>hm<|eom|><|start|>assis`, "hm", "", "stop"],
      ] as const) {
        const pieces = cutAtRandom(new TextEncoder().encode(said), random)
        expect(summary(await read(pieces, { reasoning, calls }))).toMatchObject({
          reasoning: thought,
          content,
          reason,
        })
      }
  })

  test("DeepSeek V3.2's, as its own reader reads them, wherever they are cut", async () => {
    interface Golden {
      replies: {
        mode: string
        text: string
        content: string
        reasoning: string
        calls: { name: string; arguments: string }[]
      }[]
    }
    const file = join(import.meta.dirname, "../../test/golden/deepseek/golden.json")
    const { replies }: Golden = JSON.parse(readFileSync(file, "utf8"))
    const tools = new Map(["get_weather", "now"].map((name) => [name, undefined]))
    const calls = { format: formats.deepseek_v32, tools, most: 9, id: () => "id" }
    const random = generator(43)
    for (const { mode, text, content, reasoning: thought, calls: own } of replies)
      for (let round = 0; round < 5; round++) {
        const inside = mode === "thinking"
        const reasoning = { markers: THINK, inside, over: !inside, inline: false }
        const pieces = cutAtRandom(new TextEncoder().encode(text), random)
        const events = await read(pieces, { reasoning, calls })
        expect(summary(events)).toMatchObject({ content, reasoning: thought })
        const made: { name: string; arguments: string }[] = []
        for (const event of events) {
          if (event.kind === "call") made.push({ name: event.name, arguments: "" })
          if (event.kind === "arguments") made.at(-1)!.arguments += event.text
        }
        expect(made).toEqual(own)
      }
  })

  test("in thinking, a call's own token and a tool's name end it, wherever the stream is cut", async () => {
    const head = "\n<function=now>"
    const opening = { mark: "<tool_call>", heads: [head] }
    const tools = new Map([["now", undefined]])
    const calls = { format: formats.qwen3_coder, tools, opening, most: 9, id: () => "id" }
    const reasoning = { markers: THINK, inside: true, inline: false }
    const random = generator(31)
    const ask = (text: readonly (string | [string])[]) => {
      const tokens = text.flatMap((each): Token[] =>
        typeof each === "string" ? cutAtRandom(new TextEncoder().encode(each), random) : each,
      )
      return read(tokens, { reasoning, calls }, undefined, ["<tool_call>"])
    }
    const draft = `Not <tool_call>${head}, é\n\n`
    const call = `${head}\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>`
    for (let round = 0; round < 60; round++) {
      const called = await ask([draft, ["<tool_call>"], call])
      expect(summary(called)).toMatchObject({
        reasoning: draft.trimEnd(),
        content: "",
        reason: "tool_calls",
      })
      const told = called.map((event) => (event.kind === "arguments" ? event.text : ""))
      expect(told.join("")).toBe('{"a": 1}')
      const thought = await ask(["So ", ["<tool_call>"], "\n<function=none>\n</think>\n\nYes"])
      expect(summary(thought)).toMatchObject({
        reasoning: "So <tool_call>\n<function=none>",
        content: "Yes",
        reason: "stop",
      })
      const cut = await ask(["So\n", ["<tool_call>"], "\n<func"])
      expect(summary(cut)).toMatchObject({ reasoning: "So\n<tool_call>\n<func", reason: "stop" })
    }
  })

  test("the tokens listed join to the text that was sent, when no marker stands in between", async () => {
    const text = "über 🙂 水 and STOP"
    const random = generator(3)
    for (let round = 0; round < 200; round++) {
      const events = await read(cutAtRandom(new TextEncoder().encode(text), random), {
        stop: ["STOP"],
      })
      const { content, bytes } = summary(events)
      const joined = new TextDecoder().decode(Buffer.concat(bytes))
      expect(joined.startsWith(content)).toBe(true)
      // Only the token in which the stop string begins may reach further.
      const before = new TextDecoder().decode(Buffer.concat(bytes.slice(0, -1)))
      expect(content.startsWith(before.replace(/\uFFFD+$/, ""))).toBe(true)
    }
  })
})

describe("log probabilities", () => {
  const control = ["<|a|>", "<|b|>"]

  test("control tokens are told where they stand, by name and without bytes", async () => {
    const [a, b] = control
    const events = await read([a!, "Hi", b!, b!, " you", a!], {}, undefined, control)
    expect(summary(events)).toMatchObject({
      content: "Hi you",
      tokens: [a, "Hi", b, b, " you", a],
      bytes: ["", "Hi", "", "", " you", ""].map((text) => Uint8Array.from(Buffer.from(text))),
      offsets: [0, 0, 2, 2, 2, 6],
      completionTokens: 6,
    })
  })

  test("so they are in a reply that shows as nothing at all, and before a stop string", async () => {
    const [a, b] = control
    const silent = summary(await read([a!, b!], {}, undefined, control))
    expect(silent).toMatchObject({ content: "", tokens: [a, b], completionTokens: 2 })
    const cut = await read([a!, "x", b!, "STOP", a!], { stop: ["STOP"] }, undefined, control)
    expect(summary(cut)).toMatchObject({ content: "x", tokens: [a, "x"], completionTokens: 2 })
  })

  test("markers are told with the thinking, calls with the content, neither with bytes", async () => {
    const call = '<tool_call>{"name": "now"}</tool_call>'
    const tokens = ["<think>", "hm", "</think>", "\n\n", "Ok ", call, " bye"]
    const events = await read(tokens, {
      reasoning: { markers: THINK, inside: false, inline: false },
      calls: {
        format: formats.hermes,
        tools: new Map([["now", undefined]]),
        most: 9,
        id: () => "c",
      },
    })
    const told = summary(events)
    expect(told.thoughts).toEqual(["<think>", "hm", "</think>", "\n\n"])
    expect(told.tokens).toEqual(["Ok ", call, " bye"])
    expect(Buffer.concat(told.bytes).toString()).toBe("Ok  bye")
    expect(told.reasoningTokens).toBe(4)
  })

  test("thinking that never ends keeps its control tokens", async () => {
    const events = await read(
      ["hm", control[0]!],
      { reasoning: { markers: THINK, inside: true, inline: false } },
      undefined,
      control,
    )
    expect(summary(events)).toMatchObject({ thoughts: ["hm", control[0]], tokens: [] })
    expect(summary(events).reasoningTokens).toBe(2)
  })

  test("offsets are where the text is, behind bytes that never become a character as well", async () => {
    const smile = [...new TextEncoder().encode("🙂")]
    const half = Uint8Array.of(smile[0]!, smile[1]!)
    const offsets = async (...tokens: Token[]) => {
      const { content, offsets: told } = summary(await read(tokens))
      return { content, told }
    }
    const rest = Uint8Array.of(smile[2]!, smile[3]!)
    expect(await offsets("a", half, rest, "b")).toEqual({ content: "a🙂b", told: [0, 1, 1, 2] })
    expect(await offsets(half, "b", "c")).toEqual({ content: "\ufffdbc", told: [0, 1, 2] })
    expect(await offsets(half, half, "c")).toEqual({
      content: "\ufffd\ufffdc",
      told: [0, 1, 2],
    })
    // An over-long form: its second byte begins a character of its own that never ends.
    const [lead, next] = [Uint8Array.of(0xe0), Uint8Array.of(0x80)]
    expect(await offsets(lead, next, "c")).toEqual({
      content: "\ufffd\ufffdc",
      told: [0, 1, 2],
    })
  })
})

describe("several choices", () => {
  test("come as they happen, and each ends on its own", async () => {
    const gates = [gate(), gate()]
    const generation = {
      promptTokens: 3,
      cachedTokens: 1,
      choices: gates.map(({ tokens }) => tokens),
    }
    const events = replyEvents(generation, readingOf(["a", "b"]))
    gates[1]!.send({ kind: "token", token: 1, logprob: 0, top: [] })
    expect((await events.next()).value).toMatchObject({ choice: 1, text: "b" })
    gates[0]!.send({ kind: "token", token: 0, logprob: 0, top: [] })
    expect((await events.next()).value).toMatchObject({ choice: 0, text: "a" })
    gates[1]!.send({ kind: "end", reason: "length" })
    expect((await events.next()).value).toMatchObject({
      choice: 1,
      kind: "finish",
      reason: "length",
    })
    gates[0]!.send({ kind: "end", reason: "stop" })
    expect((await events.next()).value).toMatchObject({ choice: 0, reason: "stop" })
    expect((await events.next()).value).toEqual({
      kind: "usage",
      usage: { promptTokens: 3, cachedTokens: 1, completionTokens: 2, reasoningTokens: 0 },
    })
    expect((await events.next()).done).toBe(true)
  })

  test("leaving the loop lets go of all that run; a stop string of the one it ended", async () => {
    const gates = [gate(), gate(), gate()]
    const generation = {
      promptTokens: 1,
      cachedTokens: 0,
      choices: gates.map(({ tokens }) => tokens),
    }
    const events = replyEvents(generation, readingOf(["a", "STOP"], { stop: ["STOP"] }))
    gates[0]!.send({ kind: "token", token: 1, logprob: 0, top: [] })
    expect((await events.next()).value).toMatchObject({ choice: 0, reason: "stop" })
    gates[1]!.send({ kind: "token", token: 0, logprob: 0, top: [] })
    expect((await events.next()).value).toMatchObject({ choice: 1, text: "a" })
    expect(gates.map(({ left }) => left())).toEqual([true, false, false])
    await events.return()
    expect(gates.map(({ left }) => left())).toEqual([true, true, true])
  })
})

test("stop strings are prepared once, however many choices look for them", async () => {
  let prepared = 0
  const stop = ["STOP"]
  const watched = new Proxy(stop, {
    get: (target, name, receiver) => {
      if (name === "0") prepared++
      return Reflect.get(target, name, receiver)
    },
  })
  async function* choice(): AsyncGenerator<GenerationEvent> {
    yield { kind: "token", token: 0, logprob: -1, top: [] }
    yield { kind: "end", reason: "length" }
  }
  const choices = Array.from({ length: 128 }, choice)
  const generation = { promptTokens: 1, cachedTokens: 0, choices }
  const contents: string[] = []
  for await (const event of replyEvents(generation, readingOf(["xSTOP"], { stop: watched }))) {
    if (event.kind === "content") contents.push(event.text)
  }
  expect(contents).toEqual(Array.from({ length: 128 }, () => "x"))
  expect(prepared).toBe(1)
})

/** A choice whose events are sent by hand, and which says when it was let go. */
function gate() {
  const sent: GenerationEvent[] = []
  let waiting: ((result: IteratorResult<GenerationEvent>) => void) | undefined
  let isLeft = false
  const tokens: AsyncIterableIterator<GenerationEvent> = {
    [Symbol.asyncIterator]: () => tokens,
    next: () =>
      new Promise((resolve) => {
        const value = sent.shift()
        if (value) resolve({ value, done: false })
        else waiting = resolve
      }),
    return: () => {
      isLeft = true
      waiting?.({ value: undefined, done: true })
      return Promise.resolve({ value: undefined, done: true })
    },
  }
  const send = (value: GenerationEvent) => {
    if (waiting) waiting({ value, done: false })
    else sent.push(value)
    waiting = undefined
  }
  return { tokens, send, left: () => isLeft }
}

type Token = string | Uint8Array

/** A reading whose vocabulary is just these tokens: token i is tokens[i]. Those of `control` show as nothing. */
function readingOf(
  tokens: readonly Token[],
  options: Partial<Reading> = {},
  control: readonly string[] = [],
): Reading {
  const pieces = tokens.map((token) => (typeof token === "string" ? Buffer.from(token) : token))
  const offsets = Uint32Array.of(0, ...pieces.map(({ length }) => length)).map(
    (
      (sum) => (length) =>
        (sum += length)
    )(0),
  )
  const tokenizer = {
    bytes: new TokenBytes(new Uint8Array(Buffer.concat(pieces)), offsets),
    special: new Set([...tokens.keys()].filter((id) => control.includes(String(tokens[id])))),
    control: (text: string) => (control.includes(text) ? tokens.indexOf(text) : undefined),
    stripsLeadingSpace: false,
  } as unknown as Tokenizer
  return {
    tokenizer,
    stop: [],
    minTokens: 0,
    logprobs: true,
    continues: false,
    reasoning: undefined,
    calls: undefined,
    ...options,
  }
}

async function read(
  tokens: readonly Token[],
  options: Partial<Reading> = {},
  end: GenerationEvent = { kind: "end", reason: "stop" },
  control: readonly string[] = [],
): Promise<ReplyEvent[]> {
  async function* choice(): AsyncGenerator<GenerationEvent> {
    for (const token of tokens.keys()) yield { kind: "token", token, logprob: -1, top: [] }
    yield end
  }
  const generation: Generation = { promptTokens: 5, cachedTokens: 0, choices: [choice()] }
  const events: ReplyEvent[] = []
  const reading = readingOf(tokens, options, control)
  for await (const event of replyEvents(generation, reading)) events.push(event)
  namesOf.set(events, tokenNames(reading))
  return events
}

/** What the tokens that events tell of are called. */
const namesOf = new WeakMap<readonly ReplyEvent[], TokenNames>()

function summary(events: readonly ReplyEvent[]) {
  const text = (kind: string) =>
    events.map((event) => (event.kind === kind && "text" in event ? event.text : "")).join("")
  const usage = events.find((event) => event.kind === "usage")?.usage
  const names = namesOf.get(events)!
  const told = (kind: "content" | "reasoning") =>
    events.flatMap((event) => (event.kind === kind ? event.logprobs : []))
  return {
    content: text("content"),
    reasoning: text("reasoning"),
    deltas: events.flatMap((event) => (event.kind === "content" ? [event.text] : [])),
    tokens: told("content").map(({ token }) => names.text(token)),
    thoughts: told("reasoning").map(({ token }) => names.text(token)),
    bytes: told("content").map(({ token, shows }) =>
      shows ? names.bytes(token) : new Uint8Array(0),
    ),
    offsets: told("content").map(({ offset }) => offset),
    reason: events.find((event) => event.kind === "finish")?.reason,
    completionTokens: usage!.completionTokens,
    reasoningTokens: usage!.reasoningTokens,
  }
}

function cutAtRandom(bytes: Uint8Array, random: () => number): Uint8Array[] {
  const pieces: Uint8Array[] = []
  for (let at = 0; at < bytes.length; ) {
    const size = 1 + Math.floor(random() * random() * 12)
    pieces.push(bytes.subarray(at, at + size))
    at += size
  }
  return pieces
}

/** Numbers in [0, 1), the same ones for the same seed. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}
