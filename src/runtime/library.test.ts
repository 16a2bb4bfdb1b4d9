// What is refused before any of its code is mapped: a library file is bytes until it has proved what it is.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { checkMachine, checkManifest, openLibrary, readManifest, seal } from "./library.ts"
import { ABI, type Manifest } from "./manifest.ts"

const folder = mkdtempSync(join(tmpdir(), "sinter-library-"))
afterAll(() => rmSync(folder, { recursive: true }))

const groups = [{ layers: [0], kvHeads: 2, headDim: { key: 6, value: 6 }, bytesPerBlock: 1 }]
const manifest: Manifest = {
  abi: ABI,
  target: "cpu",
  architecture: "llama",
  format: "q4f16_1",
  plan: "plan",
  fingerprint: "fingerprint",
  shapes: {
    vocabulary: 70,
    hidden: 20,
    layers: 2,
    heads: 4,
    kvHeads: 2,
    headDim: 6,
    intermediate: 44,
    context: 512,
  },
  sinks: 0,
  kv: { dtype: "f16", groups },
  bytes: { weights: 0, perToken: 0, perRow: 0, perThread: 0, fixed: 0 },
  features: [],
  parameters: [],
}

function file(name: string, bytes: Buffer): string {
  const path = join(folder, name)
  writeFileSync(path, bytes)
  return path
}

test("a sealed file gives its manifest back", () => {
  const path = file("sound.so", seal(Buffer.from("code"), manifest))
  expect(readManifest(path)).toEqual(manifest)
})

const sealed = seal(Buffer.from("code"), manifest)
const flipped = Buffer.from(sealed)
flipped[2]! ^= 1
const longer = Buffer.from(sealed)
longer.writeUInt32LE(0xffffffff, longer.length - 12)
const faults: [string, Buffer, RegExp][] = [
  ["a text", Buffer.from("hello"), /no library made by sinter compile/],
  ["nothing", Buffer.alloc(0), /no library/],
  ["the system's own C library", systemLibrary(), /no library/],
  ["a file cut short", sealed.subarray(0, -1), /was cut short/],
  ["a flipped bit", flipped, /damaged/],
  ["an impossible length", longer, /damaged/],
  [
    "another ABI",
    seal(Buffer.from("code"), { ...manifest, abi: ABI + 1 }),
    new RegExp(`version ${ABI + 1} of the library`),
  ],
  [
    "features of another processor",
    seal(Buffer.from("code"), { ...manifest, features: ["quantum", "warp"] }),
    /built for a processor with quantum, warp/,
  ],
  [
    "code for another system",
    seal(Buffer.from("code"), { ...manifest, built: { sinter: "1", system: "plan9-x64" } }),
    /built for plan9-x64, and this is .+; compile it here/,
  ],
]

test.each(faults)("%s is refused in a sentence that names the file", (name, bytes, words) => {
  const path = file(`${name.replaceAll(" ", "-")}.so`, bytes)
  const read = () => checkMachine(path, readManifest(path))
  expect(read).toThrow(words)
  expect(read).toThrow(path)
})

test("a file that is not there", () => {
  expect(() => readManifest(join(folder, "none.so"))).toThrow(
    /cannot be read: there is no such file; check its path/,
  )
})

test("sealed bytes that are no code are refused by the system, in our sentence", async () => {
  const path = file("no-code.so", seal(Buffer.from("code"), manifest))
  const limits = { blocks: [1], tokens: 1, sequences: 1, rows: 1 }
  await expect(openLibrary(path, limits)).rejects.toThrow(/cannot load it/)
})

test.each<[string, Partial<Manifest>, RegExp]>([
  ["architecture", { architecture: "qwen3" }, /architecture is llama, this model's qwen3/],
  ["format", { format: "q0f32" }, /format is q4f16_1, this model's q0f32/],
  ["shapes", { shapes: { ...manifest.shapes, layers: 3 } }, /layers is 2, this model's 3/],
  [
    "what it hands out",
    { shapes: { ...manifest.shapes, given: 96 } },
    /^x\.so [^:]+: it hands out \d+ columns of each token, and what reads them here, an EAGLE 3 head [^;]+ takes 96; only/,
  ],
  ["cache", { kv: { dtype: "f32", groups } }, /keys and values is f16/],
  ["plan", { plan: "other" }, /another version, or from another configuration/],
])("a library of another model: %s", (_, differs, words) => {
  expect(() => checkManifest("x.so", manifest, { ...manifest, ...differs })).toThrow(words)
  expect(() => checkManifest("x.so", manifest, manifest)).not.toThrow()
})

/** Where Linux keeps it; elsewhere the program that runs this test stands in. */
function systemLibrary(): Buffer {
  const places = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"]
  return readFileSync(places.find((place) => existsSync(place)) ?? process.execPath)
}
