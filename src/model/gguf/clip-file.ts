// Keys and tensors of an mmproj file, which llama.cpp calls one of the architecture `clip`: of what sees, or of what hears, which may
// lie in one file. And what is wanted of either beside its text model: rows as wide as that one's, and a token in whose place they stand.

import type { Closing } from "../../closing.ts"
import type { Problem } from "../../errors.ts"
import type { ModelConfig } from "../config.ts"
import { Fields } from "../fields.ts"
import { type Folder, isObject, type Json } from "../folder.ts"
import { type Naming, sourcesOf } from "../weights/names.ts"
import type { Weights } from "../weights/weights.ts"
import { type Container, readContainer, type StoredTensor } from "./container.ts"
import { inOtherWords, isMmproj, Keys } from "./keys.ts"
import { isOfEar, towerInside } from "./tower-inside.ts"
import { ggufWeights } from "./weights.ts"

/** The file, and what the model that it lies beside is. */
export interface Beside {
  folder: Folder
  file: string
  /** The text model's own file. */
  model: string
  config: ModelConfig
  /** Of that file, in the words of a config.json. */
  text: Fields
  /** The ids of tokens that a template writes so, and no user. */
  readTokenIds: () => (text: string) => number | undefined
}

/** As its keys call what sees and what hears. */
export type ClipPart = "vision" | "audio"

export interface OpenClip {
  /** Absent: the file has no such part. */
  vision?: ClipFile
  audio?: ClipFile
}

/** @throws `model_broken` where it is no such file */
export async function openClip({ folder, file }: Beside, closing: Closing): Promise<OpenClip> {
  const broken = (what: string) => folder.broken(file, what)
  if (!(await folder.has(file))) throw broken("there is no such file")
  const stored = await readContainer(folder, file)
  closing.add(stored.handle)
  const container = towerInside(stored, broken) ?? stored
  const keys = new Keys(container.pairs, broken)
  const hears = keys.flag("clip.has_audio_encoder", false)
  const sees = keys.flag("clip.has_vision_encoder", !hears) // older ones do not say it
  const part = (name: ClipPart) => {
    const isOwn = (tensor: string) => !(sees && hears) || isOfEar(tensor) === (name === "audio")
    const tensors = container.tensors.filter((tensor) => isOwn(tensor.name))
    return new ClipFile(folder, file, { ...container, tensors }, name)
  }
  return { ...(sees && { vision: part("vision") }), ...(hears && { audio: part("audio") }) }
}

/** The value of a field of a config.json, and of which key or tensor of a file it is. */
class Said {
  readonly value: unknown
  readonly by: string

  constructor(value: unknown, by: string) {
    this.value = value
    this.by = by
  }
}

export class ClipFile {
  readonly keys: Keys
  readonly tensors: ReadonlyMap<string, StoredTensor>
  readonly broken: (what: string) => Problem
  readonly #folder: Folder
  readonly #file: string
  readonly #part: ClipPart

  /** @throws where it is a file of another kind */
  constructor(folder: Folder, file: string, { pairs, tensors }: Container, part: ClipPart) {
    this.#folder = folder
    this.#file = file
    this.#part = part
    this.broken = (what) => folder.broken(file, what)
    this.keys = new Keys(pairs, this.broken)
    this.tensors = new Map(tensors.map((tensor) => [tensor.name, tensor]))
    if (!isMmproj(this.keys))
      throw this.keys.wrong(
        "general.architecture",
        `is ${JSON.stringify(this.keys.textIfThere("general.architecture"))}; that of an mmproj file is "clip"`,
      )
  }

  /** What it calls its projector; one with several parts has a name for each. */
  projector(): { key: string; name: string | undefined } {
    const whole = "clip.projector_type"
    const key = this.keys.has(whole) ? whole : `clip.${this.#part}.projector_type`
    return { key, name: this.keys.textIfThere(key) }
  }

  #key(rest: string): string {
    return `clip.${this.#part}.${rest}`
  }

  wrong(rest: string, what: string): Problem {
    return this.keys.wrong(this.#key(rest), what)
  }

  count(rest: string): number {
    return this.keys.count(this.#key(rest))
  }

  countIfThere(rest: string): number | undefined {
    return this.keys.countIfThere(this.#key(rest))
  }

  numberIfThere(rest: string): number | undefined {
    return this.keys.numberIfThere(this.#key(rest))
  }

  flag(rest: string, otherwise: boolean): boolean {
    return this.keys.flag(this.#key(rest), otherwise)
  }

  /** For `words`: what a key says. */
  said(rest: string, value: unknown): Said {
    return new Said(value, this.#key(rest))
  }

  /** For `words`: the count that a key says. */
  counted(rest: string): Said {
    return this.said(rest, this.count(rest))
  }

  /** For `words`: a number that a key or the shape of a tensor leads to. */
  made(of: string, value: unknown): Said {
    return new Said(value, `what ${of} leads to`)
  }

  /** Fields of a config.json, which the file has under other names: what is wrong with one that is said here is told of its own. */
  words(fields: Json): Fields {
    const own = new Map<string, string>()
    const plain = (json: Json, prefix: string): Json =>
      Object.fromEntries(
        Object.entries(json).map(([name, field]) => {
          if (field instanceof Said) own.set(prefix + name, field.by)
          const value = field instanceof Said ? field.value : field
          return [name, isObject(value) ? plain(value, `${prefix}${name}.`) : value]
        }),
      )
    const json = plain(fields, "")
    return new Fields(json, (what) => {
      const [field] = what.split(" ", 1)
      const by = own.get(field!)
      return by ? this.broken(by + what.slice(field!.length)) : inOtherWords(this.broken)(what)
    })
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

  /** Its tensors by the graph's names. @param unread those that nobody reads */
  weights(naming: Naming, close: () => Promise<void>, unread: readonly string[] = []): Weights {
    const { tensors } = this
    const isRead = (name: string) => !unread.includes(name)
    const sources = sourcesOf(naming, (name) =>
      isRead(name) ? tensors.get(name)?.dims : undefined,
    )
    return ggufWeights({ folder: this.#folder, file: this.#file, tensors, sources, isRead, close })
  }

  /** Rows that come out stand in the place of tokens of the text model. @param last of a tensor, as many as a row has columns */
  checkWidth(last: { tensor: string; dim: 0 | 1 }, { model, config }: Beside): void {
    const { hidden } = config.shapes
    const width = this.dims(last.tensor)[last.dim]
    if (width !== hidden)
      throw this.broken(
        `it makes rows of ${width} columns, and those of ${model} have ${hidden}; ${ANOTHER}`,
      )
  }

  /** @param around tokens by which a vocabulary is known to be of this kind @param what the rows are of */
  checkTokens(around: readonly string[], what: string, { model, readTokenIds }: Beside): void {
    const tokenOf = readTokenIds()
    const missing = around.find((text) => tokenOf(text) === undefined)
    if (missing !== undefined)
      throw this.broken(
        `${model} has no token ${missing}, which it reads around ${what}; ${ANOTHER}`,
      )
  }
}

export const ANOTHER = "take the file that belongs to this model"
