// What environment.ts adds to vitest's equality says "equal" early and never of what is not.

import { expect, test } from "vitest"

const floats = (...of: number[]) => new Float32Array(of)
const nan = new Float32Array(Uint32Array.of(0x7fc00001).buffer)

test.each([
  ["a number", floats(1, 2), floats(1, 3)],
  ["a length", floats(1, 2), floats(1, 2, 0)],
  ["the sign of a zero", floats(0), floats(-0)],
  ["what their bytes are", floats(1), new Uint32Array(floats(1).buffer)],
  ["a number far inside", { rows: [floats(1), floats(2)] }, { rows: [floats(1), floats(3)] }],
])("arrays that differ in %s differ", (_, a, b) => {
  expect(a).not.toEqual(b)
})

test.each([
  ["parts of others", new Float32Array(floats(0, 1, 2).buffer, 4), floats(1, 2)],
  ["no numbers, whatever their bits", nan, floats(Number.NaN)],
])("arrays are equal that are %s", (_, a, b) => {
  expect(a).toEqual(b)
})
