// The GPUs of a Mac, through the Objective-C runtime: a message is a call of objc_msgSend, of one C type for each kind of
// answer.

import { openDriverLibrary, type Pointer, textAt } from "../ffi.ts"
import { type DriverDevice, DriverObstacle } from "./driver.ts"

/** MTLGPUFamily…: the first whose chips multiply small matrices, and those of the third Metal. */
const APPLE_7 = 1007n
const METAL_3 = 5001n

/** @param names of the framework; the Objective-C runtime comes with it */
export function listMetal(names: readonly string[], runtime: readonly string[]): DriverDevice[] {
  const metal = openDriverLibrary(names)
  const objc = openDriverLibrary(runtime)
  const selector = objc.take<Pointer>("void *sel_registerName(const char *name)")
  const objectOf = objc.take<Pointer>("void *objc_msgSend(void *self, void *selector)")
  const numberOf = objc.take<number | bigint>("uint64_t objc_msgSend(void *self, void *selector)")
  const memberOf = objc.take<Pointer>(
    "void *objc_msgSend(void *self, void *selector, uint64_t number)",
  )
  const answerOf = objc.take<boolean>("bool objc_msgSend(void *self, void *selector)")
  const familyOf = objc.take<boolean>(
    "bool objc_msgSend(void *self, void *selector, int64_t family)",
  )
  const number = (self: Pointer, name: string) => Number(numberOf(self, selector(name)))

  const pool = objc.take<Pointer>("void *objc_autoreleasePoolPush(void)")()
  const devices = metal.take<Pointer | null>("void *MTLCopyAllDevices(void)")()
  const count = devices ? number(devices, "count") : 0
  if (!devices || count === 0)
    throw new DriverObstacle("no_device", "Metal is here and finds no device")
  const described = Array.from({ length: count }, (_, i): DriverDevice => {
    const device = memberOf(devices, selector("objectAtIndex:"), i)
    const is = (name: string) => answerOf(device, selector(name))
    const name = objectOf(device, selector("name"))
    const total = number(device, "recommendedMaxWorkingSetSize")
    const shared = is("hasUnifiedMemory")
    return {
      description: textAt(objectOf(name, selector("UTF8String"))),
      type: is("isLowPower") || shared ? "integrated_gpu" : "gpu",
      driver: familyOf(device, selector("supportsFamily:"), METAL_3) ? "Metal 3" : "Metal 2",
      memory: {
        total,
        available: Math.max(0, total - number(device, "currentAllocatedSize")),
        shared,
      },
      features: {
        f16_storage: true,
        f16_arithmetic: true,
        matrix_units: familyOf(device, selector("supportsFamily:"), APPLE_7),
        shared_bytes: number(device, "maxThreadgroupMemoryLength"),
        largest_allocation_bytes: number(device, "maxBufferLength"),
      },
    }
  })
  objectOf(devices, selector("release"))
  objc.take<void>("void objc_autoreleasePoolPop(void *pool)")(pool)
  return described
}
