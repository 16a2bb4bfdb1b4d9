// Which files of a folder make it an adapter: what was trained on top of a model, and is none by itself.

import { existsSync } from "node:fs"
import { join } from "node:path"
import { ADAPTER, ADAPTER_WEIGHTS, INDEX, SINGLE } from "../../hub/selection.ts"

/** As older versions of PEFT wrote them, which is told to whoever names such a folder. */
export const PICKLE = "adapter_model.bin"

/** Among them what MLX leaves of earlier steps of training ("0000100_adapters.safetensors"). */
export function isAdapterFile(name: string): boolean {
  return ADAPTER_WEIGHTS.some((file) => name === file || name.endsWith(`_${file}`))
}

/** Whether a folder holds an adapter, and no model beside it. */
export function isAdapter(path: string): boolean {
  const has = (file: string) => existsSync(join(path, file))
  return has(ADAPTER) && [...ADAPTER_WEIGHTS, PICKLE].some(has) && ![SINGLE, INDEX].some(has)
}
