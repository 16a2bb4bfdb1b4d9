import { PassThrough, Writable } from "node:stream"
import { setImmediate as tick } from "node:timers/promises"
import { expect, test } from "vitest"
import { openLines } from "./lines.ts"

/** A terminal: keys to type, and what its screen shows, without the cursor's movements. */
function terminal() {
  const keys = new PassThrough()
  let shown = ""
  const screen = new Writable({
    write(bytes: Buffer, _, done) {
      shown += bytes.toString()
      done()
    },
  })
  const lines = openLines(keys, screen, true)
  const type = async (text: string) => {
    keys.write(text)
    await tick() // readline's own parser works within the turn
  }
  const movements = /\x1b\[\??[0-9;]*[A-Za-z]/g
  return {
    lines,
    reader: lines[Symbol.asyncIterator](),
    type,
    print: (text: string) => screen.write(text),
    shown: () => shown.replace(movements, ""),
  }
}

test("what is typed is echoed behind the prompt", async () => {
  const { lines, reader, type, shown } = terminal()
  lines.ask()
  await type("Hello\r")
  expect(await reader.next()).toEqual({ done: false, value: "Hello" })
  expect(shown().replace(/(> H.*)?> /s, "> ")).toContain("Hello\r\n")
})

test("lines pasted while an answer is printed do not mix into it, and follow in order", async () => {
  const { lines, reader, type, print, shown } = terminal()
  lines.ask()
  await type("one\rtwo\r") // at once, as a paste comes
  await reader.next()
  const before = shown()
  expect(before).not.toContain("two")
  print("the ")
  await type("three\rhal")
  print("answer\n")
  expect(shown()).toBe(`${before}the answer\n`)
  lines.ask()
  expect(await reader.next()).toEqual({ done: false, value: "two" })
  print("second\n")
  lines.ask()
  expect(await reader.next()).toEqual({ done: false, value: "three" })
  print("third\n")
  expect(shown()).toBe(`${before}the answer\n> two\nsecond\n> three\nthird\n`)
  lines.ask() // what was typed of the next line appears behind the prompt, and can be finished
  expect(shown().endsWith("> hal")).toBe(true)
  await type("f\r")
  expect(await reader.next()).toEqual({ done: false, value: "half" })
})

test("what is pasted is one line, until a key ends it; it waits like any other", async () => {
  const { lines, reader, type, print, shown } = terminal()
  const paste = (text: string) => `\x1b[200~${text}\x1b[201~`
  lines.ask()
  await type(paste("one\rtwo\r"))
  await type("three\r")
  expect(await reader.next()).toEqual({ done: false, value: "one\ntwo\nthree" })
  const before = shown()
  await type(`${paste("four\rfi")}ve\r${paste("six\rsev")}`)
  print("the answer\n")
  expect(shown()).toBe(`${before}the answer\n`)
  lines.ask()
  expect(await reader.next()).toEqual({ done: false, value: "four\nfive" })
  expect(shown()).toBe(`${before}the answer\n> four\nfive\n`)
  lines.ask()
  expect(shown()).toMatch(/> six\n ?sev$/) // readline makes sure of the line by a space
  await type("en\r")
  expect(await reader.next()).toEqual({ done: false, value: "six\nseven" })
})

test("Ctrl-C is heard while nothing is echoed; the end of the input ends the lines", async () => {
  const { lines, reader, type } = terminal()
  let heard = 0
  lines.onInterrupt(() => heard++)
  await type("Hello\r")
  await type("\x03")
  expect(heard).toBe(1)
  lines.close()
  await reader.next()
  expect(await reader.next()).toEqual({ done: true, value: undefined })
})

test("a pipe has neither prompt nor echo", async () => {
  const input = new PassThrough()
  const screen = new PassThrough()
  const lines = openLines(input, screen, false)
  lines.ask()
  input.end("one\ntwo")
  const read: string[] = []
  for await (const line of lines) read.push(line)
  expect(read).toEqual(["one", "two"])
  expect(screen.read()).toBe(null)
})
