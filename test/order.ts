// Which files run first. Without times of an earlier run vitest starts with the largest, but here the shortest texts run for
// longest: a golden model or a kernel is a word of a table. What starts last would run alone, beside idle processors.

import { BaseSequencer, type TestSpecification } from "vitest/node"

/** Those of more than half a minute, the longest first. */
const LONG = [
  "test/model/gpu",
  "test/model/shards",
  "test/model/seeing",
  "test/device/accept",
  "test/model/schedules",
  "test/model/cpu",
  "test/package",
  "gpu/kernels/attend",
  "test/gpu",
  "test/device/kernels",
  "test/model/stand-ins",
  "test/device/cuda-driver",
  "test/model/embeddings",
  "test/device/metal",
  "gpu/kernels/matmul",
  "test/model/heads",
  "src/engine/schedules",
  "test/model/matrix-unit",
  "test/model/fitting-vision",
  "test/device/check",
  "test/model/reference",
  "test/model/int8",
  "test/device/cuda",
  "test/model/stand-in-shards",
  "src/engine/speculative",
  "test/generic",
  "test/musl",
  "test/compile",
  "chat/constraint",
  "test/memory",
  "test/model/gguf",
  "test/model/launches",
  "test/model/serving",
  "grammar/documents",
  "test/device/blocks",
  "test/device/layout",
  "test/model/sampler",
  "test/model/mutations",
  "gpu/kernels/sampler",
  "test/proxies",
  "grammar/work",
  "test/device/opencl",
  "worker/worker",
  "test/soak",
  "test/fingerprint",
  "test/model/tiny",
  "chat/constraint-threads",
  "test/model/compile",
  "test/device/vulkan",
  "test/device/races",
  "runtime/devices",
  "test/model/packed",
  "test/api/structured",
  "test/device/low-rank",
  "test/limits",
  "gpu/cuda-compiler",
  "test/device/emitted",
  "test/device/sampler",
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
