// An hour of everything at once on a server of its own, in minutes: visitors of all kinds (load.ts), and among them faults that
// are put in (load/troubles.ts). When a minute is over and nobody is served any more, accounts are balanced: every answer is
// what the same request was told alone, the tokens that the server counted are those that clients were told of, nothing is
// held, and memory is read. The load runs in this process and the server in another.
//
//   npm run soak -- --minutes 60 --output bench/results/soak-hour
//
// Linux alone, and as root, since the log lies on a small disk of its own; otherwise no disk is filled, and the result says so.
// Exit code 1 when something did not hold.

import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import {
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { parseArgs } from "node:util"
import { randomFrom } from "./load/questions.ts"
import { targetAt } from "./load/target.ts"
import { type Patient, type TroubleName, troubles } from "./load/troubles.ts"
import { type Crowd, gather, isSound, type LoadOptions, report, usualMix } from "./load.ts"
import { machine, load as machineLoad } from "./machine.ts"
import { type Minute, type Soak, soakMarkdown, soakSvg } from "./soak-report.ts"

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    clients: { type: "string", default: "6" },
    seed: { type: "string", default: "1" },
    model: { type: "string", default: "tiny" },
    output: { type: "string" }, // a path without ending; absent: the result is printed alone
  },
})

const names = Object.keys(troubles) as TroubleName[]
const GIVEN_BACK = 4000 // milliseconds after the last request in which a server gives memory back

await main()

async function main(): Promise<void> {
  const disk = smallDisk()
  const { server, url } = await startServer(disk?.log)
  const patient: Patient = { target: targetAt(url, values.model), pid: server.pid!, log: disk?.log }
  const options: LoadOptions = {
    url,
    model: values.model,
    clients: Number(values.clients),
    rate: 1,
    seconds: 60,
    warmUp: 0,
    seed: Number(values.seed),
    mix: usualMix,
  }
  const soak: Soak = {
    machine: machine(2),
    date: new Date().toISOString().slice(0, 10),
    hasDisk: disk !== undefined,
    minutes: [],
    exitCode: null,
  }
  const crowd = await gather(options)
  try {
    for (let number = 1; number <= Number(values.minutes); number++) {
      const minute = await oneMinute(number, patient, crowd, options)
      soak.minutes.push(minute)
      console.log(lineOf(minute))
      if (server.exitCode !== null) break
    }
  } finally {
    crowd.leave()
    patient.target.agent.destroy()
    const ended = once(server, "exit")
    server.kill("SIGTERM")
    ;[soak.exitCode] = server.exitCode === null ? await ended : [server.exitCode]
    disk?.remove()
  }
  const text = soakMarkdown(soak, `${basename(values.output ?? "soak")}.svg`)
  console.log(text)
  if (values.output !== undefined) {
    writeFileSync(`${values.output}.json`, `${JSON.stringify(soak, null, 1)}\n`)
    writeFileSync(`${values.output}.md`, text)
    writeFileSync(`${values.output}.svg`, soakSvg(soak))
  }
  process.exitCode = soak.minutes.every(({ holds }) => holds) && soak.exitCode === 0 ? 0 : 1
}

/** The first two minutes are without faults, so that there is something to compare with. */
async function oneMinute(
  number: number,
  patient: Patient,
  crowd: Crowd,
  options: LoadOptions,
): Promise<Minute> {
  const random = randomFrom(options.seed * 1000 + number)
  const before = await crowd.atRest()
  const begun = performance.now()
  const putIn: string[] = []
  const trouble = number <= 2 ? undefined : names[number % names.length]!
  const faulty = async () => {
    if (trouble === undefined) return
    await sleep(5000 + random() * 10_000)
    putIn.push(await troubles[trouble](patient, random))
  }
  const [outcomes] = await Promise.all([
    crowd.arrive({ ...options, seed: options.seed * 1000 + number }),
    faulty(),
  ])
  const seconds = (performance.now() - begun) / 1000
  await crowd.atRest()
  await sleep(GIVEN_BACK)
  const told = report(outcomes, seconds, before, await crowd.atRest())
  const logged = loggedBy(patient)
  // Who kills a process costs the requests in it their answers; nobody else does.
  const sound = trouble === "killed" ? { ...told, outcomes: { ...told.outcomes, hit: 0 } } : told
  const isLogged = patient.log === undefined || logged > 0
  return {
    number,
    trouble: putIn.join(", "),
    told,
    load: machineLoad(),
    holds: isSound(sound) && isLogged,
    logged,
    ...held(patient.pid),
  }
}

/** What was logged since the last time; there is room for as much again. */
function loggedBy({ log }: Patient): number {
  if (log === undefined) return 0
  const { size } = statSync(log)
  truncateSync(log)
  return size
}

/** What the server's process holds. */
function held(pid: number): Pick<Minute, "descriptors" | "threads"> {
  const [, threads] = /^Threads:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))!
  return { descriptors: readdirSync(`/proc/${pid}/fd`).length, threads: Number(threads) }
}

function lineOf({ number, trouble, told, holds }: Minute): string {
  const { outcomes, faults, unbalanced, resident } = told
  const counts = Object.entries({ ...outcomes, ...unbalanced }).map(([name, n]) => `${name} ${n}`)
  const wrong = Object.keys(faults).slice(0, 3)
  return [
    `${number}. ${holds ? "holds" : "DOES NOT HOLD"}: ${counts.join(", ")}; ${Math.round(resident / 2 ** 20)} MiB; ${trouble || "no fault"}`,
    ...wrong.map((fault) => `   ${fault}`),
  ].join("\n")
}

interface Disk {
  log: string
  remove(): void
}

/** Some memory as a disk; undefined where this user may not make one. */
function smallDisk(): Disk | undefined {
  const folder = mkdtempSync(join(tmpdir(), "sinter-soak-"))
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], { stdio: "ignore" })
  } catch {
    rmSync(folder, { recursive: true })
    return undefined
  }
  return {
    log: join(folder, "server.log"),
    remove() {
      execFileSync("umount", ["--lazy", folder])
      rmSync(folder, { recursive: true })
    },
  }
}

async function startServer(log?: string): Promise<{ server: ChildProcess; url: string }> {
  const server = spawn(
    process.execPath,
    ["build/cli/main.js", "serve", values.model, "--port", "0", "--log-level", "info"],
    { stdio: ["ignore", "pipe", log === undefined ? "ignore" : openSync(log, "a")] },
  )
  for await (const line of createInterface({ input: server.stdout! })) {
    const [url] = /http:\/\/[\d.:]+/.exec(line) ?? []
    if (url === undefined) continue
    while (!(await fetch(`${url}/health`)).ok) await sleep(10)
    return { server, url }
  }
  throw new Error("the server did not start")
}
