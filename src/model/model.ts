// The door of the room: a folder goes in, a model comes out: its configuration in our words, its graph, its weights as
// tensors to be read in windows, and what it says about text. Every size, offset, type, shape and name has been checked
// when it is returned, and the graph's tensors are all there; no tensor has been read.

import { statSync } from "node:fs"
import { resolve } from "node:path"
import type { Graph } from "../compiler/graph/graph.ts"
import type { FormatName } from "../runtime/format.ts"
import { type ArchitectureName, architectureOf, architectures } from "./architectures.ts"
import type { ModelConfig } from "./config.ts"
import { Fields } from "./fields.ts"
import { Folder } from "./folder.ts"
import { type ModelTexts, readTexts } from "./texts.ts"
import { openSafetensors } from "./weights/safetensors.ts"
import type { Weights } from "./weights/weights.ts"

export interface Model {
  path: string // absolute
  name: string // the folder's own
  architecture: ArchitectureName
  config: ModelConfig
  /** The format its weights are in. */
  format: FormatName
  graph: Graph
  weights: Weights
  texts: ModelTexts
  close(): Promise<void>
}

/** @throws `model_broken`, naming the file and what is wrong with it. */
export async function openModel(path: string): Promise<Model> {
  const folder = new Folder(resolve(path))
  if (!statSync(folder.path, { throwIfNoEntry: false })?.isDirectory())
    throw folder.broken(".", "there is no such folder")
  const file = "config.json"
  const fields = new Fields(await folder.json(file), (what) => folder.broken(file, what))
  const architecture = architectureOf(fields)
  const config = architectures[architecture].read(fields)
  const weights = await openSafetensors(folder)
  try {
    checkLayers(fields, config, weights)
    const graph = architectures[architecture].graph(config)
    checkTensors(graph, weights)
    return {
      path: folder.path,
      name: folder.name,
      architecture,
      config,
      format: formatOfFloats(weights, config),
      graph,
      weights,
      texts: await readTexts(folder, fields, config.shapes.vocabulary),
      close: () => weights.close(),
    }
  } catch (error) {
    await weights.close()
    throw error
  }
}

/** Before anything is made for each layer: every layer has tensors of its own. */
function checkLayers(fields: Fields, { shapes }: ModelConfig, { entries }: Weights): void {
  if (shapes.layers > entries.length)
    throw fields.wrong(
      "num_hidden_layers",
      `is ${shapes.layers}, but the weights are ${entries.length} tensors in all`,
    )
}

function checkTensors({ nodes }: Graph, weights: Weights): void {
  for (const node of nodes) {
    const read =
      node.op === "embed"
        ? [node.table]
        : node.op === "linear"
          ? [node.weight, ...(node.bias ? [node.bias] : [])]
          : node.op === "norm"
            ? [node.weight]
            : []
    for (const { sources, columns } of read)
      for (const { tensor, rows } of sources) weights.tensor(tensor, rows, columns)
  }
}

/** The format of a folder of floats: that of its largest tensor, the embedding table. */
function formatOfFloats(weights: Weights, { shapes }: ModelConfig): FormatName {
  const { format } = weights.tensor("model.embed_tokens.weight", shapes.vocabulary, shapes.hidden)
  return `q0${format as "f32" | "f16" | "bf16"}`
}
