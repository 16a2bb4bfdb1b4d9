// `sinter batch`: files of requests as OpenAI's batches have them, answered line by line as a server answers each.

import { once } from "node:events"
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { run, serve, start } from "./sinter.ts"

const scratch = mkdtempSync(join(tmpdir(), "sinter-batch-"))
afterAll(() => rmSync(scratch, { recursive: true }))

interface Line {
  id: string
  custom_id: string | null
  response: { status_code: number; request_id: string; body: Reply } | null
  error: { code: string; message: string } | null
}

interface Reply {
  choices?: object[]
  data?: object[]
  error?: object
  usage?: object
}

const chat = (content: string, fields: object = {}) => ({
  model: "tiny",
  messages: [{ role: "user", content }],
  max_tokens: 12,
  ...fields,
})
const request = (custom_id: string, body: object, url = "/v1/chat/completions") =>
  JSON.stringify({ custom_id, method: "POST", url, body })
const linesOf = (text: string): Line[] =>
  text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line)]))
/** What is the same each time that it is asked. */
const lasting = ({ choices, data, usage }: Reply) => ({ choices, data, usage })

test("each line is answered as a server answers it, in order", async () => {
  const asked = Array.from({ length: 30 }, (_, i) => {
    const body = chat(`What is ${i} and one?`, { seed: i, max_tokens: 1 + ((7 * i) % 23) })
    return { id: `chat ${i}`, url: "/v1/chat/completions", body: body as object }
  })
  asked.splice(3, 0, {
    id: "text",
    url: "/v1/completions",
    body: { model: "tiny", prompt: "Once", n: 2, seed: 5, max_tokens: 7 },
  })
  asked.splice(9, 0, {
    id: "row",
    url: "/v1/embeddings",
    body: { model: "tiny", input: ["One", "Two"] },
  })
  const input = asked.map(({ id, url, body }) => request(id, body, url)).join("\n\n")
  const { code, out, err } = await run(["batch", "tiny"], input)
  expect({ code, err }).toEqual({ code: 0, err: "32 requests: 32 answered, 0 refused\n" })
  const lines = linesOf(out)
  expect(lines.map(({ custom_id }) => custom_id)).toEqual(asked.map(({ id }) => id))
  const server = await serve(["tiny", "--api-dialect", "openai"])
  try {
    for (const [i, { url, body }] of asked.entries()) {
      const response = await fetch(server.url + url, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      })
      const alone = (await response.json()) as Reply
      expect(lines[i]).toMatchObject({ response: { status_code: 200 }, error: null })
      expect(lasting(lines[i]!.response!.body)).toEqual(lasting(alone))
    }
  } finally {
    await server.stop()
  }
})

test("a line that cannot be asked, or is refused, says why in its place, and the others are answered", async () => {
  const input = [
    request("first", chat("Hi")),
    "no JSON",
    "[]",
    JSON.stringify({ method: "POST", url: "/v1/completions", body: {} }),
    request("first", chat("Hi")),
    JSON.stringify({ custom_id: "get", method: "GET", url: "/v1/models", body: {} }),
    request("elsewhere", chat("Hi"), "http://example.com/v1/chat/completions"),
    JSON.stringify({ custom_id: "none", method: "POST", url: "/v1/completions" }),
    request("stream", chat("Hi", { stream: true })),
    request("unknown", chat("Hi", { model: "gpt-5" })),
    request("hot", chat("Hi", { temperature: 9 })),
    request("nowhere", chat("Hi"), "/v1/nowhere"),
    request("last", chat("Hi")),
  ]
  const { code, out, err } = await run(["batch", "tiny"], input.join("\n"))
  expect({ code, err }).toEqual({ code: 1, err: "13 requests: 2 answered, 11 refused\n" })
  const told = linesOf(out).map(({ custom_id, response, error }) => [
    custom_id,
    response?.status_code ?? error!.message,
  ])
  expect(told).toEqual([
    ["first", 200],
    [null, expect.stringMatching(/^Line 2: no JSON: .+\.$/)],
    [null, "Line 3: expected an object with custom_id, method, url and body."],
    [null, "Line 4: custom_id must be a text."],
    ["first", `Line 5: custom_id "first" was an earlier line's; give each its own.`],
    ["get", "Line 6: method must be POST."],
    ["elsewhere", "Line 7: url must be a path like /v1/chat/completions."],
    ["none", "Line 8: body must be an object, the request's own."],
    ["stream", "Line 9: body.stream must be false, or left out."],
    ["unknown", 404],
    ["hot", 400],
    ["nowhere", 404],
    ["last", 200],
  ])
})

test("what an earlier run has answered stays and is not asked again; what it was refused, and a line that was cut, is", async () => {
  const [input, output] = [join(scratch, "asked.jsonl"), join(scratch, "answers.jsonl")]
  const asked = [
    request("a", chat("One")),
    request("b", chat("Two", { model: "typing-error" })),
    request("c", chat("Three")),
    request("d", chat("Four")),
  ]
  writeFileSync(input, asked.join("\n"))
  const files = ["--input", input, "--output", output]
  const first = await run(["batch", "tiny", ...files])
  expect(first).toMatchObject({ code: 1, out: "", err: "4 requests: 3 answered, 1 refused\n" })
  const refused = await run(["batch", "tiny", ...files])
  expect(refused.code).toBe(2)
  expect(refused.err).toMatch(/^sinter: --output: ".+" is there already; add --resume .+\n$/)
  const before = readFileSync(output, "utf8")
  const [a, , c] = linesOf(before)
  writeFileSync(output, before.slice(0, -30))
  chmodSync(output, 0o600)
  writeFileSync(input, asked.join("\n").replace("typing-error", "tiny"))
  const second = await run(["batch", "tiny", ...files, "--resume"])
  expect(second).toMatchObject({ code: 0, err: "2 requests: 2 answered, 0 refused, 2 before\n" })
  expect(statSync(output).mode & 0o777).toBe(0o600)
  const after = linesOf(readFileSync(output, "utf8"))
  expect(after.slice(0, 2)).toEqual([a, c])
  expect(after.slice(2).map(({ custom_id }) => custom_id)).toEqual(["b", "d"])
})

test("lines of other programs: marks of byte order, CRLF, separators within texts, numbers beyond a double's, no UTF-8", async () => {
  const seeds = ["9007199254740992", "9007199254740993"]
  const drawnBy = (seed: string) => {
    const body = { model: "tiny", prompt: "Once", temperature: 2, max_tokens: 24, seed: 0 }
    return request(seed, body, "/v1/completions").replace('"seed":0', `"seed":${seed}`)
  }
  const lines = [
    `\ufeff${request("marked", chat("Hi"))}`,
    "  ",
    request("separators", chat("One\u2028two\u2029three")),
    request("deep", chat("Hi")).replace('"Hi"', "[".repeat(20_000) + "]".repeat(20_000)),
    ...seeds.map(drawnBy),
  ]
  const input = Buffer.concat([
    Buffer.from(lines.join("\r\n")),
    Buffer.from(`\n${request("latin", chat("\xe9"))}`, "latin1"),
  ])
  const { code, out, err } = await run(["batch", "tiny"], input)
  expect({ code, err }).toEqual({ code: 1, err: "6 requests: 4 answered, 2 refused\n" })
  const answers = linesOf(out)
  expect(answers.map(({ custom_id, error }) => error?.message ?? custom_id)).toEqual([
    "marked",
    "separators",
    expect.stringMatching(/^Line 4: no JSON: it is nested more than 256 levels deep \(.+\)\.$/),
    ...seeds,
    "Line 7: no UTF-8.",
  ])
  const [first, second] = answers.slice(3, 5).map(({ response }) => response!.body.choices)
  expect(first).not.toEqual(second)
})

test("a line's answer does not wait for another line", async () => {
  const running = start(["batch", "tiny"])
  for (const id of ["one", "two"]) {
    running.child.stdin.write(`${request(id, chat("Hi"))}\n`)
    while (!running.out().includes(`"custom_id":"${id}"`)) await once(running.child.stdout, "data")
  }
  running.child.stdin.end()
  expect(await running.ended).toMatchObject({ code: 0 })
})

test("a file that holds no answers is not gone on with", async () => {
  const asked = join(scratch, "requests.jsonl")
  const text = `${request("a", chat("Hi"))}\n`
  const sentence = (line: number) =>
    `sinter: --output: line ${line} of "${asked}" is no answer; name a file of answers, or a new one.\n`
  for (const [content, line] of [
    [text, 1],
    ["\nnotes\nand more\n", 2],
  ] as const) {
    writeFileSync(asked, content)
    const ended = await run(["batch", "tiny", "--input", asked, "--output", asked, "--resume"])
    expect(ended).toMatchObject({ code: 2, out: "", err: sentence(line) })
    expect(readFileSync(asked, "utf8")).toBe(content)
  }
})

test("Ctrl-C leaves whole lines, with which it goes on", async () => {
  const [input, output] = [join(scratch, "many.jsonl"), join(scratch, "many-answers.jsonl")]
  const ids = Array.from({ length: 400 }, (_, i) => `r${i}`)
  const asked = ids.map((id, i) => request(id, chat(`Count to ${i}.`, { max_tokens: 40 })))
  writeFileSync(input, asked.join("\n"))
  const files = ["--input", input, "--output", output]
  const running = start(["batch", "tiny", ...files])
  let isOver = false
  void running.ended.then(() => {
    isOver = true
  })
  while (!isOver && !(statSync(output, { throwIfNoEntry: false })?.size ?? 0))
    await new Promise((wake) => setTimeout(wake, 5))
  process.kill(-running.child.pid!, "SIGINT")
  expect(await running.ended).toMatchObject({ code: 130, out: "" })
  const begun = readFileSync(output, "utf8")
  expect(begun).toMatch(/\}\n$/)
  const kept = linesOf(begun)
  expect(kept.length).toBeLessThan(400)
  const { code } = await run(["batch", "tiny", ...files, "--resume"])
  expect(code).toBe(0)
  const all = linesOf(readFileSync(output, "utf8"))
  expect(all.slice(0, kept.length)).toEqual(kept)
  expect(all).toHaveLength(400)
  expect(new Set(all.map(({ custom_id }) => custom_id))).toEqual(new Set(ids))
})

test("files that cannot be had are a sentence", async () => {
  const nowhere = join(scratch, "none", "file.jsonl")
  const errors = [
    [
      ["--input", nowhere],
      `--input: "${nowhere}" cannot be read: there is no such file; check its path.`,
    ],
    [
      ["--output", nowhere],
      `--output: "${nowhere}" cannot be written: no such file or directory (ENOENT).`,
    ],
    [["--input", scratch], `--input: "${scratch}" is a folder; name a file.`],
    [["--output", scratch, "--resume"], `--output: "${scratch}" is no file to go on with.`],
    [["--resume"], "--resume: goes on with a file; name it by --output."],
  ] as const
  for (const [args, sentence] of errors) {
    expect(await run(["batch", "tiny", ...args])).toMatchObject({
      code: 2,
      out: "",
      err: `sinter: ${sentence}\n`,
    })
  }
})
