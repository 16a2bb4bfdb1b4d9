// Which files run first. Without times of an earlier run vitest starts with the largest, but here the shortest texts run for
// longest: a golden model or a kernel is a word of a table. What starts last would run alone, beside idle processors.

import { BaseSequencer, type TestSpecification } from "vitest/node"

/** Those of more than half a minute, the longest first. */
const LONG = [
  "test/model/cpu",
  "test/device/kernels",
  "test/model/gpu",
  "test/compile",
  "test/package",
  "test/model/int8",
  "test/model/schedules",
  "test/model/gguf",
  "test/model/serving",
  "test/device/check",
  "test/device/accept",
  "test/model/reference",
  "test/soak",
  "test/gpu",
  "test/refusals",
  "test/device/races",
  "test/model/packed-copy",
  "test/fingerprint",
  "test/model/sampler",
  "test/model/mutations",
  "test/device/vulkan",
].map((name) => `/${name}.test.ts`)

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const turn = ({ moduleId }: TestSpecification) => {
      const at = LONG.findIndex((name) => moduleId.endsWith(name))
      return at < 0 ? LONG.length : at
    }
    return (await super.sort(files)).toSorted((a, b) => turn(a) - turn(b))
  }
}
