import { availableParallelism } from "node:os"
import { resolve } from "node:path"
import { defineConfig } from "vitest/config"
import { LongestFirst } from "./test/order.ts"

// Before there are threads, or PoCL's library would not see it. Its optimizer takes longer than all that these kernels run.
process.env.POCL_EXTRA_BUILD_FLAGS ??= "-cl-opt-disable"

// Without isolation: a fresh module graph per file costs ten times the tests themselves. Processes, not threads of one: tests start
// thousands of programs, and for each the system copies the page tables of the process that starts it.
export default defineConfig({
  resolve: {
    alias: [
      {
        find: /^(\.{1,2}\/)+code-root\.ts$/,
        replacement: resolve(import.meta.dirname, "test/code-root.ts"),
      },
    ],
  },
  test: {
    globalSetup: "test/build.ts",
    setupFiles: "test/environment.ts",
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    sequence: { sequencer: LongestFirst },
    pool: "forks",
    isolate: false,
    maxWorkers: availableParallelism() + 1, // tests wait for disks and for programs that they start, a fifth of the time
    // Only a test that hangs takes this long; a busy machine compiles and spawns slowly.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
  },
})
