// Test files share threads (vitest.config.ts), and with them an environment: what one changes in it is as it was when the next begins.

import { afterAll } from "vitest"

const before = { ...process.env }

afterAll(() => {
  for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name]
  Object.assign(process.env, before)
})
