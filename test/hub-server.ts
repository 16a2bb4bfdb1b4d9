// A hub on loopback that speaks the real one's protocol, over sockets: listings, small files with Git's etags, large ones behind a
// redirect to another port with a signed address, ranges, codes of errors, and connections that are cut.
// https://huggingface.co/docs/hub/api, and what huggingface_hub asks for.

import { createHash } from "node:crypto"
import { once } from "node:events"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

export interface Held {
  /** Large files are what Git LFS keeps; the default is by name. */
  files: Record<string, Buffer | string>
  commit?: string
  branch?: string
  gated?: boolean
  /** Who has no token is told that there is no such thing. */
  isPrivate?: boolean
  renamed?: string
  /** What the listing says of a file, where that is not so. */
  sizes?: Record<string, number>
}

export interface Asked {
  server: "hub" | "files"
  method: string
  path: string
  range: string | undefined
  authorization: string | undefined
}

export interface HubServer {
  url: string
  /** Where large files are redirected to. */
  filesUrl: string
  repositories: Record<string, Held>
  /** All that was asked, in its order. */
  asked: Asked[]
  /** After how many bytes of an answer the connection is cut; undefined: never. */
  cut: (length: number) => number | undefined
  /** Answers in the hub's place where it returns true. */
  instead: (asked: Asked, response: ServerResponse) => boolean
  close: () => Promise<void>
}

export const TOKEN = "hf_secretSecretSecret"
export const COMMIT = "c0ffee0000000000000000000000000000000001"

export const gitSha = (bytes: Buffer) =>
  createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex")
export const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex")

const isLarge = (path: string) => /\.(safetensors|gguf|bin)$|^tokenizer\.json$/.test(path)

export async function openHubServer(repositories: Record<string, Held>): Promise<HubServer> {
  const hub: HubServer = {
    url: "",
    filesUrl: "",
    repositories,
    asked: [],
    cut: () => undefined,
    instead: () => false,
    close: async () => {
      for (const server of servers) {
        server.closeAllConnections()
        server.close()
      }
    },
  }
  const answering =
    (server: Asked["server"], answer: (asked: Asked, response: ServerResponse) => void) =>
    (request: IncomingMessage, response: ServerResponse) => {
      const { method = "", url = "", headers } = request
      const { range, authorization } = headers
      const asked = { server, method, path: url, range, authorization }
      hub.asked.push(asked)
      if (!hub.instead(asked, response)) answer(asked, response)
    }
  const servers = [
    createServer(answering("hub", (asked, response) => answerAsHub(hub, asked, response))),
    createServer(answering("files", (asked, response) => answerWithFile(hub, asked, response))),
  ]
  hub.url = await listen(servers[0]!)
  hub.filesUrl = await listen(servers[1]!)
  return hub
}

async function listen(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function answerAsHub(hub: HubServer, asked: Asked, response: ServerResponse): void {
  const { pathname } = new URL(asked.path, hub.url)
  const parts = pathname.split("/").slice(1).map(decodeURIComponent)
  const isApi = parts[0] === "api"
  if (isApi) parts.splice(0, 2)
  const at = parts.findIndex((part) => part === "revision" || part === "resolve" || part === "tree")
  const name = parts.slice(0, at < 0 ? undefined : at).join("/")
  const [, revision = "main", ...rest] = at < 0 ? [] : parts.slice(at)
  const signedIn = asked.authorization === `Bearer ${TOKEN}`
  const held = hub.repositories[name]
  const refuse = (status: number, code: string, message: string) =>
    response
      .writeHead(status, { "x-error-code": code, "x-error-message": message })
      .end(JSON.stringify({ error: message }))
  if (asked.authorization && !signedIn)
    return void refuse(401, "", "Invalid credentials in Authorization header")
  if (!held || (held.isPrivate && !signedIn))
    return void (signedIn
      ? refuse(404, "RepoNotFound", "Repository not found")
      : refuse(401, "RepoNotFound", "Invalid username or password."))
  if (held.renamed) {
    const location = asked.path.replace(name, held.renamed)
    return void response.writeHead(307, { location }).end()
  }
  const commit = held.commit ?? COMMIT
  if (![held.branch ?? "main", commit].includes(revision))
    return void refuse(404, "RevisionNotFound", `Invalid rev id: ${revision}`)
  if (isApi)
    return void response.end(
      JSON.stringify(parts[at] === "tree" ? treeOf(held) : infoOf(name, held)),
    )
  if (held.gated && !signedIn)
    return void refuse(401, "GatedRepo", `Access to model ${name} is restricted.`)
  const path = rest.join("/")
  const content = held.files[path]
  if (content === undefined) return void refuse(404, "EntryNotFound", "Entry not found")
  const bytes = Buffer.from(content)
  const headers = { "x-repo-commit": commit, "accept-ranges": "bytes" }
  if (!isLarge(path)) {
    send(hub, asked, response, bytes, { ...headers, etag: `"${gitSha(bytes)}"` })
    return
  }
  const linked = { "x-linked-etag": `"${sha256(bytes)}"`, "x-linked-size": String(bytes.length) }
  const key = encodeURIComponent(`${name}\n${path}`)
  const location = `${hub.filesUrl}/${key}?X-Amz-Signature=${signatureOf(key)}`
  response.writeHead(302, { ...headers, ...linked, location }).end()
}

const signatureOf = (key: string) => sha256(Buffer.from(`signed ${key}`)).slice(0, 16)

function answerWithFile(hub: HubServer, asked: Asked, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(asked.path, hub.filesUrl)
  const key = pathname.slice(1)
  if (searchParams.get("X-Amz-Signature") !== signatureOf(key) || asked.authorization)
    return void response.writeHead(403).end()
  const [name = "", path = ""] = decodeURIComponent(key).split("\n")
  const bytes = Buffer.from(hub.repositories[name]!.files[path]!)
  send(hub, asked, response, bytes, { etag: `"${sha256(bytes).slice(0, 32)}-1"` })
}

/** A file or the rest of it, as far as the connection lasts. */
function send(
  hub: HubServer,
  { range, method }: Asked,
  response: ServerResponse,
  bytes: Buffer,
  headers: Record<string, string>,
): void {
  const [, first = "0", last] = /^bytes=(\d+)-(\d*)$/.exec(range ?? "") ?? []
  const from = Number(first)
  if (range && from >= bytes.length)
    return void response.writeHead(416, { "content-range": `bytes */${bytes.length}` }).end()
  const part = bytes.subarray(from, last ? Number(last) + 1 : undefined)
  const place = { "content-range": `bytes ${from}-${from + part.length - 1}/${bytes.length}` }
  response.writeHead(range ? 206 : 200, {
    ...headers,
    ...(range ? place : {}),
    "content-length": String(part.length),
  })
  const end = method === "HEAD" ? undefined : hub.cut(part.length)
  if (method === "HEAD") response.end()
  else if (end === undefined) response.end(part)
  else {
    const cutNow = () => response.socket?.destroySoon()
    response.flushHeaders()
    if (end === 0)
      cutNow() // of an empty write nothing is told
    else response.write(part.subarray(0, end), cutNow)
  }
}

function infoOf(id: string, { files, commit = COMMIT, gated = false, sizes }: Held): unknown {
  const siblings = Object.entries(files).map(([rfilename, content]) => {
    const bytes = Buffer.from(content)
    const size = sizes?.[rfilename] ?? bytes.length
    if (!isLarge(rfilename)) return { rfilename, size, blobId: gitSha(bytes) }
    const pointer = pointerOf(bytes)
    const lfs = { sha256: sha256(bytes), size, pointerSize: pointer.length }
    return { rfilename, size, blobId: gitSha(pointer), lfs }
  })
  return {
    _id: "0",
    id,
    modelId: id,
    sha: commit,
    private: false,
    gated,
    siblings,
    tags: [],
    downloads: 0,
  }
}

function treeOf({ files }: Held): unknown {
  return Object.entries(files).map(([path, content]) => {
    const bytes = Buffer.from(content)
    const size = bytes.length
    if (!isLarge(path)) return { type: "file", path, size, oid: gitSha(bytes) }
    const pointer = pointerOf(bytes)
    const lfs = { oid: sha256(bytes), size, pointerSize: pointer.length }
    return { type: "file", path, size, oid: gitSha(pointer), lfs }
  })
}

/** https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md */
export function pointerOf(bytes: Buffer): Buffer {
  return Buffer.from(
    `version https://git-lfs.github.com/spec/v1\noid sha256:${sha256(bytes)}\nsize ${bytes.length}\n`,
  )
}
