// A model's templates and tokenizer as `serve` opens them, for whoever serves them and for `compile`, which must not write a
// folder that cannot be served.

import { openTemplate, type Template } from "../chat/template.ts"
import { openTokenizer } from "../chat/tokenizer.ts"
import type { Model } from "../model/model.ts"

/**
 * The template for every conversation and the one for those with tools, where a model has them.
 * @param now the day that they tell
 * @throws `model_broken`
 */
export function openTemplates(
  { texts }: Pick<Model, "texts">,
  now: Date,
): { template: Template | undefined; toolTemplate: Template | undefined } {
  const open = (name: string) => {
    const source = texts.templates.get(name)
    const { specialTokens } = texts
    return source && openTemplate(source.text, source.file, { specialTokens, now })
  }
  return { template: open("default"), toolTemplate: open("tool_use") }
}

/** @throws `model_broken` for a tokenizer or a template that cannot be served */
export async function checkTexts(model: Model): Promise<void> {
  openTemplates(model, new Date())
  const { text, file } = model.texts.tokenizer
  const tokenizer = await openTokenizer(text, file, model.config.shapes.vocabulary)
  await tokenizer.close()
}
