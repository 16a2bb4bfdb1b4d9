import { defineConfig } from "vitest/config"

// Threads without isolation: a fresh module graph per file costs ten times the tests themselves.
export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    pool: "threads",
    isolate: false,
    testTimeout: 30_000,
  },
})
