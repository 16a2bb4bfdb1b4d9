// Prints a hash of the logits that a library computes with so many threads: the pool belongs to the process, so each count
// needs one of its own.

import { createHash } from "node:crypto"
import { openLibrary } from "../../src/runtime/library.ts"
import { loadSmall } from "./small.ts"
import { batch, blocksFor, take } from "./steps.ts"

const [, , path, threads] = process.argv
const limits = { blocks: [40], tokens: 200, sequences: 8, rows: 200 }
const program = await openLibrary(path!, limits, Number(threads))
await loadSmall(program)
const parts = [1, 37, 100, 5].map((length, s) => ({
  tokens: Int32Array.from({ length }, (_, i) => (i * 7 + s * 13) % 70),
  from: 0,
  blocks: blocksFor(length, 10 * s),
}))
const { logits } = await take(program, batch(parts))
process.stdout.write(createHash("sha256").update(logits!).digest("hex"))
