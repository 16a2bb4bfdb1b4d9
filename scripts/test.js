// Runs everything that says whether the product is sound, and closes with one line that a person and a script can read:
// builds, checks (each counts as one test), then the tests. With arguments: only the tests they name, as vitest reads them.
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"

const named = process.argv.slice(2)
const checks =
  named.length > 0 ? [] : ["build", "check:types", "check:style", "check:lint", "check:unused"]

const broken = await runChecks()
await installed()
const tests = runTests()
const passed = checks.length - broken.length + tests.passed
const failed = broken.length + tests.failed
for (const name of broken) console.log(`npm run ${name} failed; its words are above.`)
console.log(`${passed} passed, ${failed} failed, ${tests.skipped} skipped`)
process.exit(failed === 0 ? 0 : 1)

/** The names of those that failed. All at once: each keeps one processor busy, and what it says is printed in one piece. */
async function runChecks() {
  const sound = await Promise.all(
    checks.map(async (name) => {
      const check = spawn("npm", ["run", "--silent", name])
      const said = []
      for (const stream of [check.stdout, check.stderr])
        stream.on("data", (bytes) => said.push(bytes))
      const [status] = await once(check, "close")
      process.stdout.write(Buffer.concat(said))
      return status === 0
    }),
  )
  return checks.filter((_, i) => !sound[i])
}

/** What tests need beside Node may be on its way still: the file that TESTS_AWAIT names appears when it is there (.ci/run). */
async function installed() {
  const { TESTS_AWAIT } = process.env
  while (TESTS_AWAIT && !existsSync(TESTS_AWAIT)) await sleep(200)
}

function runTests() {
  const folder = mkdtempSync(join(tmpdir(), "sinter-test-"))
  const report = join(folder, "report.json")
  const vitest = ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`]
  const options = ["node_modules/vitest/vitest.mjs", ...vitest, ...named]
  const sound = spawnSync(process.execPath, options, { stdio: "inherit" }).status === 0
  const counts = JSON.parse(readFileSync(report, "utf8"))
  rmSync(folder, { recursive: true })
  const unfinished = unfinishedOf(counts)
  for (const name of unfinished) console.log(`${name}: its process ended before it did.`)
  // A file that fails to load counts as a suite only: it must not read as zero failures.
  const failed =
    counts.numFailedTests + unfinished.length ||
    (sound ? 0 : Math.max(1, counts.numFailedTestSuites))
  return {
    passed: counts.numPassedTests,
    failed,
    skipped: counts.numPendingTests + counts.numTodoTests,
  }
}

/** What a crash of a test's process leaves behind: vitest itself does not say where it was. */
function unfinishedOf({ testResults }) {
  return testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === "pending")
      .map(({ fullName }) => `${relative(".", name)}: ${fullName}`),
  )
}
