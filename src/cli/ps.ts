// `sinter ps`: what a running server has in memory, as it says itself.

import { table } from "./table.ts"
import { quoted, refuse } from "./values.ts"

interface Running {
  name: string
  expires_at?: string
  details: { family: string; quantization_level: string }
  context_length?: number
}

/** For the answer. */
const MILLISECONDS = 10_000

export async function ps(url: string, key: string | undefined): Promise<void> {
  const models = await ask(url, key)
  if (models.length === 0) {
    console.log(`${url}: no model is in memory`)
    return
  }
  const rows = models.map(({ name, details, context_length: context, expires_at: until }) => [
    name.replace(/:latest$/, ""),
    details.family,
    details.quantization_level,
    context === undefined ? "" : `${context}`,
    staysUntil(until),
  ])
  const head = ["model", "architecture", "format", "context", "unloaded"]
  console.log(table([head, ...rows]))
}

async function ask(url: string, key: string | undefined): Promise<readonly Running[]> {
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
  const signal = AbortSignal.timeout(MILLISECONDS)
  const response = await fetch(new URL("/api/ps", url), { headers, signal }).catch(
    (error: Error) => {
      const { code } = (error.cause ?? {}) as { code?: string }
      refuse(
        "--url",
        `no server answers at ${quoted(url)} (${code ?? error.message}); sinter serve starts one.`,
      )
    },
  )
  if (response.status === 401 || response.status === 403)
    refuse(
      "--api-key",
      `the server at ${quoted(url)} wants a key, and took ${key === undefined ? "none" : "not this one"}.`,
    )
  const body = (await response.json().catch(() => undefined)) as { models?: Running[] } | undefined
  if (!response.ok || !Array.isArray(body?.models))
    refuse("--url", `what answers at ${quoted(url)} is no server of sinter's (${response.status}).`)
  return body.models
}

/** A server that unloads nothing says a year that nobody waits for. */
function staysUntil(time: string | undefined): string {
  if (time === undefined) return ""
  const date = new Date(time)
  return date.getUTCFullYear() > new Date().getUTCFullYear() + 50 ? "never" : date.toISOString()
}
