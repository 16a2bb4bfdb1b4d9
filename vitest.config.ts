import { defineConfig } from "vitest/config"
import { LongestFirst } from "./test/order.ts"

// Threads without isolation: a fresh module graph per file costs ten times the tests themselves.
export default defineConfig({
  test: {
    globalSetup: "test/build.ts",
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    sequence: { sequencer: LongestFirst },
    pool: "threads",
    isolate: false,
    maxWorkers: "100%", // all processors: much of the time is spent waiting for programs that tests start
    // Only a test that hangs takes this long; a busy machine compiles and spawns slowly.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
  },
})
