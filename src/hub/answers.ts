// What the hub says of a repository, and what is made of its refusals: one sentence with the cure. The protocol is that of
// https://huggingface.co/docs/hub/api; codes of errors come in the header x-error-code.

import { Problem, printable, problem } from "../errors.ts"
import type { Listed } from "./cache.ts"
import type { Answer, Client } from "./client.ts"
import { type HubName, leavesItsFolder, type RemoteName } from "./names.ts"

export interface Listing {
  commit: string
  files: Map<string, Listed>
}

const COMMIT = /^[0-9a-f]{40}$/
const ETAG = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/

/** All files of a revision, with sizes and checksums. */
export async function listRepository(client: Client, name: HubName): Promise<Listing> {
  const { repository, revision } = name
  const { host } = client.endpoint
  const about = client.at("api", "models", ...repository.split("/"), "revision", revision)
  about.searchParams.set("blobs", "true")
  const commit = readCommit((await pageOf(client, name, about)).json)
  if (!commit)
    throw problem("hub_refused", {
      host,
      what: repository,
      problem: "its answer is no list of files with checksums; HF_ENDPOINT must name a hub",
    })
  const { sha, siblings } = commit
  if (siblings.some((sibling) => Object.hasOwn(sibling ?? {}, "blobId")) || siblings.length === 0)
    return { commit: sha, files: listedOf(siblings) }
  // A mirror that has not heard of `blobs` may still say page by page what else there is to know.
  const tree = await treeOf(client, name, sha).catch(ignoreRefusal)
  const files = listedOf(tree.map(asSibling))
  if (files.size > 0) return { commit: sha, files }
  throw problem("hub_refused", {
    host,
    what: repository,
    problem: "it lists files without their sizes and checksums, which a download is held against",
  })
}

async function pageOf(
  client: Client,
  name: HubName,
  url: URL,
): Promise<{ json: unknown; next: URL | undefined }> {
  const answer = await patiently(client, name, name.repository, () => client.get(url, {}, "none"))
  const [, next] = /<([^>]+)>;\s*rel="?next\b/.exec(String(answer.headers.link ?? "")) ?? []
  const text = await client.text(answer).catch((error: NodeJS.ErrnoException) => {
    throw unreachable(client, name, name.repository, error)
  })
  try {
    return { json: JSON.parse(text), next: next === undefined ? undefined : new URL(next, url) }
  } catch {
    return { json: undefined, next: undefined }
  }
}

function readCommit(json: unknown): { sha: string; siblings: unknown[] } | undefined {
  const { sha, siblings } = (json ?? {}) as { sha?: unknown; siblings?: unknown }
  if (typeof sha !== "string" || !COMMIT.test(sha) || !Array.isArray(siblings)) return undefined
  return { sha, siblings }
}

const MAX_PAGES = 100 // of a thousand files

/** The same files in the other place that a hub lists them in. */
async function treeOf(client: Client, name: HubName, sha: string): Promise<unknown[]> {
  const entries: unknown[] = []
  let url = client.at("api", "models", ...name.repository.split("/"), "tree", sha)
  url.searchParams.set("recursive", "true")
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const { json, next } = await pageOf(client, name, url)
    if (Array.isArray(json)) entries.push(...json)
    if (next?.origin !== client.endpoint.origin) break
    url = next
  }
  return entries
}

function ignoreRefusal(error: unknown): [] {
  if (error instanceof Problem && /^hub_(missing|refused|revision)$/.test(error.code)) return []
  throw error
}

function asSibling(entry: unknown): unknown {
  const { path, size, oid, lfs } = (entry ?? {}) as Record<string, unknown>
  const sha256 = (lfs as { oid?: unknown } | null | undefined)?.oid
  return {
    rfilename: path,
    size,
    blobId: oid,
    ...(sha256 === undefined ? {} : { lfs: { sha256 } }),
  }
}

/** Names, sizes and checksums are used as paths and lengths: what is not well formed is left out, so that it is not there. */
function listedOf(siblings: readonly unknown[]): Map<string, Listed> {
  const files = new Map<string, Listed>()
  for (const sibling of siblings) {
    const { rfilename: path, size, blobId, lfs } = (sibling ?? {}) as Record<string, unknown>
    const etag = (lfs as { sha256?: unknown } | null | undefined)?.sha256 ?? blobId
    if (typeof blobId !== "string" || typeof size !== "number") continue
    if (typeof path !== "string" || leavesItsFolder(path) || /[\\\p{Cc}]/u.test(path)) continue
    if (!Number.isSafeInteger(size) || size < 0) continue
    if (typeof etag === "string" && ETAG.test(etag)) files.set(path, { size, etag, blobId })
  }
  return files
}

const MAX_TRIES = 5
const FIRST_PAUSE_MS = 500
const MAX_PAUSE_S = 60

/**
 * Asks until there is an answer that says something: again where nobody answers or the server fails, later where it asks for that.
 * @param what is asked for, as a user would say it
 */
export async function patiently(
  client: Client,
  name: RemoteName,
  what: string,
  ask: () => Promise<Answer>,
): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    const last = tries === MAX_TRIES
    const answer = await ask().catch((error: NodeJS.ErrnoException) => {
      if (last || !isPassing(error)) throw unreachable(client, name, what, error)
      return undefined
    })
    const { status = 0 } = answer ?? {}
    if (answer && status >= 200 && status < 300) return answer
    if (answer && (last || !isWorthAnother(client, name, answer)))
      throw await refusal(client, name, what, answer)
    answer?.body.resume()
    const pause = answer && status === 429 ? 1000 * secondsToWait(answer) : 0
    await client.wait(Math.max(pause, FIRST_PAUSE_MS * 2 ** (tries - 1)))
  }
}

/** A range that cannot be had says that what is here is not the beginning of what is there; who asked for it sees to that. */
function isWorthAnother(client: Client, name: RemoteName, answer: Answer): boolean {
  const { status } = answer
  return (
    status === 408 ||
    status >= 500 ||
    (status === 429 && secondsToWait(answer) <= MAX_PAUSE_S) ||
    isExpired(client, name, answer)
  )
}

/** Whether a store no longer takes the address that the hub has signed; the hub signs another when it is asked again. */
function isExpired({ endpoint }: Client, { kind }: RemoteName, answer: Answer): boolean {
  const { status, origin, headers } = answer
  const isStore = kind === "hub" && origin !== endpoint.origin && !headers["x-error-code"]
  return isStore && (status === 400 || status === 403)
}

/** Who is asked for a model. */
const hostFor = (client: Client, name: RemoteName) =>
  name.kind === "hub" ? client.endpoint.host : name.url.host

/** By Retry-After, or by the hub's RateLimit: "api";r=0;t=55 */
function secondsToWait({ headers }: Answer): number {
  const after = headers["retry-after"]
  if (after && /^\d{1,6}$/.test(after)) return Number(after)
  if (after && Number.isFinite(Date.parse(after)))
    return Math.max(1, Math.ceil((Date.parse(after) - Date.now()) / 1000))
  const [, left] = /;\s*t=(\d{1,6})/.exec(String(headers.ratelimit ?? "")) ?? []
  return Number(left ?? 60)
}

/** Whether the next try may succeed. */
function isPassing({ code = "" }: NodeJS.ErrnoException): boolean {
  return /^(ECONNRESET|ECONNREFUSED|EPIPE|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|HPE_\w+)$/.test(
    code,
  )
}

/** Nobody answered, in the system's words. */
export function unreachable(
  client: Client,
  name: RemoteName,
  what: string,
  error: NodeJS.ErrnoException,
): unknown {
  if (error.name === "AbortError" || error.name === "Problem") return error
  const { code = "" } = error
  const isTrust = /CERT|SIGNATURE|SELF_SIGNED|SSL|TLS/.test(code)
  return problem("hub_unreachable", {
    host: hostFor(client, name),
    what,
    problem: words[code] ?? error.message,
    cure: isTrust
      ? "name the authority that signs for it in NODE_EXTRA_CA_CERTS"
      : "the proxy (HTTPS_PROXY), or set HF_HUB_OFFLINE=1 to serve what is downloaded",
  })
}

const words: Readonly<Record<string, string>> = {
  ENOTFOUND: "its name is not known",
  EAI_AGAIN: "its name cannot be looked up",
  ECONNREFUSED: "nobody answers there",
  ECONNRESET: "the connection is cut",
  ENETUNREACH: "there is no network",
}

async function refusal(
  client: Client,
  name: RemoteName,
  what: string,
  answer: Answer,
): Promise<Problem> {
  const { status, headers } = answer
  const { origin } = client.endpoint
  const host = hostFor(client, name)
  const renamed = newName(client, answer)
  const said = printable(String(headers["x-error-message"] ?? "").slice(0, 200))
  answer.body.resume()
  if (status === 429) {
    const cure = client.tokenSource ? "" : ", or set HF_TOKEN, which allows more"
    return problem("hub_busy", { host, seconds: secondsToWait(answer), cure })
  }
  if (name.kind === "hub") {
    const { repository: model, revision } = name
    const page = client.at(...model.split("/")).href
    const code = headers["x-error-code"]
    const source = client.tokenSource
    if (renamed) return problem("hub_renamed", { model, renamed })
    if (code === "GatedRepo") return problem("hub_gated", { model, page })
    const isForbidden = status === 403 && !code && answer.origin === origin
    if (source && (/Invalid credentials/i.test(said) || isForbidden))
      return problem("hub_token", { host, source, page: `${origin}/settings/tokens` })
    if (code === "RevisionNotFound") return problem("hub_revision", { model, revision, host })
    if (status === 401 || (status === 404 && code !== "EntryNotFound"))
      return problem("hub_missing", { model, host })
  }
  return problem("hub_refused", { host, what, problem: said || `it answers ${status}` })
}

/** The repository that a listing's redirect names. */
function newName(client: Client, { status, headers }: Answer): string | undefined {
  if (status < 300 || status > 399 || !headers.location) return undefined
  const next = new URL(headers.location, client.endpoint)
  return /\/api\/models\/([^/]+\/[^/]+?)(?:\/revision\/.*)?$/.exec(next.pathname)?.[1]
}
