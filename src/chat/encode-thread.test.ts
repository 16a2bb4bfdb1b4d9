import { readFileSync } from "node:fs"
import { expect, onTestFinished, test } from "vitest"
import { EncodeThread, startEncoder } from "./encode-thread.ts"
import type { Encodable } from "./encoding.ts"

const folder = `${import.meta.dirname}/../../test/golden/tokenizers/qwen`
const json = readFileSync(`${folder}/tokenizer.json`, "utf8")

async function opened(): Promise<EncodeThread> {
  const { thread } = await EncodeThread.open({ json, limit: 1000 })
  onTestFinished(() => thread.close())
  return thread
}

const text = (value: string): Encodable => ({ value, own: new Int32Array(0) })
const long = () => text("a long text ".repeat(20_000))

test("a short text is not behind the long ones that came before it", async () => {
  const thread = await opened()
  const done: string[] = []
  await Promise.all([
    thread.encode(long()).then(() => done.push("long")),
    thread.encode(long()).then(() => done.push("long")),
    thread.encode(text("short")).then(() => done.push("short")),
  ])
  expect(done).toEqual(["short", "long", "long"])
})

test("who leaves is let go at once, and the others get their own tokens", async () => {
  const thread = await opened()
  const alone = await thread.encode(long())
  const leaving = [new AbortController(), new AbortController()]
  const left = leaving.map(({ signal }) => thread.encode(long(), signal))
  const stays = thread.encode(long())
  for (const each of leaving) each.abort()
  for (const each of left) await expect(each).rejects.toThrow(/abort/)
  expect(await stays).toEqual(alone)
  await expect(thread.encode(text("late"), leaving[0]!.signal)).rejects.toThrow(/abort/)
})

test("closed, it answers nobody", async () => {
  const thread = await opened()
  const refused = expect(thread.encode(long())).rejects.toMatchObject({ code: "server_closing" })
  await thread.close()
  await refused
  await expect(thread.encode(text("late"))).rejects.toMatchObject({ code: "server_closing" })
})

test("a thread that dies fails who waits, and the next one knows the file", async () => {
  const started = startEncoder()
  const { thread } = await EncodeThread.open({ json, limit: 1000 }, started)
  onTestFinished(() => thread.close())
  const tokens = await thread.encode(text("short"))
  const lost = expect(thread.encode(long())).rejects.toThrow("null")
  started.worker.postMessage(null) // which it does not survive
  await lost
  expect(await thread.encode(text("short"))).toEqual(tokens)
})

test("what the library cannot read is told in its own words", async () => {
  const model = { type: "Oracle", vocab: { a: 0 } }
  const opening = EncodeThread.open({ json: JSON.stringify({ model }), limit: 1 })
  await expect(opening).rejects.toThrow(/data did not match any variant/)
})
