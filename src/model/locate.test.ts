import { execFileSync } from "node:child_process"
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { homedir, tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterEach, beforeEach, expect, test } from "vitest"
import { cacheHome } from "../runtime/cache.ts"
import { locateModel, mmprojsIn, modelFileIn, modelsAt } from "./locate.ts"

let cwd: string
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), "locate-"))
})
afterEach(() => rmSync(cwd, { recursive: true }))

const locate = (name: string) =>
  locateModel(name, {
    cwd,
    env: { SINTER_HOME: join(cwd, "home"), XDG_CACHE_HOME: join(cwd, "cache") },
    packaged: join(cwd, "package"),
  })

function model(path: string, config = "config.json"): string {
  const file = join(cwd, path, config)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, "{}")
  return join(cwd, path)
}

test("a name is found in each place, the nearest first", () => {
  const places = [
    "package/m",
    "cache/sinter/models/m",
    "home/m",
    "models/m",
    "dist/prebuilt/m",
    "dist/m/params",
    "dist/m",
    "m",
  ]
  for (const place of places) {
    model(place)
    expect(locate("m")).toBe(join(cwd, place))
  }
})

test("a compiled folder is a model, a folder without configuration is none", () => {
  const compiled = model("models/c", "mlc-chat-config.json")
  expect(locate("c")).toBe(compiled)
  mkdirSync(join(cwd, "empty"))
  expect(() => locate("empty")).toThrow(/No model empty/)
})

test("a path is taken as it is", () => {
  const path = model("some/where")
  expect(locate(path)).toBe(path)
  expect(locate("./some/where")).toBe(path)
  expect(locate("some/where")).toBe(path)
})

test.each([undefined, "", "relative/cache"])(
  "XDG_CACHE_HOME=%j is as none for models and shelf alike",
  (cache) => {
    expect(cacheHome({ XDG_CACHE_HOME: cache })).toBe(join(homedir(), ".cache"))
    const env = { XDG_CACHE_HOME: cache }
    expect(() => locateModel("m", { cwd, env, packaged: cwd })).toThrow(
      join(homedir(), ".cache/sinter/models/m"),
    )
  },
)

test("a GGUF file, or a folder with one, is a model", () => {
  const file = join(cwd, "model.gguf")
  writeFileSync(file, "GGUF")
  for (const name of ["model.gguf", "./model.gguf"]) expect(locate(name)).toBe(file)
  expect(() => locate("other.gguf")).toThrow("No model other.gguf")
  const folder = join(cwd, "models", "split")
  mkdirSync(folder, { recursive: true })
  const beside = ["mmproj-a.gguf", "imatrix.gguf", "a.imatrix.gguf"]
  for (const part of ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf", ...beside])
    writeFileSync(join(folder, part), "GGUF")
  expect(locate("split")).toBe(folder)
  expect(modelFileIn(folder)).toBe("a-00001-of-00002.gguf")
  expect(mmprojsIn(folder)).toEqual(["mmproj-a.gguf"])
  writeFileSync(join(folder, "b.gguf"), "GGUF")
  expect(() => locate("split")).toThrow(
    `, ${folder} which holds 2 models (name one of a-00001-of-00002.gguf, b.gguf), `,
  )
})

test("what is not there is answered with where it was looked for and what lies there", () => {
  model("models/llama")
  model("package/tiny")
  expect(() => locate("lama")).toThrow(
    `looked in ${join(cwd, "lama")}, ${join(cwd, "dist/lama")}, ${join(cwd, "dist/lama/params")}`,
  )
  expect(() => locate("lama")).toThrow(
    `${join(cwd, "models")} has llama; ${join(cwd, "package")} has tiny`,
  )
  expect(() => locate("./lama")).toThrow(/no models lie there/)
})

test("what is there and is no model is told so", () => {
  mkdirSync(join(cwd, "empty"))
  writeFileSync(join(cwd, "notes.txt"), "")
  const lacks =
    "neither config.json, mlc-chat-config.json, adapter_config.json nor one GGUF file or whisper.cpp's"
  const [empty, notes] = [join(cwd, "empty"), join(cwd, "notes.txt")]
  expect(() => locate("empty")).toThrow(`${empty} which is there but holds ${lacks}, ${cwd}/dist/`)
  writeFileSync(join(cwd, "a.nemo"), "")
  expect(() => locate("a.nemo")).toThrow(`${cwd}/a.nemo which is an archive of NVIDIA NeMo and is `)
  writeFileSync(join(empty, "b.onnx"), "")
  expect(() => locate("empty")).toThrow(`${lacks}; b.onnx is a graph of ONNX and is not read`)
  expect(() => locate("notes.txt")).toThrow(
    `${notes} which is neither a .gguf file nor whisper.cpp's .bin, `,
  )
})

test("a model that this user may not read is not called missing", () => {
  const locked = model("locked")
  model("closed/inside")
  for (const name of ["locked", "closed"]) chmodSync(join(cwd, name), 0o000)
  chmodSync(cwd, 0o755)
  // Root may read everything.
  const script = `
    const { locateModel } = await import("./locate.ts")
    const options = { cwd: ${JSON.stringify(cwd)}, env: {}, packaged: "/none" }
    if (process.getuid() === 0) process.setuid(65534)
    for (const name of JSON.parse(process.argv[1]))
      try {
        console.log(locateModel(name, options))
      } catch (error) {
        console.log(error.message)
      }`
  const names = ["locked", locked, join(cwd, "closed/inside")]
  const run = ["--import", "tsx", "--input-type=module", "--eval", script, JSON.stringify(names)]
  const out = execFileSync(process.execPath, run, { cwd: import.meta.dirname, encoding: "utf8" })
  for (const name of ["locked", "closed"]) chmodSync(join(cwd, name), 0o700)
  const said = out.trim().split("\n")
  const barred = ["locked", "locked", "closed/inside"].map(
    (path) => `looked in ${join(cwd, path)} which may not be read by this user (EACCES)`,
  )
  expect(said).toEqual(barred.map((words) => expect.stringContaining(words)))
})

test("a folder of models stands for all of them, unless it has a model's name", () => {
  for (const path of ["all/b", "all/a", "package/m", "m/other"]) model(path)
  for (const file of ["c.gguf", "mmproj-c.gguf", "d-00001-of-00002.gguf", "d-00002-of-00002.gguf"])
    writeFileSync(join(cwd, "all", file), "")
  mkdirSync(join(cwd, "all", "empty"))
  const options = { cwd, env: {}, packaged: join(cwd, "package") }
  const names = ["a", "b", "c.gguf", "d-00001-of-00002.gguf"]
  expect(modelsAt("all", options)).toEqual(names.map((name) => join("all", name)))
  model("all/a/vision") // what belongs to a model
  for (const given of ["all/a", join(cwd, "all/a"), "m", "absent", "org/name"])
    expect(modelsAt(given, options)).toEqual([given])
})
