// Keys and tensors of an mmproj file, which llama.cpp calls one of the architecture `clip`.

import type { Problem } from "../../errors.ts"
import type { Folder } from "../folder.ts"
import type { Container, StoredTensor } from "../gguf/container.ts"
import { isMmproj, Keys } from "../gguf/keys.ts"

export class ClipFile {
  readonly keys: Keys
  readonly tensors: ReadonlyMap<string, StoredTensor>
  readonly broken: (what: string) => Problem

  /** @throws where it is a file of another kind */
  constructor(folder: Folder, file: string, { pairs, tensors }: Container) {
    this.broken = (what) => folder.broken(file, what)
    this.keys = new Keys(pairs, this.broken)
    this.tensors = new Map(tensors.map((tensor) => [tensor.name, tensor]))
    if (!isMmproj(this.keys))
      throw this.keys.wrong(
        "general.architecture",
        `is ${JSON.stringify(this.keys.textIfThere("general.architecture"))}; that of an mmproj file is "clip"`,
      )
  }

  wrong(rest: string, what: string): Problem {
    return this.keys.wrong(`clip.vision.${rest}`, what)
  }

  count(rest: string): number {
    return this.keys.count(`clip.vision.${rest}`)
  }

  countIfThere(rest: string): number | undefined {
    return this.keys.countIfThere(`clip.vision.${rest}`)
  }

  /** Each has tensors of its own, so that nothing is made for more of them. */
  layers(): number {
    const layers = this.count("block_count")
    const { size } = this.tensors
    if (layers <= size) return layers
    throw this.wrong("block_count", `is ${layers}, but the file has ${size} tensors in all`)
  }

  has(tensor: string): boolean {
    return this.tensors.has(tensor)
  }

  /** The length of a row first. */
  dims(tensor: string): readonly number[] {
    const dims = this.tensors.get(tensor)?.dims
    if (!dims) throw this.broken(`there is no tensor ${tensor}`)
    return dims
  }
}
