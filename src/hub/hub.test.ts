// Downloads, from a hub on loopback that speaks the real protocol: what is asked for, what lies on the disk then, and what is said
// when it cannot be had. That other programs read the same cache was tried with huggingface_hub 2.4 by hand.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { createServer, request } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import type { Duplex } from "node:stream"
import { setImmediate } from "node:timers/promises"
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest"
import {
  COMMIT,
  gitSha,
  type Held,
  type HubServer,
  openHubServer,
  pointerOf,
  sha256,
  TOKEN,
} from "../../test/hub-server.ts"
import { uniform } from "../../test/random.ts"
import { Problem } from "../errors.ts"
import { fetchModel, type HubOptions, pullModel } from "./hub.ts"
import { downloadedModels, filesOfModel, removeModel } from "./models.ts"
import { parseName } from "./names.ts"

const WEIGHTS = Buffer.alloc(100_000, "weights ")
const FILES = {
  "README.md": "# read me",
  "config.json": "{}",
  "tokenizer.json": '{"model":{}}',
  "tokenizer_config.json": "{ }",
  "model.safetensors": WEIGHTS,
  "lib/cpu.so": "code",
  "modeling.py": "code",
}

const OTHER = COMMIT.replace(/1$/, "2")

let hub: HubServer
let home: string
let env: Record<string, string>
let waits: number[]

beforeEach(async () => {
  hub = await openHubServer({ "org/model": { files: FILES } })
  home = mkdtempSync(join(tmpdir(), "hub-"))
  env = { HF_HOME: home, HF_ENDPOINT: hub.url, XDG_CACHE_HOME: join(home, "cache") }
  waits = []
})
afterEach(async () => {
  await hub.close()
  rmSync(home, { recursive: true })
})

const options = (more: HubOptions = {}): HubOptions => ({
  env,
  wait: (milliseconds) => {
    waits.push(milliseconds)
    return setImmediate() // others have their turn meanwhile
  },
  ...more,
})
const fetch = (name: string, more?: HubOptions) => fetchModel(parseName(name)!, options(more))
const pull = (name: string, more?: HubOptions) => pullModel(parseName(name)!, options(more))
const place = (...parts: string[]) => join(home, "hub", ...parts)

const holds = (path: string, bytes: Buffer) => readFileSync(path).equals(bytes)

function put(path: string, content: Buffer | string): void {
  mkdirSync(dirname(place(path)), { recursive: true })
  writeFileSync(place(path), content)
}

function link(path: string, to: string): void {
  mkdirSync(dirname(place(path)), { recursive: true })
  symlinkSync(to, place(path))
}

test("a model is downloaded once, in the hub's own layout, and nothing that is no part of it", async () => {
  const path = await fetch("org/model")
  expect(path).toBe(place("models--org--model/snapshots", COMMIT))
  const read = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
  expect(readdirSync(path).sort()).toEqual(read)
  expect(holds(join(path, "model.safetensors"), WEIGHTS)).toBe(true)
  expect(readlinkSync(join(path, "model.safetensors"))).toBe(`../../blobs/${sha256(WEIGHTS)}`)
  expect(readlinkSync(join(path, "config.json"))).toBe(`../../blobs/${gitSha(Buffer.from("{}"))}`)
  expect(readFileSync(place("models--org--model/refs/main"), "utf8")).toBe(COMMIT)
  expect(readdirSync(place("models--org--model/blobs"))).toHaveLength(read.length)
  const { length } = hub.asked
  for (const name of ["org/model", `org/model@${COMMIT}`, "hf:org/model"])
    expect(await fetch(name)).toBe(path)
  expect(hub.asked).toHaveLength(length)
})

test("the token goes to the hub and to no other host, and stands in no sentence", async () => {
  hub.repositories["org/secret"] = { files: FILES, isPrivate: true, gated: true }
  await expect(fetch("org/secret")).rejects.toThrow("none of that name that you may see")
  writeFileSync(join(home, "token"), `${TOKEN}\n`)
  await fetch("org/secret")
  const sent = (server: string) =>
    new Set(
      hub.asked
        .slice(1)
        .filter((asked) => asked.server === server)
        .map((asked) => asked.authorization),
    )
  expect(sent("hub")).toEqual(new Set([`Bearer ${TOKEN}`]))
  expect(sent("files")).toEqual(new Set([undefined]))
  env.HF_TOKEN = "hf_wrong"
  const refusal = await fetch("org/other").catch((error: Error) => error.message)
  expect(refusal).toContain("does not accept the token of HF_TOKEN; make a new one at")
  expect(refusal).not.toContain("hf_wrong")
})

test("what another program has put there is used without a request", async () => {
  const blobs = {
    a: "config.json",
    b: "tokenizer.json",
    c: "tokenizer_config.json",
    d: "model.safetensors",
  }
  for (const [blob, path] of Object.entries(blobs)) {
    put(`models--org--model/blobs/${blob}`, "{}")
    link(`models--org--model/snapshots/${COMMIT}/${path}`, `../../blobs/${blob}`)
  }
  put("models--org--model/refs/main", COMMIT)
  expect(await fetch("org/model")).toBe(place("models--org--model/snapshots", COMMIT))
  expect(hub.asked).toEqual([])
})

test.each(["a file too few", "a blob that is gone", "an index whose shards are not all there"])(
  "a snapshot that is not whole is completed: %s",
  async (what) => {
    const path = await fetch("org/model")
    const weights = join(path, "model.safetensors")
    if (what === "a file too few") rmSync(join(path, "config.json"))
    if (what === "a blob that is gone") rmSync(place("models--org--model/blobs", sha256(WEIGHTS)))
    if (what.startsWith("an index")) {
      rmSync(weights)
      writeFileSync(
        join(path, "model.safetensors.index.json"),
        '{"weight_map":{"a":"b.safetensors"}}',
      )
    }
    expect(await fetch("org/model")).toBe(path)
    expect(holds(weights, WEIGHTS)).toBe(true)
    expect(readFileSync(join(path, "config.json"), "utf8")).toBe("{}")
  },
)

test("500 files whose downloads are cut anywhere, after rubbish and after halves, end whole", async () => {
  const random = uniform(7)
  const content = (length: number) => Buffer.from(Array.from({ length }, () => random() * 256))
  hub.repositories = Object.fromEntries(
    Array.from({ length: 125 }, (_, i): [string, Held] => {
      const names = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]
      const files = names.map((name) => [name, content(1 + Math.floor(random() * 3000))])
      return [`org/m${i}`, { files: Object.fromEntries(files) }]
    }),
  )
  for (const [name, { files }] of Object.entries(hub.repositories)) {
    const blob = `${name.replace("org/", "models--org--")}/blobs/${sha256(Buffer.from(files["model.safetensors"]!))}.incomplete`
    const left = random()
    if (left < 0.2) put(blob, content(500))
    else if (left < 0.4) put(blob, files["model.safetensors"]!.slice(0, 200))
  }
  let cuts = 0
  hub.cut = (length) => {
    if (length === 1 || random() < 0.5) return undefined
    cuts++
    return 1 + Math.floor(random() * (length - 1)) // at least a byte comes, or it would be given up as it should
  }
  const isWhole = async ([name, { files }]: [string, Held]) => {
    const path = await fetch(name)
    return Object.entries(files).every(([file, bytes]) =>
      holds(join(path, file), Buffer.from(bytes)),
    )
  }
  const models = Object.entries(hub.repositories)
  const together = 25 // were it all of them, a busy machine would leave some without a word for longer than a server may
  for (let i = 0; i < models.length; i += together)
    expect(await Promise.all(models.slice(i, i + together).map(isWhole))).not.toContain(false)
  expect(cuts).toBeGreaterThan(300)
})

test("what is there of a file is not asked for again", async () => {
  put(`models--org--model/blobs/${sha256(WEIGHTS)}.incomplete`, WEIGHTS.subarray(0, 60_000))
  const steps: number[] = []
  await fetch("org/model", { onDownload: (_, done, total) => steps.push(done / total) })
  expect(hub.asked.find(({ range }) => range)?.range).toBe("bytes=60000-")
  expect(steps.at(-1)).toBe(1)
  expect(steps.every((step, i) => step > (steps[i - 1] ?? 0))).toBe(true)
})

test("two at once download each file once", async () => {
  await Promise.all([fetch("org/model"), fetch("org/model")])
  expect(hub.asked.filter(({ server }) => server === "files")).toHaveLength(2)
})

test.each([
  ["another file of that size", Buffer.alloc(WEIGHTS.length, "x")],
  ["a Git LFS pointer", pointerOf(WEIGHTS)],
])("%s never gets the name of the one that was promised", async (_, other) => {
  hub.instead = ({ server, path }, response) => {
    if (server !== "files" || !path.includes("safetensors")) return false
    response.end(other)
    return true
  }
  await expect(fetch("org/model")).rejects.toThrow(
    /model\.safetensors does not arrive as .* describes it/,
  )
  expect(existsSync(place("models--org--model/blobs", sha256(WEIGHTS)))).toBe(false)
  hub.instead = () => false
  expect(holds(join(await fetch("org/model"), "model.safetensors"), WEIGHTS)).toBe(true)
})

test("an update that is cut leaves what was there in use, and pull goes on with it", async () => {
  const before = await fetch("org/model")
  const weights = Buffer.alloc(50_000, "new")
  hub.repositories["org/model"] = {
    commit: OTHER,
    files: { ...FILES, "model.safetensors": weights },
  }
  hub.cut = (length) => (length > 1000 ? 1000 : 0)
  await expect(pull("org/model", { signal: AbortSignal.timeout(1) })).rejects.toThrow()
  expect(await fetch("org/model")).toBe(before)
  hub.cut = () => undefined
  const after = await pull("org/model")
  expect(holds(join(after, "model.safetensors"), weights)).toBe(true)
  expect(await fetch("org/model")).toBe(after)
})

test.each<[string, Partial<Held>, string]>([
  ["org/none", {}, "No model org/none: it is no path here, and 127.0.0.1"],
  ["org/gated", { gated: true }, "org/gated is gated: accept its conditions at http://127.0.0.1"],
  ["org/old", { renamed: "org/model" }, "org/old is called org/model now; use that name."],
  ["org/branch@v9", {}, "org/branch has no revision v9 on 127.0.0.1"],
  ["org/large", { sizes: { "model.safetensors": 2 ** 52 } }, "org/large needs 4294967297 MiB in"],
])("%s: one sentence", async (name, held, sentence) => {
  const repository = name.replace(/@.*/, "")
  if (repository !== "org/none") hub.repositories[repository] = { files: FILES, ...held }
  await expect(fetch(name)).rejects.toThrow(sentence)
  const folder = place(`models--${repository.replace("/", "--")}`)
  if (existsSync(folder)) expect(readdirSync(join(folder, "blobs"))).toEqual([])
})

test("a hub that asks to wait is asked again then, or the user is told when", async () => {
  let answers: Record<string, string>[] = [{ "retry-after": "7" }, { ratelimit: '"api";r=0;t=9' }]
  hub.instead = (_, response) => {
    const headers = answers.shift()
    if (headers) response.writeHead(429, headers).end()
    return headers !== undefined
  }
  await fetch("org/model")
  expect(waits).toEqual([7000, 9000])
  answers = [{ "retry-after": "300" }]
  await expect(pull("org/model")).rejects.toThrow("try again in 300 seconds, or set HF_TOKEN")
})

test("a hub that fails now and then is asked again; one that is not there is named", async () => {
  let failures = 3
  hub.instead = (_, response) => {
    if (failures-- <= 0) return false
    response.writeHead(503).end()
    return true
  }
  await fetch("org/model")
  await hub.close()
  await expect(pull("org/model")).rejects.toThrow(
    /cannot be reached for org\/model: nobody answers there; check/,
  )
  expect(await fetch("org/model")).toBe(place("models--org--model/snapshots", COMMIT))
})

test("a hub that says nothing is asked again; one that falls silent within a listing is named", async () => {
  let silences = 2
  hub.instead = () => silences-- > 0
  await fetch("org/model", { silence: 200 })
  expect(waits.slice(0, 2)).toEqual([500, 1000])
  hub.instead = (_, response) => response.writeHead(200).write("{")
  await expect(pull("org/model", { silence: 200 })).rejects.toThrow(
    /cannot be reached for org\/model: /,
  )
})

test("a signed address that has run out is asked for anew, and one that nobody signed is not", async () => {
  put(`models--org--model/blobs/${sha256(WEIGHTS)}.incomplete`, WEIGHTS.subarray(0, 60_000))
  let refusals = 2
  hub.instead = ({ server, path }, response) => {
    if (server !== "files" || !/safetensors|gguf/.test(path) || refusals-- <= 0) return false
    response.writeHead(403).end("Request has expired")
    return true
  }
  expect(holds(join(await fetch("org/model"), "model.safetensors"), WEIGHTS)).toBe(true)
  expect(hub.asked.filter(({ range }) => range === "bytes=60000-")).toHaveLength(6) // hub and store, three times
  refusals = Number.POSITIVE_INFINITY
  const { length } = hub.asked
  const { host } = new URL(hub.filesUrl)
  await expect(fetch(`${hub.filesUrl}/a.gguf`)).rejects.toThrow(
    `${host} refuses ${hub.filesUrl}/a.gguf: it answers 403.`,
  )
  expect(hub.asked).toHaveLength(length + 1)
})

test("a mirror that lists bare names is asked for the tree, and told apart from an empty one", async () => {
  const bare = Object.keys(FILES).map((rfilename) => ({ rfilename }))
  let hasTree = true
  hub.instead = ({ path }, response) => {
    const isTree = path.includes("/tree/")
    if (isTree ? hasTree : !path.includes("/revision/")) return false
    if (isTree) response.writeHead(404)
    response.end(JSON.stringify({ sha: COMMIT, siblings: bare }))
    return true
  }
  expect(holds(join(await fetch("org/model"), "model.safetensors"), WEIGHTS)).toBe(true)
  hasTree = false
  await expect(pull("org/model")).rejects.toThrow(
    "refuses org/model: it lists files without their sizes and checksums",
  )
})

test("a listing with anything in any place ends in a model or in a sentence, and leaves the cache alone", async () => {
  const reply = await (
    await globalThis.fetch(`${hub.url}/api/models/org/model/revision/main?blobs=true`)
  ).text()
  const random = uniform(11)
  const pick = <T>(among: readonly T[]): T => among[Math.floor(random() * among.length)]!
  const odd = [
    null,
    0,
    -1,
    0.5,
    2 ** 53,
    2 ** 60,
    "",
    "..",
    "../../x",
    "/x",
    "a\n\u001bb",
    [],
    {},
    true,
  ]
  hub.instead = ({ path }, response) => {
    if (!path.startsWith("/api/")) return false
    if (random() < 0.3) response.end(reply.slice(0, Math.floor(random() * reply.length)))
    else {
      const values = reply.match(/"[^"]*"(?!:)|\b\d+\b|true|false/g)!.length
      const chosen = Math.floor(random() * values)
      let at = 0
      const changed = reply.replace(/"[^"]*"(?!:)|\b\d+\b|true|false/g, (value) =>
        at++ === chosen ? JSON.stringify(pick(odd)) : value,
      )
      response.end(changed)
    }
    return true
  }
  let refused = 0
  for (let i = 0; i < 200; i++) {
    await pull("org/model").catch((error: Error) => {
      expect(error).toBeInstanceOf(Problem)
      expect(error.message).not.toMatch(/\p{Cc}|undefined|\[object/u)
      refused++
    })
  }
  expect(refused).toBeGreaterThan(100)
  expect(readdirSync(home).filter((name) => !["hub", "cache"].includes(name))).toEqual([])
  expect(readdirSync(place()).sort()).toEqual([".locks", "models--org--model"])
  hub.instead = () => false
  expect(holds(join(await pull("org/model"), "model.safetensors"), WEIGHTS)).toBe(true)
})

test("offline, what is there is used and nobody is asked", async () => {
  env.HF_HUB_OFFLINE = "1"
  await expect(fetch("org/model")).rejects.toThrow(
    "neither a path here nor downloaded whole, and HF_HUB_OFFLINE",
  )
  await expect(pull("org/model")).rejects.toThrow("HF_HUB_OFFLINE")
  expect(hub.asked).toEqual([])
})

test("a GGUF model by its type, and by its file's address", async () => {
  const files = { "a-Q8_0.gguf": "eight", "a-Q4_0.gguf": "four", "config.json": "{}" }
  hub.repositories["org/gguf"] = { files }
  const path = await fetch("org/gguf:q4_0")
  expect(path).toBe(place(`models--org--gguf/snapshots/${COMMIT}/a-Q4_0.gguf`))
  expect(hub.asked.filter(({ server }) => server === "files")).toHaveLength(1)
  const address = `${hub.url}/org/gguf/resolve/main/a-Q8_0.gguf`
  const file = await fetch(address)
  expect(readFileSync(file, "utf8")).toBe("eight")
  const { length } = hub.asked
  expect(await fetch(address)).toBe(file)
  expect(hub.asked).toHaveLength(length)
})

test("a file of whisper.cpp is fetched by its name, listed and found again", async () => {
  hub.repositories["org/whisper.cpp"] = {
    files: { "ggml-base.bin": "base", "ggml-tiny.bin": "tiny" },
  }
  const path = await fetch("org/whisper.cpp:ggml-base.bin")
  expect(path).toBe(place(`models--org--whisper.cpp/snapshots/${COMMIT}/ggml-base.bin`))
  expect(hub.asked.filter(({ server }) => server === "files")).toHaveLength(1)
  expect(await downloadedModels(env)).toMatchObject([
    { name: "org/whisper.cpp:ggml-base", whole: true },
  ])
  const { length } = hub.asked
  expect(await fetch("org/whisper.cpp:ggml-base")).toBe(path)
  expect(hub.asked).toHaveLength(length)
  expect(filesOfModel(parseName("org/whisper.cpp:ggml-base")!, env)).toMatchObject([
    { file: "ggml-base.bin", bytes: 4 },
  ])
})

test("a bare name is the model that the repository has by it, whichever of its others is here", async () => {
  const lines: string[] = []
  const log = { warn: (line: string) => void lines.push(line) }
  const gguf = { "a-Q8_0.gguf": "eight", "a-Q4_0.gguf": "four" }
  hub.repositories["org/both"] = { files: { ...FILES, ...gguf } }
  hub.repositories["org/gguf"] = { files: gguf }
  for (const name of ["org/both", "org/gguf"]) await fetch(`${name}:Q8_0`)
  const eight = (name: string) => place(`models--org--${name}/snapshots/${COMMIT}/a-Q8_0.gguf`)

  const offline = { env: { ...env, HF_HUB_OFFLINE: "1" }, log }
  for (const name of ["both", "gguf"]) {
    expect(await fetch(`org/${name}`, offline)).toBe(eight(name))
    expect(lines.splice(0)).toEqual([
      `org/${name} is taken to be a-Q8_0.gguf, the only model of it that is here; :TYPE or :FILE says which is meant.`,
    ])
    expect(await fetch(`org/${name}:q8_0`, offline)).toBe(eight(name))
  }
  expect(await fetch("org/both", { log })).toBe(place("models--org--both/snapshots", COMMIT))
  expect(await fetch("org/both", offline)).toBe(place("models--org--both/snapshots", COMMIT))
  await expect(fetch("org/gguf", { log })).rejects.toThrow("org/gguf has 2 GGUF models; name one")
  expect(lines).toEqual([])

  rmSync(place("models--org--gguf/trees"), { recursive: true }) // as older programs leave the cache
  expect(await fetch("org/gguf", { log })).toBe(eight("gguf"))
  expect(lines).toHaveLength(1)
})

test("a file from an address is fetched once by two at once, and again when it is another", async () => {
  const files = { "a-Q8_0.gguf": WEIGHTS as Buffer | string }
  hub.repositories["org/gguf"] = { files }
  const address = `${hub.url}/org/gguf/resolve/main/a-Q8_0.gguf`
  const fetched = () =>
    hub.asked.splice(0).filter(({ server, range }) => server === "files" && range !== "bytes=0-0")
  const [path] = await Promise.all([fetch(address), fetch(address)])
  expect(holds(path!, WEIGHTS)).toBe(true)
  expect(fetched()).toHaveLength(1)
  expect(await pull(address)).toBe(path)
  expect(fetched()).toHaveLength(0)
  files["a-Q8_0.gguf"] = "another"
  await pull(address)
  expect(readFileSync(path!, "utf8")).toBe("another")
  expect(fetched()).toHaveLength(1)
  rmSync(path!)
  await pull(address)
  expect(readFileSync(path!, "utf8")).toBe("another")
})

test("a server that says no version of a file is believed that it may be another", async () => {
  let content = "one"
  hub.instead = (_, response) => {
    response.end(content)
    return true
  }
  const path = await pull(`${hub.url}/a.gguf`)
  content = "two"
  await pull(`${hub.url}/a.gguf`)
  expect(readFileSync(path, "utf8")).toBe("two")
})

test("a model that a pull of another one has left behind is served as it was, until it is pulled", async () => {
  const lines: string[] = []
  const log = { warn: (line: string) => void lines.push(line) }
  hub.repositories["org/gguf"] = { files: { "a-Q8_0.gguf": "eight", "a-Q4_0.gguf": "four" } }
  const before = await fetch("org/gguf:Q8_0")
  const next = { "a-Q8_0.gguf": "EIGHT", "a-Q5_0.gguf": "five" }
  hub.repositories["org/gguf"] = { files: next, commit: OTHER.replace(/2$/, "3"), branch: "next" }
  await fetch("org/gguf@next:Q5_0")
  await fetch("org/gguf@next:Q8_0")
  hub.repositories["org/gguf"] = {
    files: { "a-Q8_0.gguf": "EIGHT", "a-Q4_0.gguf": "FOUR" },
    commit: OTHER,
  }
  await pull("org/gguf:Q4_0")

  const { length } = hub.asked
  for (const HF_HUB_OFFLINE of ["1", ""])
    expect(await fetch("org/gguf:Q8_0", { log, env: { ...env, HF_HUB_OFFLINE } })).toBe(before)
  const line =
    "org/gguf:Q8_0 is taken as it was at c0ffee00: of what is newer not all of it is here; sinter pull org/gguf:Q8_0 fetches that."
  expect(lines.splice(0)).toEqual([line, line])
  expect(hub.asked).toHaveLength(length)
  await expect(fetch("org/gguf:Q5_0", { log })).rejects.toThrow("has no Q5_0") // which is next's alone
  await expect(fetch("org/gguf@main:Q8_0", { log })).resolves.toContain(OTHER)
  rmSync(place("models--org--gguf/snapshots", OTHER, "a-Q8_0.gguf"))
  const after = await pull("org/gguf:Q8_0")
  expect(await fetch("org/gguf:Q8_0", { log })).toBe(after)
  expect(readFileSync(after, "utf8")).toBe("EIGHT")
  expect(lines).toEqual([])
})

/** A proxy on this machine, which all requests are to go through; `tunnel` answers CONNECT. */
async function openProxy(tunnel: (socket: Duplex) => void): Promise<string[]> {
  const seen: string[] = []
  const sockets = new Set<Duplex>()
  const proxy = createServer(({ url = "", method = "", headers }, response) => {
    seen.push(`${method} ${url} ${headers["proxy-authorization"]}`)
    request(url, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
    }).end()
  }).on("connect", ({ url }, socket) => {
    seen.push(`CONNECT ${url}`)
    sockets.add(socket)
    tunnel(socket)
  })
  await new Promise<void>((listening) => proxy.listen(0, "127.0.0.1", listening))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })
  const { port } = proxy.address() as AddressInfo
  env.http_proxy = env.HTTPS_PROXY = `http://me:word@127.0.0.1:${port}`
  return seen
}

/** The hub by an address of this machine that is none of those for itself alone. */
const outside = () => hub.url.replace("127.0.0.1", "0.0.0.0")

test("a proxy is asked in the hub's place, but for hosts that NO_PROXY names", async () => {
  const seen = await openProxy((socket) => socket.end("HTTP/1.1 403 Forbidden\r\n\r\n"))
  env.HF_ENDPOINT = outside()
  await fetch("org/model")
  expect(seen).toContain(
    `GET ${outside()}/api/models/org/model/revision/main?blobs=true Basic ${btoa("me:word")}`,
  )
  expect(seen).toHaveLength(hub.asked.filter(({ server }) => server === "hub").length)
  await expect(
    pull("org/model", { env: { ...env, HF_ENDPOINT: "https://hub.invalid" } }),
  ).rejects.toThrow(
    /hub\.invalid cannot be reached for org\/model: the proxy 127\.0\.0\.1:\d+ answers 403/,
  )
  expect(seen.at(-1)).toBe("CONNECT hub.invalid:443")
  const { length } = seen
  env.NO_PROXY = "example.com, 0.0.0.0"
  await pull("org/model")
  expect(seen).toHaveLength(length)
})

test("no proxy is asked for this machine itself, whose hub gets a token in the clear", async () => {
  const seen = await openProxy((socket) => socket.destroy())
  env.HF_TOKEN = TOKEN
  await pull("org/model")
  await pull("org/model", {
    env: { ...env, HF_ENDPOINT: hub.url.replace("127.0.0.1", "localhost") },
  })
  expect(hub.asked.filter(({ authorization }) => authorization === `Bearer ${TOKEN}`)).not.toEqual(
    [],
  )
  expect(seen).toEqual([])
})

test("a proxy that says nothing after CONNECT is asked again, and given up with the request", async () => {
  const seen = await openProxy((socket) => socket.write("HTTP/1.1 200 OK\r\n\r\n"))
  env.HF_ENDPOINT = "https://hub.invalid"
  await expect(pull("org/model", { silence: 100 })).rejects.toThrow(
    "hub.invalid cannot be reached for org/model: no word for 0.1 seconds",
  )
  expect(seen).toHaveLength(5)
  const ending = new AbortController()
  await openProxy((socket) => {
    socket.write("HTTP/1.1 200 OK\r\n\r\n")
    socket.once("data", () => ending.abort()) // the first word of a handshake that nobody answers
  })
  await expect(pull("org/model", { signal: ending.signal })).rejects.toThrow("aborted")
})

test("what is downloaded is listed by its names, and taken away without what others need", async () => {
  const files = { ...FILES, "a-Q8_0.gguf": "eight", "a-Q4_0.gguf": "four" }
  hub.repositories["org/both"] = { files }
  for (const name of ["org/both", "org/both:Q8_0", "org/both:Q4_0"]) await fetch(name)
  hub.repositories["org/both"] = { files, commit: OTHER, branch: "next" }
  await fetch("org/both@next")
  await fetch(`${hub.url}/org/both/resolve/next/a-Q4_0.gguf`)
  const names = async () => (await downloadedModels(env)).map(({ name }) => name)
  const [address] = (await names()).slice(-1)
  expect(await names()).toEqual([
    "org/both",
    "org/both:Q4_0",
    "org/both:Q8_0",
    "org/both@next",
    `${hub.url}/org/both/resolve/next/a-Q4_0.gguf`,
  ])
  const remove = (name: string) => removeModel(parseName(name)!, env)
  expect(remove("org/both@next")).toBe(0) // main has all of them
  expect(remove("org/both:q8_0")).toBe("eight".length)
  expect(await names()).toEqual(["org/both", "org/both:Q4_0", address])
  expect(remove("org/both")).toBeGreaterThan(WEIGHTS.length)
  expect(remove(address!)).toBe("four".length)
  expect(await names()).toEqual([])
  expect(() => remove("org/both")).toThrow("org/both is not downloaded; sinter list names what is.")
})

test("main, when it is typed, is one revision, and a name without one is all of them", async () => {
  const next = { ...FILES, "model.safetensors": Buffer.alloc(50_000, "next") }
  const names = async () => (await downloadedModels(env)).map(({ name }) => name)
  for (const main of ["org/model@main", `${hub.url}/org/model/tree/main`]) {
    hub.repositories["org/model"] = { files: FILES }
    await pull("org/model")
    hub.repositories["org/model"] = { files: next, commit: OTHER, branch: "next" }
    await pull("org/model@next")
    const name = parseName(main.replace(hub.url, "https://huggingface.co"))!
    expect(removeModel(name, env)).toBe(WEIGHTS.length) // the small files are those of both
    expect(await names()).toEqual(["org/model@next"])
    expect(() => removeModel(name, env)).toThrow("org/model@main is not downloaded")
  }
  removeModel(parseName("org/model")!, env)
  expect(await names()).toEqual([])
})

test("a type that two GGUF models have is neither shown nor taken away", async () => {
  const files = { "small-Q8_0.gguf": "small", "large-Q8_0.gguf": "large" }
  hub.repositories["org/two"] = { files }
  for (const file of Object.keys(files)) await fetch(`org/two:${file}`)
  const both = parseName("org/two:q8_0")!
  const choice =
    "org/two has 2 GGUF models called q8_0; name one as org/two:NAME, of large-Q8_0.gguf, small-Q8_0.gguf."
  expect(() => filesOfModel(both, env)).toThrow(choice)
  expect(() => removeModel(both, env)).toThrow(choice)
  expect((await downloadedModels(env)).map(({ name }) => name)).toEqual([
    "org/two:large-Q8_0.gguf",
    "org/two:small-Q8_0.gguf",
  ])
  expect(removeModel(parseName("org/two:small-Q8_0.gguf")!, env)).toBe("small".length)
  expect(filesOfModel(both, env).map(({ file }) => file)).toEqual(["large-Q8_0.gguf"])
})

test("what a GGUF model sees with comes with it, and goes with the last that needs it", async () => {
  const files = { "a-Q8_0.gguf": "eight", "a-Q4_0.gguf": "four", "mmproj-a-F16.gguf": "eye" }
  hub.repositories["org/sees"] = { files: { ...files, "mmproj-a-F32.gguf": "wide" } }
  const path = await fetch("org/sees:Q8_0")
  expect(readdirSync(dirname(path)).sort()).toEqual(["a-Q8_0.gguf", "mmproj-a-F16.gguf"])
  const { length } = hub.asked
  expect(await fetch("org/sees:Q8_0")).toBe(path)
  expect(hub.asked).toHaveLength(length)
  await fetch("org/sees:Q4_0")
  const remove = (name: string) => removeModel(parseName(name)!, env)
  expect(remove("org/sees:Q8_0")).toBe("eight".length)
  expect(readdirSync(dirname(path)).sort()).toEqual(["a-Q4_0.gguf", "mmproj-a-F16.gguf"])
  expect(remove("org/sees:Q4_0")).toBe("foureye".length)
  expect(await downloadedModels(env)).toEqual([])
})

test("a model that was downloaded without what it sees with is served so, and a line says it", async () => {
  hub.repositories["org/sees"] = { files: { "a-Q8_0.gguf": "eight", "mmproj-F16.gguf": "eye" } }
  const path = await fetch("org/sees:Q8_0")
  const mmproj = join(dirname(path), "mmproj-F16.gguf")
  rmSync(mmproj)
  const { length } = hub.asked
  const lines: string[] = []
  const log = { warn: (line: string) => void lines.push(line) }
  expect(await fetch("org/sees:Q8_0", { log })).toBe(path)
  expect(hub.asked).toHaveLength(length)
  expect(lines).toEqual([
    "org/sees:Q8_0 is here without mmproj-F16.gguf, which it sees or hears with; sinter pull org/sees:Q8_0 fetches that.",
  ])
  expect(await pull("org/sees:Q8_0")).toBe(path)
  expect(readFileSync(mmproj, "utf8")).toBe("eye")
})

test("what a cut download has left is listed, shown and taken away by its name", async () => {
  hub.repositories["org/gguf"] = { files: { "a-Q8_0.gguf": WEIGHTS, "a-Q4_0.gguf": "four" } }
  const address = `${hub.url}/org/gguf/resolve/main/a-Q8_0.gguf`
  const list = async () =>
    (await downloadedModels(env)).map(({ name, bytes, whole }) => ({ name, bytes, whole }))
  const cut = async (name: string) => {
    hub.cut = (length) => (length > 60_000 ? 40_000 : length > 1 ? 0 : undefined)
    await expect(fetch(name)).rejects.toThrow("cannot be reached")
    hub.cut = () => undefined
  }
  const remove = (name: string) => removeModel(parseName(name)!, env)

  await fetch("org/gguf:Q4_0")
  for (const name of ["org/gguf:Q8_0", address, "org/model"]) await cut(name)
  const four = { name: "org/gguf:Q4_0", bytes: 4, whole: true }
  const rest = [
    { name: "org/gguf:Q8_0", bytes: 40_000, whole: false },
    { name: "org/model", bytes: 40_000, whole: false },
    { name: address, bytes: 40_000, whole: false },
  ]
  expect(await list()).toEqual([four, ...rest])
  for (const name of ["org/gguf:Q8_0", address])
    expect(filesOfModel(parseName(name)!, env)).toMatchObject([
      { file: "a-Q8_0.gguf", bytes: 40_000 },
    ])
  expect(() => remove("org/gguf@v1:Q8_0")).toThrow("is not downloaded")
  expect(remove("org/gguf:q8_0")).toBe(40_000)
  expect(remove(address)).toBe(40_000)
  expect(remove("org/model")).toBeGreaterThanOrEqual(40_000)
  expect(await list()).toEqual([four])

  await cut("org/gguf:Q8_0")
  const blob = join(place("models--org--gguf/blobs"), sha256(WEIGHTS))
  expect(existsSync(`${blob}.incomplete`)).toBe(true)
  writeFileSync(`${blob}.1a2b3c4d.incomplete`, "of one that held no lock")
  expect(remove("org/gguf:a-Q8_0.gguf")).toBe(40_024)
  expect(await list()).toEqual([four])
})

test("parts of one model that is not whole are one line, and those of an update another", async () => {
  const list = async () => (await downloadedModels(env)).map(({ name, whole }) => [name, whole])
  const commit = await fetch("org/model")
  rmSync(join(commit, "config.json"))
  put(`models--org--model/blobs/${sha256(WEIGHTS)}.incomplete`, "wei")
  expect(await list()).toEqual([["org/model", false]])
  await pull("org/model")
  put(`models--org--model/blobs/${"0".repeat(64)}.incomplete`, "new")
  expect(await list()).toEqual([
    ["org/model", true],
    ["org/model", false],
  ])
})
