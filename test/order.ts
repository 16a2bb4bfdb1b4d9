// Which files run first. Without times of an earlier run vitest starts with the largest, but here the shortest texts run for
// longest: a golden model or a kernel is a word of a table. What starts last would run alone, beside idle processors.

import { BaseSequencer, type TestSpecification } from "vitest/node"

/** Those of more than half a minute, the longest first. */
const LONG = [
  "test/model/gpu",
  "test/model/stand-ins",
  "test/device/kernels",
  "test/model/schedules",
  "test/model/embeddings",
  "test/model/cpu",
  "test/device/accept",
  "test/package",
  "test/gpu",
  "test/device/cuda-driver",
  "test/model/reference",
  "test/device/metal",
  "gpu/kernels/matmul",
  "test/compile",
  "test/model/heads",
  "test/model/mutations",
  "test/model/gguf",
  "src/engine/schedules",
  "test/soak",
  "test/device/check",
  "test/model/serving",
  "test/model/sampler",
  "test/generic",
  "test/device/cuda",
  "grammar/work",
  "test/limits",
  "grammar/documents",
  "test/proxies",
  "test/model/int8",
  "test/fingerprint",
  "chat/constraint",
  "test/device/vulkan",
  "test/device/emitted",
  "test/device/races",
  "test/model/shards",
  "test/model/packed",
  "test/refusals",
  "gpu/kernels/attend",
  "test/device/opencl",
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
