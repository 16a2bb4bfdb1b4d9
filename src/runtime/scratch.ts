// Folders for work that is over soon, and processes that work in them: gone when the work is, however this process ends. What
// SIGKILL leaves no time for is done by a guard: a shell that waits for this process's end of a pipe to close.

import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdirSync, statSync } from "node:fs"
import { rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import type { Writable } from "node:stream"
import { problem } from "../errors.ts"

export interface Scratch {
  folder: string
  /** A process that was started `detached`, which makes it the first of a group: the group ends with the work. */
  own: (child: ChildProcess) => void
  /** Ends all of them now. */
  end: () => void
}

/** @throws `scratch_refused` */
export async function withScratch<Result>(
  name: string,
  work: (scratch: Scratch) => Promise<Result>,
): Promise<Result> {
  const { folder, guard } = openScratch(name)
  const owned: ChildProcess[] = []
  const own = (child: ChildProcess) => {
    owned.push(child)
    if (child.pid !== undefined) guard.own(child.pid)
  }
  const end = () => owned.forEach(endGroup)
  try {
    return await work({ folder, own, end })
  } finally {
    end()
    await rm(folder, { recursive: true, force: true })
    guard.release()
  }
}

/** The process and what it has started; one that is over has ended them, or its number may be another's by now. */
function endGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid === undefined || exitCode !== null || signalCode !== null) return
  try {
    process.kill(-pid, "SIGKILL")
  } catch {} // it ended this moment
}

/**
 * A folder that is gone when this process is, unless it is released.
 * @throws `scratch_refused`
 */
export function openScratch(name: string): { folder: string; guard: Guard } {
  const folder = join(tmpdir(), `${name}-${randomUUID()}`)
  const guard = guardOf(folder) // first, or this process might be killed in between
  try {
    mkdirSync(folder, 0o700)
  } catch (error) {
    guard.release()
    const { code } = error as NodeJS.ErrnoException
    throw problem("scratch_refused", { folder: tmpdir(), problem: code! })
  }
  return { folder, guard }
}

export interface Guard {
  /** The process group with this number is ended, too. */
  own(group: number): void
  /** The folder is nobody's concern any more. */
  release(): void
}

/**
 * Each line names a process group. The pipe's end without a word means that its writer was killed. A process that it could not
 * name any more may write to the folder once again.
 */
const GUARD = `
  while read -r line; do
    [ "$line" = released ] && exit
    groups="$groups -$line"
  done
  [ -z "$groups" ] || kill -KILL $groups
  for second in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$0" && exit
    sleep 1
  done`

/** Takes `folder` away when this process ends before it is released. Without a shell, or a process to be had, nobody does. */
export function guardOf(folder: string): Guard {
  const shell = spawn("/bin/sh", ["-c", GUARD, folder], {
    detached: true, // a signal to this process's group is none to the guard
    stdio: ["pipe", "ignore", "ignore"],
    env: { PATH: "/usr/bin:/bin" },
  })
  shell.on("error", () => {})
  shell.stdin.on("error", () => {})
  shell.unref()
  ;(shell.stdin as Writable & { unref?: () => void }).unref?.()
  return {
    own: (group) => void shell.stdin.write(`${group}\n`),
    release: () => void shell.stdin.end("released\n"),
  }
}

/** Makes a folder and those that it lies in. Not by mkdir's own `recursive`, which never returns below /proc. */
export function makeFolder(path: string, mode = 0o777): void {
  try {
    mkdirSync(path, mode)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === "EEXIST" && statSync(path).isDirectory()) return
    if (code !== "ENOENT" || dirname(path) === path) throw error
    makeFolder(dirname(path), mode)
    mkdirSync(path, mode)
  }
}
