// What is made of distances, beside what transformers makes of them.

import { expect, test } from "vitest"
import { widen } from "../../runtime/dtype.ts"
import { biasesTensor } from "./biases.ts"

// What make_log_bucket_position of transformers 5.24.0 has for a query so far behind its key, plus the span, in the sizes of published models.
const distances = [1, 128, 129, 130, 131, 140, 200, 300, 400, 500, 511, -129, -300]
const expected = [257, 384, 385, 386, 387, 393, 425, 463, 489, 510, 511, 127, 49]

test("DeBERTa's distances share buckets further off, as in transformers", async () => {
  const numbers = { span: 256, most: 512, shared: true }
  const table = biasesTensor({ positions: 512, heads: 1, numbers }, undefined)
  const values = widen((await table.read(0, 1023)).values, "f32")
  expect(distances.map((distance) => values[511 - distance])).toEqual(expected)
})
