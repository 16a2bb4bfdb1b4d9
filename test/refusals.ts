// Starts `sinter serve FOLDER` for each folder named, one after the other in one process, since starting seventy of them
// would take minutes. Prints a line of JSON for each: what it said, how it ended, and what that took.

import { join } from "node:path"
import { pathToFileURL } from "node:url"

const main = pathToFileURL(join(import.meta.dirname, "../src/cli/main.ts")).href
const print = console.log.bind(console)

let said = ""
console.error = (...words: unknown[]) => {
  said += `${words.join(" ")}\n`
}
console.log = (...words: unknown[]) => {
  if (/^ready/m.test(words.join(" "))) process.kill(process.pid, "SIGTERM")
}

for (const [i, folder] of process.argv.slice(2).entries()) {
  said = ""
  process.exitCode = 0
  const [memory, begun] = [process.memoryUsage().rss, process.cpuUsage()]
  const log = ["--target", "reference", "--log-level", "silent"]
  process.argv = [process.execPath, "sinter", "serve", folder, "--port", "0", ...log]
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
  for (const signal of ["SIGINT", "SIGTERM"]) process.removeAllListeners(signal)
}
process.exit(0)
