// What signals mean to the command line. Node forgets at its start which signals it was to ignore, and answers SIGUSR1 with an
// inspector, through which whoever may connect to this machine's loopback runs code: both are mended here.

import { readFileSync, readlinkSync } from "node:fs"
import { basename } from "node:path"

/** As a shell reports a program that Ctrl-C has ended. */
export const INTERRUPTED = 130

/** For every command, before anything else. */
export function settleSignals(): void {
  process.on("SIGUSR1", () => {})
  if (isUnderNohup()) process.on("SIGHUP", () => {})
}

/** Resolves at the first SIGINT, SIGTERM, or SIGHUP of a terminal that closes; a second one, of any kind, ends the process at once. */
export function endSignal(): Promise<undefined> {
  let isEnding = false
  return new Promise((resolve) => {
    for (const [signal, code] of [
      ["SIGINT", INTERRUPTED],
      ["SIGTERM", 143],
      ["SIGHUP", 129],
    ] as const) {
      if (signal === "SIGHUP" && isUnderNohup()) continue
      process.on(signal, () => {
        if (isEnding) void endNow(code)
        isEnding = true
        resolve(undefined)
      })
    }
  })
}

/**
 * Ends the process whatever its threads do. One that waits for a device inside its driver would be waited for by Node, which
 * hears no signal by then. Nor is a terminal given back whose keys are read one by one: that is done before.
 * @param code absent: that of `process.exitCode`
 */
export async function endNow(code?: number): Promise<never> {
  const { endProcess } = await import("../runtime/ffi.ts")
  process.once("exit", endProcess)
  process.exit(code)
}

/**
 * By the traces that nohup leaves: shells name the program that they start in `_`, and nohup gives what was the terminal's to
 * /dev/null, opened for writing alone, and to nohup.out.
 */
function isUnderNohup(): boolean {
  const outputs = [1, 2].map((fd) => basename(target(fd)))
  return (
    basename(process.env._ ?? "") === "nohup" ||
    outputs.includes("nohup.out") ||
    (target(0) === "/dev/null" && isWriteOnly(0))
  )
}

function target(fd: number): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`)
  } catch {
    return "" // another system, or closed
  }
}

const ACCESS = 3
const WRITE_ONLY = 1

function isWriteOnly(fd: number): boolean {
  try {
    const [, flags] = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8")) ?? []
    return (Number.parseInt(flags ?? "0", 8) & ACCESS) === WRITE_ONLY
  } catch {
    return false
  }
}
