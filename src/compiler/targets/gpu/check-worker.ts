// The process in which a device is checked: what its driver does to it (hang, abort) costs the kernel that it was at.

import { type GpuKind, openDevice } from "../../../runtime/gpu/open.ts"
import { serve } from "../../../worker/serve.ts"
import type { CheckOpening, CheckOrder, CheckOutcome } from "./check.ts"
import { checkShapes } from "./check-device.ts"

let opening: CheckOpening
let device: ReturnType<typeof openDevice> | undefined

serve<CheckOpening, CheckOrder>({
  open: (given) => {
    opening = given
  },
  async answer(order): Promise<CheckOutcome> {
    try {
      device ??= openDevice(opening.kind as GpuKind, opening.id)
      return await checkShapes(await device, opening.kind, order)
    } catch (error) {
      return { result: "refused", equal: 0, words: (error as Error).message }
    }
  },
})
