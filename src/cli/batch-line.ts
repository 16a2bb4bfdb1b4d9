// A line of a file of requests, as OpenAI's batches have it: {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions",
// "body": {…}} (https://platform.openai.com/docs/guides/batch).

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

/** @param seen the ids of the lines before, to which this one's is added */
export function readLine(
  line: string,
  number: number,
  seen: Set<string>,
): { asked: Asked } | Unanswered {
  const refused = (problem: string, id: string | null = null) => ({
    id,
    message: `Line ${number}: ${problem}.`,
  })
  let read: unknown
  try {
    read = JSON.parse(line)
  } catch (error) {
    return refused(`no JSON (${(error as Error).message})`)
  }
  if (!isObject(read)) return refused("expected an object with custom_id, method, url and body")
  const { custom_id: id, method, url, body } = read
  if (typeof id !== "string" || id === "") return refused("custom_id must be a text")
  if (seen.has(id))
    return refused(`custom_id ${quoted(id)} was an earlier line's; give each its own`, id)
  seen.add(id)
  if (method !== "POST") return refused("method must be POST", id)
  if (typeof url !== "string" || !/^\/v1\/[\w/-]+$/.test(url))
    return refused("url must be a path like /v1/chat/completions", id)
  if (!isObject(body)) return refused("body must be an object, the request's own", id)
  if (body.stream) return refused("body.stream must be false, or left out", id)
  return { asked: { id, path: url, body: JSON.stringify(body) } }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}
