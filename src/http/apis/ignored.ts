// Parts of a request that have no effect, told in headers of the answer: fields that no schema knows in `x-ignored-fields`,
// keywords of tools' schemas that cannot be enforced in `x-unenforced`, tools that others run in `x-ignored-tools`.

import type { TObject } from "typebox"
import { cut } from "../check.ts"
import type { Exchange } from "../exchange.ts"

const MAX_NAMES = 20
const MAX_BYTES = 1024

export function reportIgnored(exchange: Exchange, schema: TObject): void {
  const names = Object.keys(exchange.body as object).filter(
    (name) => !Object.hasOwn(schema.properties, name),
  )
  if (names.length > 0) exchange.setHeader("x-ignored-fields", headerList(names))
}

/** Tools that the model is not told of, as nobody here could run them. */
export function reportIgnoredTools(exchange: Exchange, names: readonly string[]): void {
  if (names.length > 0) exchange.setHeader("x-ignored-tools", headerList(names))
}

export function reportUnenforced(exchange: Exchange, places: readonly string[] = []): void {
  if (places.length === 0) return
  exchange.setHeader("x-unenforced", headerList(places))
  exchange.log.warn({ request: exchange.id, unenforced: places.slice(0, MAX_NAMES) })
}

/** Names that came from a client, fit for a header: percent-encoded, at most 20 and 1 KiB. */
function headerList(names: readonly string[]): string {
  const encoded = names.slice(0, MAX_NAMES).map((name) => encodeURIComponent(cut(name, 100)))
  while (encoded.join(",").length > MAX_BYTES) encoded.pop()
  return encoded.join(",")
}
