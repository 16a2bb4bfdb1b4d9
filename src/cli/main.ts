#!/usr/bin/env node
// Where the command line begins: what must be settled before the program's modules are loaded, and then those. Node reads and
// compiles a hundred of them; what it made of them is kept in the user's cache and read at the next start, where it can do that
// (from 22.1 on): 0.8 to 0.7 s of processor time until `serve tiny` has answered. A cache that cannot be written is none, and
// what lies in it is of one version of Node, and of the very text of its module.

import module from "node:module"
import { join } from "node:path"
import { cacheHome } from "../runtime/cache.ts"
import { settleSignals } from "./signals.ts"

/** The commands that have texts encoded. */
const WITH_TEXTS = new Set<string | undefined>(["serve", "chat", "run", "embed", "batch"])

settleSignals()
keepCompiledModules()
if (WITH_TEXTS.has(process.argv[2])) await startEncoder()
const { takeCommandLine } = await import("./command-line.ts")
await takeCommandLine()

/**
 * Its process takes as long to load as the program does: both begin now. One that nobody comes to need ends with this one. Reading the
 * tokenizer is the longest part of a start: that of a folder which is named, and no other is, need not wait for the command line.
 */
async function startEncoder(): Promise<void> {
  const { Encoder, tokenizersIn } = await import("../chat/encoder.ts")
  const [path, ...others] = tokenizersIn(process.argv.slice(3))
  Encoder.startAhead(others.length === 0 ? path : undefined)
}

function keepCompiledModules(): void {
  const { enableCompileCache, getCompileCacheDir } = module as Partial<CompileCache>
  const folder = join(cacheHome(), "sinter", "modules")
  enableCompileCache?.(folder)
  if (getCompileCacheDir?.()) process.env.NODE_COMPILE_CACHE ??= folder // for processes and threads that we start
}

/** Of Node from 22.1 on: https://nodejs.org/api/module.html#module-compile-cache */
interface CompileCache {
  enableCompileCache(folder: string): unknown
  getCompileCacheDir(): string | undefined
}
