import { spawnSync } from "node:child_process"
import { resolve } from "node:path"
import { expect, test } from "vitest"

const isLinux = process.platform === "linux"

test.skipIf(!isLinux)(
  `a process ends although a thread of it waits for a device for ever${isLinux ? "" : " (skipped: not Linux)"}`,
  () => {
    const file = resolve(import.meta.dirname, "../../../test/device/silent-child.ts")
    const { status, stdout } = spawnSync(process.execPath, ["--import", "tsx", file], {
      encoding: "utf8",
      timeout: 60_000,
    })
    expect({ status, stdout }).toEqual({
      status: 3,
      stdout: "Silent: it has not answered for 300 seconds\n",
    })
  },
  60_000,
)
