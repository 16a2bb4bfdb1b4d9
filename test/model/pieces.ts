// Prints a hash of the logits that a library of these limits (JSON) computes with so many threads for one token behind a long context,
// which it takes in pieces where there are more threads than heads of keys, or in shares of heads. A process for each count: see bits.ts.

import { createHash } from "node:crypto"
import { openLibrary } from "../../src/runtime/library.ts"
import { loadSmall } from "./small.ts"
import { batch, blocksFor, take } from "./steps.ts"

const [, , path, threads, limits] = process.argv
const CONTEXT = 511
const program = await openLibrary(path!, JSON.parse(limits!), Number(threads))
await loadSmall(program)
const blocks = blocksFor(CONTEXT + 1)
const tokens = Int32Array.from({ length: CONTEXT }, (_, i) => (i * 7) % 70)
await take(program, batch([{ tokens, from: 0, blocks }]))
const { logits } = await take(program, batch([{ tokens: Int32Array.of(3), from: CONTEXT, blocks }]))
process.stdout.write(createHash("sha256").update(logits!).digest("hex"))
