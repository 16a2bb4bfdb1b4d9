// Prints how many threads a process has as libraries are opened and closed: JSON of the library's paths in, counts out. A
// process of its own, since the pool belongs to the process.

import { readdirSync } from "node:fs"
import { openLibrary } from "../../src/runtime/library.ts"
import { loadSmall } from "./small.ts"
import { batch, blocksFor, take } from "./steps.ts"

const [, , paths, threads] = process.argv
const limits = { blocks: [4], tokens: 16, sequences: 1, rows: 1 }
const counts: number[] = []
const count = () => void counts.push(readdirSync("/proc/self/task").length)
/** A step, so that the threads have been at work: the first one of the process starts Node's own. */
const open = async (path: string) => {
  const program = await openLibrary(path, limits, Number(threads))
  await loadSmall(program)
  const tokens = Int32Array.of(1, 2, 3, 4)
  await take(program, batch([{ tokens, from: 0, blocks: blocksFor(4) }]))
  return program
}

const [first, second] = JSON.parse(paths!) as [string, string]
await (await open(first)).close()
count()
const programs = [await open(first), await open(second), await open(first)]
count()
await programs[0]!.close()
await programs[1]!.close()
await programs[1]!.close()
count()
await programs[2]!.close()
count()
process.stdout.write(JSON.stringify(counts))
