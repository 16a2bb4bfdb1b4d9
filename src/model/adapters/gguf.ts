// Adapters in GGUF, as llama.cpp's converter writes them: of a tensor X there are X.lora_a [rank, columns] and X.lora_b [rows, rank], for
// the table of embeddings [rows, rank] and [columns, rank]; norms lie there whole.
// https://github.com/ggml-org/llama.cpp/blob/master/convert_lora_to_gguf.py, and get_scale of src/llama-adapter.h

import { join } from "node:path"
import { openWhole } from "../../closing.ts"
import { type Folder, readExactly } from "../folder.ts"
import { readContainer, type StoredTensor } from "../gguf/container.ts"
import { Keys } from "../gguf/keys.ts"
import type { Part } from "../packed/matrix.ts"
import { type Adapter, changesOf, type Piece } from "./adapter.ts"

const TABLE = "token_embd.weight"

export async function openGgufAdapter(folder: Folder, file: string): Promise<Adapter> {
  const broken = (what: string) => folder.broken(file, what)
  return openWhole(async (closing) => {
    const { handle, pairs, tensors } = await readContainer(folder, file)
    closing.add(handle)
    const keys = new Keys(pairs, broken)
    const kind = keys.textIfThere("general.type")
    if (kind !== "adapter")
      throw keys.wrong("general.type", `is ${kind ? `"${kind}"` : "missing"}: this is no adapter`)
    const type = keys.text("adapter.type")
    if (type !== "lora") throw keys.wrong("adapter.type", `is "${type}"; lora is read`)
    const INVOKED = "adapter.alora.invocation_tokens"
    if (keys.has(INVOKED))
      throw keys.wrong(
        INVOKED,
        "is there: an adapter that begins behind certain tokens is not read",
      )
    const alpha = keys.numberIfThere("adapter.lora.alpha") ?? 0
    const factorOf = (_: string, rank: number) => (alpha === 0 ? 1 : alpha / rank)
    const changes = changesOf(tensors.map(pieceOf), factorOf, broken)
    return {
      path: join(folder.path, file),
      folder,
      files: [file],
      names: "gguf",
      changes,
      tied: false,
      broken,
      close: () => closing.close(),
    }
  })
}

function pieceOf(tensor: StoredTensor): Piece {
  const part = partOf(tensor)
  const [, name, kind] = /^(.+)\.lora_(a|b)$/.exec(tensor.name) ?? []
  if (name === undefined) return { tensor: tensor.name, kind: "whole", part }
  if (name === TABLE)
    return { tensor: name, kind: kind === "a" ? "left" : "right", part, turned: kind === "b" }
  return { tensor: name, kind: kind === "a" ? "right" : "left", part, turned: false }
}

function partOf({ name, type, dims, handle, position }: StoredTensor): Part {
  return {
    name,
    dtype: type,
    shape: dims.toReversed(),
    read: (from, bytes) => readExactly(handle, position + from, bytes),
  }
}
