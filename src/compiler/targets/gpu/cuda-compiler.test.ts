// Which compiler of CUDA is asked, and for what. What real ones make of our kernels is in test/device/accept.test.ts.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, expect, test } from "vitest"
import { isLeftOut } from "../../../../test/left-out.ts"
import { smallGraph } from "../../../../test/model/small.ts"
import { hasCompiler, plantDriver } from "../../../../test/planted-drivers.ts"
import { readGpuLibrary } from "../../../runtime/gpu/gpu-library.ts"
import type { Need } from "../../../runtime/gpu/tape.ts"
import { compile } from "../../compile.ts"
import { targets } from "../targets.ts"
import { compileCuda, describeCudaCompiler, nvrtcLibraries } from "./cuda-compiler.ts"
import { prepareGpu } from "./gpu.ts"
import { findRunTimeCompiler } from "./run-time-compiler.ts"

const system = await findRunTimeCompiler({ compiler: "nvrtc", names: ["libnvrtc.so"] })
const { PATH: path } = process.env
let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sinter-cuda-compiler-"))
  process.env.PATH = `${folder}:/bin`
  delete process.env.NVRTC
})
afterEach(() => rmSync(folder, { recursive: true }))

/**
 * A program that writes down how it was called, into the file that is wanted of it, behind what it was handed.
 * @param refuses an option that it ends over, with such words
 */
function plant(name: string, refuses?: { option: string; words: string }): void {
  const refusal = `case "$given" in *${refuses?.option}*) echo "${refuses?.words}" >&2; exit 1;; esac`
  const script = `#!/bin/sh
if [ "$1" = --version ]; then echo "${name}, version 1.2"; exit; fi
given="$*"
${refuses ? refusal : ""}
for each; do if [ "$before" = -o ]; then out=$each; fi; before=$each; done
{ cat "$each"; echo "$given" | sed "s, -o .*,,"; } > "$out"
`
  writeFileSync(join(folder, name), script, { mode: 0o755 })
}

const made = async (needs: readonly Need[], architecture?: string) => {
  const profile = { needs, ...(architecture && { architecture }) }
  const made = await compileCuda(Buffer.from("text\n"), profile)
  return made && Buffer.from(made).toString()
}
const clangs = "-x cuda --cuda-device-only -nocudainc -nogpulib"
const ptx = "-Xclang -target-feature -Xclang +ptx70 -O2 -ffp-contract=off -w -S"

const programs = test.skipIf(system !== undefined)

programs("nvcc before clang, for PTX of two generations or an architecture's code", async () => {
  plant("nvcc")
  plant("clang")
  expect(await describeCudaCompiler()).toBe("kernels in PTX, by nvcc, version 1.2")
  expect(await made([])).toBe("text\n-ptx -arch=compute_75 -fmad=false\n")
  expect(await made(["matrix"])).toBe("text\n-ptx -arch=compute_80 -fmad=false\n")
  expect(await made([], "sm_90a")).toBe("text\n-cubin -arch=sm_90a -fmad=false\n")
})

programs("clang makes PTX, and code where there is an assembler", async () => {
  plant("clang")
  expect(await made(["matrix"])).toBe(`text\n${clangs} --cuda-gpu-arch=sm_80 ${ptx}\n`)
  await expect(made([], "sm_75")).rejects.toThrow(
    "No compiler for CUDA is here (looked for libnvrtc.so, nvcc, clang with ptxas)",
  )
  plant("ptxas")
  expect(await made([], "sm_75")).toBe(
    `text\n${clangs} --cuda-gpu-arch=sm_75 ${ptx}\n-arch=sm_75\n`,
  )
  expect(await made([], "sm_90a")).toBe(
    `text\n${clangs} --cuda-gpu-arch=sm_80 ${ptx}\n-arch=sm_90a\n`,
  )
})

// As CUDA 11.7 says it.
const unknown = (architecture: string) => ({
  option: `-arch=${architecture}`,
  words: `nvcc fatal   : Unsupported gpu architecture '${architecture}'`,
})

programs("a compiler that does not know the newest devices makes PTX of the others", async () => {
  plant("nvcc", unknown("compute_90"))
  expect(await made(["matrix", "overlap"])).toBeUndefined()
  expect(await made(["matrix"])).toContain("-arch=compute_80")
  const traits = {
    format: "q4f16_1",
    kv: "f16",
    ...targets.cuda.traits,
  } as const
  const library = join(folder, "cuda.gpu")
  writeFileSync(library, await (await prepareGpu(compile(smallGraph(), traits), "cuda")).build())
  const { tape } = readGpuLibrary(library)
  expect(tape.profiles.map(({ needs }) => needs)).toEqual([["matrix"], []])
})

programs(
  "one that knows no device, or not the one that was named, fails in its words",
  async () => {
    plant("nvcc", unknown("compute_75"))
    await expect(made([])).rejects.toThrow("Unsupported gpu architecture 'compute_75'")
    plant("nvcc", unknown("sm_90a"))
    await expect(made([], "sm_90a")).rejects.toThrow("Unsupported gpu architecture 'sm_90a'")
    plant("nvcc", {
      option: "-arch=compute_90",
      words: "kernels.cu(1): error: expected a declaration",
    })
    await expect(made(["matrix", "overlap"])).rejects.toThrow("expected a declaration")
  },
)

/** What NVRTC 11.7 answers. */
const nvrtc = `
  static int code;
  static const char *words = "", *ptx = "PTX\\n";
  int nvrtcVersion(int *major, int *minor) { return *major = 11, *minor = 7, 0; }
  int nvrtcCreateProgram(void **out, char *text, char *name, int count, void *texts, void *names) { return 0; }
  int nvrtcCompileProgram(void *program, int count, const char **options) {
    if (!strcmp(options[0], "--gpu-architecture=compute_90"))
      code = 5, words = "nvrtc: error: invalid value for --gpu-architecture (-arch)\\n";
    return code;
  }
  int nvrtcGetProgramLogSize(void *program, size_t *size) { return *size = strlen(words) + 1, 0; }
  int nvrtcGetProgramLog(void *program, char *out) { return strcpy(out, words), 0; }
  int nvrtcGetPTXSize(void *program, size_t *size) { return *size = strlen(ptx) + 1, 0; }
  int nvrtcGetPTX(void *program, char *out) { return strcpy(out, ptx), 0; }
  int nvrtcDestroyProgram(void **program) { return 0; }
`

const without = isLeftOut(hasCompiler)
test.skipIf(without)(
  `so does NVRTC of CUDA 11.7 and before${without ? " (skipped: no C compiler)" : ""}`,
  async () => {
    process.env.PATH = path
    process.env.NVRTC = plantDriver(folder, "libnvrtc.so", nvrtc)
    expect(await made(["matrix", "overlap"])).toBeUndefined()
    expect(await made(["matrix"])).toBe("PTX\n")
  },
)

test("on Windows a toolkit is looked for where CUDA_PATH names it", () => {
  const { CUDA_HOME, CUDA_PATH } = process.env
  delete process.env.CUDA_HOME
  process.env.CUDA_PATH = "/CUDA/v13.0"
  const names = ["nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"]
  const folders = ["/CUDA/v13.0/bin/x64/", "/CUDA/v13.0/bin/", ""]
  const all = folders.flatMap((folder) => names.map((name) => `${folder}${name}`))
  try {
    expect(nvrtcLibraries("win32")).toEqual(all)
  } finally {
    Object.assign(process.env, CUDA_HOME !== undefined && { CUDA_HOME })
    if (CUDA_PATH === undefined) delete process.env.CUDA_PATH
    else process.env.CUDA_PATH = CUDA_PATH
  }
})

test("an NVRTC that is named and not there is not replaced", async () => {
  plant("nvcc")
  process.env.NVRTC = join(folder, "libnvrtc.so")
  await expect(made([])).rejects.toThrow(`(looked for ${folder}/libnvrtc.so); install NVRTC`)
})
