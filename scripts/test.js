// Runs the whole suite and closes with one line that a person and a script can both read.
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const folder = mkdtempSync(join(tmpdir(), "sinter-test-"))
const report = join(folder, "report.json")
const run = spawnSync(
  process.execPath,
  [
    "node_modules/vitest/vitest.mjs",
    "run",
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${report}`,
    ...process.argv.slice(2),
  ],
  { stdio: "inherit" },
)
const { numPassedTests, numFailedTests, numFailedTestSuites, numPendingTests, numTodoTests } =
  JSON.parse(readFileSync(report, "utf8"))
rmSync(folder, { recursive: true })
// A file that fails to load counts as a suite only: it must not read as zero failures.
const failed = numFailedTests || (run.status === 0 ? 0 : Math.max(1, numFailedTestSuites))
console.log(`${numPassedTests} passed, ${failed} failed, ${numPendingTests + numTodoTests} skipped`)
process.exit(run.status ?? 1)
