// Which compiler of CUDA is asked, and for what. What real ones make of our kernels is in test/device/accept.test.ts.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, expect, test } from "vitest"
import { compileCuda, describeCudaCompiler } from "./cuda-compiler.ts"
import { findRunTimeCompiler } from "./run-time-compiler.ts"

const system = await findRunTimeCompiler({ compiler: "nvrtc", names: ["libnvrtc.so"] })
let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sinter-cuda-compiler-"))
  process.env.PATH = `${folder}:/bin`
  delete process.env.NVRTC
})
afterEach(() => rmSync(folder, { recursive: true }))

/** A program that writes down how it was called, into the file that is wanted of it, behind what it was handed. */
function plant(name: string): void {
  const script = `#!/bin/sh
if [ "$1" = --version ]; then echo "${name}, version 1.2"; exit; fi
given="$*"
for each; do if [ "$before" = -o ]; then out=$each; fi; before=$each; done
{ cat "$each"; echo "$given" | sed "s, -o .*,,"; } > "$out"
`
  writeFileSync(join(folder, name), script, { mode: 0o755 })
}

const made = async (needs: readonly "matrix"[], architecture?: string) => {
  const profile = { needs, ...(architecture && { architecture }) }
  return Buffer.from(await compileCuda(Buffer.from("text\n"), profile)).toString()
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

test("an NVRTC that is named and not there is not replaced", async () => {
  plant("nvcc")
  process.env.NVRTC = join(folder, "libnvrtc.so")
  await expect(made([])).rejects.toThrow(`(looked for ${folder}/libnvrtc.so); install NVRTC`)
})
