// Whether the compiler of ROCm is here, which a driver alone need not bring. What a real one makes of our kernels is in
// test/device/accept.test.ts.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test, vi } from "vitest"
import { isLeftOut } from "../../../../test/left-out.ts"
import { hasCompiler, plantDriver } from "../../../../test/planted-drivers.ts"
import { hiprtcLibraries } from "../../../runtime/gpu/run-time-compiler.ts"
import { lackOfRocmCompiler } from "./rocm-compiler.ts"

const isThere = (await lackOfRocmCompiler()) === undefined
const isSkipped = isLeftOut(hasCompiler && !isThere)
const why = isThere ? "HIPRTC is here" : "no C compiler"

test.skipIf(isSkipped)(
  `a driver without its compiler says which one it lacks${isSkipped ? ` (skipped: ${why})` : ""}`,
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-rocm-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    onTestFinished(() => void vi.unstubAllEnvs())
    vi.stubEnv("LD_LIBRARY_PATH", folder)
    plantDriver(folder, "libamdhip64.so.7", "int hipInit(unsigned flags) { return 0; }")
    expect(await lackOfRocmCompiler()).toEqual({
      problem:
        "AMD's compiler HIPRTC is not here (looked for libhiprtc.so.7, libhiprtc.so.6, libamdhip64.so.7, libamdhip64.so.6, libamdhip64.so.5)",
      cure: "install it, which is a part of ROCm and, on Windows, of AMD's HIP SDK",
    })
    const version =
      "int hiprtcVersion(int *major, int *minor) { return *major = 6, *minor = 4, 0; }"
    plantDriver(folder, "libhiprtc.so.6", version)
    expect(await lackOfRocmCompiler()).toBeUndefined()
  },
)

test("on Windows it is looked for as AMD's HIP SDK calls it", () => {
  expect(hiprtcLibraries(["amdhip64_6.dll"], "win32")).toEqual([
    "hiprtc0700.dll",
    "hiprtc0604.dll",
    "hiprtc.dll",
    "amdhip64_6.dll",
  ])
})
