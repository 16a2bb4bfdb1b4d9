// Prints how much address space a process gains by opening a library a second time: JSON of limits in, bytes out. A
// process of its own, since other tests would reserve some in the meantime.

import { readFileSync } from "node:fs"
import { openLibrary } from "../../src/runtime/library.ts"

const [, , path, limits, threads] = process.argv
const reserved = () =>
  1024 * Number(/^VmSize:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))![1])
const little = { blocks: [1], tokens: 1, sequences: 1, rows: 1 }
await openLibrary(path!, little, Number(threads)) // maps the library, starts the threads
const before = reserved()
await openLibrary(path!, JSON.parse(limits!), Number(threads))
process.stdout.write(String(reserved() - before))
