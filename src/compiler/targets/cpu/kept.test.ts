import { expect, test } from "vitest"
import { groupCodecNames, groupCodecs } from "../../../runtime/format.ts"
import { parameterBytes } from "../../../runtime/manifest.ts"
import { matrixBytes } from "./kept.ts"

// Codes of 3 bits are kept as nibbles.
const codecs = groupCodecNames.filter((codec) => groupCodecs[codec].bits !== 3)

test.each(codecs)(
  "panels of %s take what is said of the parameter, whole blocks or not",
  (codec) => {
    for (const columns of [512, 512 + groupCodecs[codec].group]) {
      const parameter = { name: codec, rows: 64, columns, codec, sources: [] }
      expect(matrixBytes({ rows: 64, columns, pair: 0, codec })).toBe(parameterBytes(parameter))
    }
  },
)

test("Q4_K takes little more than its blocks do, and Q6_K what they do", () => {
  const bytesOf = (codec: "q4_k" | "q6_k") =>
    parameterBytes({ name: codec, rows: 1, columns: 256, codec, sources: [] })
  expect([bytesOf("q4_k"), bytesOf("q6_k")]).toEqual([144 + 4, 210])
})
