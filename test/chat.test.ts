// `sinter chat` and `sinter embed`, piped: one line in, one answer out.

import { expect, test } from "vitest"
import { run, start } from "./sinter.ts"

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
  const [plain, guessed] = [await ask(), await ask("--stats", "--speculative-mode", "lookup")]
  expect(guessed.out).toBe(plain.out)
  expect(guessed.err).toMatch(
    /^\d+ tokens in [\d.]+ s, \d+ a second; \d+ of \d+ proposed came true\n$/,
  )
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
