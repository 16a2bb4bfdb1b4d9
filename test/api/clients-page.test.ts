// The examples of docs/clients.md, run as they stand against the real server, whole and streamed.

import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { describe, expect, test } from "vitest"
import { isLeftOut } from "../left-out.ts"
import { eventsOf } from "../parrot.ts"
import { chat, server } from "./server.ts"

const running = server()
const root = resolve(import.meta.dirname, "../..")
const page = readFileSync(join(root, "docs/clients.md"), "utf8")
const examples = [...page.matchAll(/```(\w+)\n([\s\S]*?)```/g)]

const python = process.env.PYTHON ?? "python3"
const hasPython = spawnSync(python, ["-c", "import openai, requests"]).status === 0

/** What an example prints, with the address of the running server in it. */
async function run(language: string, code: string): Promise<string> {
  const text = code.replaceAll("http://127.0.0.1:8000", running.url)
  const folder = mkdtempSync(join(root, "test/api/.example-")) // where imports find their packages
  const file = join(folder, language === "ts" ? "example.ts" : "example")
  writeFileSync(file, text)
  const commands: Record<string, string[]> = {
    sh: ["sh", file],
    ts: [process.execPath, "--import", "tsx", file],
    python: [python, file],
  }
  try {
    const [program, ...args] = commands[language]!
    const child = spawn(program!, args, { cwd: root })
    let out = ""
    let err = ""
    child.stdout.setEncoding("utf8").on("data", (piece: string) => {
      out += piece
    })
    child.stderr.setEncoding("utf8").on("data", (piece: string) => {
      err += piece
    })
    const [code] = await once(child, "close")
    expect(err).toBe("")
    expect(code).toBe(0)
    return out
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const said = async () => {
  const messages = [{ role: "user", content: "Hello!" }]
  return (await chat(running, { messages, temperature: 0 })).choices[0].message.content as string
}

test("there is one in each language, and Python twice; a batch; and one's own process", () => {
  expect(examples.map(([, language]) => language)).toEqual([
    ...["sh", "ts", "python", "python"],
    ...["json", "sh"], // a file of requests, which batch.test.ts has answered
    "ts",
  ])
})

test("curl", async () => {
  const out = await run("sh", examples[0]![2]!)
  const end = out.indexOf("data: ")
  expect(JSON.parse(out.slice(0, end)).choices[0].message.content).toBe(await said())
  const pieces = eventsOf(out.slice(end)).map(({ choices }) => choices[0].delta.content)
  expect(pieces.join("")).toBe(await said())
})

test("a model in one's own process", async () => {
  expect(await run("ts", examples.at(-1)![2]!)).toBe(await said())
})

test("openai for Node", async () => {
  const text = await said()
  expect(await run("ts", examples[1]![2]!)).toBe(`${text}\n${text}`)
})

describe.skipIf(isLeftOut(hasPython))(
  "Python with openai and requests (skipped without them)",
  () => {
    test.each([
      ["openai", 2],
      ["requests", 3],
    ])("%s", async (_, index) => {
      const text = await said()
      expect(await run("python", examples[index]![2]!)).toBe(`${text}\n${text}`)
    })
  },
)
