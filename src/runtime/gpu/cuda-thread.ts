// The thread of a CUDA device: it has the device's context, and makes the calls that take long. It is handed addresses, and
// whoever asks keeps what lies there.

import { serve } from "../../worker/serve.ts"
import { openDriverLibrary, type Pointer } from "../ffi.ts"

export interface CudaThread {
  names: readonly string[]
  context: Pointer
  stream: Pointer
}

/** Each is answered with CUDA's code, once all that was handed to the stream before it is done. */
export type CudaOrder =
  | { call: "read" | "write"; copies: readonly Copy[] }
  | { call: "load"; module: Pointer; image: Pointer; log: Pointer; logBytes: number }

interface Copy {
  device: Pointer
  host: Pointer
  bytes: number
}

const ERROR_LOG = 5
const ERROR_LOG_BYTES = 6

function opened({ names, context, stream }: CudaThread): (order: CudaOrder) => number {
  const { take } = openDriverLibrary(names)
  const setCurrent = take("int32_t cuCtxSetCurrent(void *context)")
  const write = take(
    "int32_t cuMemcpyHtoDAsync_v2(uint64_t to, void *from, size_t bytes, void *stream)",
  )
  const read = take(
    "int32_t cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)",
  )
  const wait = take("int32_t cuStreamSynchronize(void *stream)")
  const load = take(
    "int32_t cuModuleLoadDataEx(void *out, void *image, uint32_t count, void *options, void *values)",
  )
  const current = setCurrent(context)
  return (order) => {
    if (current !== 0) return current
    if (order.call === "load") {
      const { module, image, log, logBytes } = order
      const options = Int32Array.of(ERROR_LOG, ERROR_LOG_BYTES)
      return load(module, image, 2, options, BigUint64Array.of(log, BigInt(logBytes)))
    }
    for (const { device, host, bytes } of order.copies) {
      const code =
        order.call === "read"
          ? read(host, device, bytes, stream)
          : write(device, host, bytes, stream)
      if (code !== 0) return code
    }
    return wait(stream)
  }
}

let answer: (order: CudaOrder) => number
serve<CudaThread, CudaOrder>({
  open: (opening) => {
    answer = opened(opening)
  },
  answer: (order) => answer(order),
})
