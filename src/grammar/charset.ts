// Sets of Unicode code points as sorted, disjoint, non-touching ranges [from, to, from, to, …], both ends included.
// Surrogates are never members: a JSON text in UTF-8 cannot hold them, and an unpaired \ud800 is refused as no character.

import { spend } from "./work.ts"

export type CharSet = readonly number[]

export const lastCodePoint = 0x10ffff
/** Every character a string can hold. */
export const anyChar: CharSet = [0, 0xd7ff, 0xe000, lastCodePoint]

export function charSet(...ranges: [number, number][]): CharSet {
  ranges.sort((a, b) => a[0] - b[0])
  const merged: number[] = []
  for (const [from, to] of ranges) {
    const end = merged.at(-1)
    if (end !== undefined && from <= end + 1) merged[merged.length - 1] = Math.max(end, to)
    else merged.push(from, to)
  }
  return intersect(merged, anyChar)
}

export function union(a: CharSet, b: CharSet): CharSet {
  return charSet(...pairs(a), ...pairs(b))
}

export function intersect(a: CharSet, b: CharSet): CharSet {
  const out: number[] = []
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const from = Math.max(a[i]!, b[j]!)
    const to = Math.min(a[i + 1]!, b[j + 1]!)
    if (from <= to) out.push(from, to)
    if (a[i + 1]! < b[j + 1]!) i += 2
    else j += 2
  }
  return out
}

export function complement(set: CharSet): CharSet {
  const out: number[] = []
  let next = 0
  for (let i = 0; i < set.length; i += 2) {
    if (next < set[i]!) out.push(next, set[i]! - 1)
    next = set[i + 1]! + 1
  }
  if (next <= lastCodePoint) out.push(next, lastCodePoint)
  return intersect(out, anyChar)
}

function chars(text: string): CharSet {
  return charSet(
    ...Array.from(text, (c): [number, number] => [c.codePointAt(0)!, c.codePointAt(0)!]),
  )
}

export const digits: CharSet = [0x30, 0x39]
export const wordChars: CharSet = charSet([0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a])
/** ECMA-262 WhiteSpace and LineTerminator. */
export const spaces: CharSet = charSet(
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
)
/** What `.` does not match. */
export const lineEnds: CharSet = chars("\n\r\u2028\u2029")

const properties = new Map<string, CharSet | undefined>()

/** The characters of a Unicode property as ECMA-262 names it (`L`, `Script=Greek`); undefined when there is none such. */
export function property(name: string): CharSet | undefined {
  if (!properties.has(name)) properties.set(name, scanProperty(name))
  return properties.get(name)
}

// The engine's own tables are asked, about all characters at once, and are never out of date. Characters that do not have the
// property are read in runs, too: looking for the next one that has it would try them one by one.
function scanProperty(name: string): CharSet | undefined {
  if (!/^[\w=]+$/.test(name)) return undefined
  let runs: RegExp
  try {
    runs = new RegExp(`(\\p{${name}}+)|\\P{${name}}+`, "gu")
  } catch {
    return undefined
  }
  const out: [number, number][] = []
  for (let i = 0; i < anyChar.length; i += 2) {
    for (let from = anyChar[i]!; from <= anyChar[i + 1]!; from += 4096) {
      const width = from > 0xffff ? 2 : 1 // code units of each of these characters
      const text = textFrom(from, Math.min(from + 4095, anyChar[i + 1]!), width)
      for (const { 1: run, index } of text.matchAll(runs)) {
        if (run === undefined) continue
        const first = from + index / width
        out.push([first, first + run.length / width - 1])
      }
    }
  }
  return charSet(...out)
}

/** With all characters that ECMA-262 takes for these under its flags i and u: those that fold to the same one. */
export function inBothCases(set: CharSet): CharSet {
  if (set.length === 0) return set
  if (set.length > 2 || set[0] !== set[1]) return union(set, foldingTo(set))
  const [codePoint = 0] = set
  const known = bothCases.get(codePoint) ?? union(set, foldingTo(set))
  if (known.length > 2) bothCases.set(codePoint, known)
  return known
}

// Of single characters that have other cases: some 2,900 at most.
const bothCases = new Map<number, CharSet>()
let cased: string | undefined

function foldingTo(set: CharSet): CharSet {
  cased ??= pairs(property("Changes_When_Casemapped")!)
    .map(([from, to]) => stringOf(from, to))
    .join("")
  spend(UNITS_TO_FOLD)
  const ranges = pairs(set).map(([from, to]) => `\\u{${from.toString(16)}}-\\u{${to.toString(16)}}`)
  return chars((cased.match(new RegExp(`[${ranges.join("")}]`, "giu")) ?? []).join(""))
}

const UNITS_TO_FOLD = 100

function stringOf(from: number, to: number): string {
  return String.fromCodePoint(...Array.from({ length: to - from + 1 }, (_, i) => from + i))
}

function textFrom(from: number, to: number, width: 1 | 2): string {
  const units = new Uint16Array(width * (to - from + 1))
  let at = 0
  for (let c = from; c <= to; c++) {
    if (width === 1) units[at++] = c
    else {
      units[at++] = 0xd7c0 + (c >> 10)
      units[at++] = 0xdc00 | (c & 0x3ff)
    }
  }
  return Buffer.from(units.buffer).toString("utf16le") // as the processors we run on keep them
}

function pairs(set: CharSet): [number, number][] {
  const out: [number, number][] = []
  for (let i = 0; i < set.length; i += 2) out.push([set[i]!, set[i + 1]!])
  return out
}
