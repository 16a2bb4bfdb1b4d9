// The machine's own C compiler: found, asked for its version, and driven. Sources are written to a folder of their own,
// compiled side by side and linked into one shared object, whose bytes are the result; nothing stays behind.

import { execFile } from "node:child_process"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { availableParallelism, tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { problem } from "../../../errors.ts"
import type { Level } from "./levels.ts"

const run = promisify(execFile)

export interface Compiler {
  command: string
  /** First line of what --version says: part of the shelf's key. */
  version: string
  family: "gcc" | "clang"
}

/** One translation unit: its text, or the path of a source that is shipped. */
export type Source = { name: string; text: string } | { name: string; path: string }

/** Folders of our headers. */
export const kernels = fileURLToPath(new URL("./kernels/", import.meta.url))
export const runtime = fileURLToPath(new URL("../../../runtime/", import.meta.url))

const looked = ["cc", "clang", "gcc"]

/** The compiler named by CC, else the first on PATH; undefined when there is none. */
export async function findCompiler(): Promise<Compiler | undefined> {
  for (const command of process.env.CC ? [process.env.CC] : looked) {
    const found = await identify(command)
    if (found) return found
  }
  return undefined
}

/** What a compiler says it is: `cc` may be either of the families. Undefined where there is no such command. */
export async function identify(command: string): Promise<Compiler | undefined> {
  try {
    const { stdout } = await run(command, ["--version"])
    const version = stdout.split("\n", 1)[0]!
    return { command, version, family: /clang/i.test(version) ? "clang" : "gcc" }
  } catch {
    return undefined
  }
}

/** @throws `compiler_missing` */
export async function requireCompiler(): Promise<Compiler> {
  const found = await findCompiler()
  if (!found) throw problem("compiler_missing", { looked: process.env.CC ?? looked.join(", ") })
  return found
}

/**
 * Always with contraction off and without fast-math: a fused multiply-add stands where it is written and sums keep their
 * order, or bits would depend on the compiler.
 */
const common = [
  "-std=gnu11",
  "-O2", // -O3 takes three times as long and is no faster: the kernels are written out
  "-ftree-vectorize",
  "-fPIC",
  "-fvisibility=hidden",
  "-ffp-contract=off",
  "-fno-math-errno",
  "-Wall",
  "-Wextra",
  "-Wno-unused-function",
  "-Wno-unused-parameter",
]

/** Clang vectorizes so by itself, and does not know the word. */
const own = { gcc: ["-fvect-cost-model=dynamic"], clang: [] } as const

export function flagsOf(level: Level, family: Compiler["family"]): string[] {
  return [
    ...common,
    ...own[family],
    ...level.flags,
    `-I${join(kernels, level.folder)}`,
    `-I${kernels}`,
    `-I${runtime}`,
  ]
}

/** Whether this compiler knows the level's instructions. */
export async function supports(compiler: Compiler, level: Level): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), "sinter-probe-"))
  try {
    const file = join(folder, "probe.c")
    await writeFile(file, '#include "product.h"\n')
    await run(compiler.command, [...flagsOf(level, compiler.family), "-fsyntax-only", file])
    return true
  } catch {
    return false
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Objects that this process has made and that another library may want: a draft's beside its model's. */
const made = new Map<string, Buffer>()
const shared = (source: Source) => "path" in source || source.name.startsWith("near_")

/**
 * @param signal ends the compiler
 * @returns the bytes of the shared object
 * @throws `compiler_failed` with the compiler's own words behind the file's name
 */
export async function build(
  compiler: Compiler,
  level: Level,
  sources: readonly Source[],
  signal?: AbortSignal,
): Promise<Buffer> {
  const folder = await mkdtemp(join(tmpdir(), "sinter-build-"))
  try {
    const waiting = [...sources]
    const objects: string[] = []
    const call = (file: string, parameters: string[]) => compile(compiler, file, parameters, signal)
    const worker = async () => {
      for (let source = waiting.shift(); source; source = waiting.shift()) {
        const object = join(folder, `${source.name}.o`)
        const path = "path" in source ? source.path : join(folder, source.name)
        const flags = flagsOf(level, compiler.family)
        const key = [compiler.command, compiler.version, ...flags, ...Object.values(source)].join(
          "\n",
        )
        const before = made.get(key)
        if (before) await writeFile(object, before)
        else {
          if ("text" in source) await writeFile(path, source.text)
          await call(source.name, [...flags, "-c", path, "-o", object])
          if (shared(source)) made.set(key, await readFile(object))
        }
        objects.push(object)
      }
    }
    await Promise.all(Array.from({ length: availableParallelism() }, worker))
    const library = join(folder, "library")
    objects.sort() // link order, and with it the bytes, must not depend on who finished first
    await call("the library", ["-shared", "-o", library, ...objects, "-lpthread"])
    return await readFile(library)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function compile(
  compiler: Compiler,
  file: string,
  parameters: string[],
  signal: AbortSignal | undefined,
): Promise<void> {
  try {
    await run(compiler.command, parameters, { maxBuffer: 64 << 20, ...(signal ? { signal } : {}) })
  } catch (error) {
    signal?.throwIfAborted()
    const output = (error as { stderr?: string }).stderr?.trim() || (error as Error).message
    throw problem("compiler_failed", { compiler: compiler.command, file, output })
  }
}
