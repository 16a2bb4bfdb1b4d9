// What answers tell in headers: docs/api.md prints the table, and pages of other origins are let to read what it names, since
// browsers hide all but a few headers from them (Fetch standard, "CORS-safelisted response-header name").

/** Its name, whether requests may have it, too, and what it says. */
export const HEADERS = [
  ["x-request-id", "in and out", "names the request in the log; made up when none came"],
  ["request-id", "out", "the same, where Anthropic's clients look for it"],
  ["x-api-dialect", "in and out", "see above"],
  ["x-seed", "out", "the seed that was used"],
  ["x-ignored-fields", "out", "names of unknown fields, percent-encoded, at most 20"],
  [
    "x-unenforced",
    "out",
    "keywords of tools' schemas that are not enforced, as `tool#/place/keyword`",
  ],
  [
    "x-ignored-tools",
    "out",
    "tools of Anthropic's and OpenAI's own servers, which nobody runs here",
  ],
  ["retry-after", "out", "seconds, with 429 and 503"],
] as const satisfies readonly (readonly [name: string, where: "out" | "in and out", says: string])[]
