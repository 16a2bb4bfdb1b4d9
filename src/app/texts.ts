// A model's templates and tokenizer as `serve` opens them, for whoever serves them and for `compile`, which must not write a
// folder that cannot be served.

import { openTemplate, type Template } from "../chat/template.ts"
import { openTokenizer } from "../chat/tokenizer.ts"
import { Closing } from "../closing.ts"
import type { Model } from "../model/model.ts"
import { readableTokens } from "../runtime/manifest.ts"

export interface Templates {
  template: Template | undefined
  toolTemplate: Template | undefined
  close(): Promise<void>
}

/**
 * The template for every conversation and the one for those with tools, where a model has them.
 * @param now the day that they tell
 * @throws `model_broken`
 */
export function openTemplates({ texts }: Pick<Model, "texts">, now: Date): Templates {
  const closing = new Closing()
  const open = (name: string) => {
    const source = texts.templates.get(name)
    const { specialTokens } = texts
    return source && closing.add(openTemplate(source.text, source.file, { specialTokens, now }))
  }
  const [template, toolTemplate] = [open("default"), open("tool_use")]
  return { template, toolTemplate, close: () => closing.close() }
}

/** @throws `model_broken` for a tokenizer or a template that cannot be served */
export async function checkTexts(model: Model): Promise<void> {
  await openTemplates(model, new Date()).close()
  const { json, file } = model.texts.tokenizer
  const tokenizer = await openTokenizer(json, file, readableTokens(model.config.shapes))
  await tokenizer.close()
}
