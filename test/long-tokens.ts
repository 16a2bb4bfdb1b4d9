// A vocabulary of all bytes, an end and some tokens of several bytes, whose masks are held to what their bytes say one by one.

import { expect } from "vitest"
import { type Grammar, type Matcher, Vocabulary } from "../src/grammar/grammar.ts"

/** The token that ends a reply, behind those of one byte. */
export const END = 256

const single = Array.from({ length: END }, (_, byte) => Uint8Array.of(byte))
const nothing = new Uint8Array()
const bytes = new Vocabulary([...single, nothing], [END])

export function longTokens(written: readonly string[]) {
  const texts = written.map((text) => Buffer.from(text))
  return {
    size: END + 1 + texts.length,
    vocabulary: new Vocabulary([...single, nothing, ...texts], [END]),
    tokenOf: (text: string) => END + 1 + written.indexOf(text),
    textOf: (token: number) => (token < END ? Buffer.of(token) : texts[token - END - 1]!),
    /** Every long token is allowed exactly where its bytes are. */
    expectBytesToAgree: (grammar: Grammar, before: Buffer, allowed: readonly number[]): void => {
      const matcher = grammar.matcher(bytes)
      matcher.acceptBytes(before)
      const taken = texts.flatMap((text, i) => {
        let count = 0
        while (count < text.length && allowedBy(matcher, END + 1).includes(text[count]!))
          matcher.accept(text[count++]!)
        matcher.rollback(count)
        return count === text.length ? [END + 1 + i] : []
      })
      expect(allowed.filter((token) => token > END)).toEqual(taken)
    },
  }
}

export function allowedBy(matcher: Matcher, tokens: number): number[] {
  const mask = new Uint32Array(Math.ceil(tokens / 32))
  matcher.mask(mask)
  return Array.from({ length: tokens }, (_, i) => i).filter(
    (i) => (mask[i >>> 5]! >>> (i & 31)) & 1,
  )
}
