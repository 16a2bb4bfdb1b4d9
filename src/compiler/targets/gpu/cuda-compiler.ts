// Makes PTX of CUDA C: by nvcc, or by clang, which needs nothing of CUDA's. PTX is text of the oldest devices that are served;
// the driver makes code for its own device of it, so a library runs on all of them and wants the driver alone.

import { execFile } from "node:child_process"
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { problem } from "../../../errors.ts"
import type { Need } from "../../../runtime/gpu/tape.ts"
import { withScratch } from "../../../runtime/scratch.ts"
import type { Lack } from "../target.ts"

const execute = promisify(execFile)

interface CudaCompiler {
  command: string
  version: string
  flags: (architecture: 75 | 80) => string[]
}

/** The best first. Sums and products stay apart, and nothing is relaxed (print/cuda.ts). */
const known = {
  nvcc: (architecture) => ["-ptx", `-arch=compute_${architecture}`, "-fmad=false"],
  // Left alone, it writes PTX of the version that first knew the devices, which had no tiles of bytes.
  clang: (architecture) => [
    ..."-x cuda --cuda-device-only -nocudainc -nogpulib".split(" "),
    ...`--cuda-gpu-arch=sm_${architecture} -Xclang -target-feature -Xclang +ptx70`.split(" "),
    ..."-O2 -ffp-contract=off -w -S".split(" "),
  ],
} satisfies Record<string, (architecture: 75 | 80) => string[]>

async function findCudaCompiler(): Promise<CudaCompiler | undefined> {
  for (const [command, flags] of Object.entries(known)) {
    try {
      const { stdout } = await execute(command, ["--version"])
      const version = /release [\d.]+|version [\d.]+/.exec(stdout)?.[0] ?? stdout.split("\n", 1)[0]!
      return { command, version, flags }
    } catch {
      // the next one may be here
    }
  }
  return undefined
}

export async function lackOfCudaCompiler(): Promise<Lack | undefined> {
  if (await findCudaCompiler()) return undefined
  return {
    problem: `No compiler for CUDA is here (looked for ${Object.keys(known).join(", ")})`,
    cure: "install clang, or NVIDIA's CUDA toolkit",
  }
}

/** For people. */
export async function describeCudaCompiler(): Promise<string> {
  const { command, version } = (await findCudaCompiler())!
  return `kernels in PTX, by ${command}, ${version}`
}

/**
 * @param needs "matrix" is what devices have from Ampere on
 * @param signal ends the compiler
 * @throws `cuda_compiler_missing`; `compiler_failed` in the compiler's own words
 */
export async function compileCuda(
  text: Uint8Array,
  needs: readonly Need[],
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const compiler = await findCudaCompiler()
  if (!compiler) throw problem("cuda_compiler_missing", { looked: Object.keys(known).join(", ") })
  return withScratch("sinter-cuda", async ({ folder }) => {
    const [source, ptx] = [join(folder, "kernels.cu"), join(folder, "kernels.ptx")]
    await writeFile(source, text)
    const parameters = [...compiler.flags(needs.includes("matrix") ? 80 : 75), "-o", ptx, source]
    try {
      await execute(compiler.command, parameters, { signal, maxBuffer: 16 << 20 })
    } catch (error) {
      if (signal?.aborted) throw signal.reason
      const { stderr, message } = error as Error & { stderr?: string }
      const output = (stderr || message).trim().slice(0, 1 << 16)
      throw problem("compiler_failed", {
        compiler: compiler.command,
        file: "the kernels of CUDA",
        output,
      })
    }
    return await readFile(ptx)
  })
}
