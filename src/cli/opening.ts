// What every command that opens a model says of it, from the options that they share.

import type { ModelOptions } from "../app/options.ts"
import { createLog, type Log } from "../log.ts"
import type { chatOptions, modelOptions, serveOptions } from "./options.ts"
import { downloadProgress, progressBar } from "./progress.ts"
import type { Values } from "./read-options.ts"

export function openingOf(
  options: Values<typeof modelOptions>,
): Omit<ModelOptions, "model"> & { log: Log } {
  return {
    lora: options["--lora"],
    mmproj: options["--mmproj"],
    device: options["--device"],
    target: options["--target"],
    modelLib: options["--model-lib"],
    trustLibraries: options["--trust-libraries"],
    quantization: options["--quantization"],
    overrides: options["--overrides"],
    shelfSize: options["--shelf-size"],
    log: createLog(options["--log-level"], process.stderr.isTTY),
    onDownload: downloadProgress(process.stderr),
    onProgress: progressBar(process.stderr),
  }
}

/** What requests choose from, as those commands take it that serve. */
export function choicesOf(options: Pick<Values<typeof serveOptions>, "--lora-modules">) {
  return options["--lora-modules"].map(({ name, text }) => ({ name, adapter: text }))
}

/** What guesses ahead, as those commands take it that answer. */
export function draftingOf(
  options: Pick<Values<typeof chatOptions>, "--speculative-mode" | "--additional-models">,
) {
  return { mode: options["--speculative-mode"], models: options["--additional-models"] }
}
