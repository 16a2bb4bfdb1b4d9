// The hub's cache on this disk, in the layout that all its programs share, so that what one has downloaded serves the others:
//
//     HF_HUB_CACHE/models--ORG--NAME/
//       blobs/ETAG                  a file's bytes; ETAG is its sha256, or for small files Git's own sha1
//       blobs/ETAG.incomplete       the first of them; whoever writes it holds the lock (ETAG.XXXX.incomplete: there are none to hold)
//       snapshots/COMMIT/PATH       -> ../../blobs/ETAG; the file itself where the file system has no links
//       refs/REVISION               the commit that a branch or a tag was at when it was last asked for
//       trees/COMMIT.json           all files of a commit, with sizes and ETAGs
//     HF_HUB_CACHE/.locks/models--ORG--NAME/ETAG.lock
//
// Nothing here asks anybody anything. https://huggingface.co/docs/huggingface_hub/guides/manage-cache

import { lstatSync, readdirSync, readFileSync, realpathSync, type Stats, statSync } from "node:fs"
import { join, relative, resolve, sep } from "node:path"
import { cacheHome, home } from "../runtime/cache.ts"

export type Environment = Readonly<Record<string, string | undefined>>

/** https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables */
export function hubHome(env: Environment = process.env): string {
  return env.HF_HOME ? expanded(env.HF_HOME) : join(cacheHome(env), "huggingface")
}

export function hubCache(env: Environment = process.env): string {
  const named = env.HF_HUB_CACHE || env.HUGGINGFACE_HUB_CACHE
  return named ? expanded(named) : join(hubHome(env), "hub")
}

export function expanded(path: string): string {
  return resolve(path.replace(/^~(?=$|\/)/, home))
}

const PREFIX = "models--"

export function repositoryFolder(cache: string, repository: string): string {
  return join(cache, PREFIX + repository.replaceAll("/", "--"))
}

export function lockFolder(cache: string, repository: string): string {
  return join(cache, ".locks", PREFIX + repository.replaceAll("/", "--"))
}

/** The repositories of which something is there, ORG/NAME. */
export function repositoriesIn(cache: string): string[] {
  return entriesOf(cache)
    .filter((name) => name.startsWith(PREFIX))
    .map((name) => name.slice(PREFIX.length).replace("--", "/"))
    .sort()
}

const COMMIT = /^[0-9a-f]{40}$/

/** The commit that a revision was at, as far as this disk knows. */
export function commitOf(folder: string, revision: string): string | undefined {
  if (COMMIT.test(revision)) return revision
  const commit = textOf(join(folder, "refs", revision))?.trim() ?? ""
  return COMMIT.test(commit) ? commit : undefined
}

/** Branches and tags, with the commit of each. */
export function refsOf(folder: string): Map<string, string> {
  const refs = filesBelow(join(folder, "refs"))
  return new Map(refs.map((name) => [name, commitOf(folder, name) ?? ""]))
}

export function commitsIn(folder: string): string[] {
  return entriesOf(join(folder, "snapshots")).filter((name) => COMMIT.test(name))
}

export function snapshotFolder(folder: string, commit: string): string {
  return join(folder, "snapshots", commit)
}

/** The files of a snapshot that are whole: a link whose blob is missing counts as nothing. */
export function filesOf(folder: string, commit: string): string[] {
  return filesBelow(snapshotFolder(folder, commit))
}

/** A file as the hub lists it. */
export interface Listed {
  size: number
  /** What it is called among the blobs: its sha256, or Git's sha1. */
  etag: string
  /** Git's sha1 of it, or of the pointer that stands for it. */
  blobId: string
}

/** What a commit holds, as somebody has written it down; undefined where nobody has, or in another way. */
export function treeOf(folder: string, commit: string): Map<string, Listed> | undefined {
  try {
    const { format_version: version, files } = JSON.parse(
      readFileSync(treePath(folder, commit), "utf8"),
    )
    if (version !== 1) return undefined
    return new Map(
      Object.entries<{ size: number; blob_id: string; lfs_sha256?: string }>(files).map(
        ([path, { size, blob_id: blob, lfs_sha256: sha256 }]) => [
          path,
          { size, etag: sha256 ?? blob, blobId: blob },
        ],
      ),
    )
  } catch {
    return undefined
  }
}

/** The commits whose files somebody has written down. */
export function treesIn(folder: string): string[] {
  return entriesOf(join(folder, "trees"))
    .map((name) => name.replace(/\.json$/, ""))
    .filter((name) => COMMIT.test(name))
}

/** The beginnings of files whose download was cut, or goes on. */
export function partialsIn(folder: string): { etag: string; path: string; stats: Stats }[] {
  const blobs = join(folder, "blobs")
  return entriesOf(blobs).flatMap((name) => {
    const [, etag] = /^([0-9a-f]+)\..*incomplete$/.exec(name) ?? []
    const path = join(blobs, name)
    const stats = statsOf(path)
    return etag && stats ? [{ etag, path, stats }] : []
  })
}

export function treePath(folder: string, commit: string): string {
  return join(folder, "trees", `${commit}.json`)
}

/** The repository and the commit whose snapshot a path lies in, by its names alone. */
export function snapshotAround(
  path: string,
): { folder: string; repository: string; commit: string } | undefined {
  const parts = resolve(path).split(sep)
  const at = parts.findIndex(
    (part, i) => part.startsWith(PREFIX) && parts[i + 1] === "snapshots" && i + 2 < parts.length,
  )
  if (at < 0) return undefined
  const repository = parts[at]!.slice(PREFIX.length).replace("--", "/")
  return { folder: parts.slice(0, at + 1).join(sep), repository, commit: parts[at + 2]! }
}

/** Whether `path`, without links in it, is a blob of the hub's cache. */
export function isBlob(path: string, env: Environment = process.env): boolean {
  const [model = "", blobs] = relative(realOf(hubCache(env)), path).split(sep)
  return model === "blobs" || (model.startsWith(PREFIX) && blobs === "blobs")
}

function realOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path // there is none
  }
}

/** All files below a folder, as paths with slashes. Links to files count, links to folders could go round in circles. */
function filesBelow(folder: string): string[] {
  const visit = (path: string): string[] =>
    entriesOf(join(folder, path)).flatMap((name) => {
      const inner = path === "" ? name : `${path}/${name}`
      if (lstatSync(join(folder, inner), { throwIfNoEntry: false })?.isDirectory())
        return visit(inner)
      return statsOf(join(folder, inner))?.isFile() ? [inner] : []
    })
  return visit("").sort()
}

export function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

export function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

export function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8")
  } catch {
    return undefined
  }
}
