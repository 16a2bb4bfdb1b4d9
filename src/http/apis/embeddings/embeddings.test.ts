import { expect, test } from "vitest"
import { parrot } from "../../../../test/parrot.ts"

const ask = async (body: object, url = "/v1/embeddings") => {
  const answer = await parrot().post(body, {}, url)
  return { status: answer.statusCode, ...answer.json() }
}

/** As floats of 32 bits are written. */
const row = (...values: number[]) =>
  values.map((value) => Number(Math.fround(value).toPrecision(9)))

test("texts and tokens in order, as numbers and as bytes", async () => {
  const told = await ask({ model: "tiny", input: ["", "abc"] })
  expect(told).toMatchObject({
    status: 200,
    object: "list",
    model: "tiny",
    data: [
      { object: "embedding", index: 0, embedding: row(0.6, 0, 0.8) },
      { object: "embedding", index: 1, embedding: row(0.6, 3, 0.8) },
    ],
    usage: { prompt_tokens: 2, total_tokens: 2 },
  })
  const bytes = await ask({ input: [[1, 2, 3], [4]], encoding_format: "base64" })
  const floats = bytes.data.map(({ embedding }: { embedding: string }) => {
    const { buffer } = Uint8Array.from(Buffer.from(embedding, "base64"))
    return Array.from(new Float32Array(buffer))
  })
  expect(floats).toEqual([3, 1].map((length) => [0.6, length, 0.8].map(Math.fround)))
  const short = await ask({ input: [7], dimensions: 2 })
  expect(short.data[0].embedding).toEqual(row(0.6, 1))
})

test.each([
  [{}, "input"],
  [{ input: [] }, "input"],
  [{ input: ["a", 1] }, "input"],
  [{ input: ["a", [1]] }, "input"],
  [{ input: [1000] }, "input"],
  [{ input: "a", dimensions: 0 }, "dimensions"],
  [{ input: "a", encoding_format: "int8" }, "encoding_format"],
  [{ input: Array(2049).fill("a") }, "input"],
])("%j is refused", async (body, param) => {
  expect(await ask(body)).toMatchObject({ status: 400, error: { param } })
})

test("as Ollama's clients ask", async () => {
  expect(
    await ask({ model: "tiny:latest", input: "ab", keep_alive: "5m" }, "/api/embed"),
  ).toMatchObject({
    status: 200,
    model: "tiny:latest",
    embeddings: [row(0.6, 2, 0.8)],
    prompt_eval_count: 1,
  })
  const old = await ask({ model: "tiny", prompt: "abcd", keep_alive: -1 }, "/api/embeddings")
  expect(old).toEqual({ status: 200, embedding: row(0.6, 4, 0.8) })
})

// Ollama's server: "if len(input) == 0", "an empty request loads the model".
test("nothing to embed loads a model of Ollama's clients", async () => {
  for (const body of [{ input: "" }, { input: [] }, {}])
    expect(await ask({ model: "tiny", ...body }, "/api/embed")).toMatchObject({
      status: 200,
      embeddings: [],
      prompt_eval_count: 0,
    })
  for (const body of [{ prompt: "" }, {}])
    expect(await ask({ model: "tiny", ...body }, "/api/embeddings")).toEqual({
      status: 200,
      embedding: [],
    })
})

test("documents by a query, the best first", async () => {
  const body = { model: "tiny", query: "a", documents: ["ab", { text: "abcd" }, "abc", "xyz"] }
  const told = await ask(body, "/v1/rerank")
  expect(told).toEqual({
    status: 200,
    object: "list",
    model: "tiny",
    results: [
      { index: 1, relevance_score: 0.4, document: { text: "abcd" } },
      { index: 2, relevance_score: 0.3, document: { text: "abc" } },
      { index: 3, relevance_score: 0.3, document: { text: "xyz" } },
      { index: 0, relevance_score: 0.2, document: { text: "ab" } },
    ],
    usage: { prompt_tokens: 4, total_tokens: 4 },
  })
  // where LiteLLM asks vLLM and Cohere
  for (const path of ["/rerank", "/v2/rerank"]) expect(await ask(body, path)).toEqual(told)
  const best = await ask({ ...body, top_n: 1, return_documents: false }, "/v1/rerank")
  expect(best.results).toEqual([{ index: 1, relevance_score: 0.4 }])
  const none = await ask({ ...body, documents: [] }, "/v1/rerank")
  expect(none).toMatchObject({ status: 400, error: { param: "documents" } })
})

test("its tokens are counted", async () => {
  const { server, post } = parrot()
  await post({ input: ["a", "b", "c"] }, {}, "/v1/embeddings")
  const { payload } = await server.inject("/metrics")
  expect(payload).toContain('sinter_tokens_total{kind="prompt"} 3\n')
  expect(payload).toContain('sinter_tokens_total{kind="completion"} 0\n')
})
