// One file, from a server to a place on this disk: continued where an earlier try was cut or killed, compared with its checksum,
// and only then put into place. Whoever writes a file holds its lock, which is the one that all programs of the hub
// take; where locks cannot be had, each writes a file of its own.

import { createHash, type Hash, randomBytes } from "node:crypto"
import {
  closeSync,
  createReadStream,
  fstatSync,
  fsync,
  ftruncateSync,
  openSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs"
import { dirname } from "node:path"
import { promisify } from "node:util"
import { type Problem, problem } from "../errors.ts"
import { lockFile } from "../runtime/ffi.ts"
import { makeFolder } from "../runtime/scratch.ts"
import { patiently, unreachable } from "./answers.ts"
import { statsOf } from "./cache.ts"
import type { Answer, Client } from "./client.ts"
import type { RemoteName } from "./names.ts"

export interface Download {
  url: URL
  /** What a refusal is about. */
  name: RemoteName
  /** Where its bytes gather, with `.incomplete` behind it. */
  place: string
  /** Whoever does anything with it holds this. */
  lock: string
  /** Whether it is where it goes, or could be put there from what is on this disk. */
  find: () => boolean | Promise<boolean>
  /** Puts the file where it goes once it is whole. */
  arrive: (whole: string) => void | Promise<void>
  /** As a user would say it. */
  title: string
  /** Absent: whatever comes. */
  size: number | undefined
  /** sha256, or Git's sha1 of a blob; absent: there is nothing to compare with. */
  digest: string | undefined
  /** Told how many bytes have come, and less than nothing for those that were thrown away. */
  report: (bytes: number) => void
}

/**
 * Sees to it that the file is there, whole.
 * @throws `download_broken`, and what the hub refuses
 */
export async function download(client: Client, job: Download): Promise<void> {
  makeFolder(dirname(job.place))
  makeFolder(dirname(job.lock))
  const lock = await takeLock(client, job.lock)
  try {
    if (await job.find()) return job.report(job.size ?? 0) // another program's work, while this one waited
    const mine = lock ? "" : `.${randomBytes(4).toString("hex")}`
    const aside = `${job.place}${mine}.incomplete`
    try {
      await fetchInto(client, job, aside)
      await job.arrive(aside)
    } catch (error) {
      if (lock === undefined || !statsOf(aside)?.size) rmSync(aside, { force: true }) // nobody can go on from there
      throw error
    }
  } catch (error) {
    throw shortOf(job, error as NodeJS.ErrnoException)
  } finally {
    if (lock !== undefined) closeSync(lock)
  }
}

const POLL_MS = 200

/** Waits for the lock, which lasts until the file is closed; undefined where there are none to be had. */
async function takeLock(client: Client, path: string): Promise<number | undefined> {
  for (;;) {
    const descriptor = openSync(path, "a", 0o664)
    const state = lockFile(descriptor)
    if (state === "taken" && fstatSync(descriptor).ino === statsOf(path)?.ino) return descriptor
    closeSync(descriptor) // not ours, or no longer the one that others will open
    if (state === "impossible") return undefined
    if (state === "busy") await client.wait(POLL_MS)
  }
}

const SYNCED = 1 << 20 // bytes; a small file is looked at by its size again, and waiting for the disk costs more than fetching it
const MAX_CUTS = 5 // in a row, without a byte between them

/** The bytes that are there so far, and their hash. */
interface Partial {
  descriptor: number
  length: number
  hash: Hash
}

async function fetchInto(client: Client, job: Download, aside: string): Promise<void> {
  const descriptor = openSync(aside, "a+")
  try {
    const partial = await continued(descriptor, job, aside)
    for (let tries = 1; ; tries++) {
      await fetchAll(client, job, partial)
      const wrong = differs(job, partial)
      if (!wrong) break
      restart(partial, job)
      if (tries === 2) throw brokenBy(client, job, wrong) // what was here before may have been to blame, but once
    }
    if (partial.length >= SYNCED) await promisify(fsync)(descriptor) // it is believed from here on, after a power cut as well
  } finally {
    closeSync(descriptor)
  }
}

/** What an earlier try has left is trusted no more than what comes: all of it goes through the hash. */
async function continued(descriptor: number, job: Download, aside: string): Promise<Partial> {
  const { size } = statSync(aside)
  const partial = { descriptor, length: 0, hash: hashOf(job) }
  if (job.size === undefined || size > job.size) {
    ftruncateSync(descriptor)
    return partial
  }
  if (size === 0) return partial
  for await (const piece of createReadStream(aside)) partial.hash.update(piece)
  partial.length = size
  job.report(size)
  return partial
}

function restart(partial: Partial, job: Download): void {
  if (partial.length > 0) job.report(-partial.length)
  ftruncateSync(partial.descriptor)
  partial.length = 0
  partial.hash = hashOf(job)
}

function hashOf({ digest, size }: Download): Hash {
  if (digest?.length !== 40) return createHash("sha256")
  return createHash("sha1").update(`blob ${size}\0`) // https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
}

/** Until the server says that this is all, or there is as much as there should be. */
async function fetchAll(client: Client, job: Download, partial: Partial): Promise<void> {
  for (let cuts = 0; partial.length !== job.size; ) {
    const before = partial.length
    const headers: Record<string, string> = before > 0 ? { range: `bytes=${before}-` } : {}
    const answer = await patiently(client, job.name, job.title, async () => {
      const reply = await client.get(job.url, headers)
      if (reply.status !== 416) return reply
      reply.body.resume()
      restart(partial, job)
      delete headers.range
      return client.get(job.url)
    })
    if (partial.length > 0 && !continues(answer, partial)) restart(partial, job)
    const cut = await receive(answer, job, partial)
    if (!cut && (job.size === undefined || partial.length === job.size)) return
    cuts = partial.length > before ? 0 : cuts + 1
    if (cuts === MAX_CUTS)
      throw cut
        ? unreachable(client, job.name, job.title, cut)
        : brokenBy(client, job, "it ends early")
    if (cuts > 0) await client.wait(500 * 2 ** cuts)
  }
}

function continues({ status, headers }: Answer, { length }: Partial): boolean {
  return status === 206 && (headers["content-range"] ?? "").startsWith(`bytes ${length}-`)
}

/** @returns what cut it short, if anything did. */
async function receive(
  { body }: Answer,
  job: Download,
  partial: Partial,
): Promise<NodeJS.ErrnoException | undefined> {
  try {
    for await (const piece of body as AsyncIterable<Buffer>) {
      const room = job.size === undefined ? piece.length : job.size - partial.length
      const bytes = piece.subarray(0, room)
      append(partial, bytes)
      partial.hash.update(bytes)
      partial.length += bytes.length
      job.report(bytes.length)
      if (piece.length > room) break // more than was promised: the checksum has the last word
    }
    return undefined
  } catch (error) {
    const { name, syscall } = error as NodeJS.ErrnoException
    if (name === "Problem" || name === "AbortError" || syscall === "write") throw error
    return error as NodeJS.ErrnoException
  }
}

function append({ descriptor }: Partial, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(descriptor, bytes, done)
}

/** A disk that is full is said in the words of the one that was seen to be too small. */
function shortOf({ title, place, size }: Download, error: NodeJS.ErrnoException): unknown {
  if (error.code !== "ENOSPC" && error.code !== "EDQUOT") return error
  return diskShort(title, dirname(place), size ?? 0, 0)
}

export function diskShort(what: string, folder: string, needed: number, free: number): Problem {
  const mib = (bytes: number) => Math.ceil(bytes / 2 ** 20)
  const values = { what, folder, needed: mib(needed), free: Math.floor(free / 2 ** 20) }
  return problem("disk_short", { ...values, variable: "HF_HOME" })
}

function differs({ digest }: Download, { hash }: Partial): string | undefined {
  if (digest === undefined) return undefined
  const actual = hash.digest("hex")
  return actual === digest ? undefined : `its checksum is ${actual} and should be ${digest}`
}

function brokenBy(client: Client, { title, url }: Download, what: string): Problem {
  const host = url.origin === client.endpoint.origin ? client.endpoint.host : url.host
  return problem("download_broken", { file: title, host, problem: what })
}
