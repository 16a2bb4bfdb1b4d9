// A process in which a thread of Node's pool waits for a device for ever: it is done, and ends.

import { mock } from "node:test"
import { exitIfStuck } from "../../src/closing.ts"
import { openDriverLibrary } from "../../src/runtime/ffi.ts"
import { answerOf, PATIENCE } from "../../src/runtime/gpu/patience.ts"

mock.timers.enable({ apis: ["setInterval"] })
const pause = openDriverLibrary(["libc.so.6"]).takeAsync("int pause()")
const device = { description: "Silent", traits: { isProcessor: false } } as Parameters<
  typeof answerOf
>[0]
const answer = answerOf(device, pause(), () => {})
for (let looks = 0; looks < PATIENCE; looks++) mock.timers.tick(1000)
await answer.catch(({ message }: Error) => console.log(message))
process.exitCode = 3
exitIfStuck()
