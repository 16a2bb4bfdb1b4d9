import { createHash } from "node:crypto"
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { Encoder } from "./encoder.ts"
import type { Encodable } from "./encoding.ts"

const folder = `${import.meta.dirname}/../../test/golden/tokenizers/qwen`
const json = readFileSync(`${folder}/tokenizer.json`, "utf8")

async function opened(
  source: Parameters<Encoder["open"]>[0] = { json, limit: 1000 },
): Promise<Encoder> {
  const encoder = new Encoder()
  onTestFinished(() => encoder.close())
  await encoder.open(source)
  return encoder
}

const text = (value: string): Encodable => ({ value, own: new Int32Array(0) })
const long = () => text("a long text ".repeat(20_000))
const caller = { client: "" }

test("a short text is not behind the long ones that came before it", async () => {
  const encoder = await opened()
  const done: string[] = []
  await Promise.all([
    encoder.encode(long(), caller).then(() => done.push("long")),
    encoder.encode(long(), caller).then(() => done.push("long")),
    encoder.encode(text("short"), caller).then(() => done.push("short")),
  ])
  expect(done).toEqual(["short", "long", "long"])
})

test("of long texts those of another client, and shorter ones, are not behind a crowd", async () => {
  const encoder = await opened()
  const done: string[] = []
  const crowd = Array.from({ length: 8 }, (_, i) =>
    encoder.encode(long(), { client: `client ${i}` }).then(() => done.push("crowd")),
  )
  const shorter = text("a long text ".repeat(1_000))
  await encoder.encode(shorter, { client: "other" }).then(() => done.push("other"))
  await Promise.all(crowd)
  expect(done.indexOf("other")).toBeLessThan(2)
})

test("who leaves is let go at once, and the others get their own tokens", async () => {
  const encoder = await opened()
  const alone = await encoder.encode(long(), caller)
  const leaving = [new AbortController(), new AbortController()]
  const left = leaving.map(({ signal }) => encoder.encode(long(), { client: "", signal }))
  const stays = encoder.encode(long(), caller)
  for (const each of leaving) each.abort()
  for (const each of left) await expect(each).rejects.toThrow(/abort/)
  expect(await stays).toEqual(alone)
  const { signal } = leaving[0]!
  await expect(encoder.encode(text("late"), { client: "", signal })).rejects.toThrow(/abort/)
})

test("closed, it answers nobody", async () => {
  const encoder = await opened()
  const refused = expect(encoder.encode(long(), caller)).rejects.toMatchObject({
    code: "server_closing",
  })
  await encoder.close()
  await refused
  await expect(encoder.encode(text("late"), caller)).rejects.toMatchObject({
    code: "server_closing",
  })
})

/** A file whose pattern takes twice as long for each blank more: a few dozen end the library's process. */
function withDeadlyPattern(): string {
  const file = JSON.parse(json)
  file.pre_tokenizer.pretokenizers[0].pattern.Regex = "(\\s|\\s)*x|\\p{L}+|\\s"
  return JSON.stringify(file)
}

test("a text that ends the native code costs its own request alone", async () => {
  const encoder = await opened({ json: withDeadlyPattern(), limit: 1000 })
  const tokens = await encoder.encode(text("short"), caller)
  const dying = encoder.encode(text(" ".repeat(60)), caller)
  const others = [encoder.encode(text("short"), caller), encoder.encode(long(), caller)]
  await expect(dying).rejects.toMatchObject({ code: "worker_failed", reason: "ended" })
  expect(await others[0]).toEqual(tokens)
  expect((await others[1])!.length).toBeGreaterThan(20_000)
  expect(await encoder.encode(text("short"), caller)).toEqual(tokens)
})

// Of ten million blanks a published pattern ends the process.
test.each([
  ["blanks", " "],
  ["letters", "A"],
])("a run of %s that patterns cannot take is refused in a sentence", async (_, character) => {
  const encoder = await opened()
  const run = text(character.repeat(10_000_000))
  await expect(encoder.encode(run, caller)).rejects.toMatchObject({
    code: "invalid_value",
    message: expect.stringMatching(/more than 2097152 characters in a row without a blank/),
  })
})

test("what the library cannot read is told in its own words", async () => {
  const model = { type: "Oracle", vocab: { a: 0 } }
  const opening = opened({ json: JSON.stringify({ model }), limit: 1 })
  await expect(opening).rejects.toThrow(/data did not match any variant/)
})

test("a file that was read ahead is opened as any other, and refused as any other", async () => {
  const path = realpathSync(`${folder}/tokenizer.json`)
  const open = async (ahead: string | undefined, limit = 1000) => {
    const encoder = new Encoder()
    onTestFinished(() => encoder.close())
    if (ahead) encoder.readAhead(ahead)
    const { prefix, vocabulary, hash } = await encoder.open({ json, path, limit })
    return { prefix, vocabulary, hash, tokens: await encoder.encode(text("some text"), caller) }
  }
  const plain = await open(undefined)
  expect(plain.hash).toBe(createHash("sha256").update(readFileSync(path)).digest("hex"))
  for (const ahead of [path, `${folder}/../llama3/tokenizer.json`, `${folder}/none`, "/dev/zero"])
    expect(await open(ahead)).toEqual(plain)
  await expect(open(path, 10)).rejects.toThrow(/but the model has 10 tokens/)
  const far = realpathSync(`${folder}/../../broken/tokenizer-id-outside/tokenizer.json`)
  expect(await open(far)).toEqual(plain) // a token of the id 4,000,000,000
})

test("a token that the model has no row for is none, whoever has read the file before", async () => {
  const scratch = mkdtempSync(join(tmpdir(), "sinter-encoder-"))
  onTestFinished(() => rmSync(scratch, { recursive: true }))
  const path = join(realpathSync(scratch), "tokenizer.json")
  const json = JSON.parse(readFileSync(`${folder}/tokenizer.json`, "utf8"))
  json.added_tokens.push({ ...json.added_tokens[0], id: 1000, content: "some" })
  writeFileSync(path, JSON.stringify(json))
  const plain = await opened()
  for (const ahead of [true, false]) {
    const encoder = new Encoder()
    onTestFinished(() => encoder.close())
    if (ahead) encoder.readAhead(path)
    const { vocabulary } = await encoder.open({ json: JSON.stringify(json), path, limit: 1000 })
    expect(vocabulary.beyond.map(({ id }) => id)).toEqual([1000])
    const own = { value: "some text", own: Int32Array.of(0, 9) }
    expect(await encoder.encode(own, caller)).toEqual(await plain.encode(own, caller))
  }
})

test("a process that replaces another has the same file, whatever has become of it", async () => {
  const scratch = mkdtempSync(join(tmpdir(), "sinter-encoder-"))
  onTestFinished(() => rmSync(scratch, { recursive: true }))
  const path = join(scratch, "tokenizer.json")
  writeFileSync(path, withDeadlyPattern())
  const encoder = await opened({ json: withDeadlyPattern(), path, limit: 1000 })
  const tokens = await encoder.encode(text("short"), caller)
  writeFileSync(path, "{}")
  await expect(encoder.encode(text(" ".repeat(60)), caller)).rejects.toThrow()
  expect(await encoder.encode(text("short"), caller)).toEqual(tokens)
})
