// Options that expose the server to more people than an operator may expect: a sentence each, for the log at the start.

import { isLoopback } from "./guards.ts"
import type { HttpOptions } from "./service.ts"

/** @param address that is bound, which `host` may name in many ways */
export function exposures(
  {
    host,
    apiKeys,
    apiKeyFile,
    cors,
  }: Pick<HttpOptions, "host" | "apiKeys" | "apiKeyFile" | "cors">,
  address: string,
): string[] {
  const sentences: string[] = []
  const isOpen = apiKeys.length === 0 && apiKeyFile === undefined
  if (!isLoopback(address) && isOpen) {
    sentences.push(
      `--host ${host} without --api-key: every machine that reaches this one may use the server.`,
    )
  }
  // Every page has the origin "null" in a frame of its own that is sandboxed.
  const anyOrigin = cors?.origins.some((origin) => origin === "*" || origin === "null")
  if (cors?.credentials && anyOrigin) {
    sentences.push(
      "--allow-credentials for any origin: every web page that somebody opens may use the server in that person's name; list the pages in --allowed-origins.",
    )
  }
  return sentences
}
