// Runs `sinter serve FOLDER` or `sinter compile FOLDER` for each folder named, one after the other in one process, since
// starting seventy of them would take minutes. Prints a line of JSON for each: what it said, how it ended, and what that took.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"

const main = pathToFileURL(join(import.meta.dirname, "../src/cli/main.ts")).href
const print = console.log.bind(console)
const [command, ...folders] = process.argv.slice(2)
const scratch = mkdtempSync(join(tmpdir(), "sinter-refusals-"))

/** What is typed, for the folder of this number. */
function typed(folder: string, i: number): string[] {
  if (command === "compile")
    return [command, folder, "--weights-only", "--output", join(scratch, String(i))]
  return ["serve", folder, "--port", "0", "--target", "reference", "--log-level", "silent"]
}

let said = ""
console.error = (...words: unknown[]) => {
  said += `${words.join(" ")}\n`
}
console.log = (...words: unknown[]) => {
  if (/^ready/m.test(words.join(" "))) process.kill(process.pid, "SIGTERM")
}

for (const [i, folder] of folders.entries()) {
  said = ""
  process.exitCode = 0
  const [memory, begun] = [process.memoryUsage().rss, process.cpuUsage()]
  process.argv = [process.execPath, "sinter", ...typed(folder, i)]
  await import(`${main}?${i}`) // a copy of its own, so that it runs again
  const { user, system } = process.cpuUsage(begun)
  print(
    JSON.stringify({
      said,
      code: process.exitCode,
      seconds: (user + system) / 1e6,
      grown: process.memoryUsage().rss - memory,
    }),
  )
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"])
    process.removeAllListeners(signal)
  process.stdout.removeAllListeners("error")
}
rmSync(scratch, { recursive: true })
process.exit(0)
