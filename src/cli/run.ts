// `sinter run MODEL [PROMPT]`: one answer on stdout, and nothing else there. What is piped in stands behind the prompt, or is
// it. Without either, in a terminal, it is `sinter chat`.

import { text } from "node:stream/consumers"
import { begunWith, type ChatOptions, counted, openForOne, printAnswer } from "./answer.ts"
import { chat } from "./chat.ts"
import { INTERRUPTED } from "./signals.ts"
import { refuse } from "./values.ts"

export async function run(
  model: string,
  prompt: string | undefined,
  options: ChatOptions,
): Promise<void> {
  const { stdin } = process
  if (prompt === undefined && stdin.isTTY) return chat(model, options)
  const piped = stdin.isTTY ? "" : (await text(stdin)).trimEnd()
  const content = [prompt ?? "", piped].filter((part) => part !== "").join("\n\n")
  if (content.trim() === "") refuse("run", "there is no PROMPT, here or on stdin.")
  const app = await openForOne(model, options)
  const interruption = new AbortController()
  const interrupt = () => interruption.abort()
  try {
    const { chat, engine } = await app.ready
    process.once("SIGINT", interrupt)
    const messages = [...begunWith(options), { role: "user", content } as const]
    await counted(options["--stats"] ? () => engine.stats() : undefined, () =>
      printAnswer(chat, messages, options, interruption.signal),
    )
    if (interruption.signal.aborted) process.exitCode = INTERRUPTED
  } finally {
    process.off("SIGINT", interrupt)
    await app.close()
  }
}
