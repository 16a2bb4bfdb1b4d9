// The package where the C library is musl, as in Alpine's containers: in a root folder that scripts/musl-root.sh has made, with kernels
// that musl-gcc builds, without a compiler inside. What it says there is held to what it says here, bit for bit.

import { spawnSync } from "node:child_process"
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import OpenAI from "openai"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { buildGeneric, buildWeightWork, genericName } from "../src/compiler/targets/cpu/generic.ts"
import { usableLevels } from "../src/compiler/targets/cpu/levels.ts"
import { identify } from "../src/compiler/targets/cpu/toolchain.ts"
import { processorFeatures } from "../src/runtime/features.ts"
import type { System } from "../src/runtime/system.ts"
import { weightWorkName } from "../src/runtime/weight-work.ts"
import { goldenFolder } from "./model/golden.ts"
import { built, type Installed, run, serve } from "./sinter.ts"

const { MUSL_ROOT: root = "" } = process.env
const folder = mkdtempSync(join(tmpdir(), "sinter-musl-"))
afterAll(() => rmSync(folder, { recursive: true }))

/** Starts a program in the root, with the package in /app and a /tmp of the test's own. Nobody else sees what is mounted. */
const enter = [
  ...["unshare", process.getuid?.() === 0 ? "-m" : "-rm", "sh", "-c"],
  [
    ...["proc", "dev"].map((name) => `mount --rbind /${name} "$0/${name}"`),
    ...["app", "tmp"].map((name) => `mount --bind "${join(folder, name)}" "$0/${name}"`),
    `exec chroot "$0" "$@"`,
  ].join(" && "),
  ...[root, "/usr/bin/node"],
]
const inside: Installed = { command: [...enter, "/app/build/cli/main.js"], folder }
const environment = {
  PATH: "/usr/sbin:/usr/bin", // where the root has no compiler
  CC: undefined,
  TMPDIR: undefined,
  NODE_EXTRA_CA_CERTS: undefined,
  XDG_CACHE_HOME: "/tmp/cache",
}
const system: System = { platform: "linux", arch: "x64", libc: "musl" }
const [level] = usableLevels("x64", processorFeatures())

for (const name of ["app", "tmp"]) mkdirSync(join(folder, name))
const canEnter = root !== "" && spawnSync(enter[0]!, [...enter.slice(1), "--version"]).status === 0
const compiler = await identify("musl-gcc")
const skipped = !canEnter || !compiler
const note = skipped
  ? ` (skipped: ${!compiler ? "no musl-gcc on this machine" : root ? "this user may not mount folders, or MUSL_ROOT is no such root" : "MUSL_ROOT names no root folder"})`
  : ""

beforeAll(async () => {
  if (skipped) return
  const app = join(folder, "app")
  for (const part of ["build", "models", "package.json"])
    cpSync(join(built.folder, part), join(app, part), { recursive: true })
  const generic = join(app, "build/generic")
  mkdirSync(generic, { recursive: true })
  const code = await buildGeneric(compiler!, level, ["f32", "q8f16_1"])
  writeFileSync(join(generic, genericName(level, system)), code)
  writeFileSync(join(generic, weightWorkName(system)), await buildWeightWork(compiler!))
}, 600_000)

/** What a server says to one message alone, to five at once and to one as a stream, with all numbers. */
async function answers(url: string) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 })
  const asked = (content: string, seed: number) => ({
    model: "tiny",
    messages: [{ role: "user" as const, content }],
    seed,
    logprobs: true,
    top_logprobs: 5,
    max_tokens: 40,
  })
  const whole = async (content: string, seed: number) => {
    const { choices, system_fingerprint } = await client.chat.completions.create(
      asked(content, seed),
    )
    return { choices, system_fingerprint }
  }
  const alone = await whole("What is 12 + 30? ".repeat(30), 7)
  const together = await Promise.all([1, 2, 3, 4, 5].map((seed) => whole("Hello!", seed)))
  const streamed = []
  const stream = await client.chat.completions.create({ ...asked("Who are you?", 3), stream: true })
  for await (const { choices } of stream) streamed.push(choices)
  return { alone, together, streamed }
}

describe.skipIf(skipped)(`in a root folder with musl${note}`, () => {
  test("a driver that is not here is said to be not here", async () => {
    const asked = ["run", "tiny", "Hello!", "--device", "vulkan"]
    const { code, err } = await run(asked, "", inside, environment)
    expect(code).toBe(2)
    expect(err).toContain("no driver is installed (looked for libvulkan.so.1)")
  })

  test("it serves the bits that it serves here", async () => {
    const server = await serve(["tiny", "--log-level", "warn"], inside, environment)
    expect(server.out()).toContain(`generic ${level.name} kernels, for want of a C compiler`)
    const there = await answers(server.url)
    expect(await server.stop()).toMatchObject({ code: 0, err: "" })
    const own = await serve(["tiny", "--log-level", "warn"])
    expect(there).toEqual(await answers(own.url))
    await own.stop()
  })

  test("it sees what transformers sees in an image", async () => {
    const golden = goldenFolder("vision", "smolvlm")
    const { question, text } = JSON.parse(readFileSync(join(golden, "reply.json"), "utf8"))
    cpSync(join(goldenFolder("gguf", "vision"), "smolvlm"), join(folder, "tmp/smolvlm"), {
      recursive: true,
    })
    cpSync(join(golden, "image.png"), join(folder, "tmp/image.png"))
    const options = ["--image", "/tmp/image.png", "--temperature", "0", "--max-tokens", "16"]
    const asked = ["run", "/tmp/smolvlm", question, ...options, "--target", "reference"]
    expect(await run(asked, "", inside, environment)).toMatchObject({ code: 0, out: `${text}\n` })
  })

  test("what it compiles runs there, and is refused here by the system's name", async () => {
    const compiled = ["compile", "tiny", "--output", "/tmp/compiled"]
    expect(await run(compiled, "", inside, environment)).toMatchObject({ code: 0 })
    const library = "compiled/lib/cpu.so"
    const ask = (at: string, where: Installed, env = {}) =>
      run(["run", "tiny", "Hello!", "--model-lib", join(at, library)], "", where, env)
    expect(await ask("/tmp", inside, environment)).toMatchObject({ code: 0, err: "" })
    expect(existsSync(join(folder, "tmp", library))).toBe(true)
    const here = await ask(join(folder, "tmp"), built)
    expect(here.err).toContain("it was built for linux-x64-musl, and this is linux-x64;")
  })
})
