// A line of a file of requests, as OpenAI's batches have it: {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions",
// "body": {…}} (https://platform.openai.com/docs/guides/batch). It is read as a server reads a body: its numbers stay as they were
// written, and what is no UTF-8 or is nested too deep is refused.

import type { Problem } from "../errors.ts"
import { isMembers, type Json, readJson, writing } from "../http/json.ts"
import { atOnce } from "../http/turns.ts"
import { quoted } from "./values.ts"

export interface Asked {
  /** Its custom_id. */
  id: string
  path: string
  /** As JSON. */
  body: string
}

/** Why a line is no request that could be asked. */
export interface Unanswered {
  id: string | null
  message: string
}

const NEWLINE = 0x0a
/** A mark of byte order, with which some programs begin a file, is none of a line. */
const utf8 = new TextDecoder("utf-8", { fatal: true })

/**
 * The lines of a file or a pipe. Nothing but \n ends one: Node's readline would also do so at U+2028 and U+2029, which texts of
 * JSON may hold as they are.
 */
export async function* linesOf(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let begun: Uint8Array[] = []
  for await (const bytes of input) {
    let from = 0
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
      yield Buffer.concat([...begun, bytes.subarray(from, end)])
      begun = []
      from = end + 1
    }
    begun.push(bytes.subarray(from))
  }
  const rest = Buffer.concat(begun)
  if (rest.length > 0) yield rest
}

/**
 * @param seen the ids of the lines before, to which this one's is added
 * @returns undefined for a line of blanks
 */
export function readLine(
  line: Uint8Array,
  number: number,
  seen: Set<string>,
): { asked: Asked } | Unanswered | undefined {
  const refused = (problem: string, id: string | null = null) => ({
    id,
    message: `Line ${number}: ${problem}.`,
  })
  let text: string
  try {
    text = utf8.decode(line)
  } catch {
    return refused("no UTF-8")
  }
  if (text.trim() === "") return undefined
  let read: Json
  try {
    read = readJson(text)
  } catch (error) {
    return refused(`no JSON: ${(error as Problem).values.problem}`.replace(/\.$/, ""))
  }
  if (!isMembers(read)) return refused("expected an object with custom_id, method, url and body")
  const { custom_id: id, method, url, body } = read
  if (typeof id !== "string" || id === "") return refused("custom_id must be a text")
  if (seen.has(id))
    return refused(`custom_id ${quoted(id)} was an earlier line's; give each its own`, id)
  seen.add(id)
  if (method !== "POST") return refused("method must be POST", id)
  if (typeof url !== "string" || !/^\/v1\/[\w/-]+$/.test(url))
    return refused("url must be a path like /v1/chat/completions", id)
  if (!isMembers(body)) return refused("body must be an object, the request's own", id)
  if (body.stream) return refused("body.stream must be false, or left out", id)
  return { asked: { id, path: url, body: atOnce(writing(body)) } }
}
