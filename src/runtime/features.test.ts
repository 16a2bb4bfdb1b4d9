import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { buildProcessor } from "../compiler/targets/cpu/generic.ts"
import { type Compiler, findCompiler } from "../compiler/targets/cpu/toolchain.ts"
import { featuresOf, lentFeatures, parseFeatures, processorFeatures } from "./features.ts"
import { askProcessor } from "./ffi.ts"

test("features of x86 and ARM, and only those that every core has", () => {
  const x86 = "model name\t: x\nflags\t\t: fpu avx2 fma\n\nflags\t\t: fpu avx2\n"
  expect([...parseFeatures(x86)]).toEqual(["fpu", "avx2"])
  expect(parseFeatures("Features\t: fp asimd asimddp\n").has("asimddp")).toBe(true)
  expect(parseFeatures("").size).toBe(0)
})

const said = (...words: number[]) => featuresOf(Uint32Array.of(...words))

test("features that a processor says of itself count where the system saves their registers", () => {
  const [fma, avx2, avx512f] = [1 << 12, 1 << 5, 1 << 16]
  expect(said(fma, avx2 | avx512f, 0, 0, 0b1110_0110)).toEqual(["fma", "avx2", "avx512f"])
  expect(said(fma, avx2 | avx512f, 0, 0, 0b0110)).toEqual(["fma", "avx2"])
  expect(said(fma, avx2 | avx512f, 0, 0, 0b0010)).toEqual([])
})

const asked = process.platform === "linux" && process.arch === "x64" && (await findCompiler())

test.skipIf(!asked)("what the processor says is what Linux lists", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-processor-"))
  const path = join(folder, "processor")
  writeFileSync(path, await buildProcessor(asked as Compiler))
  const own = featuresOf(askProcessor(path))
  rmSync(folder, { recursive: true })
  const every = featuresOf(new Uint32Array(5).fill(~0))
  const listed = processorFeatures()
  expect(own).toEqual(every.filter((name) => listed.has(name)))
})

const listed = new Set(["avx2", "amx_tile", "amx_int8", "amx_bf16"])

test("a matrix unit counts where the system lends it, and is gone in all its parts where not", () => {
  expect(lentFeatures(listed, () => true)).toEqual(listed)
  expect([...lentFeatures(listed, () => false)]).toEqual(["avx2"])
})

test("the system is asked for a matrix unit only where there is one", () => {
  const asked = () => {
    throw new Error("asked")
  }
  expect([...lentFeatures(new Set(["avx2", "fma"]), asked)]).toEqual(["avx2", "fma"])
  expect(() => lentFeatures(listed, asked)).toThrow("asked")
})

// Linux refuses the tiles to a process one of whose signal stacks has no room for them.
const refused = `
  import koffi from "koffi"
  import { processorFeatures } from "./features.ts"
  const memory = new Uint8Array(8192)
  const stack = BigUint64Array.of(koffi.address(memory), 0n, BigInt(memory.length))
  const failed = koffi.load(null).func("int sigaltstack(void *stack, void *old)")(stack, null)
  if (failed) throw new Error("no signal stack")
  console.log([...processorFeatures()].join(" "))
`
const unit = process.platform === "linux" && processorFeatures().has("amx_tile")

test.skipIf(!unit)(
  `a process that is refused the matrix unit has none${unit ? "" : " (skipped: none here)"}`,
  () => {
    const run = ["--import", "tsx", "--input-type=module", "--eval", refused]
    const child = execFileSync(process.execPath, run, {
      cwd: import.meta.dirname,
      encoding: "utf8",
    })
    const all = parseFeatures(readFileSync("/proc/cpuinfo", "utf8"))
    expect(new Set(child.trim().split(" "))).toEqual(
      new Set([...all].filter((name) => !/^amx_/.test(name))),
    )
  },
)
