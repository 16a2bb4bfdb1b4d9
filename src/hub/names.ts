// What a model may be called besides a path: a repository of the hub (`ORG/NAME`, with `@REVISION` and `:FILE`), the same behind
// `hf:` or as its page with or without https, and the address of a GGUF file anywhere. Nothing is looked up here.

import { problem } from "../errors.ts"
import { isModelFile } from "./selection.ts"

/** A repository of the hub, or one model in it. */
export interface HubName {
  kind: "hub"
  repository: string // ORG/NAME, or NAME alone
  revision: string // a branch, a tag or a commit
  /** Whether the revision was typed; where it was not, a model is that of the default, and a repository all of them. */
  pinned: boolean
  /** Which of its GGUF models: a type as in Q4_K_M, or a file's path. Absent: the repository's only model. */
  file: string | undefined
}

/** A GGUF file on some server. */
export interface FileAddress {
  kind: "address"
  url: URL
}

export type RemoteName = HubName | FileAddress

export const DEFAULT_REVISION = "main"

/** Of a user, an organisation or a model: https://huggingface.co/docs/hub/repositories-settings */
const PART = String.raw`[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?`
const REPOSITORY = new RegExp(`^(?:(${PART})/)?(${PART})$`)
const REVISION = /^[\w][\w./+-]{0,254}$/
const FILE = /^[\w(][\w .,()+/-]{0,511}$/

const HUB_HOSTS = ["huggingface.co", "www.huggingface.co", "hf.co"]

/** Whether it can be no path. */
export function hasScheme(text: string): boolean {
  return /^(hf|https?):/i.test(text)
}

/**
 * Reads a name; undefined where it can only be a path.
 * @throws `name_invalid` for what begins as a name and is none
 */
export function parseName(text: string): RemoteName | undefined {
  if (hasScheme(text)) return parseSchemed(text)
  const [host = "", ...path] = text.split("/")
  if (HUB_HOSTS.includes(host.toLowerCase())) return parsePage(text, path)
  if (/^[^@:]+\/[^@:]+:[^@:]+@[^@:]+$/.test(text))
    throw invalid(text, "a revision stands before the file, as in ORG/NAME@REVISION:FILE")
  const parts = partsOf(text)
  const isBare = parts.repository.includes("/") && !/\.(gguf|bin)$/.test(parts.repository)
  return isBare ? checked(parts) : undefined
}

/**
 * Reads a name that has a scheme.
 * @throws `name_invalid`
 */
export function parseSchemed(text: string): RemoteName {
  const [scheme] = /^hf:(?:\/\/)?/i.exec(text) ?? []
  if (scheme === undefined) return parseAddress(text)
  const name = checked(partsOf(text.slice(scheme.length)))
  if (!name) throw invalid(text, "expected hf:ORG/NAME, then @REVISION or :FILE where they matter")
  return name
}

/** A name's, as they were typed. */
interface Parts {
  repository: string
  revision: string | undefined
  file: string | undefined
}

/** Of ORG/NAME@REVISION:FILE */
function partsOf(text: string): Parts {
  const [, repository = "", revision, file] = /^([^@:]*)(?:@([^:]*))?(?::(.*))?$/s.exec(text) ?? []
  return { repository, revision, file }
}

/** As it is typed. */
export function printName({ repository, revision, pinned, file }: HubName): string {
  const at = pinned ? `@${revision}` : ""
  return `${repository}${at}${file === undefined ? "" : `:${file}`}`
}

function checked({ repository, revision: typed, file }: Parts): HubName | undefined {
  const revision = typed ?? DEFAULT_REVISION
  if (!REPOSITORY.test(repository) || /--|\.\./.test(repository)) return undefined
  if (!REVISION.test(revision) || leavesItsFolder(revision)) return undefined
  if (file !== undefined && (!FILE.test(file) || leavesItsFolder(file))) return undefined
  return { kind: "hub", repository, revision, pinned: typed !== undefined, file }
}

/** Whether a path has a part that is not the name of an entry. */
export function leavesItsFolder(path: string): boolean {
  return path.split("/").some((part) => part === "" || part === "." || part === "..")
}

function parseAddress(text: string): RemoteName {
  const url = readUrl(text)
  if (!url) throw invalid(text, "it is no address")
  if (url.username || url.password)
    throw invalid(text.replace(/\/\/[^/]*@/, "//"), "an address holds no password here")
  if (HUB_HOSTS.includes(url.hostname)) return parsePage(text, url.pathname.slice(1).split("/"))
  if (url.protocol === "http:" && !isLoopback(url.hostname))
    throw invalid(text, "what comes over http can be changed on its way; use https")
  if (!isModelFile(url.pathname))
    throw invalid(
      text,
      "an address must be that of a .gguf file, or of a ggml-….bin of whisper.cpp",
    )
  if (/-\d{5}-of-\d{5}\.gguf$/.test(url.pathname))
    throw invalid(text, "it is one part of several; download them into a folder, and name that")
  return { kind: "address", url }
}

/**
 * A page of the hub, or a file's address there: the host that is asked is the one that HF_ENDPOINT says. What may stand behind
 * a model's name may stand behind its page.
 */
function parsePage(text: string, path: readonly string[]): HubName {
  const parts = path.map((part) => decoded(part.replace(/[?#].*/s, ""))).filter(Boolean)
  const verb = parts.findIndex((part) => /^(resolve|blob|tree|raw)$/.test(part))
  const isInner = verb >= 0
  const named = isInner ? inRepository(parts, verb) : partsOf(parts.join("/"))
  const name = checked(named)
  if (!name || (isInner && name.file !== undefined && !isModelFile(name.file)))
    throw invalid(
      text,
      "expected the page of a model, or of a .gguf file or a ggml-….bin of whisper.cpp in one",
    )
  return name
}

/** Of ORG/NAME/tree/REVISION/FILE */
function inRepository(parts: readonly string[], verb: number): Parts {
  const [revision, ...path] = parts.slice(verb + 1)
  const file = path.length > 0 ? path.join("/") : undefined
  return { repository: parts.slice(0, verb).join("/"), revision, file }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

function readUrl(text: string): URL | undefined {
  try {
    return new URL(text)
  } catch {
    return undefined
  }
}

export function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname)
}

function invalid(name: string, what: string): Error {
  return problem("name_invalid", { name, problem: what })
}
