// Fields that no schema knows are ignored, and the answer says so in `x-ignored-fields`.

import type { TObject } from "typebox"
import { cut } from "./check.ts"
import type { Exchange } from "./exchange.ts"

const MOST_NAMES = 20
const MOST_BYTES = 1024

export function reportIgnored(exchange: Exchange, schema: TObject): void {
  const names = Object.keys(exchange.body as object).filter(
    (name) => !Object.hasOwn(schema.properties, name),
  )
  if (names.length > 0) exchange.setHeader("x-ignored-fields", headerList(names))
}

/** Names that came from a client, fit for a header: percent-encoded, at most 20 and 1 KiB. */
function headerList(names: readonly string[]): string {
  const encoded = names.slice(0, MOST_NAMES).map((name) => encodeURIComponent(cut(name, 60)))
  while (encoded.join(",").length > MOST_BYTES) encoded.pop()
  return encoded.join(",")
}
