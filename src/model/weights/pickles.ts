// PyTorch's own files: pickles, which can run any program when they are read, and so are never opened. Whoever has nothing
// else is told how to make safetensors of them.

import { readdirSync } from "node:fs"
import type { Problem } from "../../errors.ts"
import type { Folder } from "../folder.ts"

/** The first file of pickled weights in a folder. */
export function pickleIn(folder: Folder): string | undefined {
  const isPickle = (name: string) =>
    /^(pytorch_model|consolidated|model)\b.*\.(bin|pth?)$/.test(name)
  return readdirSync(folder.path).sort().find(isPickle)
}

/** @param convert one line of Python that writes the weights anew */
export function pickled(folder: Folder, file: string, convert: string): Problem {
  return folder.broken(
    file,
    `it is a pickle, which can run any program and is not opened; convert it once: python -c '${convert}'`,
  )
}
