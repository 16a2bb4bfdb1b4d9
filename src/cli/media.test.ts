// Images of the command line: files, and conversations that are saved with them and loaded.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import type { ChatMessage } from "../chat/conversation.ts"
import { MAX_IMAGE } from "../chat/media.ts"
import { commandLine } from "./commands.ts"
import { loadConversation, saveConversation } from "./conversation-file.ts"
import { dataUrl, imageOf, userMessage } from "./media.ts"
import { runOptions } from "./options.ts"
import { readOptions } from "./read-options.ts"

const scratch = mkdtempSync(join(tmpdir(), "sinter-images-"))
afterAll(() => rmSync(scratch, { recursive: true }))

const file = (name: string, bytes: Uint8Array) => {
  const path = join(scratch, name)
  writeFileSync(path, bytes)
  return path
}

test("a file's bytes are taken as they are, and images come ahead of what is said", () => {
  const path = file("cat.png", Uint8Array.of(1, 2, 3))
  const image = imageOf(path, "--image")
  expect(image).toEqual({ image: Buffer.from([1, 2, 3]), field: path })
  const shown = { role: "user", content: "What?", parts: [image, { text: "What?" }] }
  expect(userMessage("What?", [image])).toEqual(shown)
  expect(userMessage("", [image])).toEqual({ role: "user", content: "", parts: [image] })
  expect(userMessage("What?", [])).toEqual({ role: "user", content: "What?" })
})

test.each([
  [
    "nothing.png",
    /^--image: ".+nothing.png" cannot be read: there is no such file; check its path\.$/,
  ],
  ["", /^--image: ".+" cannot be read: it is a folder; name a file\.$/],
])("%j is refused in a sentence", (name, words) => {
  expect(() => imageOf(join(scratch, name), "--image")).toThrow(words)
})

test("a file that is too large is not read", () => {
  const path = file("large.png", Buffer.alloc(MAX_IMAGE + 1))
  expect(() => imageOf(path, "--image")).toThrow(`${path} has ${MAX_IMAGE + 1} bytes`)
})

// RFC 2083, ITU T.81, GIF89a and the container of WebP: what their files begin with.
test.each([
  ["image/png", [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ["image/jpeg", [0xff, 0xd8, 0xff, 0xe0]],
  ["image/gif", [...Buffer.from("GIF89a")]],
  ["image/webp", [...Buffer.from("RIFF"), 0x0a, 0xff, 0, 0, ...Buffer.from("WEBPVP8 ")]],
  ["", [1, 2, 3]],
])("a data: URL of %j says so", (type, bytes) => {
  const image = Uint8Array.from(bytes)
  expect(dataUrl(image)).toBe(`data:${type};base64,${Buffer.from(bytes).toString("base64")}`)
})

test("a conversation with images is saved as a request, and loaded as it was", () => {
  const image = Uint8Array.of(0x89, 0x50, 0x4e, 0x47)
  const messages: ChatMessage[] = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "What?", parts: [{ image, field: "cat.png" }, { text: "What?" }] },
    { role: "assistant", content: "A cat." },
  ]
  const path = join(scratch, "kept.json")
  saveConversation(path, "seeing", messages)
  const url = "data:image/png;base64,iVBORw=="
  const content = [
    { type: "image_url", image_url: { url } },
    { type: "text", text: "What?" },
  ]
  const saved = [messages[0], { role: "user", content }, messages[2]]
  expect(JSON.parse(readFileSync(path, "utf8"))).toEqual({ model: "seeing", messages: saved })
  const field = "messages[1].content[0].image_url.url"
  const parts = [{ image: Buffer.from(image), field }, { text: "What?" }]
  expect(loadConversation(path)).toEqual([messages[0], { ...messages[1], parts }, messages[2]])
})

test.each([
  [{ messages: [{ role: "user", content: [null] }] }, /messages\[0\]\.content\[0\] must be/],
  [{ messages: "x" }, /messages must be a list/],
  [[], /messages must be a list/],
  [
    { messages: [{ role: "system", content: [{ type: "image_url", image_url: "data:," }] }] },
    /belongs to messages of the user/,
  ],
])("%j is no conversation", (body, words) => {
  const path = join(scratch, "wrong.json")
  writeFileSync(path, JSON.stringify(body))
  expect(() => loadConversation(path)).toThrow(words)
})

test("--image may be given several times, and by the environment once", () => {
  const run = commandLine().commands.find((command) => command.name() === "run")!
  run.parseOptions(["--image", "a.png", "--image=b.png"])
  const { image } = run.opts()
  expect(image).toEqual(["a.png", "b.png"])
  const read = (given: Record<string, string[]>, environment = {}) =>
    readOptions(runOptions, given, environment)["--image"]
  expect(read({ "--image": image })).toEqual(image)
  expect(read({}, { SINTER_IMAGE: "c.png" })).toEqual(["c.png"])
  expect(read({})).toEqual([])
  expect(() => read({ "--image": [""] })).toThrow("--image: expected a text, got nothing.")
})
