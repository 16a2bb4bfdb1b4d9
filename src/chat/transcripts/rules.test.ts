// What may come next in a transcript, by the rules of transformers (generation/logits_process.py) where golden texts do not lead.

import { expect, test } from "vitest"
import type { Constraint } from "../../engine/generation.ts"
import { languageCode, languages } from "../../languages.ts"
import { oneOf, type SpeechTokens, TimedWords, Words } from "./rules.ts"

const tokens: SpeechTokens = {
  vocabulary: 70,
  end: 40,
  noTimes: 49,
  firstTime: 50,
  suppressed: [3, 45],
  suppressedFirst: [7, 40],
  mostInitial: 5,
}

const all = Array.from({ length: 128 }, (_, token) => token)

function allowed(constraint: Constraint): number[] {
  const mask = new Uint32Array(4).fill(0xffff_ffff) // whatever it held
  constraint.mask(mask)
  return all.filter((token) => (mask[token >>> 5]! >>> (token & 31)) & 1)
}

const from = (first: number, end: number, ...without: number[]) =>
  all.slice(first, end).filter((token) => !without.includes(token))

test("without times there are none; what may not come first may come later", () => {
  const words = new Words(tokens)
  expect(allowed(words)).toEqual(from(0, 50, 3, 45, 7, 40))
  words.accept()
  expect(allowed(words)).toEqual(from(0, 50, 3, 45))
})

test("times come first, in pairs or once before the end, and never go back", () => {
  const timed = new TimedWords(tokens)
  expect(allowed(timed)).toEqual(from(50, 56))
  timed.accept(52)
  expect(allowed(timed)).toEqual(from(0, 49, 3, 45)) // words behind the first
  timed.accept(10)
  expect(allowed(timed)).toEqual([...from(0, 49, 3, 45), ...from(53, 70)])
  timed.accept(60)
  expect(allowed(timed)).toEqual([...from(40, 49, 45), ...from(60, 70)]) // the next one's beginning, or the end
  timed.accept(60)
  expect(allowed(timed)).toEqual(from(0, 49, 3, 45))
  timed.accept(11)
  expect(allowed(timed)).toEqual([...from(0, 49, 3, 45), ...from(61, 70)])
})

test("where all times together are likelier than any word, one comes", () => {
  const timed = new TimedWords(tokens)
  for (const token of [50, 10]) timed.accept(token)
  const logits = new Float32Array(70).fill(-20)
  const mask = new Uint32Array(3)
  const narrowed = (word: number) => {
    timed.mask(mask)
    logits[12] = word
    logits.fill(0, 51, 61) // ten times of e^0
    logits[3] = 100 // which is suppressed
    return timed.narrow(mask, logits)
  }
  expect(narrowed(Math.log(10) + 0.01)).toBe(false)
  expect(narrowed(Math.log(10) - 0.01)).toBe(true)
  expect(all.filter((token) => (mask[token >>> 5]! >>> (token & 31)) & 1)).toEqual(from(51, 70))
})

test("one of some tokens is that, always", () => {
  const constraint = oneOf([2, 69], 128)
  expect(allowed(constraint)).toEqual([2, 69])
  expect([...constraint.always!]).toEqual([4, 0, 32, 0])
})

test("languages go by codes, whatever their region, and by names", () => {
  expect(languages.size).toBe(100)
  for (const [asked, code] of [
    ["en", "en"],
    ["German", "de"],
    ["pt-BR", "pt"],
    ["zh_Hant", "zh"],
    ["haitian creole", "ht"],
    ["Mandarin", "zh"],
    ["jv", "jw"],
  ] as const)
    expect(languageCode(asked)).toBe(code)
})
