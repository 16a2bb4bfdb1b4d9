// Opens an adapter as it is found: a folder as PEFT or MLX writes it, which may bring a tokenizer along, or a GGUF file.

import { statSync } from "node:fs"
import { basename, dirname, resolve } from "node:path"
import { openWhole } from "../../closing.ts"
import { ADAPTER, ADAPTER_WEIGHTS } from "../../hub/selection.ts"
import { Fields } from "../fields.ts"
import { Folder } from "../folder.ts"
import { openParts } from "../weights/safetensors.ts"
import type { Adapter } from "./adapter.ts"
import { PICKLE } from "./files.ts"
import { openGgufAdapter } from "./gguf.ts"
import { readMlxAdapter } from "./mlx.ts"
import { readPeft } from "./peft.ts"

/** @throws `model_broken`, naming the file and what is wrong with it */
export async function openAdapter(path: string): Promise<Adapter> {
  const place = resolve(path)
  if (statSync(place, { throwIfNoEntry: false })?.isFile())
    return openGgufAdapter(new Folder(dirname(place)), basename(place))
  const folder = new Folder(place)
  const fields = await adapterFields(folder)
  const [ofPeft, ofMlx] = ADAPTER_WEIGHTS
  if (await folder.has(ofPeft)) return openFolder(folder, fields, ofPeft, readPeft)
  if (await folder.has(ofMlx)) return openFolder(folder, fields, ofMlx, readMlxAdapter)
  if (await folder.has(PICKLE))
    throw folder.broken(
      PICKLE,
      "it is a pickle, which can run any program and is not opened; load it with PEFT once and save it anew",
    )
  throw folder.broken(ofPeft, "there is no such file")
}

async function openFolder(
  folder: Folder,
  fields: Fields,
  file: string,
  read: typeof readPeft,
): Promise<Adapter> {
  const broken = (what: string) => folder.broken(file, what)
  return openWhole(async (closing) => {
    const { parts, close } = await openParts(folder, file)
    closing.add({ close })
    const files = [ADAPTER, file]
    const its = read(fields, parts, broken)
    return { path: folder.path, folder, files, names: "published", ...its, broken, close }
  })
}

async function adapterFields(folder: Folder): Promise<Fields> {
  return new Fields(await folder.json(ADAPTER), (what) => folder.broken(ADAPTER, what))
}

/** As PEFT calls it, and as MLX does. */
const BASES = ["base_model_name_or_path", "model"] as const

/** What the model is called that an adapter's folder belongs to: a path, or a name of the hub. */
export async function baseOf(path: string): Promise<string> {
  const fields = await adapterFields(new Folder(resolve(path)))
  const field = fields.has("peft_type") || !fields.has(BASES[1]) ? BASES[0] : BASES[1]
  const name = fields.text(field)
  if (name === "") throw fields.wrong(field, "is empty")
  const isOfHub = fields.has("revision") && /^[\w.-]+\/[\w.-]+$/.test(name)
  return isOfHub ? `${name}@${fields.text("revision")}` : name
}
