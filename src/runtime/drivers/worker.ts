// The process that asks one driver. What the driver does to it (hang, abort, write where it must not) ends here.

import { serve } from "../../worker/serve.ts"
import { FunctionMissing, LibraryMissing } from "../ffi.ts"
import type { DriverAnswer, DriverOrder } from "./ask.ts"
import { listCuda, listHip } from "./cuda.ts"
import { DriverObstacle } from "./driver.ts"
import { listMetal } from "./metal.ts"
import { listOpenCl } from "./opencl.ts"
import { listVulkan } from "./vulkan.ts"

const drivers = {
  cuda: listCuda,
  rocm: listHip,
  vulkan: listVulkan,
  opencl: listOpenCl,
  metal: (names: readonly string[]) => listMetal(names, ["/usr/lib/libobjc.A.dylib"]),
} as const satisfies Record<DriverOrder["driver"], unknown>

serve<unknown, DriverOrder>({
  open: () => {}, // so that what happens from here on is the driver's doing
  async answer({ driver, libraries }): Promise<DriverAnswer> {
    try {
      return { devices: await drivers[driver](libraries) }
    } catch (error) {
      if (error instanceof DriverObstacle) return { obstacle: error.obstacle }
      if (error instanceof LibraryMissing)
        return {
          obstacle: {
            reason: "no_driver",
            problem: `no driver is installed (looked for ${error.message})`,
          },
        }
      if (error instanceof FunctionMissing)
        return {
          obstacle: {
            reason: "driver_too_old",
            problem: `its driver is too old (${error.message}); update the driver`,
          },
        }
      const problem = `its driver cannot be loaded: ${(error as Error).message}`
      return { obstacle: { reason: "driver_failed", problem } }
    }
  },
})
