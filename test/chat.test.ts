// `sinter chat`, `sinter run` and `sinter embed`, piped: one line in, one answer out.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { afterAll, expect, test } from "vitest"
import { goldenFolder } from "./model/golden.ts"
import { run, start } from "./sinter.ts"

const scratch = mkdtempSync(join(tmpdir(), "sinter-chat-"))
afterAll(() => rmSync(scratch, { recursive: true }))

test("answers each line, and remembers; /exit ends", async () => {
  const { code, out, err } = await run(
    ["chat", "tiny", "--temperature", "0"],
    "Hello!\n\nWho are you?\n/exit\nnever read\n",
  )
  expect({ code, err }).toEqual({ code: 0, err: "" })
  expect(out.trimEnd().split("\n")).toHaveLength(2)
  expect(out).toMatch(/\w{2,}/)
})

test("the same seed says the same; the end of stdin ends it", async () => {
  const ask = () => run(["chat", "tiny", "--seed", "3", "--max-tokens", "12"], "Tell me a story.")
  const [first, second] = [await ask(), await ask()]
  expect(first).toMatchObject({ code: 0, err: "" })
  expect(first.out).toBe(second.out)
})

test("a message too long for the context is refused, the conversation goes on, and the exit code is 2", async () => {
  const long = "word ".repeat(20_000)
  const { code, out, err } = await run(["chat", "tiny", "--temperature", "0"], `${long}\nHello!\n`)
  expect(code).toBe(2)
  expect(err).toMatch(/^The prompt has \d+ tokens; this server reads at most \d+, .+\n$/)
  expect(out).toMatch(/\w{2,}/)
})

test("commands of a chat: settings, files, and what they refuse", async () => {
  const file = join(scratch, "kept.json")
  const other = join(scratch, "other.json")
  writeFileSync(other, '{"messages": [{"role": "user", "content": "Hi", "tool_calls": []}]}')
  const said = [
    "/set temperature 0",
    '"""What is',
    'the capital of France?"""',
    `/save ${file}`,
    "/reset",
    `/load ${file}`,
    `/load ${other}`,
    `/load ${join(scratch, "none.json")}`,
    `/save ${other}`,
    `/save ${join(scratch, "none/kept.json")}`,
    "/set top-p 2",
    "/set port 1",
    "/save",
    "/usr",
    `/save ${file}`,
  ]
  const { code, out, err } = await run(["chat", "tiny", "--system", "Be brief."], said.join("\n"))
  const [, content] = /^(.+)\n$/.exec(out)!
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({
    model: "tiny",
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "What is\nthe capital of France?" },
      { role: "assistant", content },
    ],
  })
  expect(code).toBe(2)
  expect(err.trimEnd().split("\n")).toEqual([
    "temperature is 0",
    "3 messages saved",
    "forgotten",
    "3 messages loaded",
    expect.stringMatching(/^\/load: .+ no conversation: tool_calls is no field of messages\[0\]/),
    expect.stringMatching(
      /^\/load: ".+none.json" cannot be read: there is no such file; check its path\.$/,
    ),
    expect.stringMatching(/^\/save: .+ exists and is no conversation; give it another name\.$/),
    expect.stringMatching(
      /^\/save: ".+" cannot be written: no such file or directory \(ENOENT\)\.$/,
    ),
    '/set top-p: expected a number from 0 to 1, got "2".',
    expect.stringMatching(/^\/set: "port" is none of temperature, .+\.$/),
    "/save: needs FILE behind it.",
    expect.stringMatching(/^\/usr: is no command: /),
    "3 messages saved",
  ])
})

test("images go to models that see, and are refused for others by what is wrong", async () => {
  const file = join(scratch, "cat.png")
  writeFileSync(file, Uint8Array.of(137, 80, 78, 71))
  const words = "This model sees no images; leave them out, or ask one that does.\n"
  const shown = await run(["run", "tiny", "What is this?", "--image", file, "--image", file])
  expect(shown).toMatchObject({ code: 2, out: "\n", err: `sinter: ${words}` })
  const none = await run(["run", "tiny", "x", "--image", join(scratch, "no.png")])
  expect(none).toMatchObject({ code: 2, err: expect.stringMatching(/^sinter: --image: .+no.png/) })
  const said = `/image ${file}\n/image ${file}\n/image none.png\nWhat?\n/reset\nHello!\n`
  const { code, err } = await run(["chat", "tiny", "--temperature", "0"], said)
  expect(code).toBe(2)
  expect(err.split("\n")).toEqual([
    "the next message shows an image",
    "the next message shows 2 images",
    '/image: "none.png" cannot be read: there is no such file; check its path.',
    words.trimEnd(),
    "forgotten",
    "",
  ])
})

test("a GGUF model sees with the mmproj file beside it, or with the one that is named", async () => {
  const golden = goldenFolder("vision", "smolvlm") // which transformers answers from
  const { question, text } = JSON.parse(readFileSync(join(golden, "reply.json"), "utf8"))
  const folder = join(goldenFolder("gguf", "vision"), "smolvlm")
  const alone = join(scratch, "sees.gguf")
  cpSync(join(folder, "model.gguf"), alone)
  const greedy = ["--temperature", "0", "--max-tokens", "16", "--target", "reference"]
  const ask = (...model: string[]) =>
    run(["run", ...model, question, "--image", join(golden, "image.png"), ...greedy])
  const answer = { code: 0, out: `${text}\n`, err: "" }
  expect(await ask(folder)).toMatchObject(answer)
  expect(await ask(alone, "--mmproj", join(folder, "mmproj-model-bf16.gguf"))).toMatchObject(answer)
  const words = "This model sees no images; leave them out, or ask one that does."
  for (const blind of [[alone], [folder, "--mmproj", "none"]])
    expect(await ask(...blind)).toMatchObject({ code: 2, out: "\n", err: `sinter: ${words}\n` })
})

test("without options answers are drawn as the model's folder advises", async () => {
  const folder = join(scratch, "greedy")
  cpSync(resolve(import.meta.dirname, "../models/tiny"), folder, { recursive: true })
  const advice = join(folder, "generation_config.json")
  const advised = { ...JSON.parse(readFileSync(advice, "utf8")), do_sample: false }
  writeFileSync(advice, JSON.stringify(advised))
  const ask = (model: string, ...options: string[]) =>
    run(["run", model, "Tell me a long story.", ...options])
  const greedy = await ask("tiny", "--temperature", "0")
  expect(await ask(folder)).toEqual(greedy)
  expect(greedy).toMatchObject({ code: 0, err: "" })
})

test("run answers the prompt and what is piped in, and needs one of them", async () => {
  const ask = (prompt: string[], piped: string) =>
    run(["run", "tiny", ...prompt, "--temperature", "0"], piped)
  const whole = await ask(["Repeat after me:\n\nred green"], "")
  expect(whole).toMatchObject({ code: 0, err: "", out: expect.stringMatching(/^.*\w{2,}.*\n$/) })
  expect(await ask(["Repeat after me:"], "red green\n")).toEqual(whole)
  expect(await ask([], "Repeat after me:\n\nred green")).toEqual(whole)
  expect(await ask([], "\n")).toMatchObject({
    code: 2,
    err: "sinter: run: there is no PROMPT, here or on stdin.\n",
  })
})

test("Ctrl-C stops an answer, a second one ends", async () => {
  const running = start(["chat", "tiny", "--seed", "1", "--temperature", "2"])
  running.child.stdin.write("Tell me a long story.\n")
  while (!running.out()) await new Promise((wake) => setTimeout(wake, 5))
  process.kill(-running.child.pid!, "SIGINT")
  while (!running.out().endsWith("\n")) await new Promise((wake) => setTimeout(wake, 5))
  process.kill(-running.child.pid!, "SIGINT")
  expect(await running.ended).toMatchObject({ code: 0, err: "" })
})

test("--stats tells on stderr how fast an answer came and which guesses came true; the answer is the same", async () => {
  const said = "Repeat after me: red green blue red green blue red green blue"
  const ask = (...args: string[]) => run(["chat", "tiny", "--temperature", "0", ...args], said)
  const plain = await ask("--stats", "--speculative-mode", "disable")
  expect(plain.err).toMatch(/^\d+ tokens in [\d.]+ s, \d+ a second\n$/)
  for (const mode of [[], ["--speculative-mode", "lookup"]]) {
    const guessed = await ask("--stats", ...mode)
    expect(guessed.out).toBe(plain.out)
    expect(guessed.err).toMatch(
      /^\d+ tokens in [\d.]+ s, \d+ a second; \d+ of \d+ proposed came true\n$/,
    )
  }
})

test("embed writes a row for each line, in order, empty ones as well", async () => {
  const golden = ["test/golden/embeddings/qwen3-embedding", "--target", "reference"]
  const rows = async (lines: string, ...more: string[]): Promise<number[][]> => {
    const { code, out, err } = await run(["embed", ...golden, ...more], lines)
    expect({ code, err }).toEqual({ code: 0, err: "" })
    return out
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line))
  }
  const [first, empty, last] = await rows("Hello!\n\nHello!")
  expect(first).toHaveLength(32)
  expect(last).toEqual(first)
  expect(empty).not.toEqual(first)
  expect((await rows("Hello!", "--dimensions", "3"))[0]).toHaveLength(3)
})

test("a line that cannot be embedded is named behind the rows of those before it", async () => {
  const embed = (lines: string, ...more: string[]) => run(["embed", "tiny", ...more], lines)
  const whole = await embed("one\ntwo\nthree\n")
  const empty = await embed("one\ntwo\n\nthree\n")
  expect(empty).toMatchObject({
    code: 2,
    out: `${whole.out.split("\n").slice(0, 2).join("\n")}\n`,
    err: "sinter: stdin, line 3: texts must hold at least one token.\n",
  })
  const long = await embed(`${"one\n".repeat(65)}${"word ".repeat(5000)}\n`) // in the second of its batches
  expect(long.out.trimEnd().split("\n")).toHaveLength(65)
  expect([long.code, long.err]).toEqual([
    2,
    expect.stringMatching(/^sinter: stdin, line 66: The pr/),
  ])
  const option = await embed("one\n", "--dimensions", "9999")
  expect([option.code, option.err]).toEqual([
    2,
    expect.stringMatching(/^sinter: dimensions must be/),
  ])
})
