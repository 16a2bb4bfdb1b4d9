// The process in which a run-time compiler works (runtime/gpu/run-time-compiler.ts): what it cannot take may end it.

import { LibraryMissing, openDriverLibrary } from "../../../runtime/ffi.ts"
import {
  type Compilation,
  type CompiledForm,
  compileAtRunTime,
  type RunTimeCompiler,
  versionOf,
} from "../../../runtime/gpu/run-time-compiler.ts"
import { serve } from "../../../worker/serve.ts"

export interface CompileOrder {
  compiler: RunTimeCompiler
  /** Of its library, the likeliest first. */
  names: readonly string[]
  /** What is to be compiled; absent: it is only looked for. */
  task?: { text: Uint8Array; options: readonly string[]; form: CompiledForm }
}

/** Undefined: it is not here. */
export type CompileAnswer = (Partial<Compilation> & { name: string; version: string }) | undefined

serve<undefined, CompileOrder>({
  open: () => {},
  answer({ compiler, names, task }): CompileAnswer {
    try {
      const library = openDriverLibrary(names)
      const found = { name: library.name, version: versionOf(compiler, library) }
      return task ? { ...found, ...compileAtRunTime(compiler, names, task) } : found
    } catch (error) {
      if (error instanceof LibraryMissing) return undefined
      throw error
    }
  },
})
