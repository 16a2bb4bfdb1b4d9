// Faults that are put into a server of one's own while it is under load: processes of it are killed or stand still, the disk of
// its log is full, schemas storm, a crowd asks for long prompts and is gone. They come from one table, and each ends by itself.

import { readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs"
import type { ClientRequest } from "node:http"
import { dirname } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { attack } from "./attacks.ts"
import { pick, type Random, sentence } from "./questions.ts"
import { CHAT, send, type Target } from "./target.ts"

export interface Patient {
  target: Target
  pid: number
  /** The file that its log goes to, on a small disk of its own; absent: there is none. */
  log: string | undefined
}

export type TroubleName = keyof typeof troubles

/** Each says in some words what it did. */
export const troubles = {
  /** The tokenizer's, or whichever there are: what they were working on may fail, once. */
  killed: async ({ pid }, random) => {
    const children = childrenOf(pid)
    if (children.length === 0) return "no process to kill"
    process.kill(pick(children, random), "SIGKILL")
    return "a process killed"
  },
  stopped: async ({ pid }) => {
    const children = childrenOf(pid)
    for (const child of children) process.kill(child, "SIGSTOP")
    await sleep(1000)
    for (const child of children) {
      try {
        process.kill(child, "SIGCONT")
      } catch {} // it was replaced
    }
    return "processes stopped for a second"
  },
  fullDisk: async ({ log }) => {
    if (log === undefined) return "no disk to fill"
    const ballast = `${log}.ballast`
    fill(ballast)
    await sleep(10_000)
    rmSync(ballast)
    return "the log's disk full for ten seconds"
  },
  schemas: async ({ target }, random) => {
    const url = new URL(target.url)
    const until = performance.now() + 10_000
    let count = 0
    const client = async () => {
      for (; performance.now() < until; count++) await attack(url, random, pick(STORM, random))
    }
    await Promise.all(Array.from({ length: 8 }, client))
    return `${count} schemas in ten seconds`
  },
  vanish: async ({ target }, random) => {
    const crowd = Array.from({ length: 40 }, () => {
      const messages = [{ role: "user", content: sentence(2000, random) }]
      const body = {
        model: target.model,
        messages,
        stream: true,
        max_tokens: 1500,
        ignore_eos: true,
      }
      return send(target, JSON.stringify(body), CHAT)
    })
    // Those who leave are not told how many tokens were counted, so nobody's reply may have ended.
    const early = crowd.map((sent) => answeredBytes(sent, EARLY))
    await Promise.race([sleep(100 + random() * 900), ...early])
    for (const sent of crowd) sent.destroy()
    return "forty prompts of 2,000 words left at once"
  },
} as const satisfies Record<string, (patient: Patient, random: Random) => Promise<string>>

/** Attacks (attacks.ts) that write no token. */
const STORM = ["overlapping objects", "many different items", "many tools", "depth"]

const EARLY = 30_000 // bytes of a stream, of which every token takes more than a hundred

/** Resolves when so many bytes of an answer have come; never where the request ends before. */
function answeredBytes(sent: ClientRequest, bytes: number): Promise<void> {
  return new Promise((resolve) => {
    let come = 0
    sent.on("response", (response) => {
      response.on("data", (piece: Buffer) => {
        come += piece.length
        if (come >= bytes) resolve()
      })
    })
  })
}

/** Processes that a process has started, as Linux tells. */
function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8")
      .split(" ")
      .filter(Boolean)
      .map(Number),
  )
}

/** Takes all that is left of a disk, also where somebody else writes to it meanwhile. */
function fill(file: string): void {
  const { bavail, bsize } = statfsSync(dirname(file))
  try {
    writeFileSync(file, Buffer.alloc((bavail + 1) * bsize))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error
  }
}
