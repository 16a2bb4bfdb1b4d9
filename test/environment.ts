// Test files share processes (vitest.config.ts), and with them an environment: what one changes in it is as it was when the next
// begins. What they compare most are models' numbers, millions of them, for which vitest alone takes seconds a megabyte.

import { afterAll, expect } from "vitest"

const before = { ...process.env }

afterAll(() => {
  for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name]
  Object.assign(process.env, before)
})

const bytesOf = (of: unknown) =>
  ArrayBuffer.isView(of) ? new Uint8Array(of.buffer, of.byteOffset, of.byteLength) : undefined

/** Equal kinds of arrays of equal bytes are equal; whether others are, and where they differ, vitest finds out as it always does. */
function haveEqualBytes(a: unknown, b: unknown): true | undefined {
  const [mine, theirs] = [bytesOf(a), bytesOf(b)]
  if (!mine || !theirs || Object(a).constructor !== Object(b).constructor) return undefined
  return Buffer.compare(mine, theirs) === 0 || undefined
}

// A process keeps what it was told for another file.
const TOLD = Symbol.for("sinter.haveEqualBytes")
if (!(TOLD in globalThis)) {
  expect.addEqualityTesters([haveEqualBytes])
  Object.assign(globalThis, { [TOLD]: true })
}
