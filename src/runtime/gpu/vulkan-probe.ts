// What drivers do not say of their devices: whether the instruction for a * b + c rounds once, and whether quotients and roots
// are the nearest floats. Vulkan promises neither, so a kernel is run on cases whose results are known, once a device is opened.

import type { GpuDevice } from "./device.ts"

const THREADS = 64
const PROBE_CASES = 4096

/**
 * The results of the device's own instructions.
 * @returns whether each kind is right in all cases
 */
export async function probeRounding(
  device: GpuDevice,
): Promise<{ fma: boolean; division: boolean }> {
  const { cases, results } = probeCases()
  const [kernel] = await device.load(
    [Buffer.from(probeModule, "base64")],
    [
      {
        name: "probe",
        module: 0,
        entry: "probe",
        threads: THREADS,
        sharedBytes: 0,
        operands: ["buffer", "buffer"],
      },
    ],
  )
  const from = await device.allocate(cases.byteLength, "host")
  const to = await device.allocate(cases.byteLength, "host")
  const recording = device.record([
    {
      kernel: kernel!,
      operands: [
        { place: from, at: 0 },
        { place: to, at: 0 },
      ],
      groups: [PROBE_CASES / THREADS, 1, 1],
    },
  ])
  const own = new Float32Array(cases.length)
  try {
    await device.write(from, 0, new Uint8Array(cases.buffer))
    await device.run([recording], new Int32Array(new SharedArrayBuffer(4)))
    await device.read(to, 0, new Uint8Array(own.buffer))
  } finally {
    recording.free()
    device.free(from)
    device.free(to)
  }
  const isRight = own.map((value, i) => Number(Object.is(value, results[i])))
  const areRight = (kind: number) => isRight.every((right, i) => i % 3 !== kind || right === 1)
  return { fma: areRight(0), division: areRight(1) && areRight(2) }
}

/** a, b and c of each case, and a * b + c, a / b and the root of a; each result is exact or rounded once, from a double. */
export function probeCases(): { cases: Float32Array; results: Float32Array } {
  const cases = new Float32Array(3 * PROBE_CASES)
  const results = new Float32Array(3 * PROBE_CASES)
  let state = 1
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
  const next = () => Math.fround((1 + random()) * 2 ** Math.floor(random() * 16 - 8))
  const unit = 2 ** -23
  for (let i = 0; i < 3 * PROBE_CASES; i += 3) {
    let [a, b] = [next(), next()]
    let c = -Math.fround(a * b)
    let sum = a * b + c // which is exact, and 0 where the product is rounded before
    if (i % 2 === 0) {
      // A little less than half way from an odd number to the next: who rounds to a double before comes half way.
      const scale = 2 ** Math.floor(random() * 16 - 8)
      ;[a, b, c] = [(1 + unit) * scale, (1 - unit) * (unit / 2), (1 + unit) * scale]
      sum = c
    }
    cases.set([a, b, c], i)
    results.set([sum, a / b, Math.sqrt(a)], i)
  }
  return { cases, results }
}

/** The kernel as print/spirv.ts prints it; test/device/vulkan.test.ts has it, and compares. */
export const probeModule = [
  "AwIjBwAFAQAAAAAAOgAAAAAAAAARAAIAAQAAABEAAgDjFAAAEQACAAsAAAARAAIAchEAABEAAgBzEQAAEQACAHARAAAL",
  "AAYAAQAAAEdMU0wuc3RkLjQ1MAAAAAAOAAMA5BQAAAEAAAAPAAgABQAAAAQAAABwcm9iZQAAAAgAAAAcAAAAIgAAABAA",
  "BgAEAAAAEQAAAEAAAAABAAAAAQAAABAABAAEAAAAbREAACAAAAAQAAQABAAAAG4RAAAgAAAAEAAEAAQAAABrEQAAIAAA",
  "AEcAAwAGAAAAAgAAAEgABQAGAAAAAAAAACMAAAAAAAAASAAFAAYAAAABAAAAIwAAAAgAAABHAAQADwAAAAYAAAAEAAAA",
  "RwADABAAAAACAAAASAAFABAAAAAAAAAAIwAAAAAAAABIAAQAEAAAAAAAAAAYAAAARwAEABYAAAAGAAAABAAAAEcAAwAX",
  "AAAAAgAAAEgABQAXAAAAAAAAACMAAAAAAAAARwAEABwAAAALAAAAGgAAAEcABAAiAAAACwAAAB0AAABHAAMAMgAAACoA",
  "AABHAAMANQAAACoAAABHAAMAOAAAACoAAAATAAIAAwAAABUABAAFAAAAQAAAAAAAAAAeAAQABgAAAAUAAAAFAAAAIAAE",
  "AAcAAAAJAAAABgAAADsABAAHAAAACAAAAAkAAAAgAAQACQAAAAkAAAAFAAAAFQAEAAoAAAAgAAAAAAAAACsABAAKAAAA",
  "CwAAAAAAAAAWAAMADgAAACAAAAAdAAMADwAAAA4AAAAeAAMAEAAAAA8AAAAgAAQAEQAAAOUUAAAQAAAAKwAEAAoAAAAT",
  "AAAAAQAAAB0AAwAWAAAADgAAAB4AAwAXAAAAFgAAACAABAAYAAAA5RQAABcAAAAXAAQAGgAAAAoAAAADAAAAIAAEABsA",
  "AAABAAAAGgAAADsABAAbAAAAHAAAAAEAAAArAAQACgAAAB8AAABAAAAAIAAEACEAAAABAAAACgAAADsABAAhAAAAIgAA",
  "AAEAAAArAAQACgAAACUAAAADAAAAIAAEACcAAADlFAAADgAAACsABAAKAAAALQAAAAIAAAAhAAMAOQAAAAMAAAA2AAUA",
  "AwAAAAQAAAAAAAAAOQAAAPgAAgACAAAAPQAEABoAAAAdAAAAHAAAAFEABQAKAAAAHgAAAB0AAAAAAAAAPQAEAAoAAAAj",
  "AAAAIgAAAEEABQAJAAAADAAAAAgAAAALAAAAPQAEAAUAAAANAAAADAAAAHgABAARAAAAEgAAAA0AAABBAAUACQAAABQA",
  "AAAIAAAAEwAAAD0ABAAFAAAAFQAAABQAAAB4AAQAGAAAABkAAAAVAAAAhAAFAAoAAAAgAAAAHgAAAB8AAACAAAUACgAA",
  "ACQAAAAgAAAAIwAAAIQABQAKAAAAJgAAACQAAAAlAAAAQQAGACcAAAAoAAAAEgAAAAsAAAAmAAAAPQAGAA4AAAApAAAA",
  "KAAAAAIAAAAEAAAAgAAFAAoAAAAqAAAAJgAAABMAAABBAAYAJwAAACsAAAASAAAACwAAACoAAAA9AAYADgAAACwAAAAr",
  "AAAAAgAAAAQAAACAAAUACgAAAC4AAAAmAAAALQAAAEEABgAnAAAALwAAABIAAAALAAAALgAAAD0ABgAOAAAAMAAAAC8A",
  "AAACAAAABAAAAEEABgAnAAAAMQAAABkAAAALAAAAJgAAAAwACAAOAAAAMgAAAAEAAAAyAAAAKQAAACwAAAAwAAAAPgAF",
  "ADEAAAAyAAAAAgAAAAQAAACAAAUACgAAADMAAAAmAAAAEwAAAEEABgAnAAAANAAAABkAAAALAAAAMwAAAIgABQAOAAAA",
  "NQAAACkAAAAsAAAAPgAFADQAAAA1AAAAAgAAAAQAAACAAAUACgAAADYAAAAmAAAALQAAAEEABgAnAAAANwAAABkAAAAL",
  "AAAANgAAAAwABgAOAAAAOAAAAAEAAAAfAAAAKQAAAD4ABQA3AAAAOAAAAAIAAAAEAAAA/QABADgAAQA=",
].join("")
