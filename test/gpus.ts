// Whether a kind of device is here, for tests that run a model on its first one. Drivers are asked once in a process.

import { type DeviceName, findDevices } from "../src/runtime/devices.ts"
import { isLeftOut } from "./left-out.ts"

const found = (await findDevices(60_000)).flatMap(({ devices }) => devices)

/** A driver makes dozens of kernels of a model before it runs one. */
export const GPU_MILLISECONDS = 240_000

/** @returns whether tests on it are left out, and what their titles say then */
export function lackOf(kind: DeviceName): { isSkipped: boolean; why: string } {
  const isSkipped = isLeftOut(found.some(({ name, obstacle }) => name === kind && !obstacle))
  return { isSkipped, why: isSkipped ? ` (skipped: no device of ${kind})` : "" }
}
