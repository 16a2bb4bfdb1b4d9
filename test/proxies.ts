// The proxies of docs/scaling.md before servers on this machine, with the very configurations that stand there.

import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"

export interface Proxy {
  /** How the block of the page that holds its configuration begins. */
  language: string
  /** How it says that it is here. */
  probe: readonly string[]
  /** Only what is particular to a test: it may not be root, and leaves nothing behind. */
  adapt: (configuration: string, folder: string) => string
  command: (file: string, folder: string) => readonly string[]
}

export const proxies = {
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
} as const satisfies Record<string, Proxy>

/** Runs a proxy before these two servers. @param adapt what is to be changed of the page's configuration */
export async function startProxy(
  proxy: Proxy,
  servers: readonly string[],
  adapt = (configuration: string) => configuration,
): Promise<{ url: string; stop: () => Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), "sinter-proxy-"))
  chmodSync(folder, 0o755) // nginx' workers give up being root
  const port = await freePort()
  const ports = ["8080", "8001", "8002"]
  const actual = [String(port), ...servers.map((server) => new URL(server).port)]
  const [configuration] = configurationsOf(proxy.language)
  const written = adapt(configuration!).replace(/\b80(80|01|02)\b/g, (each) => {
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
  const stop = async () => {
    await ended(child)
    rmSync(folder, { recursive: true })
  }
  const url = `http://127.0.0.1:${port}`
  for (;;) {
    const status = await fetch(`${url}/health`).then(
      (response) => response.status,
      () => 0,
    )
    if (status === 200) return { url, stop }
    if (child.exitCode !== null) throw new Error(`the proxy: ${words}`)
    await sleep(50)
  }
}

/** What docs/scaling.md shows in this language, block by block. */
export function configurationsOf(language: string): string[] {
  const page = readFileSync(new URL("../docs/scaling.md", import.meta.url), "utf8")
  const blocks = page.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms"))
  return Array.from(blocks, ([, configuration]) => configuration!)
}

/** HAProxy's configuration whose conversations stay with their servers. */
export function staying(configuration: string): string {
  const [, lines] = configurationsOf("haproxy")
  return configuration.replace("  balance leastconn\n", lines!)
}

export const isHere = ({ probe: [program, ...args] }: Proxy) => !spawnSync(program!, args).error

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return
  const over = new Promise((resolve) => child.once("exit", resolve))
  child.kill("SIGTERM")
  await over
}

export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}
