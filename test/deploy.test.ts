// The files of deploy/ beside what the program makes of them. Nothing here starts a unit or a container.

import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { hubCache } from "../src/hub/cache.ts"
import { cacheHome } from "../src/runtime/cache.ts"
import { freePort } from "./proxies.ts"
import { built, serving, start } from "./sinter.ts"

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

test("a fault that passes is outlived for minutes, and one that stays is given up", () => {
  const [burst, pause] = [Number(unit("StartLimitBurst")), Number(unit("RestartSec"))]
  expect(unit("Restart")).toBe("on-failure")
  expect(unit("RestartPreventExitStatus")).toBe(undefined) // 2 is also a port in use, and a hub out of reach
  expect(burst * pause).toBeGreaterThan(120)
  expect(burst * pause).toBeLessThan(Number(unit("StartLimitIntervalSec")) / 2) // starting takes time, too
})

test("secrets that only root may read are named where systemd puts them", () => {
  // systemd.exec(5): LoadCredential=ID:PATH is the file ID in $CREDENTIALS_DIRECTORY, /run/credentials/UNIT for a system's unit.
  const loaded = textOf("sinter.service").matchAll(/^# LoadCredential=(.+):(.+)$/gm)
  const secrets = Array.from(loaded, ([, id, path]) => ({ id: id!, path: path! }))
  const paths = textOf("sinter.conf").matchAll(/^# (?:api-key-file|tls-cert|tls-key) = (.+)$/gm)
  expect(secrets.map(({ path }) => path)).toEqual(Array.from(paths, ([, path]) => path))
  const page = readFileSync(new URL("../docs/service.md", import.meta.url), "utf8")
  const named = page.matchAll(/^(?:api-key-file|tls-cert|tls-key) = (.+sinter\.service.+)$/gm)
  expect(Array.from(named, ([, path]) => path)).toEqual(
    secrets.map(({ id }) => `/run/credentials/sinter.service/${id}`),
  )
})

test("launchd's daemon is not root, and writes into a folder that its user is given", () => {
  const pairs = textOf("sinter.plist").matchAll(/<key>(\w+)<\/key>\s*<string>([^<]*)<\/string>/g)
  const said = Object.fromEntries(Array.from(pairs, ([, key, value]) => [key!, value!]))
  const {
    UserName: user,
    XDG_CACHE_HOME: cache,
    StandardOutPath: out,
    StandardErrorPath: err,
  } = said
  expect(user).toMatch(/^_\w+$/) // as macOS calls those that are nobody's
  const page = readFileSync(new URL("../docs/service.md", import.meta.url), "utf8")
  expect(page).toMatch(new RegExp(`^install -d -o ${user} -m 700 ${cache}$`, "m"))
  for (const path of [hubCache(said), cacheHome(said), out!, err!])
    expect(join(path, "/").startsWith(join(cache!, "/"))).toBe(true)
})

const tls = {
  SINTER_TLS_CERT: resolve("test/golden/tls/one.crt"),
  SINTER_TLS_KEY: resolve("test/golden/tls/one.key"),
}
test.each([
  ["http", {}],
  ["https", tls],
])(
  "the container's health check finds a server that speaks %s where the environment says",
  async (_, files) => {
    const [, words] = /^HEALTHCHECK (?:.*\\\n)* *CMD (\[.*\])$/m.exec(textOf("Containerfile"))!
    const [, ...args]: string[] = JSON.parse(words!)
    const env = { SINTER_PORT: String(await freePort()), ...files }
    const check = () => spawnSync(process.execPath, args, { env }).status
    expect(check()).toBe(1)
    const server = await serving(start(["serve", "tiny"], built, env))
    onTestFinished(() => void server.stop())
    expect(check()).toBe(0)
  },
)
