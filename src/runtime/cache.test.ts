import { execFileSync } from "node:child_process"
import { devNull } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"

/** What another process, with this HOME, takes for its cache. @param user becomes that one */
function cacheOf(home: string | undefined, user?: number): unknown {
  const { HOME: _, XDG_CACHE_HOME: __, ...rest } = process.env
  const script = `
    const { cacheHome } = await import("./cache.ts")
    ${user === undefined ? "" : `process.setuid(${user})`}
    console.log(JSON.stringify(cacheHome()))`
  const run = ["--import", "tsx", "--input-type=module", "--eval", script]
  const env = home === undefined ? rest : { ...rest, HOME: home }
  return JSON.parse(
    execFileSync(process.execPath, run, { cwd: import.meta.dirname, env }).toString(),
  )
}

test.each([
  ["/srv/sinter", "/srv/sinter/.cache"],
  ["", join(devNull, ".cache")],
  ["some/where", join(devNull, ".cache")],
])("HOME=%j: the cache is %s", (home, cache) => {
  expect(cacheOf(home)).toBe(cache)
})

const isRoot = process.getuid?.() === 0
const why = isRoot ? "" : " (skipped: only root becomes another)"
test.skipIf(!isRoot)(`a user whom the system does not know has no cache${why}`, () => {
  expect(cacheOf(undefined, 54_321)).toBe(join(devNull, ".cache"))
})
