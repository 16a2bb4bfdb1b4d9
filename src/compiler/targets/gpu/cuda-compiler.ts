// Makes PTX of CUDA C, or code of one architecture: by NVRTC, which comes with CUDA and as a Python package, else by nvcc, else by
// clang, which needs nothing of CUDA's for PTX and `ptxas` for code. PTX is text of the oldest devices that are served; the driver
// makes code for its own device of it, so a library runs on all of them and wants the driver alone. Code of an architecture
// goes beside it, where a driver has nothing left to compile.

import { execFile } from "node:child_process"
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { Problem, problem } from "../../../errors.ts"
import type { Need, Profile } from "../../../runtime/gpu/tape.ts"
import { withScratch } from "../../../runtime/scratch.ts"
import type { Lack } from "../target.ts"
import { askRunTimeCompiler, findRunTimeCompiler } from "./run-time-compiler.ts"

const execute = promisify(execFile)

/** What is wanted: PTX for this compute capability and all later ones, or code of an architecture, "sm_90a". */
type Aim = 75 | 80 | 90 | string

/** Sums and products stay apart, and nothing is relaxed (print/cuda.ts). */
const nvrtcOptions = (aim: Aim) => [`--gpu-architecture=${ofNvidia(aim)}`, "--fmad=false", "-w"]
const ofNvidia = (aim: Aim) => (typeof aim === "number" ? `compute_${aim}` : aim)

/** Names of NVRTC's library, the likeliest first. A toolkit of CUDA's is looked for where its own tools look for it. */
export function nvrtcLibraries(platform = process.platform): string[] {
  const { NVRTC, CUDA_HOME, CUDA_PATH } = process.env
  if (NVRTC) return [NVRTC]
  const toolkits = [CUDA_HOME, CUDA_PATH].filter((path) => path !== undefined)
  if (platform === "win32") {
    const names = [130, 120, 112].map((version) => `nvrtc64_${version}_0.dll`)
    const folders = toolkits.flatMap((path) => [join(path, "bin/x64"), join(path, "bin")])
    return [...folders.flatMap((folder) => names.map((name) => join(folder, name))), ...names]
  }
  return [
    ...[...toolkits, "/usr/local/cuda"].map((path) => join(path, "lib64/libnvrtc.so")),
    ...["", ".13", ".12", ".11.2"].map((version) => `libnvrtc.so${version}`),
  ]
}

const nvrtc = () => ({ compiler: "nvrtc", names: nvrtcLibraries() }) as const

/** Compilers that are programs, the best first: what makes a file of another, and what else that takes. */
const programs = {
  nvcc: {
    parameters: (aim: Aim) => [
      typeof aim === "number" ? "-ptx" : "-cubin",
      `-arch=${ofNvidia(aim)}`,
      "-fmad=false",
    ],
    assembler: false,
  },
  // Left alone, it writes PTX of the version that first knew the devices, which had no tiles of bytes.
  clang: {
    parameters: (aim: Aim) => [
      ..."-x cuda --cuda-device-only -nocudainc -nogpulib".split(" "),
      ...`--cuda-gpu-arch=sm_${capabilityOf(aim)} -Xclang -target-feature -Xclang +ptx70`.split(
        " ",
      ),
      ..."-O2 -ffp-contract=off -w -S".split(" "),
    ],
    assembler: true,
  },
} as const

const ASSEMBLER = "ptxas"

/** The one that PTX is made for, where an assembler goes on from there. */
function capabilityOf(aim: Aim): 75 | 80 {
  return aim === 75 || aim === "sm_75" ? 75 : 80
}

function looked(): string {
  const { NVRTC } = process.env
  const library = process.platform === "win32" ? "nvrtc64_*.dll" : "libnvrtc.so"
  return NVRTC || [library, ...Object.keys(programs)].join(", ")
}

type Found =
  | { kind: "library"; name: string; version: string }
  | { kind: "program"; name: keyof typeof programs; version: string }

/** @param aim what it is to make; clang makes code with an assembler alone */
async function findCudaCompiler(aim: Aim = 75): Promise<Found | undefined> {
  const library = await findRunTimeCompiler(nvrtc())
  if (library) return { kind: "library", ...library }
  if (process.env.NVRTC) return undefined // as it was named, nothing else will do
  for (const name of Object.keys(programs) as (keyof typeof programs)[]) {
    const version = await versionOf(name)
    const isWhole =
      typeof aim === "number" || !programs[name].assembler || (await versionOf(ASSEMBLER))
    if (version !== undefined && isWhole) return { kind: "program", name, version }
  }
  return undefined
}

/** Undefined where it is not on the path. */
async function versionOf(command: string): Promise<string | undefined> {
  try {
    const { stdout } = await execute(command, ["--version"])
    return /release [\d.]+|version [\d.]+/.exec(stdout)?.[0] ?? stdout.split("\n", 1)[0]!
  } catch {
    return undefined
  }
}

export async function lackOfCudaCompiler(): Promise<Lack | undefined> {
  if (await findCudaCompiler()) return undefined
  return {
    problem: `No compiler for CUDA is here (looked for ${looked()})`,
    cure: "install NVRTC, which is in NVIDIA's CUDA toolkit and in the Python package nvidia-cuda-nvrtc, or clang",
  }
}

/** For people. */
export async function describeCudaCompiler(): Promise<string> {
  const { kind, name, version } = (await findCudaCompiler())!
  return kind === "library"
    ? `kernels in PTX, by NVRTC ${version}`
    : `kernels in PTX, by ${name}, ${version}`
}

/** What devices have that have all of this. */
function capabilityFor(needs: readonly Need[]): 75 | 80 | 90 {
  if (needs.includes("overlap")) return 90
  return needs.includes("matrix") ? 80 : 75
}

/** What NVRTC and nvcc say of devices that came after them. */
const UNKNOWN =
  /invalid value for --gpu-architecture|unsupported gpu architecture|is not defined for option 'gpu-architecture'/i

/**
 * @param profile PTX, where it names no architecture; "matrix" is what devices have from Ampere on
 * @param signal ends the compiler
 * @returns undefined where the compiler is older than the devices of the profile, which PTX for the oldest serves as well
 * @throws `cuda_compiler_missing`; `compiler_failed` in the compiler's own words
 */
export async function compileCuda(
  text: Uint8Array,
  { needs, architecture }: Pick<Profile, "needs" | "architecture">,
  signal?: AbortSignal,
): Promise<Uint8Array | undefined> {
  const aim = architecture ?? capabilityFor(needs)
  try {
    return await compileFor(aim, text, architecture, signal)
  } catch (error) {
    const isNewer = typeof aim === "number" && aim > 75
    if (isNewer && error instanceof Problem && UNKNOWN.test(error.message)) return undefined
    throw error
  }
}

async function compileFor(
  aim: Aim,
  text: Uint8Array,
  architecture: string | undefined,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const file = `the kernels of CUDA${architecture ? ` for ${architecture}` : ""}`
  const compiler = await findCudaCompiler(aim)
  if (!compiler) {
    const tools = architecture && !process.env.NVRTC ? `${looked()} with ${ASSEMBLER}` : looked()
    throw problem("cuda_compiler_missing", { looked: tools })
  }
  if (compiler.kind === "program") return compileByProgram(compiler.name, text, aim, file, signal)
  const form = architecture ? "CUBIN" : "PTX"
  const task = { text, options: nvrtcOptions(aim), form } as const
  const made = (await askRunTimeCompiler({ ...nvrtc(), task }, file, signal))!
  return form === "PTX" && made.at(-1) === 0 ? made.subarray(0, -1) : made
}

async function compileByProgram(
  name: keyof typeof programs,
  text: Uint8Array,
  aim: Aim,
  file: string,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const { parameters, assembler } = programs[name]
  return withScratch("sinter-cuda", async ({ folder }) => {
    const [source, ptx, code] = ["cu", "ptx", "cubin"].map((end) => join(folder, `kernels.${end}`))
    const run = async (command: string, parameters: readonly string[]) => {
      try {
        await execute(command, parameters, { signal, maxBuffer: 16 << 20 })
      } catch (error) {
        if (signal?.aborted) throw signal.reason
        const { stderr, message } = error as Error & { stderr?: string }
        const output = (stderr || message).trim().slice(0, 1 << 16)
        throw problem("compiler_failed", { compiler: command, file, output })
      }
    }
    await writeFile(source!, text)
    await run(name, [...parameters(aim), "-o", ptx!, source!])
    if (typeof aim === "number" || !assembler) return await readFile(ptx!)
    await run(ASSEMBLER, [`-arch=${aim}`, "-o", code!, ptx!])
    return await readFile(code!)
  })
}
