// What runs in the thread of checksums.ts.

import { serve } from "../../worker/serve.ts"
import { type ChecksumOrder, md5Of } from "./checksums.ts"

serve({
  open(): void {},
  answer: ({ fd, size }: ChecksumOrder): string => md5Of(fd, size),
})
