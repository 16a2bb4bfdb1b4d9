import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { findZig } from "../compiler/targets/cpu/toolchain.ts"
import { systemName, systems, thisSystem } from "./system.ts"

test("each system has a name of its own, as file names have them", () => {
  expect(systems.map(systemName)).toEqual([
    ...["linux-x64", "linux-x64-musl", "darwin-x64", "win32-x64"],
    ...["linux-arm64", "linux-arm64-musl", "darwin-arm64", "win32-arm64"],
  ])
})

test("the C library of this process is the one that Node was built for", () => {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } }
  const isMusl = process.platform === "linux" && header.glibcVersionRuntime === undefined
  expect(thisSystem().libc).toBe(isMusl ? "musl" : undefined)
})

test.skipIf(process.platform === "win32")(
  "zig is told of each system by its own name",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-system-"))
    const zig = join(folder, "zig")
    writeFileSync(zig, '#!/bin/sh\necho "$3"\n', { mode: 0o755 }) // of: cc -target NAME --version
    const found = await Promise.all(systems.map((system) => findZig(system, zig)))
    rmSync(folder, { recursive: true })
    expect(found.map((compiler) => compiler!.version)).toEqual([
      ...["x86_64-linux-gnu.2.28", "x86_64-linux-musl", "x86_64-macos.11.0", "x86_64-windows-gnu"],
      ...["aarch64-linux-gnu.2.28", "aarch64-linux-musl"],
      ...["aarch64-macos.11.0", "aarch64-windows-gnu"],
    ])
  },
)
