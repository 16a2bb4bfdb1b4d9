// Two servers behind the proxies of docs/scaling.md, with the very configurations that stand there: one server is drained
// under load, and no client may notice.

import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { expect, onTestFinished, test } from "vitest"
import { load } from "../bench/load.ts"
import { isLeftOut } from "./left-out.ts"
import { type Serving, serve } from "./sinter.ts"

interface Proxy {
  /** How the block of the page that holds its configuration begins. */
  language: string
  /** How it says that it is here. */
  probe: readonly string[]
  /** Only what is particular to a test: it may not be root, and leaves nothing behind. */
  adapt: (configuration: string, folder: string) => string
  command: (file: string, folder: string) => readonly string[]
}

const proxies: Record<string, Proxy> = {
  haproxy: {
    language: "haproxy",
    probe: ["haproxy", "-v"],
    adapt: (configuration) => configuration,
    command: (file) => ["haproxy", "-db", "-f", file],
  },
  nginx: {
    language: "nginx",
    probe: ["nginx", "-v"],
    adapt: (configuration, folder) => {
      const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map((name) => `${name}_temp_path ${folder}/${name};`)
        .join(" ")
      return configuration.replace("http {", `http { access_log off; ${paths}`)
    },
    command: (file, folder) => {
      const globals = `daemon off; pid ${folder}/pid; error_log stderr;`
      return ["nginx", "-p", folder, "-c", file, "-g", globals]
    },
  },
}

test.for(Object.entries(proxies))(
  "%s: one of two servers is drained under load and no request fails",
  async ([name, proxy], { skip }) => {
    const [program, ...args] = proxy.probe
    const isHere = !spawnSync(program!, args).error
    if (isLeftOut(isHere)) skip(`${name} is not on this machine`)
    const [staying, leaving] = await Promise.all([1, 2].map(() => serve(["tiny"])))
    onTestFinished(() => void staying!.stop())
    const url = await start(proxy, [staying!.url, leaving!.url])

    let [begun, drained] = [false, false]
    const told = load({
      url,
      model: "tiny",
      clients: 4,
      seconds: 600, // at most
      isEnough: () => {
        begun = true // questions are prepared before
        return drained
      },
      warmUp: 0,
      seed: 3,
      mix: { stream: 6, whole: 2, cancel: 1, huge: 0.2 },
    })
    await expect.poll(() => begun).toBe(true)
    await twentyMore(leaving!)
    expect(await leaving!.stop("SIGTERM")).toMatchObject({ code: 0 })
    await twentyMore(staying!) // alone
    drained = true
    const { faults, outcomes } = await told
    expect(faults).toEqual({})
    expect(outcomes.busy).toBe(0)
    expect(outcomes.answered).toBeGreaterThan(20)
  },
)

/** Runs a proxy before these servers until the test is over. @returns its address */
async function start(proxy: Proxy, servers: readonly string[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "sinter-proxy-"))
  chmodSync(folder, 0o755) // nginx' workers give up being root
  const port = await freePort()
  const ports = ["8080", "8001", "8002"]
  const actual = [String(port), ...servers.map((server) => new URL(server).port)]
  const written = configurationOf(proxy.language).replace(/\b80(80|01|02)\b/g, (each) => {
    return actual[ports.indexOf(each)]!
  })
  const file = join(folder, "configuration")
  writeFileSync(file, proxy.adapt(written, folder))
  const [program, ...args] = proxy.command(file, folder)
  const child = spawn(program!, args, { stdio: ["ignore", "ignore", "pipe"] })
  let words = ""
  child.stderr.on("data", (text) => {
    words += text
  })
  onTestFinished(async () => {
    await ended(child)
    rmSync(folder, { recursive: true })
  })
  const url = `http://127.0.0.1:${port}`
  for (;;) {
    const status = await fetch(`${url}/health`).then(
      (response) => response.status,
      () => 0,
    )
    if (status === 200) return url
    if (child.exitCode !== null) throw new Error(`the proxy: ${words}`)
    await sleep(50)
  }
}

async function twentyMore(server: Serving): Promise<void> {
  const before = answered(server)
  await expect.poll(() => answered(server)).toBeGreaterThan(before + 20)
}

const answered = (server: Serving) => server.err().split('"outcome":"answered"').length - 1

function configurationOf(language: string): string {
  const page = readFileSync(new URL("../docs/scaling.md", import.meta.url), "utf8")
  const [, configuration] = new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "ms").exec(page) ?? []
  if (configuration === undefined) throw new Error(`docs/scaling.md shows nothing of ${language}`)
  return configuration
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return
  const over = new Promise((resolve) => child.once("exit", resolve))
  child.kill("SIGTERM")
  await over
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}
