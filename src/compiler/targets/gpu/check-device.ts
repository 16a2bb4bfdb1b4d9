// Kernels on a device: what lies in their buffers afterwards, and whether that is right.

import type { GpuDevice, GpuKernel, Place } from "../../../runtime/gpu/device.ts"
import type { GpuKind } from "../../../runtime/gpu/open.ts"
import { meets } from "../../../runtime/gpu/tape.ts"
import type { CheckOrder, CheckOutcome } from "./check.ts"
import type { GpuCase, Numbers } from "./check-cases.ts"
import { Memory, type Order, runKernel } from "./ir/run.ts"
import { madeOf, printers } from "./printers.ts"

export const newCancel = () => new Int32Array(new SharedArrayBuffer(4))

const bytesOf = ({ buffer, byteOffset, byteLength }: Numbers) =>
  new Uint8Array(buffer, byteOffset, byteLength)

/**
 * @param before bytes of each buffer's place that come before its numbers
 * @returns one array an operand; those of words are empty
 */
export async function runOn(
  device: GpuDevice,
  loaded: GpuKernel,
  { operands, groups }: GpuCase,
  before = 0,
): Promise<Numbers[]> {
  const arrays = operands.map((each) =>
    typeof each === "number" ? new Uint8Array() : each.slice(),
  )
  // One by one: Oclgrind, which judges us here, has no lock where one thread waits and another allocates.
  const places: Place[] = []
  for (const array of arrays)
    places.push(await device.allocate(before + Math.max(4, array.byteLength), "device"))
  for (const [i, array] of arrays.entries()) await device.write(places[i]!, before, bytesOf(array))
  const values = operands.map((each, i) =>
    typeof each === "number" ? each : { place: places[i]!, at: before },
  )
  const recording = device.record([{ kernel: loaded, operands: values, groups }])
  await device.run([recording], newCancel())
  for (const [i, array] of arrays.entries()) await device.read(places[i]!, before, bytesOf(array))
  recording.free()
  for (const place of places) device.free(place)
  return arrays
}

/** What the slow twin makes of it, in each of these orders of threads, with subgroups of so many. */
export function twinOf(
  { kernel, operands, groups }: GpuCase,
  subgroup = 32,
  orders: readonly Order[] = ["backward", "shuffled", "forward"],
): Numbers[] {
  let arrays: Numbers[] = []
  for (const order of orders) {
    const memory = operands.map((each) => (typeof each === "number" ? each : Memory.of(each)))
    runKernel(kernel, memory, groups, { order, subgroup })
    const made = operands.map((each, i) => {
      if (typeof each === "number") return new Uint8Array()
      const { buffer, byteOffset } = (memory[i] as Memory).u8()
      const kind = each.constructor as new (of: ArrayBufferLike, at: number, n: number) => Numbers
      return new kind(buffer, byteOffset, each.length)
    })
    const differing = arrays.flatMap((each, i) => differences(made[i]!, each))
    if (differing.length > 0) throw new Error(`its threads' order matters: ${differing.join("; ")}`)
    arrays = made
  }
  return arrays
}

/** Where two arrays differ in their bits, the first few places in words. Every NaN is the same. */
export function differences(found: Numbers, expected: Numbers): string[] {
  const differing = Array.from(expected.keys()).filter((i) => !Object.is(found[i], expected[i]))
  return differing.slice(0, 5).map((i) => `[${i}] ${found[i]}, not ${expected[i]}`)
}

/** A kernel on all its shapes. */
export async function checkShapes(
  device: GpuDevice,
  kind: GpuKind,
  { profiles, shapes }: CheckOrder,
): Promise<CheckOutcome> {
  const printer = printers[kind]
  const differing = new Map<number, string>() // numbers of shapes, and where each does first
  try {
    const expected = shapes.map((each) => twinOf(each, device.traits.subgroup, ["forward"]))
    const usable = printer.profiles.filter((needs) => meets(device.traits, needs))
    for (const needs of usable) {
      const made = await madeOf(printer, [shapes[0]!.kernel], { needs })
      if (!made) continue
      const [loaded] = await device.load(made.modules, made.kernels)
      for (const [i, each] of shapes.entries()) {
        const found = await runOn(device, loaded!, each)
        const [first] = found.flatMap((array, n) => differences(array, expected[i]![n]!))
        if (first === undefined || differing.has(i)) continue
        differing.set(i, [each.shape, ...needs].join(", ").concat(`: ${first}`))
      }
      if (profiles !== "all") break
    }
  } catch (error) {
    return { result: "refused", equal: 0, words: (error as Error).message }
  }
  const [words = ""] = differing.values()
  const equal = shapes.length - differing.size
  return { result: differing.size > 0 ? "differs" : "equal", equal, words }
}
