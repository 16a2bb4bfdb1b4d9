// The part of docs/models.md that says how calls are written, printed from the table of formats.

import { formats } from "./formats.ts"

const CALL = { name: "get_weather", arguments: '{"place": "Köln"}' }

export function formatsSection(): string {
  const rows = Object.entries(formats).map(
    ([name, { models, written }]) => `| \`${name}\` | ${models} | ${code(written([CALL]))} |`,
  )
  return [
    "## How they write tool calls",
    "",
    "The chat template of a folder shows which of these forms its model writes; `--tool-format` names another. Each is read, whole and",
    "while it is streamed, and is what a reply is held to where it calls ([structured-output.md](structured-output.md)). Templates that show",
    "no tools, or no calls, get them in words. One that refuses a conversation, as over two calls in one message, is given the same said otherwise.",
    "Kimi K2 and Solar Open are shown earlier calls and results under ids of the form that they write, whatever ids a client sends: Kimi's number",
    "all calls of a conversation, and others lead it astray.",
    "",
    "| `--tool-format` | written by | a call |",
    "|---|---|---|",
    ...rows,
    "",
    "Thinking is told from the answer by the marks that a template shows: `<think>`, `[THINK]`, `<seed:think>`, Apertus' and Hy 3's own, gpt-oss' and Gemma 4's",
    "channels, Command's `<|START_THINKING|>`, Solar Open's `<|think|>`, Muse Glimmer's `to=self`. Marks around the answer itself, which Command, Hunyuan, Solar Open, Granite 3.3 and",
    "Muse Glimmer write, are not part of it.",
    "",
  ].join("\n")
}

/** In one line of a table: line breaks as ⏎. */
function code(text: string): string {
  return `\`\` ${text.replaceAll("|", "\\|").replaceAll("\n", " ⏎ ")} \`\``
}
