// The front door: a name goes in, the path of a model comes out. What is downloaded whole is used as it is, without a request;
// what is not is downloaded, several files at once. A snapshot gets a file's link when the file is whole, and a branch its new
// commit when all of them are, so an update that is cut leaves what was there in use.

import { createHash, randomBytes } from "node:crypto"
import { existsSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { copyFile, statfs } from "node:fs/promises"
import { dirname, join, relative } from "node:path"
import { problem } from "../errors.ts"
import { cacheHome } from "../runtime/cache.ts"
import { makeFolder } from "../runtime/scratch.ts"
import { type Listing, listRepository, patiently } from "./answers.ts"
import {
  commitOf,
  commitsIn,
  type Environment,
  entriesOf,
  filesOf,
  hubCache,
  type Listed,
  lockFolder,
  refsOf,
  repositoryFolder,
  snapshotFolder,
  statsOf,
  textOf,
  treeOf,
  treePath,
} from "./cache.ts"
import { Client, type ClientOptions, isOffline } from "./client.ts"
import { diskShort, download } from "./download.ts"
import { type FileAddress, type HubName, printName, type RemoteName } from "./names.ts"
import { ADAPTER, ESSENTIAL, type Selection, selectModel } from "./selection.ts"

export interface HubOptions extends Partial<ClientOptions> {
  /** Told how many bytes are here of how many. */
  onDownload?: ((what: string, done: number, total: number) => void) | undefined
  /** Told in a line where another model may have been meant than the one that is taken, or a newer one. */
  log?: Pick<Console, "warn"> | undefined
}

/**
 * The path of a model by its name: what is here, else what is downloaded now.
 * @throws the sentences of a hub
 */
export async function fetchModel(name: RemoteName, options: HubOptions = {}): Promise<string> {
  const env = options.env ?? process.env
  const here = await downloaded(name, env, options.log)
  const path = here ?? (await downloadedBefore(name, env, options.log))
  if (path !== undefined) return path
  if (isOffline(env)) throw problem("hub_offline", { model: titleOf(name) })
  return pullModel(name, options)
}

/** As a user would say it. */
export function titleOf(name: RemoteName): string {
  return name.kind === "hub" ? printName(name) : `${name.url.origin}${name.url.pathname}`
}

/** The model as far as it is here; undefined unless all of it is. */
export async function downloaded(
  name: RemoteName,
  env: Environment = process.env,
  log?: HubOptions["log"],
): Promise<string | undefined> {
  if (name.kind === "address") {
    const { path } = placeOf(name, env)
    return existsSync(path) ? path : undefined
  }
  const folder = repositoryFolder(hubCache(env), name.repository)
  const commit = commitOf(folder, name.revision)
  if (commit === undefined) return undefined
  const selected = await whole(name, folder, commit, isOffline(env)).catch(() => undefined)
  if (selected?.isGuess)
    log?.warn(
      `${printName(name)} is taken to be ${selected.model}, the only model of it that is here; :TYPE or :FILE says which is meant.`,
    )
  if (selected?.isBlind)
    log?.warn(
      `${printName(name)} is here without ${selected.mmproj}, which it sees or hears with; sinter pull ${printName(name)} fetches that.`,
    )
  return selected && join(snapshotFolder(folder, commit), selected.model)
}

/**
 * The model at the newest commit that all of it is here of: a download of another one of the repository may have moved the branch
 * on from there. A commit that another branch or a tag is at is none that was meant, nor is any where a revision was typed.
 */
async function downloadedBefore(
  name: RemoteName,
  env: Environment,
  log: HubOptions["log"],
): Promise<string | undefined> {
  if (name.kind === "address" || name.pinned) return undefined
  const folder = repositoryFolder(hubCache(env), name.repository)
  const refs = refsOf(folder)
  if (!refs.get(name.revision)) return undefined
  const changed = (commit: string) => statsOf(snapshotFolder(folder, commit))?.mtimeMs ?? 0
  const others = commitsIn(folder).filter((commit) => ![...refs.values()].includes(commit))
  for (const commit of others.sort((a, b) => changed(b) - changed(a))) {
    const selected = await whole(name, folder, commit, false).catch(() => undefined)
    if (!selected || selected.isGuess) continue
    log?.warn(
      `${printName(name)} is taken as it was at ${commit.slice(0, 8)}: of what is newer not all of it is here; sinter pull ${printName(name)} fetches that.`,
    )
    return join(snapshotFolder(folder, commit), selected.model)
  }
  return undefined
}

/**
 * What is here of the model, when it is all of it. What its commit holds may be written down, and then says which model is meant;
 * where it is not, or nobody could be asked for that one, a model that is complete in itself is taken for whole. So is one without
 * what it sees with, as older versions downloaded it.
 */
async function whole(
  name: HubName,
  folder: string,
  commit: string,
  offline: boolean,
): Promise<(Selection & { isGuess?: boolean; isBlind?: boolean }) | undefined> {
  const { repository, file } = name
  const snapshot = snapshotFolder(folder, commit)
  const present = filesOf(folder, commit)
  if (present.length === 0) return undefined
  const readIndex = async (index: string) => readFileSync(join(snapshot, index), "utf8")
  const select = (paths: Iterable<string>) => selectModel(repository, [...paths], file, readIndex)
  const tree = treeOf(folder, commit)
  const isWhole = (path: string) => {
    const size = tree?.get(path)?.size
    return present.includes(path) && (!size || statsOf(join(snapshot, path))?.size === size)
  }
  const meant = tree && (await select(tree.keys()).catch(() => undefined))
  if (meant?.files.every((path) => path === meant.mmproj || isWhole(path)))
    return { ...meant, isBlind: meant.mmproj !== undefined && !isWhole(meant.mmproj) }
  if (tree && !offline) return undefined
  const here = await select(present)
  if (!here.files.every(isWhole)) return undefined
  if (here.model !== "") return { ...here, isGuess: file === undefined }
  const isAdapter = here.files.includes(ADAPTER) // which need not bring a tokenizer
  return offline || isAdapter || ESSENTIAL.every((path) => present.includes(path))
    ? here
    : undefined
}

/**
 * Asks for the newest commit of a name's revision, and downloads what is not here of it.
 * @returns the path of the model
 */
export async function pullModel(name: RemoteName, options: HubOptions = {}): Promise<string> {
  const env = options.env ?? process.env
  if (isOffline(env)) throw problem("hub_offline", { model: titleOf(name) })
  const ending = new AbortController()
  const { signal } = options
  const end = () => ending.abort(signal?.reason)
  signal?.addEventListener("abort", end)
  const client = new Client({
    env,
    signal: ending.signal,
    ...(options.wait && { wait: options.wait }),
    ...(options.silence && { silence: options.silence }),
  })
  const report = options.onDownload ?? (() => {})
  try {
    signal?.throwIfAborted()
    return name.kind === "hub"
      ? await pullRepository(client, name, report, () => ending.abort())
      : await pullAddress(client, name, report)
  } finally {
    signal?.removeEventListener("abort", end)
    client.close()
  }
}

type Report = (what: string, done: number, total: number) => void

async function pullRepository(
  client: Client,
  name: HubName,
  report: Report,
  giveUp: () => void,
): Promise<string> {
  const listing = await listRepository(client, name)
  const repository = new Repository(client, name, listing)
  const readIndex = async (index: string) => {
    await repository.fetch(index)
    return readFileSync(repository.pathOf(index), "utf8")
  }
  const paths = [...listing.files.keys()]
  const { files, model } = await selectModel(name.repository, paths, name.file, readIndex)
  await repository.checkRoom(files)
  const total = files.reduce((sum, path) => sum + listing.files.get(path)!.size, 0)
  let done = 0
  await severalAtOnce(files, giveUp, (path) =>
    repository.fetch(path, (bytes) => {
      done += bytes
      report(printName(name), done, total)
    }),
  )
  repository.writeRef()
  return join(repository.snapshot, model)
}

const AT_ONCE = 4

/** In this order. The first that fails ends the others, which go on from where they were the next time. */
async function severalAtOnce(
  paths: readonly string[],
  giveUp: () => void,
  fetch: (path: string) => Promise<void>,
): Promise<void> {
  const waiting = [...paths]
  const failures: unknown[] = []
  const work = async () => {
    for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) await fetch(path)
  }
  const failed = (error: unknown) => {
    waiting.length = 0
    failures.push(error)
    giveUp()
  }
  await Promise.all(Array.from({ length: AT_ONCE }, () => work().catch(failed)))
  if (failures.length > 0) throw failures[0]
}

/** A commit of a repository, in the cache and on the hub. */
class Repository {
  readonly snapshot: string
  readonly #client: Client
  readonly #name: HubName
  readonly #listing: Listing
  readonly #folder: string
  readonly #locks: string

  constructor(client: Client, name: HubName, listing: Listing) {
    const cache = hubCache(client.env)
    this.#client = client
    this.#name = name
    this.#listing = listing
    this.#folder = repositoryFolder(cache, name.repository)
    this.#locks = lockFolder(cache, name.repository)
    this.snapshot = snapshotFolder(this.#folder, listing.commit)
  }

  pathOf(path: string): string {
    return join(this.snapshot, path)
  }

  #blob(path: string): Listed & { place: string } {
    const listed = this.#listing.files.get(path)!
    return { ...listed, place: join(this.#folder, "blobs", listed.etag) }
  }

  async fetch(path: string, report: (bytes: number) => void = () => {}): Promise<void> {
    const { size, etag, place } = this.#blob(path)
    const { repository } = this.#name
    const pointer = this.pathOf(path)
    const isThere = () => statsOf(pointer)?.size === size
    if (isThere()) return report(size)
    const parts = [...repository.split("/"), "resolve", this.#listing.commit, ...path.split("/")]
    this.#writeTree() // which says of what is cut where it belongs
    await download(this.#client, {
      url: this.#client.at(...parts),
      name: this.#name,
      place,
      lock: join(this.#locks, `${etag}.lock`),
      find: async () => {
        if (statsOf(place)?.size !== size) return false
        if (!link(place, pointer)) await copy(place, pointer)
        return isThere()
      },
      arrive: (whole) => {
        renameSync(whole, place)
        if (!link(place, pointer)) renameSync(place, pointer) // nobody else knows of it
      },
      title: `${repository}/${path}`,
      size,
      digest: etag,
      report,
    })
  }

  /** @throws `disk_short` */
  async checkRoom(paths: readonly string[]): Promise<void> {
    const missing = paths.map((path) => {
      const { size, place } = this.#blob(path)
      if ([place, this.pathOf(path)].some((there) => statsOf(there)?.size === size)) return 0
      return size - Math.min(size, statsOf(`${place}.incomplete`)?.size ?? 0)
    })
    const needed = missing.reduce((sum, bytes) => sum + bytes, 0)
    makeFolder(dirname(this.#folder))
    await checkRoom(printName(this.#name), dirname(this.#folder), needed)
  }

  #writeTree(): void {
    const path = treePath(this.#folder, this.#listing.commit)
    if (existsSync(path)) return
    const files = [...this.#listing.files].map(([name, { size, etag, blobId }]) => {
      const large = etag === blobId ? {} : { lfs_sha256: etag, lfs_size: size }
      return [name, { size, blob_id: blobId, ...large }]
    })
    const tree = { format_version: 1, files: Object.fromEntries(files) }
    writeWhole(path, JSON.stringify(tree))
  }

  writeRef(): void {
    const { revision } = this.#name
    const { commit } = this.#listing
    if (revision !== commit) writeWhole(join(this.#folder, "refs", revision), commit)
  }
}

async function checkRoom(what: string, folder: string, needed: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  if (needed > free) throw diskShort(what, folder, needed, free)
}

/** Readers see the whole text or none of it. */
function writeWhole(path: string, text: string): void {
  makeFolder(dirname(path))
  const aside = asideOf(path)
  writeFileSync(aside, text)
  renameSync(aside, path)
}

/** A link, as short as can be, so that the cache may move. @returns whether the file system has links */
function link(blob: string, path: string): boolean {
  makeFolder(dirname(path))
  const aside = asideOf(path)
  try {
    symlinkSync(relative(dirname(path), blob), aside)
  } catch {
    return false
  }
  try {
    renameSync(aside, path)
    return true
  } finally {
    rmSync(aside, { force: true })
  }
}

async function copy(blob: string, path: string): Promise<void> {
  const aside = asideOf(path)
  try {
    await copyFile(blob, aside)
    renameSync(aside, path)
  } finally {
    rmSync(aside, { force: true })
  }
}

const asideOf = (path: string) => `${path}.${randomBytes(4).toString("hex")}.tmp`

/** Where files lie that come from an address: in a folder of their own each, beside the address itself and their version. */
export function addressesFolder(env: Environment): string {
  return join(cacheHome(env), "sinter", "downloads")
}

export function placeOf({ url }: FileAddress, env: Environment): { folder: string; path: string } {
  const whole = `${url.origin}${url.pathname}` // a query is a signature, and another every time
  const key = createHash("sha256").update(whole).digest("hex").slice(0, 16)
  const folder = join(addressesFolder(env), key)
  const name = url.pathname.split("/").at(-1)!
  return { folder, path: join(folder, name) }
}

/** What a server says of a file is its size and its version, sometimes its checksum. What is here of that version stays. */
async function pullAddress(client: Client, name: FileAddress, report: Report): Promise<string> {
  const { folder, path } = placeOf(name, client.env)
  const title = titleOf(name)
  const { headers, body } = await patiently(client, name, title, () =>
    client.get(name.url, { range: "bytes=0-0" }),
  )
  body.destroy()
  const [, whole] = /\/(\d+)$/.exec(headers["content-range"] ?? "") ?? []
  const size = whole ?? headers["content-length"]
  const etag = String(headers["x-linked-etag"] ?? headers.etag ?? "").replace(/^W\/|"/g, "")
  const tag = etag || headers["last-modified"]
  const version = createHash("sha256").update(`${tag} ${size}`).digest("hex").slice(0, 16)
  const versionFile = join(folder, "version")
  const isCurrent = () => tag !== undefined && textOf(versionFile) === version && existsSync(path)
  if (isCurrent()) return path
  makeFolder(folder)
  writeWhole(join(folder, "address"), title)
  const staged = join(folder, `${version}.part`) // another version of it never continues this one
  const total = size === undefined ? undefined : Number(size)
  await checkRoom(title, folder, (total ?? 0) - (statsOf(`${staged}.incomplete`)?.size ?? 0))
  let done = 0
  await download(client, {
    url: name.url,
    name,
    place: staged,
    lock: join(folder, "lock"),
    find: isCurrent,
    arrive: (file) => {
      rmSync(versionFile, { force: true }) // it must not outlive what it tells of
      renameSync(file, path)
      writeWhole(versionFile, version)
      for (const other of entriesOf(folder))
        if (/\.incomplete$/.test(other)) rmSync(join(folder, other), { force: true })
    },
    title,
    size: total,
    digest: /^[0-9a-f]{64}$/.test(etag) ? etag : undefined,
    report: (bytes) => {
      done += bytes
      report(title, done, total ?? done)
    },
  })
  return path
}
