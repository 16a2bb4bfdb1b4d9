// Before the tests: build/ is of these sources, since tests start the program from there. From the sources each of its
// processes would read TypeScript first, which takes three times what starting does. What `npm run build` has just made is left,
// unless `npm run generic` has added to it: there is a compiler or there is none in what tests say of that.

import { execFileSync } from "node:child_process"
import { readdirSync, statSync } from "node:fs"
import { join, resolve } from "node:path"
import type { TestProject } from "vitest/node"

const root = resolve(import.meta.dirname, "..")

export default function setup(project: TestProject): void {
  build()
  project.onTestsRerun(build)
}

function build(): void {
  const made = ["src", "scripts/build.js", "tsconfig.build.json"]
  const hasGeneric = changed("build/generic") > 0
  if (!hasGeneric && changed("build") > Math.max(...made.map(changed))) return
  execFileSync(process.execPath, ["scripts/build.js", "--unchecked"], {
    cwd: root,
    stdio: "inherit",
  })
}

/** When something there last changed: a file, or which files there are. Never, where nothing is. */
function changed(name: string): number {
  const path = join(root, name)
  const stats = statSync(path, { throwIfNoEntry: false })
  if (!stats?.isDirectory()) return stats?.mtimeMs ?? 0
  const inside = readdirSync(path).map((entry) => changed(join(name, entry)))
  return Math.max(stats.mtimeMs, ...inside)
}
