// CUDA C and HIP without a device of either: compilers of both take the text, and what it computes on a processor (simt.hpp)
// are the slow twin's bits, in three orders of threads.

import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import {
  type GpuCase,
  languageKernels,
  type Numbers,
  normalized,
} from "../../src/compiler/targets/gpu/check-cases.ts"
import { differences, twinOf } from "../../src/compiler/targets/gpu/check-device.ts"
import { weightKernels } from "../../src/compiler/targets/gpu/check-products.ts"
import { stepKernels } from "../../src/compiler/targets/gpu/check-steps.ts"
import { type Builder, kernel, u32 } from "../../src/compiler/targets/gpu/ir/builder.ts"
import type { Kernel } from "../../src/compiler/targets/gpu/ir/ir.ts"
import type { PrintedProgram } from "../../src/compiler/targets/gpu/print/c.ts"
import { cudaProfiles, printCuda } from "../../src/compiler/targets/gpu/print/cuda.ts"
import { printers } from "../../src/compiler/targets/gpu/printers.ts"
import { addressOf, openDriverLibrary } from "../../src/runtime/ffi.ts"
import { isLeftOut } from "../left-out.ts"
import { mulberry32 } from "../random.ts"
import { randomCases } from "./random-kernels.ts"

const scratch = mkdtempSync(join(tmpdir(), "sinter-cuda-"))
afterAll(() => rmSync(scratch, { recursive: true }))

const compilers = { c: "clang", cpp: "g++" } as const
const answers = (command: string) => spawnSync(command, ["--version"]).status === 0
/** Products on matrix units: groups of 32, of 40 and of 16 columns, with gates and with minimums, and 16-bit floats. */
const tileKernels = weightKernels(["tiles"]).filter(({ name }) =>
  /^matrix64_(q4f16_1|q3f16_1|q8f16_1|q6_k|q2_k|f16_wide)_/.test(name),
)
const checked = [...languageKernels, ...tileKernels]
const kernels = [...checked.map(({ at }) => at(0)), ...randomCases(4)].map((each) => each.kernel)

const noClang = isLeftOut(answers(compilers.c))
const flags = "-O1 -ffp-contract=off -w -nogpulib -S -o /dev/null".split(" ")
test.skipIf(noClang).each([
  ["cuda", "-nocudainc --cuda-gpu-arch=sm_75 -Xclang -target-feature -Xclang +ptx70"],
  ["cuda", "-nocudainc --cuda-gpu-arch=sm_80 -Xclang -target-feature -Xclang +ptx70"],
  ["hip", "-nogpuinc --offload-arch=gfx90a"],
  ["hip", "-nogpuinc --offload-arch=gfx1030"],
])(`the text is %s, without a header: %s${noClang ? " (skipped: no clang)" : ""}`, (kind, more) => {
  const own = kind === "hip" ? kernels.filter(({ needs }) => !needs.has("matrix")) : kernels
  for (const needs of cudaProfiles) {
    const input = printCuda(own, needs).text
    const options = ["-x", kind, "--cuda-device-only", ...more.split(" "), ...flags, "-"]
    const { status, stderr } = spawnSync(compilers.c, options, { input })
    expect({ status, said: stderr.toString() }).toEqual({ status: 0, said: "" })
  }
})

const orders = ["forward", "backward", "shuffled"] as const
type Run = (each: GpuCase, kernel: number, order: number) => Numbers[] | "stuck"

const printed = (kernels: readonly Kernel[]) => printCuda(kernels, [])

let libraries = 0

/**
 * Kernels as a library of this machine.
 * @param defines what the compiler of an architecture says that it compiles for
 */
function built({ text, kernels: codes }: PrintedProgram, defines: readonly string[] = []): Run {
  const rows = codes.map(
    ({ entry, threads }) => `{[](void **values) { simt::call(${entry}, values); }, ${threads}},`,
  )
  const name = `kernels-${libraries++}` // a library that is open must not be written over
  const [source, path] = [join(scratch, `${name}.cpp`), join(scratch, `${name}.so`)]
  writeFileSync(
    source,
    `#include "${join(import.meta.dirname, "simt.hpp")}"
${text}
static const struct { void (*call)(void **); unsigned threads; } kernels[] = {
${rows.join("\n")}
};
extern "C" int launch(int which, void **values, const unsigned *groups, int order) {
  return simt::launch(kernels[which].call, kernels[which].threads, values, groups, order);
}
`,
  )
  const options = "-std=c++17 -O1 -ffp-contract=off -fwrapv -shared -fPIC -w".split(" ")
  const all = [...options, ...defines.map((name) => `-D${name}`), "-o", path, source]
  execFileSync(compilers.cpp, all, { stdio: "pipe" })
  const launch = openDriverLibrary([path]).take<number>(
    "int launch(int which, void *values, void *groups, int order)",
  )
  return ({ operands, groups }, kernel, order) => {
    const arrays = operands.map((each) =>
      typeof each === "number" ? Uint32Array.of(each) : each.slice(),
    )
    // A buffer is handed over as the address of its address, a word as its own.
    const pointers = arrays.map((array) => BigUint64Array.of(addressOf(array)))
    const values = BigUint64Array.from(operands, (each, i) =>
      typeof each === "number" ? pointers[i]![0]! : addressOf(pointers[i]!),
    )
    if (launch(kernel, values, Uint32Array.from(groups), order) === 0) return "stuck"
    return arrays.map((array, i) => (typeof operands[i] === "number" ? new Uint8Array() : array))
  }
}

test("a kernel waits for those before it where it says so, or at its beginning", () => {
  const lines = (build: (k: Builder, write: () => void) => void) => {
    const own = kernel("own", 32, (k) => {
      const output = k.buffer("output", "u32", "write")
      build(k, () => output.store(k.lane, 1))
    })
    const text = printed([own]).text.split("sinter_own(")[1]!
    return text.match(/let_later_begin|after_earlier|output\[/g)
  }
  expect(lines((_, write) => write())).toEqual(["let_later_begin", "after_earlier", "output["])
  const told = lines((k, write) => {
    k.afterEarlier()
    write()
    k.letLaterBegin()
  })
  expect(told).toEqual(["after_earlier", "output[", "let_later_begin"])
})

const noCompiler = isLeftOut(answers(compilers.cpp))
test.skipIf(noCompiler)(
  `what it computes are the slow twin's bits, in every order of threads${noCompiler ? " (skipped: no g++)" : ""}`,
  () => {
    const run = built(printed(kernels))
    const random = randomCases(4)
    for (const i of kernels.keys()) {
      const shaped = checked[i]
      const cases = shaped
        ? [0, 7, 19].map((shape) => shaped.at(shape))
        : [random[i - checked.length]!]
      for (const each of cases) expectTwinsBits(run, each, i)
    }
  },
)

test.skipIf(noCompiler)(
  `bytes are looked up by what PTX says of its permutation${noCompiler ? " (skipped: no g++)" : ""}`,
  () => {
    const { text } = printed(languageKernels.map(({ at }) => at(0).kernel))
    const [functions] = /^WORD unsigned permuted[\s\S]*?(?=^#endif)/m.exec(text)!
    const [source, path] = [join(scratch, "look-up.cpp"), join(scratch, "look-up.so")]
    writeFileSync(
      source,
      `#define WORD static
static unsigned prmt(unsigned low, unsigned high, unsigned places) {
  const unsigned long long bytes = (unsigned long long)high << 32 | low;
  unsigned taken = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned place = places >> 4 * i & 15, byte = bytes >> 8 * (place & 7) & 255;
    taken |= (place < 8 ? byte : byte & 128 ? 255 : 0) << 8 * i;
  }
  return taken;
}
${functions.replace(/asm\(.*;/, "bytes = prmt(low, high, places);")}
extern "C" void look_up_all(const unsigned *words, unsigned count, unsigned from, unsigned *out) {
  for (unsigned i = 0; i < count; i++)
    out[i] = look_up(words[i], from, 0x7f03ff81u, 0x00000001u, 0x80fe1234u, 0xff010203u);
}
`,
    )
    execFileSync(compilers.cpp, ["-w", "-shared", "-fPIC", "-o", path, source], { stdio: "pipe" })
    const lookUpAll = openDriverLibrary([path]).take<void>(
      "void look_up_all(void *words, uint count, uint from, void *out)",
    )
    const tableWords = Uint32Array.of(0x7f03ff81, 0x00000001, 0x80fe1234, 0xff010203)
    const table = new Uint8Array(tableWords.buffer)
    const random = mulberry32(1)
    const words = Uint32Array.from({ length: 4096 }, random)
    for (const from of [0, 4]) {
      const found = new Uint32Array(words.length)
      lookUpAll(words, words.length, from, found)
      const wanted = Uint8Array.from(
        new Uint8Array(words.buffer),
        (byte) => table[(byte >> from) & 15]!,
      )
      expect(new Uint8Array(found.buffer)).toEqual(wanted)
    }
  },
)

function expectTwinsBits(run: Run, each: GpuCase, number: number): void {
  const { name } = each.kernel
  const expected = twinOf(each)
  for (const order of orders.keys()) {
    const found = run(each, number, order)
    if (found === "stuck") throw new Error(`${name}: not all threads reach a barrier`)
    for (const [operand, numbers] of found.entries())
      expect(
        differences(numbers, expected[operand]!),
        `${name}, ${orders[order]}: operand ${operand}`,
      ).toEqual([])
  }
}

/** Groups of 32, of 40 and of 16 columns, with gates and with minimums, and 16-bit floats, on AMD's matrix units. */
const amdKernels = weightKernels(printers.rocm.units).filter(({ name }) =>
  /^tile64_(q4f16_1|q3f16_1|q2_k|q8_zeros|bf16_wide)_/.test(name),
)
test.skipIf(noCompiler).each([
  ["__gfx90a__", "mfma_i32_16x16x16i8("],
  ["__gfx942__", "mfma_i32_16x16x32_i8("],
  ["__GFX11__", "wmma_i32_16x16x16_iu8_w32("],
  ["__GFX12__", "wmma_i32_16x16x16_iu8_w32_gfx12("],
])(
  `tiles on the matrix units of %s have the slow twin's bits, in every order of threads${noCompiler ? " (skipped: no g++)" : ""}`,
  (architecture, unit) => {
    const [profile] = printers.rocm.profiles
    const own = amdKernels.map(({ at }) => at(0).kernel)
    const { modules, kernels } = printers.rocm.print(own, profile!)
    const text = Buffer.from(modules[0]!).toString()
    expect(text).toContain(unit)
    const run = built({ text, kernels: [...kernels] }, [architecture])
    for (const [i, { at }] of amdKernels.entries())
      for (const shape of [0, 9, 15]) expectTwinsBits(run, at(shape), i)
  },
  120_000,
)

test.skipIf(noCompiler)(
  `attention by wide loads has the slow twin's bits, in every order of threads${noCompiler ? " (skipped: no g++)" : ""}`,
  () => {
    for (const { name, shapes, at } of stepKernels({ parts: 8, span: 256 }, printers.cuda)) {
      if (!name.includes("_wide_")) continue
      const last = at(shapes - 1)
      return expectTwinsBits(built(printed([last.kernel])), last, 0)
    }
    throw new Error("there is none")
  },
  120_000,
)

test.skipIf(noCompiler)(
  `eight halves are loaded at once, and four neighbours of a shared array${noCompiler ? " (skipped: no g++)" : ""}`,
  () => {
    const near = kernel("near", 32, (k) => {
      k.forCuda()
      const input = k.buffer("input", "f16", "read")
      const output = k.buffer("output", "f32", "write")
      const here = k.shared("here", "f32", 256)
      for (const [i, half] of input.loadEight(k.lane).entries())
        here.store(k.lane.mul(8).add(i), half)
      k.barrier()
      for (const [i, number] of here.loadFour(u32(63).sub(k.lane)).entries())
        output.store(k.lane.mul(4).add(i), number)
    })
    const halves = Uint16Array.from({ length: 256 }, (_, i) => 123 * i)
    const operands = [halves, new Float32Array(128)]
    const each: GpuCase = { kernel: near, operands, groups: [1, 1, 1] }
    expectTwinsBits(built(printed([near])), each, 0)
  },
)

test.skipIf(noCompiler)(
  `the orders of threads are three${noCompiler ? " (skipped: no g++)" : ""}`,
  () => {
    const last = kernel("last", 64, (k) => k.buffer("last", "u32", "write").store(0, k.lane))
    const each: GpuCase = { kernel: last, operands: [new Uint32Array(1)], groups: [1, 1, 1] }
    const run = built(printed([last]))
    const found = orders.map((_, order) => run(each, 0, order))
    expect(found).toEqual([63, 0, 62].map((thread) => [Uint32Array.of(thread)]))
  },
)

test.skipIf(noCompiler)(
  `a barrier that is missing shows${noCompiler ? " (skipped: no g++)" : ""}`,
  () => {
    const sound = normalized()
    const faulty = normalized({ barriers: false })
    const run = built(printed([faulty.kernel]))
    const expected = twinOf(sound)
    const wrong = orders.map((_, order) => {
      const found = run(faulty, 0, order)
      return found === "stuck" || differences(found[0]!, expected[0]!).length > 0
    })
    expect(wrong.some((each) => each)).toBe(true)
  },
)
