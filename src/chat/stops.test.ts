// Stop strings against String.prototype.indexOf, which knows nothing of automata.

import { expect, test } from "vitest"
import { uniform } from "../../test/random.ts"
import { Stops, StopTable } from "./stops.ts"

/** What is sent when the text comes in these pieces, and whether a stop string ended it. */
function read(pieces: readonly string[], stop: readonly string[]) {
  const stops = new Stops(new StopTable(stop))
  let sent = ""
  for (const piece of pieces) {
    const { text, stopped } = stops.push(piece)
    sent += text
    if (stopped) return { sent, stopped }
  }
  return { sent: sent + stops.flush(), stopped: false }
}

/** The text before the stop string that completes first; of two that complete together, before the longer one. */
function expected(text: string, stop: readonly string[]) {
  const found = stop
    .map((each) => ({ from: text.indexOf(each), end: text.indexOf(each) + each.length }))
    .filter(({ from }) => from >= 0)
    .sort((a, b) => a.end - b.end || a.from - b.from)
  const [first] = found
  return { sent: text.slice(0, first?.from ?? text.length), stopped: first !== undefined }
}

test.each([
  ["aaaab", ["aaab"], "a"],
  ["aabaaabaaac", ["aabaaac"], "aaba"],
  ["abababc", ["ababc"], "ab"],
  ["xabcdy", ["abcd", "bc"], "xa"],
  ["xabcdy", ["cd", "abcd"], "x"],
])("%j with %j", (text, stop, sent) => {
  expect(read([text], stop)).toEqual({ sent, stopped: true })
  expect(read(text.split(""), stop)).toEqual({ sent, stopped: true })
})

test("whatever the text, the stop strings and the pieces", () => {
  const random = uniform(5)
  const below = (limit: number) => Math.floor(random() * limit)
  const letters = (most: number) =>
    Array.from({ length: 1 + below(most) }, () => "ab"[below(2)]).join("")
  let stopped = 0
  for (let round = 0; round < 4000; round++) {
    const text = letters(40)
    const stop = Array.from({ length: 1 + below(3) }, () => letters(8))
    const pieces: string[] = []
    for (let at = 0; at < text.length; at += pieces.at(-1)!.length) {
      pieces.push(text.slice(at, at + 1 + below(5)))
    }
    const truth = expected(text, stop)
    if (truth.stopped) stopped++
    expect(read(pieces, stop), `${text} ${stop.join()}`).toEqual(truth)
  }
  expect(stopped).toBeGreaterThan(500)
  expect(stopped).toBeLessThan(3900)
})
