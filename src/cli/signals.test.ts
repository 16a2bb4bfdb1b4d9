import { spawnSync } from "node:child_process"
import { resolve } from "node:path"
import { expect, test } from "vitest"

const isLinux = process.platform === "linux"

test.skipIf(!isLinux)(
  `a second signal ends a process that waits for a device for ever${isLinux ? "" : " (skipped: not Linux)"}`,
  () => {
    const file = resolve(import.meta.dirname, "../../test/device/stuck-child.ts")
    const { status, signal } = spawnSync(process.execPath, ["--import", "tsx", file], {
      timeout: 60_000,
      killSignal: "SIGKILL",
    })
    expect({ status, signal }).toEqual({ status: 130, signal: null }) // bash(1): 128 and the signal's number
  },
)
