// Before the tests: build/ is of these sources, since tests start the program from there. From the sources each of its
// processes would read TypeScript first, which takes three times what starting does. What `npm run generic` has added goes:
// there is a compiler or there is none in what tests say of that.

import { execFileSync } from "node:child_process"
import { resolve } from "node:path"
import type { TestProject } from "vitest/node"

export default function setup(project: TestProject): void {
  build()
  project.onTestsRerun(build)
}

function build(): void {
  execFileSync(process.execPath, ["scripts/build.js", "--unchecked"], {
    cwd: resolve(import.meta.dirname, ".."),
    stdio: "inherit",
  })
}
