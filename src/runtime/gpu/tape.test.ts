import { expect, test } from "vitest"
import type { GpuTraits } from "./device.ts"
import { type Profile, profileFor, type Tape } from "./tape.ts"

test("a device takes code of its own architecture, or else the first words that it understands", () => {
  const profile = (needs: Profile["needs"], architecture?: string): Profile => ({
    needs,
    modules: [],
    ...(architecture && { architecture }),
  })
  const [own, other, matrix, plain] = [
    profile([], "sm_90a"),
    profile([], "sm_86"),
    profile(["matrix"]),
    profile([]),
  ]
  const tape = { profiles: [own, other, matrix, plain] } as unknown as Tape
  const taken = (traits: Partial<GpuTraits>) => profileFor(tape, traits as GpuTraits)
  expect(taken({ matrix: true, architectures: ["sm_90", "sm_90a"] })).toBe(own)
  expect(taken({ matrix: true, architectures: ["sm_86", "sm_86a"] })).toBe(other)
  expect(taken({ matrix: true, architectures: ["sm_89"] })).toBe(matrix)
  expect(taken({ matrix: false, architectures: ["sm_75"] })).toBe(plain)
  expect(taken({ matrix: false })).toBe(plain)
})
