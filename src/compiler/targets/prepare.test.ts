import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { seal } from "../../runtime/library.ts"
import { ABI, type Manifest } from "../../runtime/manifest.ts"
import { requestedTarget } from "./prepare.ts"

test("what contradicts each other is refused with the name of both, and the rest agrees", () => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-requested-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const library = join(folder, "vulkan.gpu")
  const manifest: Manifest = {
    abi: ABI,
    target: "vulkan",
    architecture: "none",
    format: "q0f32",
    plan: "",
    fingerprint: "",
    shapes: {
      vocabulary: 4,
      hidden: 4,
      layers: 0,
      heads: 0,
      kvHeads: 0,
      headDim: 0,
      intermediate: 0,
      context: 4,
    },
    sinks: 0,
    kv: { dtype: "f32", groups: [] },
    bytes: { weights: 0, perToken: 0, perRow: 0, perThread: 0, fixed: 0 },
    features: [],
    parameters: [],
  }
  writeFileSync(library, seal(Buffer.alloc(0), manifest))

  for (const [target, file, device, requested] of [
    ["auto", undefined, "auto", undefined],
    ["auto", undefined, "opencl", undefined],
    ["auto", library, "auto", "vulkan"],
    ["vulkan", library, "vulkan", "vulkan"],
    ["cpu:baseline", undefined, "cpu", "cpu:baseline"],
  ] as const)
    expect(requestedTarget({ target, library: file }, device)).toBe(requested)

  for (const [target, file, device, sentence] of [
    [
      "auto",
      library,
      "opencl",
      `--device: opencl was asked for, but --model-lib ${library} is for vulkan; leave one of the two out.`,
    ],
    [
      "opencl",
      library,
      "auto",
      `--target: opencl was asked for, but --model-lib ${library} is for vulkan; leave one of the two out.`,
    ],
    [
      "opencl",
      undefined,
      "cpu",
      "--device: cpu was asked for, but --target opencl is for opencl; leave one of the two out.",
    ],
  ] as const)
    expect(() => requestedTarget({ target, library: file }, device)).toThrow(sentence)
})
