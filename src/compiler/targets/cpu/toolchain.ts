// The machine's own C compiler: found, asked for its version, and driven. Sources are written to a folder of their own,
// compiled side by side and linked into one shared object, whose bytes are the result; nothing stays behind, no compiler either,
// however this process ends. Zig is a clang that builds for every system; it is always told for which processor, or it takes all
// that this machine's has.

import { execFile, spawn } from "node:child_process"
import { readFile, writeFile } from "node:fs/promises"
import { availableParallelism, constants } from "node:os"
import { basename, join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { codeRoot } from "../../../code-root.ts"
import { problem, systemProblem } from "../../../errors.ts"
import { type Scratch, withScratch } from "../../../runtime/scratch.ts"
import { type System, thisSystem } from "../../../runtime/system.ts"
import { standBack } from "../../../worker/hosts.ts"
import type { Building, Source } from "../target.ts"
import type { Level } from "./levels.ts"
import { DRIVER, type Objects } from "./objects.ts"

const execute = promisify(execFile)

export interface Compiler {
  command: string
  /** Parameters that stand before all others. */
  leading: readonly string[]
  /** The system that it builds for. */
  platform: NodeJS.Platform
  /** First line of what --version says: part of the shelf's key. */
  version: string
  family: "gcc" | "clang" | "zig"
}

/** Folders of our headers. */
export const kernels = fileURLToPath(new URL("compiler/targets/cpu/kernels/", codeRoot))
export const runtime = fileURLToPath(new URL("runtime/", codeRoot))

/** What is compiled into every library as it is. */
export const shippedSources: readonly Source[] = ["pool.c", "blocks.c", "low_rank.c"].map(
  (name) => ({
    name,
    path: join(runtime, name),
  }),
)

const looked = ["cc", "clang", "gcc", "zig"]

/** The compiler named by CC, which may have parameters behind it, else the first on PATH; undefined when there is none. */
export async function findCompiler(): Promise<Compiler | undefined> {
  const { CC } = process.env
  if (CC) {
    const [command = CC, ...leading] = CC.trim().split(/\s+/)
    return (await identify(CC)) ?? (await identify(command, ...leading))
  }
  for (const command of looked) {
    const compiler = await identify(command)
    if (compiler) return compiler
  }
  return undefined
}

/** The oldest systems that a library for them runs on. */
const zigSystems: Partial<Record<NodeJS.Platform, string>> = {
  linux: "linux-gnu.2.28",
  darwin: "macos.11.0",
  win32: "windows-gnu",
}
const ZIG_MUSL = "linux-musl"
const zigProcessors: Partial<Record<NodeJS.Architecture, string>> = {
  x64: "x86_64",
  arm64: "aarch64",
}

/** Zig, as a compiler for a system. Undefined where it is not, or does not know it. */
export function findZig(
  { platform, arch, libc }: System = thisSystem(),
  command: string = "zig",
): Promise<Compiler | undefined> {
  const processor = zigProcessors[arch]
  const system = libc === "musl" ? ZIG_MUSL : zigSystems[platform]
  if (!processor || !system) return Promise.resolve(undefined)
  return ask(command, ["cc", "-target", `${processor}-${system}`], platform)
}

/**
 * What a compiler says it is: `cc` may be either of the families. Undefined where there is no such command.
 * @throws `system_refused` when it is there and no process is to be had
 */
export function identify(
  command: string,
  ...leading: readonly string[]
): Promise<Compiler | undefined> {
  if (isZig(command) && !leading.includes("-target")) return findZig(thisSystem(), command)
  return ask(command, leading, process.platform)
}

const isZig = (command: string) => basename(command, ".exe") === "zig"

async function ask(
  command: string,
  leading: readonly string[],
  platform: NodeJS.Platform,
): Promise<Compiler | undefined> {
  try {
    const { stdout } = await execute(command, [...leading, "--version"])
    const version = stdout.split("\n", 1)[0]!
    const family = isZig(command) ? "zig" : /clang/i.test(version) ? "clang" : "gcc"
    return { command, leading, platform, version, family }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === "EAGAIN" || code === "ENOMEM") throw systemProblem(error) ?? error
    return undefined
  }
}

/** @throws `compiler_missing`; `compiler_unusable` where CC names none */
export async function requireCompiler(): Promise<Compiler> {
  const compiler = await findCompiler()
  if (compiler) return compiler
  const { CC } = process.env
  if (CC) throw problem("compiler_unusable", { command: JSON.stringify(CC) })
  throw problem("compiler_missing", { looked: looked.join(", ") })
}

/**
 * Always with contraction off and without fast-math: a fused multiply-add stands where it is written and sums keep their
 * order, or bits would depend on the compiler.
 */
const common = [
  "-std=gnu11",
  "-O2", // -O3 takes three times as long and is no faster: the kernels are written out
  "-ftree-vectorize",
  "-fvisibility=hidden",
  "-ffp-contract=off",
  "-fno-math-errno",
  "-Wall",
  "-Wextra",
  "-Wno-unused-function",
  "-Wno-unused-parameter",
]

/**
 * Clang vectorizes so by itself, and does not know the word. On ARM gcc moves instructions apart before it hands out registers,
 * of which it then has too few; on x86 it does not.
 */
const own = {
  gcc: ["-fvect-cost-model=dynamic", "-fno-schedule-insns"],
  clang: [],
  zig: [],
} as const

/**
 * A driver is compiled for every model anew, and what it does is a hundredth of a step. Rows take 0.8 to 1.1 of the time so, and
 * gcc 0.75; clang would vectorize nothing.
 */
const ofDriver = { gcc: ["-O1"], clang: [], zig: [] } as const

type Builder = Pick<Compiler, "family" | "platform">

export function flagsOf(level: Level, { family, platform }: Builder): string[] {
  return [
    ...common,
    ...own[family],
    ...(platform === "win32" ? [] : ["-fPIC"]), // there all code is, and clang refuses the word
    ...((family === "zig" && level.zigFlags) || level.flags),
    `-I${join(kernels, level.folder)}`,
    `-I${kernels}`,
    `-I${runtime}`,
  ]
}

/** Whether this compiler knows the level's instructions. */
export function supports(compiler: Compiler, level: Level): Promise<boolean> {
  return withScratch("sinter-probe", async (scratch) => {
    const file = join(scratch.folder, "probe.c")
    await writeFile(file, '#include "product.h"\n')
    const flags = flagsOf(level, compiler)
    const { code } = await run(compiler, [...flags, "-c", file, "-o", `${file}.o`], scratch)
    return code === 0
  })
}

/**
 * At the end of a process libraries are unloaded; threads of one that was not closed must still find their code. Windows has
 * ended them by then.
 */
const waysToLink: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  win32: ["-shared"],
  darwin: ["-shared", "-lpthread"],
}

export function linkingOf({ family, platform }: Builder): string[] {
  const way = waysToLink[platform] ?? ["-shared", "-Wl,-z,nodelete", "-lpthread"]
  return family === "zig" ? [...way, "-s"] : [...way] // it adds what debuggers want: six times as much
}

export interface BuildOptions extends Building {
  /** Those of earlier builds; absent: everything is compiled. */
  objects?: Objects
}

/**
 * @returns the bytes of the shared object
 * @throws `compiler_failed` with the compiler's own words behind the file's name
 */
export async function build(
  compiler: Compiler,
  level: Level,
  sources: readonly Source[],
  { objects = (_, make) => make(), progress = () => {}, ...running }: BuildOptions = {},
): Promise<Buffer> {
  return withScratch("sinter-build", async (scratch) => {
    const { folder } = scratch
    const waiting = [...sources]
    const files: string[] = []
    const call = (file: string, parameters: string[]) =>
      compile(compiler, file, parameters, scratch, running)
    const worker = async () => {
      for (let source = waiting.shift(); source; source = waiting.shift()) {
        const file = join(folder, `${source.name}.o`)
        const path = "path" in source ? source.path : join(folder, source.name)
        const isDriver = source.name === DRIVER
        const make = async () => {
          if ("text" in source) await writeFile(path, source.text)
          const flags = [
            ...flagsOf(level, compiler),
            ...(isDriver ? ofDriver[compiler.family] : []),
          ]
          await call(source.name, [...flags, "-c", path, "-o", file])
        }
        if (isDriver) await make()
        else await writeFile(file, await objects(source, () => make().then(() => readFile(file))))
        files.push(file)
        progress(files.length, sources.length)
      }
    }
    await Promise.all(Array.from({ length: availableParallelism() }, worker))
    const library = join(folder, "library")
    files.sort() // link order, and with it the bytes, must not depend on who finished first
    await call("the library", ["-o", library, ...files, ...linkingOf(compiler)])
    return await readFile(library)
  })
}

async function compile(
  compiler: Compiler,
  file: string,
  parameters: string[],
  scratch: Scratch,
  running: Building,
): Promise<void> {
  const { code, output } = await run(compiler, parameters, scratch, running)
  if (code !== 0) throw problem("compiler_failed", { compiler: compiler.command, file, output })
}

const MAX_OUTPUT = 1 << 16 // characters
const LEAST = constants.priority.PRIORITY_LOW // of a compiler that nobody waits for; its own processes follow it

/**
 * Runs the compiler in a process group of its own, with its temporary files in the scratch folder.
 * @returns its exit code, undefined where there was none, and what it said
 */
function run(
  { command, leading }: Compiler,
  parameters: string[],
  scratch: Scratch,
  { signal, isBehind }: Building = {},
): Promise<{ code: number | undefined; output: string }> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    const child = spawn(command, [...leading, ...parameters], {
      detached: true,
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, TMPDIR: scratch.folder },
    })
    scratch.own(child)
    if (isBehind && child.pid !== undefined) standBack(LEAST, child.pid)
    let output = ""
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      output = (output + text).slice(0, MAX_OUTPUT)
    })
    signal?.addEventListener("abort", scratch.end, { once: true })
    child.on("error", ({ message }) => resolve({ code: undefined, output: message }))
    child.on("close", (code, killed) => {
      signal?.removeEventListener("abort", scratch.end)
      if (signal?.aborted) reject(signal.reason)
      else if (code === null) resolve({ code: undefined, output: `it was ended by ${killed}` })
      else resolve({ code, output: output.trim() })
    })
  })
}
