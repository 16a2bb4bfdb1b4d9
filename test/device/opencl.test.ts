// OpenCL C and the driver of OpenCL's devices, on the first device that is here: PoCL in CI. What kernels compute is what the
// slow twin computes, bit for bit.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { gpuCases } from "../../src/compiler/targets/gpu/check-cases.ts"
import {
  differences,
  newCancel,
  runOn,
  twinOf,
} from "../../src/compiler/targets/gpu/check-device.ts"
import { kernel } from "../../src/compiler/targets/gpu/ir/builder.ts"
import type { Kernel } from "../../src/compiler/targets/gpu/ir/ir.ts"
import { openclProfiles, printOpencl } from "../../src/compiler/targets/gpu/print/opencl.ts"
import { findDevices } from "../../src/runtime/devices.ts"
import { Structure } from "../../src/runtime/drivers/structure.ts"
import { openDriverLibrary } from "../../src/runtime/ffi.ts"
import type { GpuDevice } from "../../src/runtime/gpu/device.ts"
import { hasVersion3, openOpencl } from "../../src/runtime/gpu/opencl.ts"
import { meets } from "../../src/runtime/gpu/tape.ts"
import { ProgramLost } from "../../src/runtime/program.ts"
import { isLeftOut } from "../left-out.ts"
import { hasCompiler, plantDriver } from "../planted-drivers.ts"
import { mulberry32 } from "../random.ts"
import { adds, describeDriver, expectGivenUp, startInTurns, sums } from "./gpu-driver.ts"
import { randomCases } from "./random-kernels.ts"

const opened = await openOpencl(0).catch(() => undefined)
afterAll(() => opened?.close())
const isSkipped = isLeftOut(opened)
const note = isSkipped ? " (skipped: no device of OpenCL)" : ""
const device = () => {
  if (!opened) throw new Error("no device of OpenCL")
  return opened
}

const textOf = (kernels: readonly Kernel[], needs = openclProfiles[1]!) => {
  const { text, kernels: codes } = printOpencl(kernels, needs)
  return [[new TextEncoder().encode(text)], codes] as const
}
const loadOn = (on: GpuDevice, kernels: readonly Kernel[], needs = openclProfiles[1]!) =>
  on.load(...textOf(kernels, needs))

// cl.h: CL_MAKE_VERSION is major << 22 | minor << 12 | patch, and a name of 64 bytes follows each.
test.each([
  ["as PoCL lists them", [0x400000, 0x401000, 0x402000, 0xc00000], true],
  ["of a patched 3.0", [0xc00001], true],
  ["without it", [0x400000, 0x402000, 0x800000, 0xc01000], false],
  ["that nobody lists", [], false],
])("OpenCL C 3.0 is found among versions %s", (_, versions, isThere) => {
  const listed = new Structure(68 * versions.length)
  for (const [i, version] of versions.entries()) listed.setWord(68 * i, version)
  expect(hasVersion3(listed)).toBe(isThere)
})

describeDriver({
  note,
  isSkipped,
  device,
  load: async (each) => (await loadOn(device(), [each]))[0]!,
})

describe.skipIf(isSkipped)(`kernels${note}`, () => {
  test.each([...gpuCases, ...randomCases(2)].map((each) => ({ name: each.kernel.name, each })))(
    "$name: the slow twin's bits",
    async ({ each }) => {
      const expected = twinOf(each)
      for (const needs of openclProfiles) {
        if (!meets(device().traits, needs)) continue
        const [loaded] = await loadOn(device(), [each.kernel], needs)
        const found = await runOn(device(), loaded!, each)
        for (const [i, numbers] of found.entries())
          expect(differences(numbers, expected[i]!), `${needs.join()}: operand ${i}`).toEqual([])
      }
    },
  )

  // PoCL 3.1 has no dots of four bytes: first without, then with what stands in for its own.
  test.each([
    "",
    `#define __opencl_c_integer_dot_product_input_4x8bit_packed 1
int dot_4x8packed_ss_int(uint a, uint b) {
  const int4 products = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
  return products.x + products.y + products.z + products.w;
}
`,
  ])(
    "dots of four bytes, where the compiler has a function for them and where not %#",
    async (own) => {
      const [each] = gpuCases.filter(({ kernel }) => kernel.needs.has("dot4"))
      const [modules, codes] = textOf([each!.kernel], openclProfiles[0]!)
      const text = new TextDecoder().decode(modules[0])
      expect(text).toContain("dot_4x8packed_ss_int(a, b)")
      const [loaded] = await device().load([new TextEncoder().encode(own + text)], codes)
      const expected = twinOf(each!)
      for (const [i, numbers] of (await runOn(device(), loaded!, each!)).entries())
        expect(differences(numbers, expected[i]!), `operand ${i}`).toEqual([])
    },
  )

  test("division and roots in whole numbers are rounded as they should be", async () => {
    const count = 1 << 16
    const written = kernel("quotients", 64, (k) => {
      const [a, b] = ["a", "b"].map((name) => k.buffer(name, "f32", "read"))
      const [quotients, roots] = ["quotients", "roots"].map((name) =>
        k.buffer(name, "f32", "write"),
      )
      k.for(k.group(0).mul(64).add(k.lane), count, k.groups(0).mul(64), (i) => {
        const x = a!.load(i)
        quotients!.store(i, x.div(b!.load(i)))
        roots!.store(i, x.sqrt())
      })
    })
    const next = mulberry32(3)
    // Bits of every kind: all sizes; numbers of few digits, whose quotients lie halfway between floats; the smallest.
    const kinds = [
      () => next(),
      () => (next() % 64) << 17,
      () => next() % 4096,
      () => next() & ~0x7ff,
    ]
    const numbers = () =>
      new Float32Array(Uint32Array.from({ length: count }, (_, i) => kinds[i % 4]!()).buffer)
    const [a, b] = [numbers(), numbers()]
    for (let i = 0; i < count; i += 5) a[i] = (b[i]! * (next() % 4096)) / 4096
    const [loaded] = await loadOn(device(), [written], [])
    const out = new Float32Array(count)
    const operands = [a, b, out, out]
    const found = await runOn(device(), loaded!, { kernel: written, operands, groups: [8, 1, 1] })
    // A double's quotient or root of two floats, rounded once more, is the float that it should be.
    const quotients = a.map((x, i) => x / b[i]!)
    const roots = a.map((x) => Math.sqrt(x))
    expect(differences(found[2]!, quotients)).toEqual([])
    expect(differences(found[3]!, roots)).toEqual([])
  })

  test("what the driver refuses is said in its words", async () => {
    const [modules, codes] = textOf([adds])
    const text = new TextDecoder().decode(modules[0]).replace("numbers[i]", "numbers[nowhere]")
    const refused = device().load([new TextEncoder().encode(text)], codes)
    await expect(refused).rejects.toThrow(/refuses the kernels: .*nowhere/s)
    const renamed = codes.map((code) => ({ ...code, entry: "sinter_nothing" }))
    await expect(device().load(modules, renamed)).rejects.toThrow(/refuses adds: clCreateKernel/)
  })
})

test.skipIf(isSkipped)(
  `what the driver has made of kernels needs no source again${note}`,
  async () => {
    const [modules, codes] = textOf([adds])
    const made = await device().madeOf(await device().load(modules, codes))
    const text = new TextDecoder().decode(modules[0])
    const broken = [new TextEncoder().encode(text.replace("numbers[i]", "numbers[nowhere]"))]
    await expect(device().load(broken, codes)).rejects.toThrow(/refuses the kernels/)
    const again = await device().load(broken, codes, made)
    expect(await device().madeOf(again)).toBeUndefined()
    const place = await device().allocate(4, "device")
    const operands = [{ place, at: 0 }, 1, 7]
    const recording = device().record([{ kernel: again[0]!, operands, groups: [1, 1, 1] }])
    await device().run([recording, recording], newCancel())
    const word = new Uint32Array(1)
    await device().read(place, 0, new Uint8Array(word.buffer))
    expect(word[0]).toBe(14)
    recording.free()
    device().free(place)
    // What the driver will not have, or has no such kernel, is made of its source.
    const others = [{ ...codes[0]!, entry: "sinter_nothing" }]
    const renamed = [new TextEncoder().encode(text.replace(codes[0]!.entry, "sinter_nothing"))]
    for (const [sources, kernels, kept] of [
      [modules, codes, made!.slice(0, 3)],
      [modules, codes, made!.map((byte, i) => (i < 12 && i >= 4 ? 0 : byte))],
      [renamed, others, made!],
    ] as const)
      expect(await device().madeOf(await device().load(sources, kernels, kept))).toBeDefined()
  },
)

test.skipIf(isSkipped)(`devices have the numbers of the list${note}`, async () => {
  const survey = (await findDevices()).find(({ name }) => name === "opencl")!
  expect(device().description).toBe(survey.devices[0]!.description)
  expect(device().traits.isProcessor).toBe(survey.devices[0]!.type === "processor")
  await expect(openOpencl(survey.devices.length)).rejects.toThrow("OpenCL has no device")
})

// In front of the driver that is here stands another one, which counts what it hands out and what comes back, and fails as
// OpenCL's drivers do: late, and once it has failed, in everything.
const counting = `#include <dlfcn.h>
  static int held, fails, waits, queued, refuses;
  static volatile int hangs;
  #define WRAP(name, then) WRAP_BOTH(name, , then)
  #define WRAP_BOTH(name, first, then) \\
    long name(long a, long b, long c, long d, long e, long f, long g, long h, long i) { \\
      long (*real)(long, long, long, long, long, long, long, long, long) = dlsym(RTLD_NEXT, #name); \\
      first; \\
      long result = real(a, b, c, d, e, f, g, h, i); \\
      then; \\
      return result; \\
    }
  WRAP(clCreateContext, held++)
  WRAP(clReleaseContext, held--)
  WRAP(clCreateCommandQueue, held++)
  WRAP(clReleaseCommandQueue, held--)
  WRAP(clCreateBuffer, held++)
  WRAP(clReleaseMemObject, held--)
  WRAP(clCreateProgramWithSource, held++)
  WRAP(clReleaseProgram, held--)
  WRAP(clCreateKernel, held++)
  WRAP(clReleaseKernel, held--)
  WRAP_BOTH(clEnqueueFillBuffer, if (f == 1 << 20) return -4, if (i) held++; fails = f == 2 << 20 ? -6 : 0)
  WRAP(clEnqueueNDRangeKernel, queued++; if (i) held++; if (*(long *)e == 64) fails = -9999)
  WRAP(clReleaseEvent, held--)
  WRAP(clWaitForEvents, waits++; while (hangs) usleep(100); if (fails) result = -14)
  WRAP(clEnqueueReadBuffer, waits += c; if (i) held++)
  WRAP(clFinish, waits++)
  WRAP(clGetEventInfo, if (hangs || fails) *(int *)d = hangs ? 1 : fails)
  static void *(*create)(unsigned, void *, void *, int *);
  static int (*enqueue)(unsigned, void *, void *, unsigned, void *, void *), (*release)(void *);
  static void *createBuffer(unsigned queues, void *queue, void *properties, int *code) {
    if (refuses) return *code = -59, (void *)0;
    return held++, create(queues, queue, properties, code);
  }
  static int enqueueBuffer(unsigned queues, void *queue, void *buffer, unsigned events, void *after, void *event) {
    return queued++, held++, enqueue(queues, queue, buffer, events, after, event);
  }
  static int releaseBuffer(void *buffer) { return held--, release(buffer); }
  void *clGetExtensionFunctionAddressForPlatform(void *platform, const char *name) {
    void *(*real)(void *, const char *) = dlsym(RTLD_NEXT, "clGetExtensionFunctionAddressForPlatform");
    void *found = real(platform, name);
    if (!found) return found;
    if (!strcmp(name, "clCreateCommandBufferKHR")) return create = found, createBuffer;
    if (!strcmp(name, "clEnqueueCommandBufferKHR")) return enqueue = found, enqueueBuffer;
    if (!strcmp(name, "clReleaseCommandBufferKHR")) return release = found, releaseBuffer;
    return found;
  }
  int planted_queued(void) { return queued; }
  int planted_hold(int isHeld) { return hangs = isHeld; }
  int planted_refuse(void) { return refuses = 1; }
  int planted_held(void) { return held; }
  int planted_waits(void) { return waits; }`

const withoutCompiler = isSkipped || isLeftOut(hasCompiler)
const compilerNote = isSkipped || hasCompiler ? note : " (skipped: no C compiler)"

describe.skipIf(withoutCompiler)(`a driver that counts and fails${compilerNote}`, () => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-counting-opencl-"))
  afterAll(() => rmSync(folder, { recursive: true }))
  let libraries = 0

  async function openCounting() {
    const path = plantDriver(folder, `counting-${libraries++}.so`, counting, "libOpenCL.so.1")
    const counted = await openOpencl(0, [path])
    const { take } = openDriverLibrary([path])
    const planted = (of: string) => take(`int32_t planted_${of}()`) as () => number
    const [held, waits] = [planted("held"), planted("waits")]
    const hold = take("int32_t planted_hold(int32_t isHeld)")
    return { counted, held, waits, hold, queued: planted("queued"), refuse: planted("refuse") }
  }

  test("a thousand steps leave nothing behind, and nothing is held once it is closed", async () => {
    const { counted, held } = await openCounting()
    const [add] = await loadOn(counted, [adds])
    const before = [held(), counted.memory().available]
    const words = new Uint32Array(100)
    const bytes = new Uint8Array(words.buffer)
    for (let turn = 0; turn < 1000; turn++) {
      const place = await counted.allocate(400, turn % 2 ? "device" : "host")
      const large = turn % 10 ? undefined : await counted.allocate(20 << 20, "device")
      const operands = [{ place, at: 0 }, 100, 2]
      const dispatch = { kernel: add!, operands, groups: [1, 1, 1] as const }
      const recording = counted.record(Array(5).fill(dispatch))
      words.fill(turn)
      await counted.write(place, 0, bytes)
      await counted.run([recording, recording], newCancel())
      await counted.read(place, 0, bytes)
      expect(words.every((word) => word === turn + 20)).toBe(true)
      recording.free()
      counted.free(place)
      if (large) counted.free(large)
    }
    expect([held(), counted.memory().available]).toEqual(before)
    const place = await counted.allocate(400, "device")
    const dispatch = {
      kernel: add!,
      operands: [{ place, at: 0 }, 1, 1],
      groups: [1, 1, 1] as const,
    }
    counted.record([dispatch])
    expect(held()).toBe(before[0]! + 2)
    counted.record([dispatch, dispatch])
    await counted.close()
    expect(held()).toBe(0)
  })

  test("kernels that are unloaded leave nothing behind", async () => {
    const { counted, held } = await openCounting()
    const before = held()
    const loaded = [await loadOn(counted, [adds, sums]), await loadOn(counted, [adds])]
    expect(held()).toBe(before + 2) // programs
    for (const each of loaded) counted.unload(each)
    expect(held()).toBe(before)
    await counted.close()
    expect(held()).toBe(0)
  })

  test("a run and what is wanted of it are waited for once", async () => {
    const { counted, waits } = await openCounting()
    const [add] = await loadOn(counted, [adds])
    const place = await counted.allocate(4000, "device")
    const operands = [{ place, at: 0 }, 1000, 3]
    const recording = counted.record([{ kernel: add!, operands, groups: [1, 1, 1] }])
    const words = new Uint32Array(1000)
    const before = waits()
    const into = new Uint8Array(words.buffer)
    await counted.run([recording], newCancel(), [{ place, at: 0, into }])
    expect(waits()).toBe(before + 1)
    expect(words).toEqual(new Uint32Array(1000).fill(3))
    await counted.close()
  })

  test("where there are command buffers, a recording is queued in one call", async () => {
    const { counted, queued, refuse } = await openCounting()
    const survey = (await findDevices()).find(({ name }) => name === "opencl")!
    const [add] = await loadOn(counted, [adds])
    const place = await counted.allocate(4, "device")
    const ran = async (times: number) => {
      const before = queued()
      const operands = [{ place, at: 0 }, 1, 1]
      const dispatch = { kernel: add!, operands, groups: [1, 1, 1] as const }
      const recording = counted.record(Array(200).fill(dispatch))
      await counted.run(Array(times).fill(recording), newCancel())
      recording.free()
      const word = new Uint32Array(1)
      await counted.read(place, 0, new Uint8Array(word.buffer))
      return [queued() - before, word[0]]
    }
    const calls = survey.devices[0]!.features.command_buffers ? 3 : 600
    expect(await ran(3)).toEqual([calls, 600])
    refuse()
    expect(await ran(1)).toEqual([200, 800])
    await counted.close()
  })

  test("memory that is not there when it is used is refused as any other", async () => {
    const { counted, held } = await openCounting()
    const before = [held(), counted.memory().available]
    for (const bytes of [1 << 20, 2 << 20])
      await expect(counted.allocate(bytes, "device")).rejects.toMatchObject({
        code: "memory_refused",
      })
    counted.free(await counted.allocate(3 << 20, "device"))
    expect([held(), counted.memory().available]).toEqual(before)
    await counted.close()
  })

  test("what is started leaves nothing behind, also where it does not end well", async () => {
    const { counted, held } = await openCounting()
    const [add, sum] = await loadOn(counted, [adds, sums])
    const before = held()
    await startInTurns(counted, sum!, 50)
    expect(held()).toBe(before)
    const place = await counted.allocate(4, "device")
    const [bad, sound] = [2, 1].map((groups) =>
      counted.record([
        { kernel: add!, operands: [{ place, at: 0 }, 1, 7], groups: [groups, 1, 1] },
      ]),
    )
    const into = new Uint8Array(4)
    const ends = [bad!, sound!].map((each) => counted.start(each, [{ place, at: 0, into }]))
    for (const { ended } of await Promise.all(ends))
      await expect(ended).rejects.toThrow(ProgramLost)
    await expect(counted.start(sound!, [])).rejects.toThrow(ProgramLost)
    await counted.close()
    expect(held()).toBe(0)
  })

  test("a kernel that does not end well loses the program, now and from then on", async () => {
    const { counted, held } = await openCounting()
    const [add] = await loadOn(counted, [adds])
    const place = await counted.allocate(4, "device")
    const dispatch = (groups: number) => ({
      kernel: add!,
      operands: [{ place, at: 0 }, 1, 7],
      groups: [groups, 1, 1] as const,
    })
    const [sound, bad] = [1, 2].map((groups) => counted.record([dispatch(groups)]))
    expect(await counted.run([sound!, sound!], newCancel())).toBe("done")
    const run = counted.run([sound!, bad!, sound!], newCancel())
    await expect(run).rejects.toThrow(ProgramLost)
    await expect(run).rejects.toThrow(/: clWaitForEvents answers -9999$/)
    await expect(counted.run([sound!], newCancel())).rejects.toThrow(ProgramLost)
    await expect(counted.read(place, 0, new Uint8Array(4))).rejects.toThrow(ProgramLost)
    await expect(counted.write(place, 0, new Uint8Array(4))).rejects.toThrow(ProgramLost)
    await expect(counted.allocate(4, "host")).rejects.toThrow(ProgramLost)
    await counted.close()
    expect(held()).toBe(0)
  })

  test("one that does not answer is given up, and left alone from then on", async () => {
    const { counted, held, hold } = await openCounting()
    const [add] = await loadOn(counted, [adds])
    await expectGivenUp(counted, add!, hold)
    expect(held()).toBeGreaterThan(0)
  })
})

test.skipIf(isSkipped)(`two at once do not know of each other${note}`, async () => {
  const other = await openOpencl(0)
  onTestFinished(() => other.close())
  const both = [device(), other]
  const found = await Promise.all(
    both.map(async (each, i) => {
      const [add] = await loadOn(each, [adds])
      const place = await each.allocate(4000, "device")
      const operands = [{ place, at: 0 }, 1000, i + 1]
      const recording = each.record([{ kernel: add!, operands, groups: [1, 1, 1] }])
      for (let turn = 0; turn < 50; turn++) await each.run([recording, recording], newCancel())
      const words = new Uint32Array(1000)
      await each.read(place, 0, new Uint8Array(words.buffer))
      recording.free()
      each.free(place)
      return words
    }),
  )
  expect(found.map((words) => [...new Set(words)])).toEqual([[100], [200]])
})
