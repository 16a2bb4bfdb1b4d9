// What was trained on top of a model: changes of some of its tensors. A change is of low rank (W + left * right, LoRA), of that and
// the lengths that rows have then (DoRA), or a tensor in another's place.
// https://arxiv.org/abs/2106.09685, https://arxiv.org/abs/2402.09353

import type { Problem } from "../../errors.ts"
import type { Folder } from "../folder.ts"
import { floatTypes, type Part } from "../packed/matrix.ts"
import { type Factor, storedFactor } from "./factors.ts"

export interface Adapter {
  /** Of its folder, or of the one file that it is. */
  path: string
  folder: Folder
  /** Those of that folder which say what it changes. */
  files: readonly string[]
  /** Whose names it calls tensors by: those that its model was published with, or those of GGUF. */
  names: "published" | "gguf"
  /** By the tensor's whole name. */
  changes: ReadonlyMap<string, Change>
  /** A head that is the embedding changes with it. */
  tied: boolean
  /** What is wrong with it. */
  broken: (what: string) => Problem
  close(): Promise<void>
}

/** In the order in which it happens. */
export interface Change {
  /** Comes in the tensor's place. */
  whole?: Part
  /** That is what the model was trained from, as if it were its own: a table of more tokens. */
  isBase?: true
  low?: LowRank
  /** Of each row its length: the row is stretched to that. */
  lengths?: Part
}

/** left [rows, rank] times right [rank, columns] is added, times what goes with so high a rank. */
export interface LowRank {
  left: Factor
  right: Factor
  /** @param parameter which of the module's parameters it is of; absent: of its weight */
  factor: (rank: number, parameter?: string) => number
}

/** Whether a tensor is the table of embeddings, by the names that this has. */
export const isTable = (tensor: string) =>
  /(^|\.)(embed_tokens|wte|word_embeddings|embed_in)\.weight$/.test(tensor)

/** What a file holds of the change of one tensor. */
export type Piece =
  | { tensor: string; kind: "whole" | "lengths"; part: Part; isBase?: boolean }
  | { tensor: string; kind: "left" | "right"; part: Part; turned: boolean }

/**
 * The changes that pieces make, by tensor.
 * @param factorOf what a product of a module's factors is multiplied with
 * @throws `model_broken` where a piece is there twice, is no matrix of floats, or lacks the other that it belongs to
 */
export function changesOf(
  pieces: readonly Piece[],
  factorOf: (module: string, rank: number) => number,
  broken: (what: string) => Problem,
): Map<string, Change> {
  const found = new Map<string, Map<Piece["kind"], Piece>>()
  for (const piece of pieces) {
    const { tensor, kind, part } = piece
    const its = found.get(tensor) ?? new Map<Piece["kind"], Piece>()
    if (its.has(kind)) throw broken(`${part.name} and ${its.get(kind)!.part.name} are one thing`)
    checkPiece(piece, broken)
    found.set(tensor, its.set(kind, piece))
  }
  return new Map(
    [...found].map(([tensor, its]) => {
      const piece = its.get("whole")
      const whole = piece?.part
      const isBase = piece && "isBase" in piece && piece.isBase
      const { part: lengths } = its.get("lengths") ?? {}
      const [left, right] = (["left", "right"] as const).map((kind) => {
        const piece = its.get(kind)
        return piece && "turned" in piece ? storedFactor(piece.part, piece.turned) : undefined
      })
      if (!left !== !right) throw broken(`of ${tensor} it holds one factor of two`)
      const change: Change = {
        ...(whole && { whole }),
        ...(isBase && { isBase }),
        ...(lengths && { lengths }),
      }
      if (!left || !right) return [tensor, change]
      if (left.width !== right.height)
        throw broken(`the factors of ${tensor} have ranks ${left.width} and ${right.height}`)
      const module = tensor.replace(/\.weight$/, "")
      const factor: LowRank["factor"] = (rank, parameter) =>
        factorOf(parameter ? `${module.replace(/\.base_layer$/, "")}.${parameter}` : module, rank)
      return [tensor, { ...change, low: { left, right, factor } }]
    }),
  )
}

const MAX_NAME = 400 // characters

function checkPiece(
  { kind, part: { name, dtype, shape } }: Piece,
  broken: (what: string) => Problem,
): void {
  if (name.length > MAX_NAME)
    throw broken(`the name of a tensor has ${name.length} characters, more than ${MAX_NAME}`)
  if (!floatTypes[dtype])
    throw broken(`tensor ${name} is of type ${dtype}; F32, F16 and BF16 can be read`)
  const isFactor = kind === "left" || kind === "right"
  if (isFactor && (shape.length !== 2 || shape.includes(0)))
    throw broken(`tensor ${name} has shape [${shape.join(", ")}], which is no matrix`)
}
