// Links in a model folder: those of its own and of a hub cache are followed, any other is refused by the file's name.

import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterEach, beforeEach, expect, test } from "vitest"
import { Folder } from "./folder.ts"

let root: string
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "folder-")))
  process.env.HF_HUB_CACHE = join(root, "hub")
})
afterEach(() => rmSync(root, { recursive: true }))

function put(path: string, text = "words"): string {
  const file = join(root, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
  return file
}

function link(path: string, target: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  symlinkSync(target, join(root, path))
}

const model = (path = "model") => new Folder(join(root, path))

test.each([
  ["to a file beside the folder", "../secret"],
  ["through a folder inside", "outside/secret"],
  ["to another link that leads out", "first"],
  ["to a folder whose name begins alike", "../model-of-others/secret"],
  ["to blobs that are no hub's", "../models--a--b/blobs/secret"],
  ["to a hub's files that are no blobs", "../hub/models--a--b/refs/secret"],
])("a link %s is refused", async (_, target) => {
  for (const path of [
    "secret",
    "outside/secret",
    "model-of-others/secret",
    "models--a--b/blobs/secret",
    "hub/models--a--b/refs/secret",
  ])
    put(path)
  link("model/outside", "../outside")
  link("model/first", join(root, "secret"))
  link("model/chat_template.jinja", target)
  const file = join(root, "model/chat_template.jinja")
  for (const read of [
    () => model().text("chat_template.jinja"),
    () => model().has("chat_template.jinja"),
    () => model().open("chat_template.jinja", "config.json"),
    () => model().place("chat_template.jinja"),
  ])
    await expect(read()).rejects.toThrow(`${file}: it is a link that leads out of the model folder`)
})

test("numbers that only Python writes are read, and words in texts are left alone", async () => {
  const text = String.raw`{"a": [0.0, Infinity, -Infinity, NaN], "b": "up to \"Infinity, NaN"}`
  put("model/config.json", text)
  const json = await model().json("config.json")
  const number = (name: string) => ({ __float__: name })
  const numbers = ["Infinity", "-Infinity", "NaN"].map(number)
  expect(json).toEqual({ a: [0, ...numbers], b: 'up to "Infinity, NaN' })
  put("model/config.json", '{"a": Infinit}')
  await expect(model().json("config.json")).rejects.toThrow("it is not valid JSON")
})

test("a link to a file of the folder is followed, and a folder may be a link itself", async () => {
  put("model/template")
  link("model/chat_template.jinja", "template")
  link("alias", "model")
  for (const folder of [model(), model("alias")])
    expect(await folder.text("chat_template.jinja")).toBe("words")
})

test("a snapshot of a hub cache reads its own blobs, wherever the cache lies", async () => {
  put("elsewhere/models--a--b/blobs/1")
  link("elsewhere/models--a--b/snapshots/main/config.json", "../../blobs/1")
  link("elsewhere/models--a--b/snapshots/main/secret", put("elsewhere/models--c--d/blobs/2"))
  link("alias", "elsewhere/models--a--b/snapshots/main")
  for (const folder of [model("elsewhere/models--a--b/snapshots/main"), model("alias")]) {
    expect(await folder.text("config.json")).toBe("words")
    await expect(folder.text("secret")).rejects.toThrow("leads out")
  }
})

test("a folder whose files are links into the user's hub cache, as older downloads made it", async () => {
  link("model/config.json", put("hub/models--a--b/blobs/1"))
  expect(await model().text("config.json")).toBe("words")
})

test("a link to nothing is no file", async () => {
  put("model/config.json")
  link("model/chat_template.jinja", "/nowhere")
  expect(await model().has("chat_template.jinja")).toBe(false)
})

test("a Git LFS pointer is called by its name, whatever file it stands for", async () => {
  const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
  put("model/tokenizer.json", pointer)
  put("model/model.safetensors", pointer)
  const sentence = /: it is a Git LFS pointer and not the file itself; git lfs pull fetches it$/
  await expect(model().json("tokenizer.json")).rejects.toThrow(sentence)
  await expect(model().open("model.safetensors", "index")).rejects.toThrow(sentence)
})
