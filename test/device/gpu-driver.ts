// What device.ts promises of every driver, whatever the device computes: memory, copies, recordings and runs.

import { setImmediate } from "node:timers/promises"
import { describe, expect, onTestFinished, test, vi } from "vitest"
import { newCancel } from "../../src/compiler/targets/gpu/check-device.ts"
import { kernel } from "../../src/compiler/targets/gpu/ir/builder.ts"
import type { Kernel } from "../../src/compiler/targets/gpu/ir/ir.ts"
import type { GpuDevice, GpuKernel } from "../../src/runtime/gpu/device.ts"
import { DeviceSilent, PATIENCE } from "../../src/runtime/gpu/patience.ts"
import { mulberry32 } from "../random.ts"

/** Adds `by` to each of `count` words. */
export const adds = kernel("adds", 32, (k) => {
  const numbers = k.buffer("numbers", "u32", "readwrite")
  const [count, by] = [k.word("count"), k.word("by")]
  k.each(count, (i) => numbers.store(i, numbers.load(i).add(by)))
})

/** Puts the sums of two rows of `count` words into a third. */
export const sums = kernel("sums", 32, (k) => {
  const [a, b] = [k.buffer("a", "u32", "read"), k.buffer("b", "u32", "read")]
  const sum = k.buffer("sum", "u32", "write")
  k.each(k.word("count"), (i) => sum.store(i, a.load(i).add(b.load(i))))
})

/**
 * Starts `turns` recordings, two at a time, each with numbers that are written for it and what the one before has made.
 * @param add of `sums`
 * @returns what each has made: number i is i times the sum of 1 … its turn, counted from 1
 */
export async function startInTurns(
  device: GpuDevice,
  add: GpuKernel,
  turns: number,
): Promise<Uint32Array[]> {
  const words = 1000
  const take = async () => [
    await device.allocate(4 * words, "host"),
    await device.allocate(4 * words, "host"),
  ]
  const [given, made] = [await take(), await take()]
  const recordings = [0, 1].map((side) => {
    const places = [given[side]!, made[1 - side]!, made[side]!]
    const operands = [...places.map((place) => ({ place, at: 0 })), words]
    return device.record([{ kernel: add, operands, groups: [1, 1, 1] }])
  })
  const read: Uint32Array[] = []
  let before = Promise.resolve()
  for (let turn = 0; turn < turns; turn++) {
    const side = turn % 2
    const numbers = Uint32Array.from({ length: words }, (_, i) => i * (turn + 1))
    const bytes = new Uint8Array(numbers.buffer)
    await device.write(given[side]!, 0, bytes)
    read.push(numbers.fill(0))
    const wanted = { place: made[side]!, at: 0, into: bytes }
    const { ended } = await device.start(recordings[side]!, [wanted])
    await before
    before = ended
  }
  await before
  for (const each of recordings) each.free()
  for (const place of [...given, ...made]) device.free(place)
  return read
}

/**
 * That a device which does not answer is given up in a sentence, and left alone from then on, also when it is closed.
 * @param add of `adds`
 * @param hold keeps what is waited for from ending
 * @param asked how much has been asked of the driver that a device must not be asked then
 * @param waited how often the driver has said that a second is over, where it is waited for there; absent: by timers
 */
export async function expectGivenUp(
  device: GpuDevice,
  add: GpuKernel,
  hold: (isHeld: 0 | 1) => void,
  asked: () => number = () => 0,
  waited?: () => number,
): Promise<void> {
  device.traits.isProcessor = false
  const place = await device.allocate(4, "device")
  const recording = device.record([
    { kernel: add, operands: [{ place, at: 0 }, 1, 7], groups: [1, 1, 1] },
  ])
  await device.run([recording], newCancel())
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
  const atExit = vi.spyOn(process, "once").mockReturnValue(process)
  onTestFinished(() => {
    hold(0)
    atExit.mockRestore()
    vi.useRealTimers()
  })
  hold(1)
  const before = asked()
  const ends = [await device.start(recording, []), await device.start(recording, [])]
  const told = Promise.allSettled(ends.map(({ ended }) => ended))
  let looks = 0
  for (let isTold = false; !isTold; looks++) {
    vi.advanceTimersByTime(1000)
    await setImmediate()
    isTold = await Promise.race([told.then(() => true), setImmediate(false)])
  }
  expect(waited?.() ?? looks).toBeGreaterThanOrEqual(PATIENCE)
  const sentence = `${device.description}: it has not answered for 300 seconds`
  const reason = expect.objectContaining({ message: sentence })
  expect(await told).toEqual(ends.map(() => ({ status: "rejected", reason })))
  expect(atExit.mock.calls).toContainEqual(["exit", expect.any(Function)])
  await expect(device.run([recording], newCancel())).rejects.toThrow(DeviceSilent)
  await expect(device.read(place, 0, new Uint8Array(4))).rejects.toThrow(DeviceSilent)
  await expect(device.allocate(4, "device")).rejects.toThrow(DeviceSilent)
  recording.free()
  device.free(place)
  await device.close()
  expect(asked()).toBe(before)
}

export interface Driver {
  /** Stands behind the tests' names: why they are left out, or nothing. */
  note: string
  isSkipped: boolean
  device: () => GpuDevice
  load: (kernel: Kernel) => Promise<GpuKernel>
}

export function describeDriver({ note, isSkipped, device, load }: Driver): void {
  describe.skipIf(isSkipped)(`memory${note}`, () => {
    test("places begin as zeros and keep to themselves", async () => {
      const sizes = [1, 4, 255, 256, 257, 100_000, 3 << 20, 20 << 20]
      const places = await Promise.all(
        [...sizes, ...sizes].map((bytes, i) => device().allocate(bytes, i % 3 ? "device" : "host")),
      )
      for (const [i, place] of places.entries()) {
        const bytes = new Uint8Array(place.bytes).fill(255)
        await device().read(place, 0, bytes)
        expect(Buffer.compare(bytes, new Uint8Array(place.bytes))).toBe(0)
        await device().write(place, 0, bytes.fill(i + 1))
      }
      for (const [i, place] of places.entries()) {
        const bytes = new Uint8Array(place.bytes)
        await device().read(place, 0, bytes)
        expect(Buffer.compare(bytes, new Uint8Array(place.bytes).fill(i + 1))).toBe(0)
      }
      for (const place of places.slice(8)) device().free(place)
      const again = await Promise.all(sizes.map((bytes) => device().allocate(bytes, "device")))
      for (const place of again) {
        const bytes = new Uint8Array(place.bytes).fill(255)
        await device().read(place, 0, bytes)
        expect(Buffer.compare(bytes, new Uint8Array(place.bytes))).toBe(0)
      }
      for (const place of [...again, ...places.slice(0, 8)]) device().free(place)
    })

    test("what is freed can be taken again, as one piece", async () => {
      const { available } = device().memory()
      for (let turn = 0; turn < 3; turn++) {
        const small = await Promise.all(
          Array.from({ length: 64 }, () => device().allocate(1 << 18, "device")),
        )
        const held = available - device().memory().available
        expect(held).toBeGreaterThanOrEqual(16 << 20)
        expect(held).toBeLessThanOrEqual(64 << 20)
        for (const [i, place] of small.entries()) if (i !== 20) device().free(place)
        const large = await device().allocate(10 << 20, "device")
        expect(available - device().memory().available).toBe(held)
        device().free(large)
        device().free(small[20]!)
      }
      expect(device().memory().available).toBe(available)
    })

    test("a part of a place is written and read, and nothing beyond it", async () => {
      const place = await device().allocate(64, "host")
      await device().write(place, 8, Uint8Array.of(1, 2, 3))
      const read = new Uint8Array(5)
      await device().read(place, 7, read)
      expect([...read]).toEqual([0, 1, 2, 3, 0])
      await expect(device().write(place, 62, read)).rejects.toThrow("internal: 5 bytes at 62 of")
      await expect(device().read(place, 62, read)).rejects.toThrow("internal: 5 bytes at 62 of")
      device().free(place)
    })

    test("more than the device has in one piece is refused in a sentence", async () => {
      const { largest, available } = device().memory()
      await expect(device().allocate(largest + 1, "device")).rejects.toMatchObject({
        code: "memory_refused",
      })
      expect(device().memory().available).toBe(available)
    })
  })

  describe.skipIf(isSkipped)(`recordings${note}`, () => {
    test("each dispatch sees what those before it wrote, in every replay", async () => {
      const add = await load(adds)
      const place = await device().allocate(400, "device")
      const dispatch = (by: number) => ({
        kernel: add,
        operands: [{ place, at: 16 }, 50, by],
        groups: [1, 1, 1] as const,
      })
      const many = device().record(Array.from({ length: 300 }, (_, i) => dispatch(i % 3)))
      const one = device().record([dispatch(1000), { ...dispatch(5), groups: [0, 1, 1] }])
      const none = device().record([])
      expect(await device().run([many, many, none, one, many], newCancel())).toBe("done")
      expect(await device().run([one], newCancel())).toBe("done")
      const words = new Uint32Array(100)
      await device().read(place, 0, new Uint8Array(words.buffer))
      const expected = Array.from(words, (_, i) => (i >= 4 && i < 54 ? 2900 : 0))
      expect([...words]).toEqual(expected)
      for (const each of [many, one, none]) each.free()
      device().free(place)
    })

    test("a write is seen by what runs after it, and its bytes may be used again", async () => {
      const add = await load(adds)
      const place = await device().allocate(4, "host")
      const recording = device().record([
        { kernel: add, operands: [{ place, at: 0 }, 1, 7], groups: [1, 1, 1] },
      ])
      for (let turn = 0; turn < 20; turn++) {
        const word = Uint32Array.of(turn * 100)
        await device().write(place, 0, new Uint8Array(word.buffer))
        word[0] = 12345
        await device().run([recording], newCancel())
        await device().read(place, 0, new Uint8Array(word.buffer))
        expect(word[0]).toBe(turn * 100 + 7)
      }
      recording.free()
      device().free(place)
    })

    test("two that are started run one behind the other, each with what was written for it", async () => {
      const read = await startInTurns(device(), await load(sums), 20)
      for (const [turn, numbers] of read.entries()) {
        const sum = ((turn + 1) * (turn + 2)) / 2
        expect([...numbers]).toEqual(Array.from(numbers, (_, i) => i * sum))
      }
    })

    test("a long write and many short ones come in their order", async () => {
      const place = await device().allocate(8 << 20, "device")
      const next = mulberry32(1)
      const expected = new Uint8Array(8 << 20)
      for (let turn = 0; turn < 60; turn++) {
        const length = turn % 20 === 7 ? 3 << 20 : 1 + (next() % 90_000)
        const at = next() % (expected.length - length)
        const bytes = new Uint8Array(length).fill(turn + 1)
        expected.set(bytes, at)
        await device().write(place, at, bytes)
      }
      const read = new Uint8Array(8 << 20)
      await device().read(place, 0, read)
      expect(Buffer.compare(read, expected)).toBe(0)
      device().free(place)
    })

    test("the cancel word ends a run between two recordings", async () => {
      const add = await load(adds)
      const place = await device().allocate(4, "device")
      const recording = device().record([
        { kernel: add, operands: [{ place, at: 0 }, 1, 1], groups: [1, 1, 1] },
      ])
      const ran = async () => {
        const word = new Uint32Array(1)
        await device().read(place, 0, new Uint8Array(word.buffer))
        return word[0]!
      }
      const cancel = newCancel()
      cancel[0] = 1
      expect(await device().run([recording, recording], cancel)).toBe("cancelled")
      expect(await ran()).toBe(0)
      cancel[0] = 0
      const run = device().run(Array(1000).fill(recording), cancel)
      cancel[0] = 1
      expect(await run).toBe("cancelled")
      expect(await ran()).toBeLessThan(1000)
      cancel[0] = 0
      expect(await device().run([recording], cancel)).toBe("done")
      recording.free()
      device().free(place)
    })
  })
}
