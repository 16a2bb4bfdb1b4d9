// Compilers that are libraries (runtime/gpu/run-time-compiler.ts), asked in a process of their own.

import { codeRoot } from "../../../code-root.ts"
import { problem } from "../../../errors.ts"
import { Worker, WorkerLost } from "../../../worker/worker.ts"
import type { CompileAnswer, CompileOrder } from "./compile-worker.ts"

/** Undefined where it is not here, or is here and cannot be opened. */
export async function findRunTimeCompiler(
  order: Pick<CompileOrder, "compiler" | "names">,
): Promise<{ name: string; version: string } | undefined> {
  return ask(order).catch(() => undefined)
}

/**
 * @param file what is compiled, for people
 * @param signal ends the process
 * @returns undefined where the compiler is not here
 * @throws `compiler_failed` in its own words, also where it ended its process
 */
export async function askRunTimeCompiler(
  order: CompileOrder,
  file: string,
  signal: AbortSignal | undefined,
): Promise<Uint8Array | undefined> {
  const failed = (output: string) =>
    problem("compiler_failed", { compiler: order.compiler.toUpperCase(), file, output })
  const answer = await ask(order, signal).catch((error: Error) => {
    if (signal?.aborted) throw signal.reason
    throw failed(error instanceof WorkerLost ? error.why : error.message)
  })
  if (!answer) return undefined
  const { code, said, made } = answer
  if (code !== 0) throw failed(said || `it answers ${code}`)
  return made
}

async function ask(order: CompileOrder, signal?: AbortSignal): Promise<CompileAnswer> {
  const worker = new Worker<CompileOrder, CompileAnswer>({
    name: order.compiler.toUpperCase(),
    file: new URL("compiler/targets/gpu/compile-worker", codeRoot),
    host: "process",
    afterLoss: "end",
    opening: undefined,
  })
  try {
    return await worker.ask(order, { signal })
  } finally {
    void worker.close()
  }
}
