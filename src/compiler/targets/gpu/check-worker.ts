// The process in which a device is checked: what its driver does to it (hang, abort) costs the case that it was at.

import { type GpuKind, openDevice } from "../../../runtime/gpu/open.ts"
import { serve } from "../../../worker/serve.ts"
import type { CheckOpening, CheckOutcome } from "./check.ts"
import { checkCase } from "./check-device.ts"

let opening: CheckOpening
let device: ReturnType<typeof openDevice> | undefined

serve<CheckOpening, string>({
  open: (given) => {
    opening = given
  },
  async answer(name): Promise<CheckOutcome> {
    try {
      device ??= openDevice(opening.kind as GpuKind, opening.id)
      return await checkCase(await device, opening.kind, name)
    } catch (error) {
      return { result: "refused", words: (error as Error).message }
    }
  },
})
