// Plants faults, one at a time, in a copy of the repository, and runs the test file that is to notice each:
//
//   npm run mutate               all of test/planted.ts
//   npm run mutate sampler http  those in whose row a word stands
//
// A fault that lives is a hole in the tests: the exit code is 1. A row that cannot be judged (its tests fail without the
// fault, are skipped here, or the fault does not even load) is one, too.

import { execFile, execFileSync } from "node:child_process"
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { promisify } from "node:util"
import { type PlantedFault, planted } from "../test/planted.ts"

const root = resolve(import.meta.dirname, "..")
const VITEST = "node_modules/vitest/vitest.mjs"
const MAX_RUN = 1_800_000 // ms: a fault that makes a test wait for ever is noticed, too

type Verdict = "died" | "lived" | "not judged"

const words = process.argv.slice(2)
const rows = planted.filter(
  (row) => words.length === 0 || words.some((word) => JSON.stringify(row).includes(word)),
)
const copy = copyOf(root)
const stopped = new AbortController()
process.once("exit", () => rmSync(copy, { recursive: true, force: true, maxRetries: 9 }))
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop)

const sound = new Map<string, string | undefined>() // of each test, what is wrong with it when nothing is planted
const counts: Record<Verdict, number> = { died: 0, lived: 0, "not judged": 0 }
for (const row of rows) {
  const { verdict, why } = await judged(row)
  console.log(`${verdict.padEnd(10)}  ${row.file}: ${row.what}${why ? ` (${why})` : ""}`)
  counts[verdict]++
}
const { died, lived } = counts
console.log(`${died} died, ${lived} lived, ${counts["not judged"]} could not be judged`)
process.exitCode = died === rows.length && died > 0 ? 0 : 1

/** The test that runs is over, and so is this. */
function stop(): void {
  stopped.abort()
  process.exit(130)
}

interface Judgement {
  verdict: Verdict
  why?: string
}

async function judged(row: PlantedFault): Promise<Judgement> {
  const named = `${row.test} ${row.name ?? ""}`
  if (!sound.has(named)) sound.set(named, complaint(await run(row)))
  const already = sound.get(named)
  if (already) return { verdict: "not judged", why: `${row.test} ${already}` }
  const file = join(copy, row.file)
  const text = readFileSync(file, "utf8")
  if (text.split(row.text).length !== 2)
    return { verdict: "not judged", why: "its text does not stand there once" }
  writeFileSync(
    file,
    text.replace(row.text, () => row.fault),
  )
  try {
    const { passed, fails, hangs } = await run(row)
    if (fails) return { verdict: "died" }
    if (hangs) return { verdict: "died", why: "the tests never end" }
    return passed > 0 ? { verdict: "lived" } : { verdict: "not judged", why: "it does not load" }
  } finally {
    writeFileSync(file, text)
  }
}

interface Run {
  passed: number
  /** A test does, or what comes before it; a file that does not load has none. */
  fails: boolean
  hangs: boolean
}

/** Of vitest's report in JSON what is read. */
interface Report {
  numPassedTests: number
  testResults: { status: string; assertionResults: unknown[] }[]
}

function complaint({ passed, fails, hangs }: Run): string | undefined {
  if (hangs) return "never ends"
  if (fails) return "fails as it is"
  return passed === 0 ? "is skipped here" : undefined
}

async function run({ test, name }: PlantedFault): Promise<Run> {
  const report = join(copy, "report.json")
  const only = name === undefined ? [] : ["-t", name]
  const vitest = ["run", test, ...only, "--bail=1", "--reporter=json", `--outputFile=${report}`]
  const { signal } = stopped
  const settings = { cwd: copy, timeout: MAX_RUN, killSignal: "SIGKILL", signal } as const
  const over = await promisify(execFile)(process.execPath, [VITEST, ...vitest], settings).catch(
    (error: { killed?: boolean }) => error,
  )
  if ("killed" in over && over.killed) return { passed: 0, fails: false, hangs: true }
  const { numPassedTests, testResults }: Report = JSON.parse(readFileSync(report, "utf8"))
  rmSync(report)
  const [file] = testResults
  const fails = file?.status === "failed" && file.assertionResults.length > 0
  return { passed: numPassedTests, fails, hangs: false }
}

/** All that Git knows or would add, as it is now, in a folder of its own. */
function copyOf(folder: string): string {
  const all = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
  const listed = execFileSync("git", all, { cwd: folder, encoding: "utf8" })
  const made = mkdtempSync(join(tmpdir(), "sinter-planted-"))
  for (const file of new Set(listed.split("\0").filter(Boolean)))
    cpSync(join(folder, file), join(made, file), { recursive: true })
  symlinkSync(join(folder, "node_modules"), join(made, "node_modules"))
  return made
}
