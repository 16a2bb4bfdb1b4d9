// Does one thing that Metal forbids, to see that its stand-in notices.

import { openDriverLibrary, type Pointer } from "../../../src/runtime/ffi.ts"

const [path, does] = process.argv.slice(2) as [string, string]
const { take } = openDriverLibrary([path])
const selector = take<Pointer>("void *sel_registerName(const char *name)")
const classNamed = take<Pointer>("void *objc_getClass(const char *name)")
const pool = take<Pointer>("void *objc_autoreleasePoolPush(void)")
const numbers = ", uint64_t a, uint64_t b, uint64_t c"
const message = take<number | bigint>(`uint64_t objc_msgSend(void *self, void *selector${numbers})`)

function say(self: Pointer, name: string, a = 0n, b = 0n, c = 0n): Pointer {
  return BigInt(message(self, selector(name), a, b, c))
}

const devices = take<Pointer>("void *MTLCopyAllDevices(void)")()
const [device, other] = [0n, 1n].map((i) => say(devices, "objectAtIndex:", i)) as [Pointer, Pointer]
const queue = say(device, "newCommandQueue")
if (does !== "leaves the pool out") pool()
const commands = say(queue, "commandBuffer")
const bufferOf = (device: Pointer) => say(device, "newBufferWithLength:options:", 64n)

const misuses: Record<string, () => void> = {
  "commits what is not encoded": () => {
    say(commands, "computeCommandEncoder")
    say(commands, "commit")
  },
  "commits twice": () => {
    say(say(commands, "computeCommandEncoder"), "endEncoding")
    say(commands, "commit")
    say(commands, "commit")
  },
  "waits too early": () => say(commands, "waitUntilCompleted"),
  "encodes behind the end": () => {
    const encoder = say(commands, "computeCommandEncoder")
    say(encoder, "endEncoding")
    say(encoder, "setComputePipelineState:")
  },
  "opens two encoders": () => {
    say(commands, "computeCommandEncoder")
    say(commands, "computeCommandEncoder")
  },
  "binds beyond a buffer": () =>
    say(say(commands, "computeCommandEncoder"), "setBuffer:offset:atIndex:", bufferOf(device), 64n),
  "binds another device's buffer": () =>
    say(say(commands, "computeCommandEncoder"), "setBuffer:offset:atIndex:", bufferOf(other)),
  "releases twice": () => {
    say(commands, "release") // and the pool does so too
    take<void>("void objc_autoreleasePoolPop(void *pool)")(1n)
  },
  "has fast mathematics": () =>
    say(
      device,
      "newLibraryWithSource:options:error:",
      0n,
      say(classNamed("MTLCompileOptions"), "new"),
    ),
  "says what nobody knows": () => say(device, "whatever"),
}
misuses[does]!()
