// Where a model is, by whatever it is called: a path or a name of this machine first, then one of the hub, which is downloaded if
// it is not here.

import { Problem } from "../errors.ts"
import { fetchModel, type HubOptions } from "../hub/hub.ts"
import { parseName } from "../hub/names.ts"
import { locateModel } from "../model/locate.ts"

/** @throws `model_missing`, or the sentences of a hub where it could be one of its names */
export async function findModel(name: string, options: HubOptions = {}): Promise<string> {
  if (/^(hf:|https?:)/i.test(name)) return fetchModel(parseName(name)!, options)
  try {
    return locateModel(name)
  } catch (error) {
    const remote = parseName(name)
    if (!remote || !(error instanceof Problem)) throw error
    return fetchModel(remote, options)
  }
}
