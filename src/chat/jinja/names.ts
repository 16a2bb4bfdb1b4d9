// The names that a template reads or sets, in no order: what it can be given, and does not know otherwise.

import { parse } from "./parser.ts"

/** Throws an Error that says where the template does not parse. */
export function namesIn(template: string): ReadonlySet<string> {
  const names = new Set<string>()
  const open: unknown[] = [parse(template)]
  while (open.length > 0) {
    const node = open.pop()
    if (typeof node !== "object" || node === null) continue
    const { type, name } = node as { type?: unknown; name?: unknown }
    if (type === "name" && typeof name === "string") names.add(name)
    open.push(...Object.values(node))
  }
  return names
}
