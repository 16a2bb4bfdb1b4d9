// A store as Ollama lays one out, in a folder of its own: blobs by their sha256, manifests by their names. Its models are golden.

import { createHash } from "node:crypto"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, relative } from "node:path"
import { goldenFolder } from "./model/golden.ts"

export const weightsFile = join(goldenFolder("gguf", "llama-q4_0"), "llama-q4_0.gguf")
export const adapterFile = join(goldenFolder("adapters", "on-q4_0"), "adapter.gguf")

export interface Layer {
  mediaType: string
  digest: string
  size: number
}

const MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
export const LIST = "application/vnd.ollama.manifest.list.v2+json"

export class OllamaStore {
  readonly folder = mkdtempSync(join(tmpdir(), "sinter-ollama-"))
  readonly env = { OLLAMA_MODELS: this.folder }
  readonly weights = this.layer("model", readFileSync(weightsFile))
  readonly adapter = this.layer("adapter", readFileSync(adapterFile))
  /** In the language of Ollama's own program. */
  readonly template = this.layer("template", "{{ .Prompt }}")

  /** Puts bytes among the blobs. @param kind as in application/vnd.ollama.image.KIND */
  layer(kind: string, content: string | Uint8Array): Layer {
    const hex = createHash("sha256").update(content).digest("hex")
    this.put(`blobs/sha256-${hex}`, content)
    const size = Buffer.byteLength(content)
    return { mediaType: `application/vnd.ollama.image.${kind}`, digest: `sha256:${hex}`, size }
  }

  blob({ digest }: Pick<Layer, "digest">): string {
    return join(this.folder, "blobs", digest.replace(":", "-"))
  }

  /** @param place HOST/NAMESPACE/NAME/TAG; of a model in Ollama's library NAME/TAG is enough */
  manifest(place: string, layers: unknown): string {
    const inLibrary = place.split("/").length === 2
    const path = inLibrary ? `registry.ollama.ai/library/${place}` : place
    return this.put(`manifests/${path}`, JSON.stringify(manifestOf(layers)))
  }

  /** As Ollama 0.40 keeps one: a link to a blob. */
  newer(place: string, manifest: unknown): string {
    const blob = this.blob(this.layer("", JSON.stringify(manifest)))
    const path = join(this.folder, "manifests-v2", place)
    mkdirSync(dirname(path), { recursive: true })
    symlinkSync(relative(dirname(path), blob), path)
    return path
  }

  put(name: string, content: string | Uint8Array): string {
    const path = join(this.folder, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, content)
    return path
  }

  remove(): void {
    rmSync(this.folder, { recursive: true })
  }
}

export function manifestOf(layers: unknown) {
  return { schemaVersion: 2, mediaType: MANIFEST, layers }
}
