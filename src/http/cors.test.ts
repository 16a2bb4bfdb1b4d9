import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { corsHeaders, isPreflight, preflight } from "./cors.ts"
import type { CorsOptions } from "./service.ts"

type Answer = [
  method: string,
  headers: Record<string, string>,
  status: number,
  text: string,
  answered: Record<string, string>,
]

const golden = new URL("../../test/golden/cors/cases.json", import.meta.url)
const sets = JSON.parse(readFileSync(golden, "utf8")) as {
  options: CorsOptions
  answers: Answer[]
}[]

test.each(sets)("answers as Starlette does with $options", ({ options, answers }) => {
  for (const [method, headers, status, text, answered] of answers) {
    const got = isPreflight(method, headers)
      ? preflight(options, headers)
      : { status: 200, text: "page", headers: corsHeaders(options, headers) }
    expect(got, `${method} ${JSON.stringify(headers)}`).toEqual({ status, text, headers: answered })
  }
})
