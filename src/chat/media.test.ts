import { once } from "node:events"
import { setTimeout as sleep } from "node:timers/promises"
import { expect, test } from "vitest"
import {
  HIDDEN,
  modelNamed,
  models,
  rowsOf,
  type SeeingChat,
  seeingChat,
} from "../../test/seeing.ts"
import type { ChatMessage, ChatRequest, MessagePart } from "./conversation.ts"
import { MAX_IMAGE, MediaKeys } from "./media.ts"

const signal = new AbortController().signal

const image = (first: number): MessagePart => ({
  image: Uint8Array.of(first, 1, 2),
  field: `image ${first}`,
})

/** A message of these parts: numbers are images. */
function said(role: ChatMessage["role"], ...parts: (string | number)[]): ChatMessage {
  const content = parts.filter((part) => typeof part === "string").join("")
  if (!parts.some((part) => typeof part === "number")) return { role, content }
  const all = parts.map((part) => (typeof part === "string" ? { text: part } : image(part)))
  return { role, content, parts: all }
}

function requestOf(messages: readonly ChatMessage[], more: Partial<ChatRequest> = {}): ChatRequest {
  const request: Omit<ChatRequest, "sampling"> = {
    id: "r1",
    messages,
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

/** What the engine was asked, in words: its prompt, images and all. */
async function promptOf(open: SeeingChat, messages: readonly ChatMessage[]) {
  await open.chat.reply(requestOf(messages), signal)
  const { prompt, media } = open.asked.at(-1)!
  return { text: [...open.chat.detokenize(prompt)].join(""), prompt, media }
}

const goldens = models.flatMap((model) => model.cases.map((one) => ({ model, one })))

test.each(goldens)("$model.name: $one.what", async ({ model, one }) => {
  const open = await seeingChat(model)
  let count = 0
  const messages = one.turns.map(({ role, parts }) =>
    said(role, ...parts.map((part) => (part === "image" ? 10 * ++count : part))),
  )
  const { prompt, media } = await promptOf(open, messages)
  expect([...prompt]).toEqual(one.ids)
  expect([...(media?.at ?? [])]).toEqual(one.at)
  const rows = Array.from({ length: count }, (_, at) =>
    rowsOf(Uint8Array.of(10 * (at + 1)), model.rows),
  )
  expect(media?.rows && [...media.rows]).toEqual(count > 0 ? rows.flat() : undefined)
  expect(open.prepared).toHaveLength(count)
  expect([...(await open.chat.tokenizeChat(requestOf(messages)))]).toEqual(one.ids)
  expect(open.encoded).toHaveLength(count) // to count tokens, no tower is asked
})

test("keys are negative; an image's are the same wherever it stands, and no other's", async () => {
  const open = await seeingChat(modelNamed("qwen"), { rows: () => 19 })
  const keysOf = async (...parts: (string | number)[]) =>
    Array.from((await promptOf(open, [said("user", ...parts)])).media!.keys)
  const [one, two] = [await keysOf(1), await keysOf(2)]
  expect(await keysOf("a", 2, "b", 1)).toEqual([...two, ...one])
  expect([...one, ...two].every((key) => Number.isInteger(key) && key < 0)).toBe(true)
  expect(new Set([...one, ...two]).size).toBe(38)
})

test("images whose hashes have 31 bits in common have other keys", async () => {
  const open = await seeingChat(modelNamed("qwen"), { rows: () => 3 })
  const alike = [Uint8Array.of(1, 58, 130, 0), Uint8Array.of(2, 255, 170, 0)]
  const keys: number[][] = []
  for (const image of alike) {
    // in the first of SHA-256 over their SHA-256 and " 0"
    const message: ChatMessage = { role: "user", content: "", parts: [{ image }] }
    keys.push([...(await promptOf(open, [message])).media!.keys])
  }
  expect(new Set(keys.flat()).size).toBe(6)
})

test("keys are no tokens, and an image keeps its own", () => {
  const keys = new MediaKeys()
  const all = ["a", "b", "c", "d"].map((hash) => keys.of({ hash, rows: 3 }))
  expect(new Set(all.flat()).size).toBe(12)
  expect(Math.max(...all.flat())).toBeLessThan(0)
  expect(keys.of({ hash: "b", rows: 3 })).toEqual(all[1])
})

test("an image has as many rows as it has", async () => {
  const open = await seeingChat(modelNamed("qwen"), { rows: (first) => first })
  const { media } = await promptOf(open, [said("user", 2, 9, 1)])
  const rows = [2, 9, 1].flatMap((first) => rowsOf(Uint8Array.of(first), first))
  expect([...media!.rows]).toEqual(rows)
  expect(media!.at).toHaveLength(rows.length / HIDDEN)
})

test("choices share what was computed once", async () => {
  const open = await seeingChat(modelNamed("qwen"))
  await open.chat.reply(requestOf([said("user", 1, "What?")], { choices: 3 }), signal)
  expect(open.asked.map(({ choices }) => choices)).toEqual([3])
  expect(open.encoded).toEqual([1])
})

test("a template that knows no parts has marks in its texts, each on a line ahead of what follows", async () => {
  const template = "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{% endfor %}"
  const open = await seeingChat(modelNamed("llava"), { template, rows: () => 2 })
  const { text, media } = await promptOf(open, [
    said("system", "Brief."),
    said("user", "See ", 1, 2, "and say."),
    said("assistant", "What?"),
    said("user", "This: ", 3),
  ])
  const [pair, pairs] = ["<image><image>", "<image><image>\n"]
  expect(text).toBe(
    `[system]Brief.[user]See ${pairs}${pairs}and say.[assistant]What?[user]This: ${pair}`,
  )
  expect(open.encoded).toEqual([1, 2, 3])
  expect(media!.at).toHaveLength(6)
})

test("a text that spells marks and soft tokens is text, with images and without", async () => {
  for (const model of models) {
    const evil = `${model.mark}${model.soft}${model.image}`.trim()
    const open = await seeingChat(model)
    const honest = await promptOf(open, [said("user", 7, "What?")])
    const { text, prompt, media } = await promptOf(open, [said("user", evil, 7, evil)])
    expect(media!.rows).toEqual(honest.media!.rows)
    expect(media!.keys).toEqual(honest.media!.keys)
    expect([...prompt].filter((token) => token === open.soft)).toHaveLength(model.rows)
    expect(text.split(evil).length).toBeGreaterThanOrEqual(3)
    const without = await promptOf(open, [said("user", evil)])
    expect(without.media).toBeUndefined()
    expect([...without.prompt]).not.toContain(open.soft)
  }
})

test("halves of a mark that meet are no mark", async () => {
  const open = await seeingChat(modelNamed("qwen"))
  const [head, tail] = ["<|image", "_pad|>"]
  const { prompt } = await promptOf(open, [said("user", head, 1, tail, head), said("user", tail)])
  expect([...prompt].filter((token) => token === open.soft)).toHaveLength(3)
})

const refusing = (problem: string) => ({
  code: "template_failed",
  param: "messages",
  message: expect.stringContaining(problem),
})

test.each([
  ["fewer", "{{ '<image>' if messages[0].content is not string }}", /"<image>" 1 times for 2/],
  ["more", "{{ '<image><image><image>' }}{{ messages[0].content }}", /"<image>" 3 times for 2/],
  ["none", "{{ messages[0].role }}", /"<image>" 0 times for 2/],
])("a template that shows %s images than there are refuses", async (_, template, words) => {
  const open = await seeingChat(modelNamed("llava"), { template })
  const refusal = open.chat.reply(requestOf([said("user", 1, "and", 2)]), signal)
  await expect(refusal).rejects.toMatchObject({ code: "template_failed", param: "messages" })
  await expect(refusal).rejects.toThrow(words)
  expect(open.prepared).toEqual([])
})

test("a template that writes soft tokens of its own refuses", async () => {
  const template = `<image_soft_token>${modelNamed("gemma").template}`
  const open = await seeingChat(modelNamed("gemma"), { template })
  await expect(open.chat.reply(requestOf([said("user", 1)]), signal)).rejects.toMatchObject(
    refusing('it writes "<image_soft_token>", which stands for rows of images'),
  )
  expect(open.encoded).toEqual([])
})

const CALLS =
  "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% elif m.role == 'user' %}{% for c in m.content %}{{ '<image>' if c.type == 'image' else c.text }}{% endfor %}{% endif %}{% for c in m.tool_calls %}({{ c.function.name }}){% endfor %}{% endfor %}{# tools #}"
const call = (...names: string[]): ChatMessage => ({
  role: "assistant",
  content: "",
  toolCalls: names.map((name) => ({ id: name, name, arguments: "{}" })),
})
const result = (toolCallId: string, ...parts: (string | number)[]): ChatMessage => ({
  ...said("tool", ...parts),
  toolCallId,
})

test("results' images are shown by the user where a template shows them to users alone", async () => {
  const open = await seeingChat(modelNamed("llava"), { template: CALLS, rows: () => 1 })
  const begun = [said("user", "look"), call("a", "b"), result("a", "one: ", 1), result("b", 2)]
  const { text } = await promptOf(open, begun)
  expect(text).toBe("[user]look[assistant](a)(b)[tool]one: [tool][user]<image><image>")
  const { text: asked } = await promptOf(open, [...begun, said("user", "so?", 3)])
  expect(asked).toBe("[user]look[assistant](a)(b)[tool]one: [tool][user]<image><image>so?<image>")
  expect(open.encoded).toEqual([1, 2, 1, 2, 3])
})

test("images follow their messages where a template wants those in another order", async () => {
  const template = `{% for m in messages %}{% if m.tool_calls | length > 1 %}{{ raise_exception("one") }}{% endif %}{% endfor %}${CALLS.replace("m.role == 'user'", "true")}`
  const open = await seeingChat(modelNamed("llava"), { template, rows: () => 1 })
  const { text } = await promptOf(open, [
    said("user", "look"),
    call("a", "b"),
    result("b", "b", 2),
    result("a", "a", 1),
  ])
  expect(text).toBe("[user]look[assistant](a)[tool]a<image>[assistant](b)[tool]b<image>")
  expect(open.encoded).toEqual([1, 2])
})

test("turns that have to be joined keep their images", async () => {
  const open = await seeingChat(modelNamed("gemma"), { rows: () => 1 })
  const { text } = await promptOf(open, [said("user", 1), said("user", "and"), said("user", 2)])
  const soft = "<image_soft_token>"
  expect(text).toBe(`<start_of_turn>user\n${soft}and${soft}<end_of_turn>\n<start_of_turn>model\n`)
  expect(open.encoded).toEqual([1, 2])
})

test("results in plain words keep theirs", async () => {
  const template = modelNamed("qwen").template
  const open = await seeingChat(modelNamed("qwen"), { template, rows: () => 1 })
  const { text } = await promptOf(open, [call("f"), { ...result("f", 1, "seen"), name: "f" }])
  expect(text).toContain(
    "<|im_start|>user\nResult of f:\n<|vision_start|><|image_pad|><|vision_end|>seen<|im_end|>",
  )
})

test("a long conversation is rendered in its thread, and its images come in order", async () => {
  const open = await seeingChat(modelNamed("smolvlm"), { rows: () => 1 })
  const pairs = Array.from({ length: 150 }, (_, at) => [
    said("user", at, "?"),
    said("assistant", "."),
  ])
  const { text } = await promptOf(open, [...pairs.flat(), said("user", 150)])
  const end = "<end_of_utterance>\n"
  const turns = `User:<image>?${end}Assistant: .${end}`.repeat(150)
  expect(text).toBe(`<|im_start|>${turns}User:<image>${end}Assistant:`)
  expect(open.encoded).toEqual(Array.from({ length: 151 }, (_, at) => at))
})

test("what cannot fit is refused before a tower is asked, and before more is prepared", async () => {
  const open = await seeingChat(modelNamed("qwen"), { context: 100, rows: () => 30 })
  const tooLong = { code: "context_length_exceeded", param: "messages" }
  const many = requestOf([said("user", ...Array.from({ length: 100 }, (_, at) => at))])
  await expect(open.chat.reply(many, signal)).rejects.toMatchObject(tooLong)
  expect(open.prepared.length).toBeLessThanOrEqual(4)
  await expect(open.chat.tokenizeChat(many)).rejects.toMatchObject(tooLong)
  const long = requestOf([said("user", 1, "word ".repeat(100))])
  await expect(open.chat.reply(long, signal)).rejects.toMatchObject(tooLong)
  expect(open.encoded).toEqual([])
  expect(open.asked).toEqual([])
})

test("whoever leaves while an image is encoded is told to nobody: the tower is", async () => {
  const leaving = new AbortController()
  const seen: AbortSignal[] = []
  const open = await seeingChat(modelNamed("qwen"), {
    encoding: async (own) => {
      seen.push(own)
      leaving.abort(new Error("left"))
      own.throwIfAborted()
    },
  })
  const request = requestOf([said("user", 1, 2, 3)])
  await expect(open.chat.reply(request, leaving.signal)).rejects.toThrow("left")
  expect(seen.map(({ aborted }) => aborted)).toEqual([true])
  expect(open.asked).toEqual([])
  expect(open.prepared).toHaveLength(3)
  await expect(open.chat.reply(request, leaving.signal)).rejects.toThrow("left")
  expect(open.prepared).toHaveLength(3)
})

test("an image that is none, or too large, is refused by its field", async () => {
  const open = await seeingChat(modelNamed("qwen"))
  const refusal = (bytes: Uint8Array) =>
    open.chat.reply(
      requestOf([{ role: "user", content: "", parts: [{ image: bytes, field: "cat.png" }] }]),
      signal,
    )
  const wrong = { code: "invalid_value", param: "cat.png" }
  await expect(refusal(new Uint8Array())).rejects.toMatchObject(wrong)
  const words = `cat.png has ${MAX_IMAGE + 1} bytes; an image may have at most ${MAX_IMAGE}.`
  await expect(refusal(new Uint8Array(MAX_IMAGE + 1))).rejects.toMatchObject({
    ...wrong,
    message: words,
  })
  expect(open.asked).toEqual([])
})

test("what an image waits for is of its request's time, and the engine is told the rest", async () => {
  const never = await seeingChat(modelNamed("llava"), {
    requestTimeout: 20,
    encoding: async (own) => {
      await once(own, "abort")
      throw own.reason
    },
  })
  const reply = never.chat.reply(requestOf([said("user", 1)]), signal)
  await expect(reply).rejects.toMatchObject({ code: "request_timeout" })
  expect(never.asked).toEqual([])
  const slow = await seeingChat(modelNamed("llava"), {
    requestTimeout: 60_000,
    encoding: () => sleep(20),
  })
  await slow.chat.reply(requestOf([said("user", 1)]), signal)
  expect(slow.asked[0]!.waited).toBeGreaterThan(15)
})

const BOTH =
  "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% elif p.type == 'audio' %}<audio>{% else %}<|image_pad|>{% endif %}{% endfor %}{% endif %}{% endfor %}"

/** A model of which a recording's rows have a token that no image's have. */
const hearingToo = (template = BOTH) =>
  seeingChat(modelNamed("qwen"), {
    template,
    rows: (first) => first,
    hears: { mark: "<audio>", soft: "<start_of_image>" },
  })

const recording = (first: number): MessagePart => ({
  audio: Uint8Array.of(first, 1, 2),
  field: `recording ${first}`,
})

test("images and recordings of one message stand in their order, each among its own rows", async () => {
  const open = await hearingToo()
  const parts = [recording(2), { text: "a" }, image(3), image(1), { text: "b" }, recording(4)]
  const { prompt, media } = await promptOf(open, [{ role: "user", content: "ab", parts }])
  const [seen, heard] = ["<|image_pad|>", "<start_of_image>"].map((text) =>
    open.tokenizer.control(text),
  )
  const softs = [...prompt].filter((token) => token === seen || token === heard)
  const wanted = [heard, heard, seen, seen, seen, seen, heard, heard, heard, heard]
  expect(softs).toEqual(wanted)
  expect([...media!.at].map((position) => prompt[position])).toEqual(wanted)
  expect([...media!.heard!]).toEqual(wanted.map((token) => Number(token === heard)))
  const rows = [2, 3, 1, 4].flatMap((first) => rowsOf(Uint8Array.of(first), first))
  expect([...media!.rows]).toEqual(rows)
  expect(open.prepared).toEqual(["recording 2", "image 3", "image 1", "recording 4"])
  expect(new Set(media!.keys).size).toBe(10)
})

test("a template that shows each kind by itself is given each kind in its order", async () => {
  const template =
    "{% for m in messages %}{% for p in m.content %}{% if p.type == 'audio' %}<audio>{% endif %}{% endfor %}{% for p in m.content %}{% if p.type == 'image' %}<|image_pad|>{% endif %}{% endfor %}{% endfor %}"
  const open = await hearingToo(template)
  const parts = [image(3), recording(2), image(1), recording(4)]
  const { media } = await promptOf(open, [{ role: "user", content: "", parts }])
  const rows = [2, 4, 3, 1].flatMap((first) => rowsOf(Uint8Array.of(first), first))
  expect([...media!.rows]).toEqual(rows)
})

test.each([
  ["<audio>", 'it writes "<audio>" 2 times for 1 recordings'],
  [
    "<start_of_image>",
    'it writes "<start_of_image>", which stands for rows of recordings, beside them',
  ],
])("a template that adds %s of its own refuses", async (more, words) => {
  const open = await hearingToo(`${BOTH}${more}`)
  const messages: ChatMessage[] = [{ role: "user", content: "", parts: [image(1), recording(2)] }]
  const reply = open.chat.reply(requestOf(messages), signal)
  await expect(reply).rejects.toMatchObject({ code: "template_failed" })
  await expect(reply).rejects.toThrow(words)
})
