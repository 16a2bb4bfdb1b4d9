// Sets of Unicode code points as sorted, disjoint, non-touching ranges [from, to, from, to, …], both ends included.
// Surrogates are never members: a JSON text in UTF-8 cannot hold them, and an unpaired \ud800 is refused as no character.

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

export function chars(text: string): CharSet {
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

// The engine's own tables are asked, one code point at a time: 30 ms once for each property, and never out of date.
function scanProperty(name: string): CharSet | undefined {
  if (!/^[\w=]+$/.test(name)) return undefined
  let test: RegExp
  try {
    test = new RegExp(`^\\p{${name}}$`, "u")
  } catch {
    return undefined
  }
  const out: number[] = []
  let inside = false
  for (let c = 0; c <= lastCodePoint + 1; c++) {
    const member =
      c <= lastCodePoint && (c < 0xd800 || c > 0xdfff) && test.test(String.fromCodePoint(c))
    if (member !== inside) out.push(member ? c : c - 1)
    inside = member
  }
  return out
}

function pairs(set: CharSet): [number, number][] {
  const out: [number, number][] = []
  for (let i = 0; i < set.length; i += 2) out.push([set[i]!, set[i + 1]!])
  return out
}
