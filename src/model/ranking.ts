// Cross-encoders: a query and a document are read together, and a head makes one number of their first row. Sources:
// BertForSequenceClassification and XLMRobertaForSequenceClassification of transformers. Folders that classify otherwise are
// refused, as their encoder alone is not what they were published for.

import type { ModelConfig } from "./config.ts"
import type { Fields } from "./fields.ts"
import { type Pooling, readMatrix } from "./pooling.ts"
import type { Weights } from "./weights/weights.ts"

/** The head's two matrices, tanh between them. */
const HEADS: Readonly<Record<string, readonly [dense: string, out: string]>> = {
  BertForSequenceClassification: ["model.pooler.dense", "classifier"],
  XLMRobertaForSequenceClassification: ["classifier.dense", "classifier.out_proj"],
}

/** Whether a folder ranks. @throws `model_broken` where it classifies otherwise */
export function ranks(fields: Fields): boolean {
  const name = classOf(fields)
  if (!name.endsWith("ForSequenceClassification")) return false
  if (!Object.hasOwn(HEADS, name))
    throw fields.wrong(
      "architectures",
      `holds ${name}; of models that classify ${Object.keys(HEADS).join(" and ")} are known`,
    )
  const labels = fields.object("id2label")
  const count = labels ? Object.keys(labels.json).length : fields.count("num_labels", 2)
  if (count !== 1) throw fields.wrong("id2label", `has ${count} labels; a model that ranks has 1`)
  return true
}

export async function readRanking(
  fields: Fields,
  { shapes: { hidden } }: ModelConfig,
  weights: Weights,
): Promise<Pooling> {
  const [dense, out] = HEADS[classOf(fields)]!
  const size = { rows: hidden, columns: hidden }
  return {
    mode: "cls",
    prompts: {},
    dense: [
      await readMatrix(weights, dense, { ...size, activation: "tanh" }),
      await readMatrix(weights, out, { ...size, rows: 1, activation: "none" }),
    ],
  }
}

function classOf({ json: { architectures } }: Fields): string {
  const name: unknown = Array.isArray(architectures) ? architectures[0] : undefined
  return typeof name === "string" ? name : ""
}
