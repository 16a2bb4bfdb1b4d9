// Ollama's store as it lies on a disk: what a name means there, and that a manifest is believed in nothing.

import { chmodSync, mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, beforeEach, expect, test } from "vitest"
import { LIST, manifestOf, OllamaStore } from "../../test/ollama-store.ts"
import {
  describeOllamaModel,
  findOllamaAdapters,
  findOllamaModel,
  ollamaModels,
  ollamaStores,
  parseOllamaName,
  shortOllamaName,
} from "./ollama.ts"

let store: OllamaStore
beforeEach(() => {
  store = new OllamaStore()
})
afterEach(() => store.remove())

const find = (text: string) => findOllamaModel(parseOllamaName(text)!, store.env)

test.each([
  ["ollama:llama3.2", "registry.ollama.ai", "library", "llama3.2", "latest", "llama3.2"],
  ["ollama:llama3.2:latest", "registry.ollama.ai", "library", "llama3.2", "latest", "llama3.2"],
  ["OLLAMA:llama3.2:3b", "registry.ollama.ai", "library", "llama3.2", "3b", "llama3.2:3b"],
  ["ollama://me/my-model:v1", "registry.ollama.ai", "me", "my-model", "v1", "me/my-model:v1"],
  ["ollama:ollama.com/library/a", "registry.ollama.ai", "library", "a", "latest", "a"],
  ["ollama:hf.co/Org/Re.po:Q4_K_M", "hf.co", "Org", "Re.po", "Q4_K_M", "hf.co/Org/Re.po:Q4_K_M"],
  ["ollama:localhost:5000/me/a", "localhost:5000", "me", "a", "latest", "localhost:5000/me/a"],
])("%s is a name of Ollama's", (text, host, namespace, model, tag, short) => {
  const name = parseOllamaName(text)!
  expect(name).toEqual({ host, namespace, model, tag })
  expect(shortOllamaName(name)).toBe(short)
})

test.each(["llama3.2:3b", "hf:org/name", "./ollama:a", "ollama/a"])("%s is none", (text) =>
  expect(parseOllamaName(text)).toBeUndefined(),
)

test.each([
  "ollama:",
  "ollama:a:",
  "ollama:a:b:c",
  "ollama:a/b/c/d",
  "ollama:../a",
  "ollama:a/..:b",
  "ollama:a:..",
  "ollama:h/./a",
  "ollama:a//b",
  "ollama:a b",
  "ollama:a.b/c",
  "ollama:a\nb",
  `ollama:${"a".repeat(81)}`,
])("%j is refused in one line", (text) => {
  expect(() => parseOllamaName(text)).toThrow(/^[^\n]+ is no name of a model: expected ollama:NAME/)
})

test("the store is where OLLAMA_MODELS says, else in the user's folder, then in the service's", () => {
  expect(ollamaStores({ OLLAMA_MODELS: "/there" })).toEqual(["/there"])
  process.env.HOME = store.folder
  const [own, ...others] = ollamaStores({})
  if (process.platform !== "win32") expect(own).toBe(join(store.folder, ".ollama/models"))
  expect(others).toEqual(process.platform === "linux" ? ["/usr/share/ollama/.ollama/models"] : [])
})

test("a model is its blob where it lies, with its adapters", () => {
  store.manifest("llama3.2/latest", [store.weights, store.template])
  store.manifest("registry.ollama.ai/me/mario/v1", [store.template, store.weights, store.adapter])
  store.manifest("hf.co/Org/Repo/Q4_0", [store.weights])
  const path = store.blob(store.weights)
  expect(find("ollama:llama3.2")).toEqual({ path, adapters: [], name: "llama3.2" })
  expect(find("ollama:me/mario:v1")).toEqual({
    path,
    adapters: [store.blob(store.adapter)],
    name: "me/mario:v1",
  })
  expect(find("ollama:hf.co/Org/Repo:Q4_0")).toMatchObject({ path })
})

test("what a model sees with is a layer of its manifest", () => {
  const projector = store.layer("projector", "GGUF that sees")
  store.manifest("llava/latest", [store.weights, projector])
  expect(find("ollama:llava").ownMmproj).toBe(store.blob(projector))
  store.manifest("blind/latest", [store.weights])
  expect(find("ollama:blind").ownMmproj).toBeUndefined()
  const described = describeOllamaModel(parseOllamaName("ollama:llava")!, store.env)
  expect(described.bytes).toBe(store.weights.size + projector.size)
  truncateSync(store.blob(projector), 3)
  expect(() => find("ollama:llava")).toThrow("it is 3 bytes long, and its manifest says 14")
})

test("case tells no names apart", () => {
  store.manifest("hf.co/Org/Repo/Q4_0", [store.weights])
  expect(find("ollama:hf.co/org/repo:q4_0").name).toBe("hf.co/Org/Repo:Q4_0")
})

const foldsCase = process.platform !== "linux"
const folded = foldsCase ? " (skipped: this system's files are called alike)" : ""
test.skipIf(foldsCase)(`the name as it is typed goes first${folded}`, () => {
  const other = store.layer("model", "GGUF of another")
  store.manifest("B/latest", [other])
  store.manifest("b/latest", [store.weights])
  expect(find("ollama:b").path).toBe(store.blob(store.weights))
  expect(find("ollama:B").path).toBe(store.blob(other))
})

test("a model's adapters stand for themselves", () => {
  store.manifest("mario/latest", [store.weights, store.adapter])
  const manifest = store.manifest("plain/latest", [store.weights])
  const adapters = (text: string) => findOllamaAdapters(parseOllamaName(text)!, store.env)
  expect(adapters("ollama:mario")).toEqual([store.blob(store.adapter)])
  expect(() => adapters("ollama:plain")).toThrow(
    `${manifest}: it has no layer application/vnd.ollama.image.adapter`,
  )
})

test("a newer manifest is a link, counts for more than an older one, and not when its blob is gone", () => {
  const newer = store.layer("model", "GGUF of today")
  store.manifest("a/latest", [store.weights])
  store.newer("ollama.com/library/a/latest", manifestOf([newer]))
  store.newer("localhost%3A5000/me/b/latest", manifestOf([newer]))
  expect(find("ollama:a").path).toBe(store.blob(newer))
  expect(find("ollama:localhost:5000/me/b").path).toBe(store.blob(newer))
  rmSync(store.blob(store.layer("", JSON.stringify(manifestOf([newer])))))
  expect(find("ollama:a").path).toBe(store.blob(store.weights))
})

test("of a list of manifests that of a GGUF file is taken, the one for llama.cpp first", () => {
  const ours = store.layer("", JSON.stringify(manifestOf([store.weights])))
  const older = store.layer("", JSON.stringify(manifestOf([store.layer("model", "GGUF?")])))
  const list = (...manifests: unknown[]) => ({ mediaType: LIST, manifests })
  const mlx = { runner: "mlx", digest: `sha256:${"0".repeat(64)}` }
  const ggml = { runner: "ggml", digest: older.digest }
  store.newer("h/n/both/latest", list(mlx, ggml, { runner: "llamacpp", digest: ours.digest }))
  store.newer("h/n/inner/latest", list(mlx, { runner: "ggml", layers: [store.weights] }))
  const only = store.newer("h/n/only/latest", list(mlx))
  store.newer("h/n/gone/latest", list({ ...mlx, runner: "ggml" }))
  const odd = [
    list(null, 1, { runner: { toString: 1 } }),
    { mediaType: LIST, manifests: { length: 1 } },
  ].map((manifest, i) => store.newer(`h/n/odd/${i}`, manifest))
  expect(find("ollama:h/n/both").path).toBe(store.blob(store.weights))
  expect(find("ollama:h/n/inner").path).toBe(store.blob(store.weights))
  expect(() => find("ollama:h/n/only")).toThrow(`${only}: it lists no manifest of a GGUF file`)
  for (const [i, manifest] of odd.entries())
    expect(() => find(`ollama:h/n/odd:${i}`)).toThrow(`${manifest}: it lists no manifest of a GGUF`)
  expect(() => find("ollama:h/n/gone")).toThrow(
    `${store.blob(mlx)}: it belongs to the model and is not there`,
  )
})

test("a name that is not there is told what is, and where that was looked for", () => {
  expect(() => find("ollama:a")).toThrow(
    `No model ollama:a: looked in ${store.folder}; no models were found; ollama pull a fetches it.`,
  )
  for (let i = 10; i < 32; i++) store.manifest(`m${i}/latest`, [store.weights])
  store.manifest(`llamacpp/${"a".repeat(64)}`, [store.weights]) // Ollama's own note of a conversion
  store.put("manifests/registry.ollama.ai/library/m10/.DS_Store", "")
  const sentence = /what lies there: (.*); ollama pull me\/a:b fetches it\.$/
  expect(() => find("ollama:me/a:b")).toThrow(sentence)
  const [, names = ""] = sentence.exec(messageOf(() => find("ollama:me/a:b"))) ?? []
  expect(names.split(", ")).toEqual([
    ...Array.from({ length: 20 }, (_, i) => `ollama:m${i + 10}`),
    "…",
  ])
  const gone = { OLLAMA_MODELS: join(store.folder, "gone") }
  expect(() => findOllamaModel(parseOllamaName("ollama:a")!, gone)).toThrow(
    /gone which is not there; no models were found;/,
  )
})

const isRoot = process.getuid?.() === 0
const mayRead = isRoot ? " (skipped: root may read everything)" : ""
test.skipIf(isRoot)(`a store that may not be read says so${mayRead}`, () => {
  chmodSync(store.folder, 0)
  try {
    expect(() => find("ollama:a")).toThrow(/may not be read by this user \(EACCES\)/)
  } finally {
    chmodSync(store.folder, 0o755)
  }
})

const NAMED = "it names a blob by something else than sha256: and 64 hexadecimal digits"

test.each([
  [
    "no model",
    (s: OllamaStore) => [s.template],
    "it has no layer application/vnd.ollama.image.model",
  ],
  ["several", (s: OllamaStore) => [s.weights, s.weights], "it has 2 layers"],
  ["no layers", () => ({ length: 1 }), "it lists no layers; ollama pull a fetches it again"],
  ["an entry that is none", () => [null, 1, "x"], "it has no layer"],
  ["no digest", (s: OllamaStore) => [{ ...s.weights, digest: undefined }], NAMED],
  [
    "a digest that is no text",
    (s: OllamaStore) => [{ ...s.weights, digest: { toString: 1 } }],
    NAMED,
  ],
  ["a path", (s: OllamaStore) => [{ ...s.weights, digest: "../../secret" }], NAMED],
  [
    "a path behind a digest",
    (s: OllamaStore) => [{ ...s.weights, digest: `${s.weights.digest}/../x` }],
    NAMED,
  ],
  [
    "another digest",
    (s: OllamaStore) => [{ ...s.weights, digest: `sha512:${"a".repeat(64)}` }],
    NAMED,
  ],
  ["no size", (s: OllamaStore) => [{ ...s.weights, size: "9" }], "it says no size of sha256-"],
] as const)("a manifest with %s is refused by its path", (_, layersOf, sentence) => {
  const manifest = store.manifest("a/latest", layersOf(store))
  const message = messageOf(() => find("ollama:a"))
  expect(message.startsWith(`${manifest}: `)).toBe(true)
  expect(message).toContain(sentence)
})

test("a blob that is missing, or of another length, is named with its cure", () => {
  store.manifest("a/1b", [store.weights, store.adapter])
  const [weights, adapter] = [store.blob(store.weights), store.blob(store.adapter)]
  truncateSync(adapter, 1000)
  expect(() => find("ollama:a:1b")).toThrow(
    `${adapter}: it is 1000 bytes long, and its manifest says ${store.adapter.size}; ollama pull a:1b fetches it again`,
  )
  rmSync(weights)
  expect(() => find("ollama:a:1b")).toThrow(
    `${weights}: it belongs to the model and is not there; ollama pull a:1b fetches it again`,
  )
})

test("no link leads out of the store, of a blob or of a manifest, and nothing of what lies there is shown", () => {
  const outside = store.put("secret", "secret words")
  const blob = store.blob(store.weights)
  store.manifest("a/latest", [{ ...store.weights, size: 12 }])
  rmSync(blob)
  symlinkSync(outside, blob)
  const leads = "it is a link that leads out of Ollama's store; put the file itself there"
  expect(() => find("ollama:a")).toThrow(`${blob}: ${leads}`)
  const manifest = join(store.folder, "manifests/h/n/m/t")
  mkdirSync(join(manifest, ".."), { recursive: true })
  symlinkSync(outside, manifest)
  expect(() => find("ollama:h/n/m:t")).toThrow(`${manifest}: ${leads}`)
  store.put("manifests/h/n/words/t", "secret words")
  expect(messageOf(() => find("ollama:h/n/words:t"))).toMatch(
    /it holds no JSON object; ollama pull h\/n\/words:t fetches it again$/,
  )
})

test("a manifest that is too long is not read", () => {
  const manifest = store.manifest("a/latest", [store.weights])
  truncateSync(manifest, 9 << 20)
  expect(() => find("ollama:a")).toThrow(`${manifest}: it is 9437184 bytes long, no manifest`)
})

test("models are listed by what they are typed as; what cannot be opened is passed over", () => {
  store.manifest("a/latest", [store.weights, store.template])
  store.manifest("a/tuned", [store.weights, store.adapter])
  store.manifest("cloud/latest", [store.template])
  store.put("manifests/registry.ollama.ai/library/broken/latest", "{")
  const [weights, adapter] = [store.weights.size, store.adapter.size]
  const listed = () => ollamaModels(store.env)
  expect(listed()).toMatchObject([
    { name: "ollama:a", bytes: weights, whole: true, store: store.folder },
    { name: "ollama:a:tuned", bytes: weights + adapter, whole: true },
  ])
  writeFileSync(store.blob(store.adapter), "half")
  expect(listed().map(({ whole }) => whole)).toEqual([true, false])
  expect(describeOllamaModel(parseOllamaName("ollama:a:tuned")!, store.env).files).toEqual([
    { path: store.blob(store.weights), bytes: weights },
    { path: store.blob(store.adapter), bytes: adapter },
  ])
})

function messageOf(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    return (error as Error).message
  }
  throw new Error("nothing was refused")
}
