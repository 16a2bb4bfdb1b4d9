// The sampler in C against its definition, src/runtime/sampling.ts, bit for bit, for every instruction set and for small and
// large vocabularies: numbers at the ends of floats, equal scores, everything a row can ask for.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { newStepDone } from "../../src/runtime/program.ts"
import { createSampler } from "../../src/runtime/sampling.ts"
import { type Draws, draws, plainly } from "./draws.ts"
import { build, run, ways } from "./ways.ts"

function written({ vocabulary, count, logits, rows }: Draws): Uint8Array {
  const length = (bytes: number) => new Uint8Array(BigInt64Array.of(BigInt(bytes)).buffer)
  const array = (a: ArrayBufferView) => [
    length(a.byteLength),
    new Uint8Array(a.buffer, a.byteOffset, a.byteLength),
  ]
  const fields = [
    rows.temperature,
    rows.topK,
    rows.topP,
    rows.minP,
    rows.presence,
    rows.frequency,
    rows.repetition,
    rows.countStarts,
    rows.countTokens,
    rows.counts,
    rows.biasStarts,
    rows.biasTokens,
    rows.biases,
    rows.masks,
    rows.maskRow,
    rows.seed,
    rows.choice,
    rows.position,
    rows.topLogprobs,
  ]
  return Buffer.concat(
    [length(vocabulary), length(count), array(logits), fields.map(array)].flat(2),
  )
}

/** What the definition makes of it. */
function defined({ vocabulary, count, logits, rows }: Draws): Buffer {
  const logitRows = new Int32Array(count)
  const out = newStepDone({ logitRows, hiddenRows: new Int32Array(0) }, { hidden: 0, vocabulary })
  const sampler = createSampler(vocabulary)
  for (let row = 0; row < count; row++)
    sampler.sample(logits.subarray(row * vocabulary, (row + 1) * vocabulary), row, rows, out)
  const arrays = [out.tokens, out.logprobs, out.topTokens, out.topLogprobs, out.finite]
  return Buffer.concat(arrays.map((a) => new Uint8Array(a.buffer)))
}

const cases = [
  draws(1, 40, 1),
  draws(33, 200, 2),
  draws(70, 1000, 3),
  draws(2560, 300, 4),
  draws(128_256, 24, 5),
  plainly(draws(2560, 800, 6)),
].map((given) => ({
  vocabulary: given.vocabulary,
  input: written(given),
  expected: defined(given),
}))

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sinter-sampler-"))
})
afterAll(() => rmSync(folder, { recursive: true }))

describe.each(ways)("$name", ({ name, isSkipped, note, way }) => {
  test.skipIf(isSkipped)(`draws what the definition draws${note}`, () => {
    const program = join(folder, name)
    build(way(), [join(import.meta.dirname, "sampler.c")], program)
    for (const { vocabulary, input, expected } of cases) {
      const drawn = run(way(), program, input)
      expect(drawn.length).toBe(expected.length)
      const at = drawn.findIndex((byte, i) => byte !== expected[i])
      expect(at, `${vocabulary} tokens: the first byte that differs`).toBe(-1)
    }
  })
})
