import { expect, test } from "vitest"
import { eventsOf, hi, logprob, parrot, saying, usage } from "../../../../test/parrot.ts"
import { problem } from "../../../errors.ts"

test("plain completions: several prompts, several choices, logprobs in their own shape", async () => {
  const { post, asked } = parrot(saying("é", "b"))
  const body = { model: "tiny", prompt: ["one", "two"], n: 2, max_tokens: 4 }
  const whole = (await post(body, {}, "/v1/completions")).json()
  expect(whole).toMatchObject({ id: expect.stringMatching(/^cmpl-/), object: "text_completion" })
  expect(whole.choices.map(({ index, text }: Record<string, unknown>) => [index, text])).toEqual([
    [0, "éb"],
    [1, "éb"],
    [2, "éb"],
    [3, "éb"],
  ])
  expect(whole.usage.total_tokens).toBe(10)
  expect(asked.map((request) => "prompt" in request && request.prompt)).toEqual(["one", "two"])

  const events = eventsOf((await post({ ...body, stream: true }, {}, "/v1/completions")).body)
  for (const { index, text } of whole.choices) {
    const pieces = events.flatMap(({ choices }) => choices).filter((each) => each.index === index)
    expect(pieces.map((piece) => piece.text).join("")).toBe(text)
  }
  const told = await post({ model: "tiny", prompt: [5, 6], logprobs: 1 }, {}, "/v1/completions")
  expect(told.json().choices[0].logprobs).toEqual({
    tokens: ["é", "b"],
    token_logprobs: [-0.5, -0.5],
    top_logprobs: [
      { é: -0.5, " no": -9999 },
      { b: -0.5, " no": -9999 },
    ],
    text_offset: [0, 0],
  })
  expect(asked.at(-1)).toMatchObject({ prompt: Int32Array.of(5, 6), maxTokens: 16 })
})

test.each([
  [{ prompt: [] }, "prompt"],
  [{ prompt: ["a", 1] }, "prompt"],
  [{ prompt: [1000] }, "prompt"],
  [{ prompt: [[1], []] }, "prompt[1]"],
  [{ prompt: [-1] }, "prompt[0]"],
  [{ prompt: ["a", "b"], n: 100 }, "prompt"],
  [{ prompt: "a", suffix: "b", echo: true }, "echo"],
  [{ prompt: "a", best_of: 3 }, "best_of"],
  [{ prompt: "a", max_tokens: 0 }, "max_tokens"],
  [{ prompt: "a", echo: true, max_tokens: -1 }, "max_tokens"],
])("the completion %j is refused", async (fields, param) => {
  const answer = await parrot().post({ model: "tiny", ...fields }, {}, "/v1/completions")
  expect(answer.statusCode).toBe(400)
  expect(answer.json().error.param).toBe(param)
})

test("a token id that the model has not is named, with its place", async () => {
  for (const [prompt, sentence] of [
    [[1, 1000], "prompt must hold token ids from 0 to 999, not 1000 (at 1)."],
    [[[1], [2, 3, 4000]], "prompt[1] must hold token ids from 0 to 999, not 4000 (at 2)."],
  ]) {
    const answer = await parrot().post({ model: "tiny", prompt }, {}, "/v1/completions")
    expect(answer.json().message).toBe(sentence)
  }
  const answer = await parrot().post({ tokens: [7, 1234] }, {}, "/detokenize")
  expect(answer.json().message).toBe("tokens must hold token ids from 0 to 999, not 1234 (at 1).")
})

test("one prompt that is refused refuses the request and ends what was admitted of it", async () => {
  const { post, signals } = parrot(saying("x"), {}, (asked) =>
    "prompt" in asked && asked.prompt === "bad"
      ? problem("context_length_exceeded", { tokens: 9, limit: 8, option: "x" })
      : undefined,
  )
  const answer = await post({ model: "tiny", prompt: ["good", "bad"] }, {}, "/v1/completions")
  expect(answer.json().error.code).toBe("context_length_exceeded")
  expect(signals.map((signal) => signal.aborted)).toEqual([true, true])
})

test("tokens whose bytes are no text are named by their bytes in completions", async () => {
  const half = { ...logprob(Uint8Array.of(0xf0, 0x9f)), top: [] }
  const { post } = parrot(function* () {
    yield { kind: "content", choice: 0, text: "😀", logprobs: [half] }
    yield { kind: "finish", choice: 0, reason: "stop" }
    yield { kind: "usage", usage }
  })
  const answer = await post({ model: "tiny", prompt: "x", logprobs: 0 }, {}, "/v1/completions")
  expect(answer.json().choices[0].logprobs.tokens).toEqual(["bytes:\\xf0\\x9f"])
})

test("tokenize and detokenize", async () => {
  const { post } = parrot()
  const tokens = (await post({ prompt: "Hi" }, {}, "/tokenize")).json()
  expect(tokens).toEqual({ tokens: [72, 105], count: 2, max_model_len: 2048 })
  expect((await post({ tokens: [72, 105] }, {}, "/detokenize")).json()).toEqual({ prompt: "Hi" })
  const chat = await post({ model: "tiny", messages: hi.messages }, {}, "/tokenize")
  expect(chat.json().count).toBe(1)
  // vLLM's field; false is what its clients send that want the text's own tokens.
  for (const [add_special_tokens, count] of [
    [true, 3],
    [false, 2],
  ] as const) {
    const asked = await post({ prompt: "Hi", add_special_tokens }, {}, "/tokenize")
    expect([asked.json().count, asked.headers["x-ignored-fields"]]).toEqual([count, undefined])
  }
  for (const field of [{ add_special_tokens: true }, { add_generation_prompt: false }]) {
    const { error } = (await post({ ...hi, ...field }, {}, "/tokenize")).json()
    expect(error.param).toBe(Object.keys(field)[0])
  }
  for (const body of [{}, { prompt: "x", messages: hi.messages }, { prompt: "x", model: "y" }]) {
    expect((await post(body, {}, "/tokenize")).statusCode).toBeGreaterThanOrEqual(400)
  }
})
