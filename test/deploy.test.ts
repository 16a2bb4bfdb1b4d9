// The files of deploy/ beside what the program makes of them. Nothing here starts a service or a container.

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { hubCache } from "../src/hub/cache.ts"
import { cacheHome } from "../src/runtime/cache.ts"

const textOf = (name: string) => readFileSync(new URL(`../deploy/${name}`, import.meta.url), "utf8")

/** What a line of the unit says. */
function unit(name: string): string {
  const [, value] = new RegExp(`^${name}=(.*)$`, "m").exec(textOf("sinter.service")) ?? []
  return value!
}

test("what the unit's user writes lies in the one folder that it may write", () => {
  // systemd.exec(5): CacheDirectory= is below /var/cache, and ProtectSystem=strict lets nothing else be written there.
  const own = join("/var/cache", unit("CacheDirectory"), "/")
  const env = Object.fromEntries(
    unit("Environment")
      .split(" ")
      .map((entry) => entry.split("=")),
  )
  expect(unit("ProtectSystem")).toBe("strict")
  expect(hubCache(env).startsWith(own)).toBe(true)
  expect(join(cacheHome(env), "sinter/shelf").startsWith(own)).toBe(true)
})
