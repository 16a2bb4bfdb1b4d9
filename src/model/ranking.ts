// Cross-encoders: a query and a document are read together, and a head makes one number of their first row, or of the mean of all.
// Sources: the classes of transformers that the table names. Folders that classify otherwise are refused, as their encoder alone is
// not what they were published for.

import type { ModelConfig } from "./config.ts"
import type { Fields } from "./fields.ts"
import { type Dense, type Pooling, readMatrix, readNorm } from "./pooling.ts"
import type { Weights } from "./weights/weights.ts"

interface RankingHead {
  /** Its two matrices. */
  dense: string
  out: string
  /** What stands between them. */
  activation: Dense["activation"]
  /** A LayerNorm behind that, whose epsilon, and its biases and the first matrix' the configuration tells, as which rows are pooled. */
  norm?: string
}

const ofRoberta: RankingHead = {
  dense: "classifier.dense",
  out: "classifier.out_proj",
  activation: "tanh",
}

const HEADS: Readonly<Record<string, RankingHead>> = {
  BertForSequenceClassification: {
    ...{ dense: "model.pooler.dense", out: "classifier", activation: "tanh" },
  },
  XLMRobertaForSequenceClassification: ofRoberta,
  RobertaForSequenceClassification: ofRoberta,
  CamembertForSequenceClassification: ofRoberta,
  MPNetForSequenceClassification: ofRoberta,
  DebertaV2ForSequenceClassification: {
    ...{ dense: "pooler.dense", out: "classifier", activation: "gelu" },
  },
  ElectraForSequenceClassification: { ...ofRoberta, activation: "gelu" },
  DistilBertForSequenceClassification: {
    ...{ dense: "pre_classifier", out: "classifier", activation: "relu" },
  },
  ModernBertForSequenceClassification: {
    ...{ dense: "head.dense", out: "classifier", activation: "gelu", norm: "head.norm" },
  },
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
  const { dense, out, activation, norm } = HEADS[classOf(fields)]!
  const size = { rows: hidden, columns: hidden }
  const last = await readMatrix(weights, out, { ...size, rows: 1, activation: "none" })
  if (!norm) {
    const first = await readMatrix(weights, dense, { ...size, activation })
    return { mode: "cls", prompts: {}, dense: [first, last] }
  }
  const named = fields.text("classifier_activation", activation)
  if (named !== activation)
    throw fields.wrong("classifier_activation", `is "${named}"; only ${activation} is known`)
  const mode = fields.text("classifier_pooling", "cls")
  if (mode !== "cls" && mode !== "mean")
    throw fields.wrong("classifier_pooling", `is "${mode}"; known: cls, mean`)
  const isBiased = fields.flag("classifier_bias", false)
  const first = await readMatrix(weights, dense, { ...size, activation, isBiased })
  const evened = await readNorm(weights, norm, hidden, {
    epsilon: fields.positive("norm_eps", 1e-5),
    isBiased: fields.flag("norm_bias", false),
  })
  return { mode, prompts: {}, dense: [{ ...first, norm: evened }, last] }
}

function classOf({ json: { architectures } }: Fields): string {
  const name: unknown = Array.isArray(architectures) ? architectures[0] : undefined
  return typeof name === "string" ? name : ""
}
