// `sinter run MODEL [PROMPT]`: one answer on stdout, and nothing else there. What is piped in stands behind the prompt, or is
// it; images and recordings stand ahead of both. Without any, in a terminal, it is `sinter chat`.

import { text } from "node:stream/consumers"
import { begunWith, counted, openForOne, printAnswer } from "./answer.ts"
import { chat } from "./chat.ts"
import { audioOf, imageOf, userMessage } from "./media.ts"
import type { runOptions } from "./options.ts"
import type { Values } from "./read-options.ts"
import { INTERRUPTED } from "./signals.ts"
import { printTranscript } from "./transcript.ts"
import { refuse } from "./values.ts"

export async function run(
  model: string,
  prompt: string | undefined,
  options: Values<typeof runOptions>,
): Promise<void> {
  const { stdin } = process
  const media = [
    ...options["--image"].map((file) => imageOf(file, "--image")),
    ...options["--audio"].map((file) => audioOf(file, "--audio")),
  ]
  if (prompt === undefined && media.length === 0 && stdin.isTTY) return chat(model, options)
  const piped = stdin.isTTY ? "" : (await text(stdin)).trimEnd()
  const content = [prompt ?? "", piped].filter((part) => part !== "").join("\n\n")
  if (content.trim() === "" && media.length === 0)
    refuse("run", "there is no PROMPT, here or on stdin.")
  const app = await openForOne(model, options)
  const interruption = new AbortController()
  const interrupt = () => interruption.abort()
  try {
    const { chat, engine, transcripts } = await app.ready
    process.once("SIGINT", interrupt)
    const messages = [...begunWith(options), userMessage(content, media)]
    const { signal } = interruption
    await counted(options["--stats"] ? () => engine.stats() : undefined, async () => {
      if (transcripts)
        await printTranscript(transcripts, { prompt: content, media }, options, signal)
      else await printAnswer(chat, messages, options, signal)
    })
    if (interruption.signal.aborted) process.exitCode = INTERRUPTED
  } finally {
    process.off("SIGINT", interrupt)
    await app.close()
  }
}
