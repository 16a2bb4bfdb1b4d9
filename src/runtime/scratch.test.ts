// What is left of a process that was killed: nothing. The process is a real one, so is its guard.

import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { afterEach, beforeEach, expect, test } from "vitest"
import { makeFolder, withScratch } from "./scratch.ts"

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "scratch-"))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

/** Not there, or a zombie that nobody has waited for. */
function isOver(pid: number): boolean {
  try {
    return !/^State:\s+[^ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"))
  } catch {
    return true
  }
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(5)
}

/** A process that has a scratch folder with a file in it, and a process group that would go on for long. */
async function working(): Promise<{ child: ChildProcess; folder: string; group: number }> {
  const script = `
    import { spawn } from "node:child_process"
    import { writeFileSync } from "node:fs"
    import { withScratch } from ${JSON.stringify(new URL("scratch.ts", import.meta.url).href)}
    await withScratch("work", async ({ folder, own }) => {
      const child = spawn("sh", ["-c", "sleep 600 & echo $!; wait"], { detached: true })
      own(child)
      child.stdout.once("data", (grandchild) => {
        writeFileSync(folder + "/half", "")
        console.log(JSON.stringify({ folder, group: Number(grandchild) }))
      })
      await new Promise(() => {})
    })`
  const file = join(root, "work.mts")
  writeFileSync(file, script)
  const env = { ...process.env, TMPDIR: root }
  const child = spawn(process.execPath, ["--import", "tsx", file], {
    cwd: process.cwd(),
    env,
    stdio: ["ignore", "pipe", "inherit"],
  })
  const [line] = await once(child.stdout!, "data")
  return { child, ...JSON.parse(String(line)) }
}

test.each(["SIGKILL", "SIGTERM"] as const)(
  "%s leaves no folder and nothing that was started in it",
  async (signal) => {
    const { child, folder, group } = await working()
    expect(existsSync(join(folder, "half")) && !isOver(group)).toBe(true)
    child.kill(signal)
    await until(() => !existsSync(folder) && isOver(group))
  },
)

test("work that is over or fails leaves neither", async () => {
  const before = process.env.TMPDIR
  process.env.TMPDIR = root
  try {
    let started: ChildProcess | undefined
    const failing = withScratch("work", async ({ folder, own }) => {
      writeFileSync(join(folder, "half"), "")
      started = spawn("sleep", ["600"], { detached: true })
      own(started)
      throw new Error("the work failed")
    })
    await expect(failing).rejects.toThrow("the work failed")
    await until(() => isOver(started!.pid!))
    expect(await withScratch("work", async () => 1)).toBe(1)
    expect(readdirSync(root)).toEqual([])
    process.env.TMPDIR = join(root, "nowhere")
    await expect(withScratch("work", async () => 1)).rejects.toThrow(
      `No temporary folder can be made in ${join(root, "nowhere")} (ENOENT); set TMPDIR to a folder`,
    )
  } finally {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
  }
})

test("folders are made with those they lie in; below /proc, where mkdir's own way never ends, it fails", () => {
  makeFolder(join(root, "a/b/c"))
  makeFolder(join(root, "a/b/c"))
  expect(existsSync(join(root, "a/b/c"))).toBe(true)
  writeFileSync(join(root, "file"), "")
  expect(() => makeFolder(join(root, "file"))).toThrow("EEXIST")
  expect(() => makeFolder(join(root, "file/a"))).toThrow("ENOTDIR")
  if (process.platform === "linux") expect(() => makeFolder("/proc/a/b")).toThrow("ENOENT")
})
