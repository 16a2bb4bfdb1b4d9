// What a module of SPIR-V asks of a driver beyond what its kernel needs: that floats behave. A driver that cannot be asked is
// not, since it would refuse the module; most of those behave all the same.

import type { Features } from "../drivers/driver.ts"

/** Execution mode, the bits of the floats, and the capability that it takes, by what `sinter devices` calls it. */
const modes = [
  { name: "keeps_subnormals", mode: 4459, bits: 32, capability: 4464 },
  { name: "keeps_nan", mode: 4461, bits: 32, capability: 4466 },
  { name: "rounds_to_nearest", mode: 4462, bits: 32, capability: 4467 },
  { name: "f16_keeps_subnormals", mode: 4459, bits: 16, capability: 4464 },
  { name: "f16_keeps_nan", mode: 4461, bits: 16, capability: 4466 },
] as const

const HEADER_WORDS = 5
const OP_CAPABILITY = 17
const OP_EXECUTION_MODE = 16

/** The module's words without what a device lacks of these. */
export function withoutModes(module: Uint8Array, features: Features): Uint32Array {
  const words = new Uint32Array(new Uint8Array(module).buffer)
  const has = modes.filter(({ name }) => features[name] === true)
  const isKept = ([first, second, third, fourth]: Uint32Array) => {
    const opcode = first! & 0xffff
    if (opcode === OP_CAPABILITY && modes.some(({ capability }) => capability === second))
      return has.some(({ capability }) => capability === second)
    if (opcode === OP_EXECUTION_MODE && modes.some(({ mode }) => mode === third))
      return has.some(({ mode, bits }) => mode === third && bits === fourth)
    return true
  }
  let to = HEADER_WORDS
  for (let at = HEADER_WORDS; at < words.length; ) {
    const length = words[at]! >>> 16
    if (length === 0)
      throw new Error("internal: a module of SPIR-V has an instruction without words")
    const instruction = words.subarray(at, at + length)
    at += length
    if (!isKept(instruction)) continue
    words.set(instruction, to)
    to += length
  }
  return words.slice(0, to)
}
