// The libraries that compile a kernel's text in a process: NVIDIA's NVRTC and AMD's HIPRTC, which have the same calls under two
// names. Both are compilers of C++ with millions of lines: a text that one cannot take may end the process that asked (HIPRTC
// 5.2 does, over an architecture that it does not know), so whoever can do without asks in a process of its own.
// Sources: nvrtc.h of CUDA, hiprtc.h of ROCm.

import {
  addressOf,
  type DriverLibrary,
  FunctionMissing,
  LibraryMissing,
  openDriverLibrary,
} from "../ffi.ts"

export interface Compilation {
  /** 0: it was made. */
  code: number
  /** The compiler's own words; warnings where it was made. */
  said: string
  made: Uint8Array
}

export type RunTimeCompiler = "nvrtc" | "hiprtc"

/** What can be had of one, as the name of its function has it. */
export type CompiledForm = "PTX" | "CUBIN" | "Code"

/**
 * @param names of the library, the likeliest first
 * @throws LibraryMissing, FunctionMissing where it is older than the form that is wanted
 */
export function compileAtRunTime(
  compiler: RunTimeCompiler,
  names: readonly string[],
  { text, options, form }: { text: Uint8Array; options: readonly string[]; form: CompiledForm },
): Compilation {
  const { take } = openDriverLibrary(names)
  const program = new BigUint64Array(1)
  const create = take(
    `int32_t ${compiler}CreateProgram(void *out, void *text, const char *name, int32_t headers, void *texts, void *names)`,
  )
  const source = terminated(text)
  const made = new Uint8Array()
  const created = create(program, source, "kernels", 0, null, null)
  if (created !== 0) return { code: created, said: "", made }
  const sized = (what: CompiledForm | "ProgramLog") => {
    const size = new BigUint64Array(1)
    take(`int32_t ${compiler}Get${what}Size(void *program, void *size)`)(program[0], size)
    const bytes = new Uint8Array(Number(size[0]))
    take(`int32_t ${compiler}Get${what}(void *program, void *out)`)(program[0], bytes)
    return bytes
  }
  try {
    const given = options.map(terminated)
    const list = BigUint64Array.from(given, addressOf)
    const compile = take(
      `int32_t ${compiler}CompileProgram(void *program, int32_t count, void *options)`,
    )
    const code = compile(program[0], given.length, list)
    given.length = 0 // what the call points at is held until here
    const said = Buffer.from(sized("ProgramLog")).toString().replace(/\0.*$/s, "").trim()
    return { code, said, made: code === 0 ? sized(form) : made }
  } finally {
    take(`int32_t ${compiler}DestroyProgram(void *program)`)(program)
  }
}

/** "12.9" */
export function versionOf(compiler: RunTimeCompiler, { take }: DriverLibrary): string {
  const [major, minor] = [new Int32Array(1), new Int32Array(1)]
  take(`int32_t ${compiler}Version(void *major, void *minor)`)(major, minor)
  return `${major[0]}.${minor[0]}`
}

const terminated = (bytes: Uint8Array | string) => Buffer.concat([Buffer.from(bytes), Buffer.of(0)])

const hiprtcs: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  linux: [7, 6].map((version) => `libhiprtc.so.${version}`),
  win32: ["hiprtc0700.dll", "hiprtc0604.dll", "hiprtc.dll"],
}

/** HIPRTC is a library of its own from ROCm 6 on, and was a part of the driver before. @param driver names of its library */
export function hiprtcLibraries(
  driver: readonly string[],
  platform = process.platform,
): readonly string[] {
  return [...(hiprtcs[platform] ?? []), ...driver]
}

/** In words that sentences are made of: a driver alone need not bring it. */
export function lackOfHiprtc(driver: readonly string[]) {
  return {
    problem: `AMD's compiler HIPRTC is not here (looked for ${hiprtcLibraries(driver).join(", ")})`,
    cure: "install it, which is a part of ROCm and, on Windows, of AMD's HIP SDK",
  }
}

/** Code of HIP C; where there is no compiler, that is what it says. */
export function compileHip(text: Uint8Array, driver: readonly string[]): Compilation {
  try {
    const wanted = { text, options: HIPRTC_OPTIONS, form: "Code" } as const
    return compileAtRunTime("hiprtc", hiprtcLibraries(driver), wanted)
  } catch (error) {
    if (!(error instanceof LibraryMissing || error instanceof FunctionMissing)) throw error
    const { problem, cure } = lackOfHiprtc(driver)
    return { code: NOT_HERE, said: `${problem}; ${cure}`, made: new Uint8Array() }
  }
}

const NOT_HERE = -1

/** Products and sums stay apart; nothing is relaxed and quotients are rounded once, unless one asks otherwise. */
export const HIPRTC_OPTIONS: readonly string[] = ["-O3", "-ffp-contract=off"]
