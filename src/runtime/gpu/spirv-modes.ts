// What a module of SPIR-V asks of a driver beyond what its kernel needs: that floats behave. A driver that cannot be asked is
// not, since it would refuse the module; most of those behave all the same.

import type { Features } from "../drivers/driver.ts"

/** Capability and execution mode of each, by what `sinter devices` calls it. */
const modes = {
  keeps_subnormals: { capability: 4464, mode: 4459 },
  keeps_nan: { capability: 4466, mode: 4461 },
  rounds_to_nearest: { capability: 4467, mode: 4462 },
} as const

const HEADER_WORDS = 5
const OP_CAPABILITY = 17
const OP_EXECUTION_MODE = 16

/** The module's words without the modes that a device lacks. */
export function withoutModes(module: Uint8Array, features: Features): Uint32Array {
  const words = new Uint32Array(new Uint8Array(module).buffer)
  const missing = Object.entries(modes).flatMap(([name, mode]) => (features[name] ? [] : [mode]))
  const kept: number[] = []
  let copied = 0
  for (let at = HEADER_WORDS; at < words.length; ) {
    const length = words[at]! >>> 16
    const opcode = words[at]! & 0xffff
    if (length === 0)
      throw new Error("internal: a module of SPIR-V has an instruction without words")
    const isMissing = missing.some(
      ({ capability, mode }) =>
        (opcode === OP_CAPABILITY && words[at + 1] === capability) ||
        (opcode === OP_EXECUTION_MODE && words[at + 2] === mode),
    )
    if (isMissing) {
      for (const word of words.subarray(copied, at)) kept.push(word)
      copied = at + length
    }
    at += length
  }
  for (const word of words.subarray(copied)) kept.push(word)
  return Uint32Array.from(kept)
}
