// A process that two signals tell to end, while a thread of Node's pool waits for a device for ever.

import { endSignal } from "../../src/cli/signals.ts"
import { openDriverLibrary } from "../../src/runtime/ffi.ts"

void openDriverLibrary(["libc.so.6"]).takeAsync("int pause()")()
const end = endSignal()
process.kill(process.pid, "SIGTERM")
await end
process.kill(process.pid, "SIGINT")
