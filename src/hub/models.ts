// The models that are downloaded: which there are, what one consists of, and taking one away. A file may belong to several commits
// of a repository, and goes with the last of them.

import { lstatSync, realpathSync, rmSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { problem } from "../errors.ts"
import {
  commitOf,
  commitsIn,
  type Environment,
  entriesOf,
  filesOf,
  hubCache,
  lockFolder,
  partialsIn,
  refsOf,
  repositoriesIn,
  repositoryFolder,
  snapshotFolder,
  statsOf,
  textOf,
  treeOf,
  treesIn,
} from "./cache.ts"
import { addressesFolder, downloaded, placeOf, titleOf } from "./hub.ts"
import { DEFAULT_REVISION, type HubName, printName, type RemoteName } from "./names.ts"
import {
  ggufGroups,
  groupsMeant,
  isModelFile,
  mmprojsAmong,
  nameAmong,
  onlyOne,
} from "./selection.ts"

export interface DownloadedModel {
  /** As it is typed to be served. */
  name: string
  bytes: number
  changed: Date
  /** Whether all of it is there. */
  whole: boolean
}

export async function downloadedModels(env: Environment = process.env): Promise<DownloadedModel[]> {
  const cache = hubCache(env)
  const names = repositoriesIn(cache).flatMap((repository) => namesIn(cache, repository))
  const models = names.map(async (name) => {
    const folder = repositoryFolder(cache, name.repository)
    const commit = commitOf(folder, name.revision)!
    const snapshot = snapshotFolder(folder, commit)
    const stats = pathsOf(name, filesOf(folder, commit)).map(
      (path) => statsOf(join(snapshot, path))!,
    )
    return {
      name: printName(name),
      bytes: stats.reduce((sum, { size }) => sum + size, 0),
      changed: new Date(Math.max(...stats.map(({ mtimeMs }) => mtimeMs))),
      whole: (await downloaded(name, env)) !== undefined,
    }
  })
  const begun = repositoriesIn(cache).flatMap((repository) => begunIn(cache, repository))
  return [...joined(await Promise.all(models), begun), ...fromAddresses(env)]
}

/** What is here of files that are not whole, by the model that a tree gives them to. */
function begunIn(cache: string, repository: string): DownloadedModel[] {
  const folder = repositoryFolder(cache, repository)
  const trees = treesIn(folder).map((commit) => [...(treeOf(folder, commit) ?? [])])
  return partialsIn(folder).map(({ etag, stats }) => {
    const tree = trees.find((files) => files.some(([, listed]) => listed.etag === etag)) ?? []
    const [path = ""] = tree.find(([, listed]) => listed.etag === etag) ?? []
    const groups = ggufGroups(tree.map(([path]) => path))
    const group = groups.find(({ files }) => files.includes(path))
    const file = group && nameAmong(groups, group)
    const name = {
      kind: "hub",
      repository,
      revision: DEFAULT_REVISION,
      pinned: false,
      file,
    } as const
    return { name: printName(name), bytes: stats.size, changed: stats.mtime, whole: false }
  })
}

/** The parts of one model that is not whole are one line; beside a whole one they are those of another version. */
function joined(
  models: readonly DownloadedModel[],
  begun: readonly DownloadedModel[],
): DownloadedModel[] {
  const all = [...models]
  for (const part of begun) {
    const at = all.findIndex(({ name, whole }) => name === part.name && !whole)
    const { bytes = 0, changed = part.changed } = all[at] ?? {}
    const latest = changed > part.changed ? changed : part.changed
    const line = { ...part, bytes: bytes + part.bytes, changed: latest }
    all.splice(at < 0 ? all.length : at, at < 0 ? 0 : 1, line)
  }
  return all
}

/** Each commit by the branch or tag that is at it, and each GGUF model in it. Files that are no model's are passed over. */
function namesIn(cache: string, repository: string): HubName[] {
  const folder = repositoryFolder(cache, repository)
  const refs = [...refsOf(folder)].sort(([a], [b]) =>
    a === DEFAULT_REVISION ? -1 : b === DEFAULT_REVISION ? 1 : a < b ? -1 : 1,
  )
  return commitsIn(folder).flatMap((commit) => {
    const [revision = commit] = refs.find(([, at]) => at === commit) ?? []
    const files = filesOf(folder, commit)
    const groups = ggufGroups(files)
    const tags = groups.map((group) => nameAmong(groups, group))
    const isFolder = files.some((file) => /^[^/]+\.safetensors$|^params_shard_/.test(file))
    const named = [...(isFolder ? [undefined] : []), ...tags]
    const pinned = revision !== DEFAULT_REVISION
    return named.map((file) => ({ kind: "hub" as const, repository, revision, pinned, file }))
  })
}

/**
 * What of a snapshot's files belongs to a model: of GGUF its own, of a folder all others.
 * @throws `hub_choice` where several GGUF models are called so
 */
function pathsOf({ repository, file }: HubName, files: readonly string[]): string[] {
  if (file === undefined) return files.filter((path) => !isModelFile(path))
  const groups = ggufGroups(files)
  const own = onlyOne(repository, groupsMeant(groups, file), file)?.files ?? []
  const isLast = own.length > 0 && groups.length === 1
  return isLast ? [...own, ...mmprojsAmong(files)] : own // what several see with is the last one's
}

function fromAddresses(env: Environment): DownloadedModel[] {
  const place = addressesFolder(env)
  return entriesOf(place).flatMap((key) => {
    const folder = join(place, key)
    const name = textOf(join(folder, "address"))
    const file = fileFromAddress(folder)
    const stats = file === undefined ? undefined : statsOf(join(folder, file))
    if (name === undefined || !stats) return []
    const whole = isModelFile(file!)
    return [{ name, bytes: stats.size, changed: stats.mtime, whole }]
  })
}

/** Its file, or what there is of it. */
function fileFromAddress(folder: string): string | undefined {
  const names = entriesOf(folder)
  return names.find(isModelFile) ?? names.find((name) => name.endsWith(".incomplete"))
}

interface ModelFile {
  path: string
  /** In the repository, or at its address. */
  file: string
  bytes: number
}

/**
 * The files of a downloaded model, those among them of which only a part is here.
 * @throws `hub_absent`, and `hub_choice` where several GGUF models are called so
 */
export function filesOfModel(name: RemoteName, env: Environment = process.env): ModelFile[] {
  if (name.kind === "address") {
    const { folder, path } = placeOf(name, env)
    const here = fileFromAddress(folder)
    if (here === undefined) throw absent(name)
    const { size } = statsOf(join(folder, here))!
    return [{ path: join(folder, here), file: basename(path), bytes: size }]
  }
  const folder = repositoryFolder(hubCache(env), name.repository)
  const all = [...presentOf(name, folder), ...begunOf(name, folder)]
  const paths = new Set(all.map(({ file }) => file))
  const meant = name.file === undefined ? [...paths] : pathsOf(name, [...paths])
  if (meant.length === 0) throw absent(name)
  return all.filter(({ file }) => meant.includes(file))
}

function presentOf({ revision }: HubName, folder: string): ModelFile[] {
  const commit = commitOf(folder, revision)
  if (commit === undefined) return []
  const snapshot = snapshotFolder(folder, commit)
  return filesOf(folder, commit).map((file) => {
    const path = join(snapshot, file)
    return { path, file, bytes: statsOf(path)!.size }
  })
}

/** A revision that was never here whole is at a commit that nothing but its tree tells of. */
function begunOf({ revision, pinned }: HubName, folder: string): ModelFile[] {
  const commit = commitOf(folder, revision)
  const commits = pinned ? treesIn(folder).filter((name) => name === commit) : treesIn(folder)
  const listed = commits.flatMap((commit) => [...(treeOf(folder, commit) ?? [])])
  return partialsIn(folder).flatMap(({ etag, path, stats }) => {
    const [file] = listed.find(([, other]) => other.etag === etag) ?? []
    return file === undefined ? [] : [{ path, file, bytes: stats.size }]
  })
}

/**
 * Takes a model away: a repository with all its commits, one of them (`@REVISION`), or one GGUF model in it.
 * @returns how many bytes there are fewer
 * @throws `hub_absent`, and `hub_choice` where several GGUF models are called so; then nothing is taken away
 */
export function removeModel(name: RemoteName, env: Environment = process.env): number {
  if (name.kind === "address") {
    const [file] = filesOfModel(name, env)
    rmSync(placeOf(name, env).folder, { recursive: true })
    return file!.bytes
  }
  const { repository, revision, pinned, file } = name
  const cache = hubCache(env)
  const folder = repositoryFolder(cache, repository)
  if (file === undefined && !pinned) {
    if (!statsOf(folder)) throw absent(name)
    const bytes = entriesOf(join(folder, "blobs"))
      .map((blob) => statsOf(join(folder, "blobs", blob))?.size ?? 0)
      .reduce((sum, size) => sum + size, 0)
    rmSync(folder, { recursive: true })
    rmSync(lockFolder(cache, repository), { recursive: true, force: true })
    return bytes
  }
  const files = filesOfModel(name, env)
  const commit = commitOf(folder, revision)
  const blobs = new Map(files.map(({ path, bytes }) => [realpathSync(path), bytes]))
  for (const { place, bytes } of copied(folder, commit, files)) blobs.set(place, bytes)
  for (const { path } of files) rmSync(path)
  if (commit !== undefined && filesOf(folder, commit).length === 0) {
    rmSync(snapshotFolder(folder, commit), { recursive: true, force: true })
    for (const [ref, at] of refsOf(folder)) if (at === commit) rmSync(join(folder, "refs", ref))
  }
  for (const path of linked(folder)) blobs.delete(path)
  for (const blob of blobs.keys())
    if (dirname(blob) === realpathSync(join(folder, "blobs"))) rmSync(blob, { force: true })
  return [...blobs.values()].reduce((sum, size) => sum + size, 0)
}

/** Blobs of files that are no links, which a file system without them keeps beside a copy. */
function copied(
  folder: string,
  commit: string | undefined,
  files: readonly ModelFile[],
): { place: string; bytes: number }[] {
  const tree = commit === undefined ? undefined : treeOf(folder, commit)
  return files.flatMap(({ path, file }) => {
    const { etag } = tree?.get(file) ?? {}
    if (etag === undefined || lstatSync(path).isSymbolicLink()) return []
    const place = join(folder, "blobs", etag)
    const stats = statsOf(place)
    return stats ? [{ place: realpathSync(place), bytes: stats.size }] : []
  })
}

/** The blobs that some commit has a link to. */
function linked(folder: string): string[] {
  return commitsIn(folder).flatMap((commit) =>
    filesOf(folder, commit)
      .map((file) => join(snapshotFolder(folder, commit), file))
      .filter((path) => lstatSync(path).isSymbolicLink())
      .map((path) => realpathSync(path)),
  )
}

function absent(name: RemoteName): Error {
  return problem("hub_absent", { model: titleOf(name) })
}
