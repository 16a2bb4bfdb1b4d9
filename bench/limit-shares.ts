// How near our engine comes to what its device can do: of its bandwidth in decoding, of its arithmetic in prefill.

import type { MeasuredEngine } from "./contenders/engine.ts"
import type { Limits } from "./machine.ts"

type Measured = Pick<
  MeasuredEngine,
  "weightBytes" | "operations" | "isMixture" | "isCoded" | "launches"
>

/**
 * Shares of limits, by their names.
 * @param row of the results: "decode 4 together, tok/s"
 * @param rate tokens a second
 */
export function sharesOf(
  row: string,
  rate: number,
  { weightBytes, operations, isMixture, isCoded, launches }: Measured,
  limit: Limits,
): Record<string, number> {
  const together = /^decode (\d+) together/.exec(row)?.[1]
  if (together) {
    if (isMixture && together !== "1") return {} // what they read depends on their experts
    const seconds = Number(together) / rate // of a step
    const reading = weightBytes / (limit.read_gbs * 1e9)
    const { launch_us: launch, submission_us: submission } = limit
    return {
      "read bandwidth": reading / seconds,
      ...(launch !== undefined &&
        submission !== undefined && {
          "reading, launches and submission":
            reading / seconds + (launches * launch + submission) / 1e6 / seconds,
        }),
    }
  }
  const of = (rates: number) => (rate * operations) / (rates * 1e9)
  const { f32_gflops: f32 } = limit
  if (f32 === undefined)
    return {
      "vector arithmetic in 8 bits": of(limit.int8_gops),
      ...(limit.matrix_gops > 0 && { "the matrix unit's arithmetic": of(limit.matrix_gops) }),
    }
  if (!isCoded) return { "multiply-adds": of(f32) }
  return {
    "dots of four bytes": of(limit.int8_gops),
    ...(limit.matrix_gops > 0 && { "the matrix units' arithmetic": of(limit.matrix_gops) }),
  }
}
