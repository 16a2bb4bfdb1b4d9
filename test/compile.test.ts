// `sinter compile` and what becomes of its folders and libraries, as a user meets it. The truth is golden: greedy tokens
// that independent programs computed from the same weights.

import { execFileSync, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { hostname, tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { readManifest, seal } from "../src/runtime/library.ts"
import type { KvGroup } from "../src/runtime/manifest.ts"
import { ABI } from "../src/runtime/manifest.ts"
import { isLeftOut } from "./left-out.ts"
import { goldenFolder, readGolden, writeMtpModel } from "./model/golden.ts"
import { built, run, type Serving, serve, start } from "./sinter.ts"

const compiler = ["cc", "clang", "gcc"].find((name) => {
  try {
    return execFileSync(name, ["--version"]).length > 0
  } catch {
    return false
  }
})
const compiling = test.skipIf(isLeftOut(compiler))
if (!compiler) console.warn("Compiling is skipped: no C compiler on this machine.")

const scratch = mkdtempSync(join(tmpdir(), "sinter-compile-"))
const cache = { XDG_CACHE_HOME: join(scratch, "cache") } // an empty shelf
const compiled = join(scratch, "llama-wide-q4f16_1")
const original = goldenFolder("models", "llama-wide")
const library = join(compiled, "lib/cpu.so")
const small = goldenFolder("models", "llama-tied") // in floats, of which a library is soon built

beforeAll(async () => {
  if (!compiler) return
  const dump = join(scratch, "dump")
  const options = ["--quantization", "q4f16_1", "--output", compiled, "--dump", dump]
  const { code, err } = await run(["compile", original, ...options], "", built, cache)
  expect({ code, err }).toEqual({ code: 0, err: "" })
}, 240_000)
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

/** The text of golden greedy tokens, and what the server says to the same prompt. */
async function greedy({ url }: Serving, folder: string, model: string) {
  const { tokens, greedy } = readGolden(folder)[3]!
  const post = async (path: string, body: object) => {
    const response = await fetch(url + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, ...body }),
    })
    const answer = (await response.json()) as { prompt: string; choices: { text: string }[] }
    expect({ status: response.status, answer }).toMatchObject({ status: 200 })
    return answer
  }
  const { prompt: expected } = await post("/detokenize", { tokens: [...greedy] })
  const { choices } = await post("/v1/completions", {
    prompt: [...tokens],
    max_tokens: greedy.length,
    temperature: 0,
    ignore_eos: true,
  })
  return { expected, said: choices[0]!.text }
}

compiling("a compiled folder has everything, and --dump every phase", () => {
  expect(readdirSync(compiled).sort()).toEqual([
    "generation_config.json",
    "lib",
    "mlc-chat-config.json",
    "params_shard_0.bin",
    "sinter.json",
    "tensor-cache.json",
    "tokenizer.json",
    "tokenizer_config.json",
  ])
  expect(readdirSync(join(compiled, "lib"))).toEqual(["cpu.so"])
  expect(readdirSync(join(scratch, "dump"))).toEqual(
    expect.arrayContaining(["0-graph.txt", "8-plan.txt", "driver.c", "manifest.json"]),
  )
})

compiling("it says what it was made from, and its library who built it", async () => {
  const { source, files, format } = JSON.parse(readFileSync(join(compiled, "sinter.json"), "utf8"))
  expect({ source, format }).toEqual({ source: { name: "llama-wide" }, format: "q4f16_1" })
  const weights = readFileSync(join(original, "model.safetensors"))
  const sha256 = createHash("sha256").update(weights).digest("hex")
  expect(files).toContainEqual({ file: "model.safetensors", bytes: weights.length, sha256 })
  const { built: by } = readManifest(library)
  expect(by!.compiler).toMatch(/gcc|clang|cc/)
  expect(by!.system).toBe(`${process.platform}-${process.arch}`)
  expect(by!.flags!.join(" ")).toMatch(/^(?!.*-I).*-ffp-contract=off/)
  const { out } = await run(["inspect", compiled])
  expect(out).toMatch(/^made from +llama-wide, by sinter \d/m)
  expect(out).toContain(`built by sinter ${by!.sinter} with ${by!.compiler}\n`)
})

compiling("it serves with its own library, and says the golden tokens", async () => {
  const server = await serving([compiled])
  expect(server.out()).toMatch(new RegExp(`program +${library}`))
  const { said, expected } = await greedy(
    server,
    goldenFolder("mlc", "llama-wide-q4f16_1"),
    compiled,
  )
  expect(said).toBe(expected)
  await server.stop()
})

compiling(
  "the original serves in another format, with the library that --model-lib names",
  async () => {
    const options = [original, "--quantization", "q4f16_1", "--model-lib", library]
    const servers = await Promise.all([serving(options), serving(options)])
    for (const server of servers) {
      expect(server.out()).toMatch(/\(q0\w+, served as q4f16_1\)/)
      const { said, expected } = await greedy(
        server,
        goldenFolder("mlc", "llama-wide-q4f16_1"),
        "llama-wide",
      )
      expect(said).toBe(expected)
      await server.stop()
    }
  },
)

test("the original serves in its own format, interpreted, and says the golden tokens", async () => {
  const server = await serving([original, "--target", "reference"])
  const { said, expected } = await greedy(server, original, original)
  expect(said).toBe(expected)
  await server.stop()
})

compiling.each([
  [
    "a library of another model",
    (): [string, string] => [goldenFolder("mlc", "llama-odd-q4f16_1"), library],
    /another model: its vocabulary is 640, this model's 515/,
  ],
  [
    "another format",
    (): [string, string] => [original, library],
    /another model: its format is q4f16_1, this model's q0f16/,
  ],
  ["libc", (): [string, string] => [compiled, libc()], /no library made by sinter compile/],
  [
    "one cut short",
    (): [string, string] => [compiled, changed((bytes) => bytes.subarray(0, 9000))],
    /no library made by sinter compile, or was cut short/,
  ],
  [
    "one with a flipped bit",
    (): [string, string] => [compiled, changed((bytes) => bytes.fill(bytes[999]! ^ 1, 999, 1000))],
    /it is damaged/,
  ],
  ["a folder", (): [string, string] => [compiled, compiled], /it cannot be read/],
  [
    "nothing",
    (): [string, string] => [compiled, join(scratch, "nowhere.so")],
    /it cannot be read: there is no such file; check its path/,
  ],
])("--model-lib with %s: one sentence, exit code 2", async (_name, named, why) => {
  const [model, path] = named()
  const { code, err } = await run(["serve", model, "--port", "0", "--model-lib", path])
  expect(code).toBe(2)
  expect(err).toMatch(/^sinter: [^\n]+\n$/)
  expect(err).toContain(path)
  expect(err).toMatch(why)
})

compiling(
  "--model-lib and a --target that is not the library's contradict each other",
  async () => {
    const options = ["--port", "0", "--model-lib", library, "--target", "reference"]
    const { code, err } = await run(["serve", compiled, ...options])
    expect({ code, err }).toEqual({
      code: 2,
      err: `sinter: --target: reference was asked for, but --model-lib ${library} is for cpu; leave one of the two out.\n`,
    })
  },
)

compiling("a library in the folder that fits no more is passed over with a warning", async () => {
  const folder = join(scratch, "odd")
  execFileSync("cp", ["-r", small, folder])
  mkdirSync(join(folder, "lib"))
  execFileSync("cp", [library, join(folder, "lib/cpu.so")])
  const server = await serving([folder])
  await expect.poll(server.err).toMatch(/another model.+Another is built instead/)
  expect(server.out()).toMatch(/program +built now by/)
  await server.stop()
})

/** A library for the compiled folder by its manifest, whose code leaves a mark where it runs. */
function hostileLibrary(mark: string): Buffer {
  const [source, object] = [join(scratch, "hostile.c"), join(scratch, "hostile.so")]
  const code = `#include <stdio.h>
    __attribute__((constructor)) static void run(void) { fclose(fopen("${mark}", "w")); }`
  writeFileSync(source, code)
  execFileSync(compiler!, ["-shared", "-fPIC", "-o", object, source])
  return seal(readFileSync(object), readManifest(library))
}

compiling(
  "a library that came with a downloaded model is not run unless it is trusted",
  async () => {
    const commit = "0123456789abcdef0123456789abcdef01234567"
    const repository = join(scratch, "hub", "models--org--downloaded")
    const folder = join(repository, "snapshots", commit)
    for (const name of ["refs", "blobs", "snapshots"])
      mkdirSync(join(repository, name), { recursive: true })
    writeFileSync(join(repository, "refs/main"), commit)
    execFileSync("cp", ["-r", compiled, folder])
    const mark = join(scratch, "hostile-code-ran")
    writeFileSync(join(repository, "blobs/library"), hostileLibrary(mark))
    rmSync(join(folder, "lib/cpu.so"))
    symlinkSync("../../../blobs/library", join(folder, "lib/cpu.so"))
    const name = "org/downloaded"
    const env = { ...cache, HF_HUB_CACHE: join(scratch, "hub"), HF_HUB_OFFLINE: "1" }
    const server = await serving([name], env)
    await expect
      .poll(server.err)
      .toMatch(/lib\/cpu\.so was not built on this machine and is not opened; .+--trust-libraries/)
    expect(server.out()).toMatch(/program +(built now by|.+on the shelf)/)
    const { said, expected } = await greedy(server, goldenFolder("mlc", "llama-wide-q4f16_1"), name)
    expect(said).toBe(expected)
    await server.stop()
    expect(existsSync(mark)).toBe(false)
    const trusting = ["serve", name, "--port", "0", "--trust-libraries"]
    expect((await run(trusting, "", built, env)).code).not.toBe(0)
    expect(existsSync(mark)).toBe(true)
  },
)

compiling("another machine builds the library anew, or trusts the one it was sent", async () => {
  const elsewhere = { XDG_CACHE_HOME: join(scratch, "elsewhere") }
  const careful = await serving([compiled], elsewhere)
  await expect.poll(careful.err).toContain(`${library} was not built on this machine`)
  expect(careful.out()).toMatch(/program +built now by/)
  await careful.stop()
  const trusting = await serving([compiled, "--trust-libraries"], elsewhere)
  expect(trusting.out()).toMatch(new RegExp(`program +${library}`))
  expect((await trusting.stop()).err).not.toContain("was not built")
})

/** Processes that live and name `path` among their arguments, by what they run. */
function processesAt(path: string): string[] {
  return readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid))
    .flatMap((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")
        return words.some((word) => word.includes(path)) ? [words[0]!] : []
      } catch {
        return [] // it has ended
      }
    })
}

test.skipIf(!compiler || process.platform !== "linux")(
  "killed while it compiles, it leaves no compiler and no folder behind",
  async () => {
    const temporary = join(scratch, "temporary")
    mkdirSync(temporary)
    const env = { XDG_CACHE_HOME: join(scratch, "fresh"), TMPDIR: temporary }
    const running = start(["compile", original, "--output", join(scratch, "killed")], built, env)
    const builds = () => processesAt(join(temporary, "sinter-build"))
    const until = async (holds: () => boolean) => {
      while (!holds()) await new Promise((wake) => setTimeout(wake, 5))
    }
    await until(() => builds().some((program) => program.endsWith("cc1") || program === "cc"))
    process.kill(-running.child.pid!, "SIGKILL")
    await running.ended
    const named = (folder: string, name: RegExp) =>
      readdirSync(folder).filter((entry) => name.test(entry))
    await until(() => {
      const left = [...named(scratch, /killed/), ...named(temporary, /^sinter-/), ...builds()]
      return left.length === 0
    })
  },
)

test("what a machine that lost its power left half written is cleared away by the next run", async () => {
  const output = join(scratch, "cut")
  const half = join(scratch, ".cut.partial-half")
  const theirs = join(scratch, ".cut.partial-mine") // looks like it, but nobody says so
  for (const folder of [half, theirs]) mkdirSync(folder)
  writeFileSync(join(half, ".writer"), `${hostname()} 4194305`) // above the largest process id of Linux
  const { code } = await run(["compile", original, "--output", output, "--weights-only"])
  expect(code).toBe(0)
  expect(existsSync(half)).toBe(false)
  expect(existsSync(theirs)).toBe(true)
  expect(readdirSync(output).filter((name) => name.startsWith("."))).toEqual([])
})

/** A shell of its own in which file systems can be mounted. */
const MOUNTING = ["unshare", "-rm", "sh", "-ec"] as const
const mounts = spawnSync(MOUNTING[0], [...MOUNTING.slice(1), "mount -t tmpfs none /mnt"])
if (mounts.status !== 0) console.warn("Mounts are skipped: nothing can be mounted here.")

test.skipIf(mounts.status !== 0)(
  "a folder where a file system is mounted is compiled to, from beside which nothing can be renamed",
  () => {
    const output = join(scratch, "mounted")
    mkdirSync(output)
    const compile = [...built.command, "compile", original, "--weights-only", "--output", output]
    const words = compile.map((word) => `'${word}'`).join(" ")
    const script = `mount -t tmpfs none '${output}'; ${words}; ls -A '${output}'`
    const { stdout, stderr } = spawnSync(MOUNTING[0], [...MOUNTING.slice(1), script], {
      encoding: "utf8",
      cwd: built.folder,
    })
    expect(stderr).toBe("")
    const files = stdout.trim().split("\n").slice(1)
    expect(files).toEqual(expect.arrayContaining(["mlc-chat-config.json", "tensor-cache.json"]))
    expect(files.filter((name) => name.startsWith("."))).toEqual([])
  },
)

test.skipIf(mounts.status !== 0)("a disk that is full is told of the folder on it", () => {
  const disk = join(scratch, "small")
  mkdirSync(disk)
  const compile = [...built.command, "compile", original, "--weights-only", "--output"]
  const words = [...compile, join(disk, "out")].map((word) => `'${word}'`).join(" ")
  const script = `mount -t tmpfs -o size=64k none '${disk}'; ${words}`
  const { status, stderr } = spawnSync(MOUNTING[0], [...MOUNTING.slice(1), script], {
    encoding: "utf8",
    cwd: built.folder,
  })
  expect(status).toBe(2)
  expect(stderr).toBe(
    `sinter: --output: nothing can be written to ${disk}/out, so name another folder: no space left on device (ENOSPC).\n`,
  )
})

test.each([
  ["--output", "--weights-only"],
  ["--output", "--library-only"],
  ["--dump", "--weights-only"],
])("%s of a compile with %s where nothing can be written: one sentence", async (option, part) => {
  writeFileSync(join(scratch, "blocking"), "")
  const places = { "--output": join(scratch, "ok"), [option]: join(scratch, "blocking/below") }
  const { code, err } = await run(["compile", original, part, ...Object.entries(places).flat()])
  expect(code).toBe(2)
  expect(err).toMatch(/^sinter: [^\n]*blocking[^\n]*\(ENOTDIR\)\.\n$/)
  expect(err).toContain(`sinter: ${option}: nothing can be written to `)
})

test.each([
  [
    "summary",
    /configuration config\.json\ntokenizer +tokenizer\.json\ntemplate +tokenizer_config\.json\narchitecture +llama[\s\S]+\nproduct +times +weights/,
  ],
  ["config", /"kvHeads": \d+/],
  ["parameters", /^embed +\[640, 128\] f16, .+ = model\.embed_tokens\.weight$/m],
  ["graph", /%0 = /],
  ["plan", /^plan llama\n/],
])("inspect --show %s", async (part, shown) => {
  const { code, out, err } = await run(["inspect", original, "--show", part])
  expect({ code, err }).toEqual({ code: 0, err: "" })
  expect(out).toMatch(shown)
})

test("inspect --json prints for programs what it shows", async () => {
  const shown = async (...part: string[]) =>
    JSON.parse((await run(["inspect", "tiny", ...part, "--json"])).out)
  expect(await shown()).toMatchObject({
    architecture: "llama",
    shapes: { layers: 7 },
    kvBytesPerToken: 1792,
    products: expect.arrayContaining([expect.objectContaining({ rows: 2560, times: 1 })]),
  })
  const { nodes, logits } = await shown("--show", "graph")
  expect(nodes[logits]).toMatchObject({ op: "linear", columns: 2560, inputs: [expect.any(Number)] })
})

test.each([
  ["f32", "3.5"], // 7 layers of 2 heads, each of 32 columns, keys and values
  ["f16", "1.8"],
  ["bf16", "1.8"],
  ["q8", "1.0"], // and a float of scale for each head's key and value: 1,008 bytes
])("inspect --overrides kv_dtype=%s says what keys and values take", async (dtype, figure) => {
  const { out } = await run(["inspect", "tiny", "--overrides", `kv_dtype=${dtype}`])
  expect(out).toMatch(new RegExp(`^KV +${figure} KiB a token$`, "m"))
})

const gpus = ["vulkan", "opencl"] as const
const submissions = {
  vulkan: "1 a decode step, waited for once",
  opencl: "1 a decode step with command buffers, one a launch without, waited for once",
}

test.each(gpus)("inspect --target %s counts what a step costs without a GPU", async (target) => {
  const { code, out, err } = await run(["inspect", "tiny", "--target", target])
  expect({ code, err }).toEqual({ code: 0, err: "" })
  // At any context: spans of attention are merged by a kernel that is there for other things.
  const [, count] = /^launches .* of kernels a decode step, (\d+) a layer$/m.exec(out)!
  expect(Number(count)).toBeGreaterThanOrEqual(6) // four products, attention, and rows between
  expect(Number(count)).toBeLessThanOrEqual(10)
  expect(/^submissions +(.*)$/m.exec(out)![1]).toBe(submissions[target])
  const [, share] = /^reads .* as stored: ([\d.]+) of them$/m.exec(out)!
  expect(Number(share)).toBeGreaterThanOrEqual(1)
  expect(Number(share)).toBeLessThanOrEqual(1.05)
  expect(out).toMatch(/^KV +1\.8 KiB a token$/m)
  expect(out).not.toMatch(/GB\/s/) // the processor's bandwidth says nothing of it
})

test("inspect says what keys and values take on the target", async () => {
  const kept = ["--overrides", "kv_dtype=q8"]
  const { out } = await run(["inspect", "tiny", "--target", "vulkan", ...kept, "--show", "library"])
  const { kv } = JSON.parse(out)
  const bytes = kv.groups.reduce((sum: number, each: KvGroup) => sum + each.bytesPerBlock, 0)
  const summary = await run(["inspect", "tiny", "--target", "vulkan", ...kept])
  expect(summary.out).toContain(`${(bytes / 16 / 1024).toFixed(1)} KiB a token`)
})

test.each(gpus)("inspect --target %s prints kernels and the tape", async (target) => {
  const shown = async (part: string) =>
    (await run(["inspect", "tiny", "--target", target, "--show", part])).out
  const source = await shown("source")
  const [, tape, kernels] = source.split(/^\/\/ (?:tape|kernels)\n/m)
  const made = [...kernels!.matchAll(/^kernel (\w+) of \d+ threads$/gm)].map(([, name]) => name)
  const launched = [...tape!.matchAll(/^ {4}(\w+) \[/gm)].map(([, name]) => name)
  expect(launched.length).toBeGreaterThan(50)
  expect(made).toEqual(expect.arrayContaining([...new Set(launched)]))
  expect(tape).toMatch(/^ +3 .+ = matmul .+ layers\.0\.q\+k\+v store parts 8 +tokens$/m)
  expect(JSON.parse(await shown("library"))).toMatchObject({ target, format: "q8f16_1" })
  expect(await shown("plan")).toMatch(/ parts 8/)
})

compiling("--target takes a list, and the folder gets a library for each", async () => {
  const output = join(scratch, "both")
  const dump = join(scratch, "dump-both")
  const options = ["--library-only", "--target", "vulkan,cpu", "--dump", dump]
  const { code, err } = await run(["compile", small, "--output", output, ...options])
  expect({ code, err }).toEqual({ code: 0, err: "" })
  expect(readdirSync(join(output, "lib")).sort()).toEqual(["cpu.so", "vulkan.gpu"])
  for (const [file, target] of [
    ["cpu.so", "cpu"],
    ["vulkan.gpu", "vulkan"],
  ] as const) {
    expect(readManifest(join(output, "lib", file)).target).toBe(target)
    expect(readdirSync(join(dump, target))).toContain("manifest.json")
  }
})

compiling(
  "a library of a target that this version does not know is refused by its name",
  async () => {
    const path = join(scratch, "later.gpu")
    writeFileSync(path, seal(Buffer.from("later"), { ...readManifest(library), target: "tpu" }))
    const { code, err } = await run(["serve", compiled, "--port", "0", "--model-lib", path])
    expect(code).toBe(2)
    expect(err).toMatch(/later\.gpu .*it is for the target "tpu", which this version does not know/)
  },
)

compiling("inspect shows the emitted source and the manifest", async () => {
  const source = await run(["inspect", original, "--show", "source"])
  expect(source.out).toContain("static const struct step plan_steps[PLAN_STEPS] = {")
  const library = await run(["inspect", original, "--show", "library"])
  expect(JSON.parse(library.out)).toMatchObject({ abi: ABI, target: "cpu", format: "q0f16" })
})

test("compile says what is missing or in the way", async () => {
  writeFileSync(join(scratch, "file"), "mine")
  for (const [args, sentence] of [
    [[original], "--output: say which folder to write"],
    [[original, "--output", original], "is there already and is not empty"],
    [
      [original, "--output", join(scratch, "x"), "--quantization", "q5"],
      "--quantization: expected one of q0f32",
    ],
    [
      [original, "--output", join(scratch, "x"), "--target", "cpu,cpu"],
      "--target: expected each entry once",
    ],
    [
      [original, "--output", join(scratch, "x"), "--target", "cpu,tpu"],
      "--target: expected one of cpu, cpu:baseline, cuda, rocm, metal, vulkan, opencl, got",
    ],
    [
      [original, "--output", join(scratch, "x"), "--target", "cuda:gfx90a"],
      '--target: expected an architecture behind cuda: like cuda:sm_90a, got "cuda:gfx90a".',
    ],
    [
      [original, "--output", join(scratch, "x"), "--weights-only", "--library-only"],
      "nothing is left to write",
    ],
    [
      [original, "--output", join(scratch, "x"), "--overrides", "max_num_sequence=1"],
      "only kv_dtype and tensor_parallel_shards are compiled in",
    ],
    [
      [
        goldenFolder("mlc", "qwen2-q4f32_1"),
        "--output",
        join(scratch, "x"),
        "--quantization",
        "q0f16",
      ],
      "packed as q4f32_1 already",
    ],
  ] as const) {
    const { code, err } = await run(["compile", ...args])
    expect(code).toBe(2)
    expect(err).toMatch(/^sinter: [^\n]+\n$/)
    expect(err).toContain(sentence)
  }
})

compiling(
  "what a model sees with is compiled with it, and answers as transformers do",
  async () => {
    const seeing = goldenFolder("vision", "smolvlm")
    const output = join(scratch, "seeing")
    const dump = join(scratch, "dump-seeing")
    const options = ["--quantization", "q4f16_1", "--output", output, "--dump", dump]
    const kept = ["--overrides", "kv_dtype=q8"]
    const compiled = await run(
      ["compile", seeing, ...options, ...kept, "--target", "cpu,vulkan,opencl,metal"],
      "",
      built,
      cache,
    )
    expect(compiled).toMatchObject({ code: 0, err: "" })
    expect(compiled.out).toBe(`${output}: llama, q4f16_1; sees, q0bf16\n`)
    const libraries = ["cpu.so", "metal.gpu", "opencl.gpu", "vulkan.gpu"]
    expect(readdirSync(join(output, "vision")).sort()).toEqual([
      "config.json",
      "lib",
      "params_shard_0.bin",
      "preprocessor_config.json",
      "processor_config.json",
      "tensor-cache.json",
      "tokenizer_config.json",
    ])
    for (const folder of [output, join(output, "vision")])
      expect(readdirSync(join(folder, "lib")).sort()).toEqual(libraries)
    for (const folder of [dump, join(dump, "vision")])
      expect(readdirSync(join(folder, "vulkan"))).toContain("8-plan.txt")
    const keptIn = (folder: string) =>
      /^ {2}kv (\w+)$/m.exec(readFileSync(join(folder, "vulkan", "8-plan.txt"), "utf8"))![1]
    expect([keptIn(dump), keptIn(join(dump, "vision"))]).toEqual(["q8", "f32"])

    const exact = join(scratch, "seeing-exact")
    const { code } = await run(["compile", seeing, "--output", exact], "", built, cache)
    expect(code).toBe(0)
    const server = await serving([exact])
    await expect.poll(server.err).toBe("")
    expect(server.out()).toMatch(new RegExp(`program +${exact}/lib/cpu.so`))
    expect(server.out()).toMatch(new RegExp(`images .+ ${exact}/vision/lib/cpu.so`))
    const asked = JSON.parse(readFileSync(join(seeing, "reply.json"), "utf8"))
    const image = readFileSync(join(seeing, asked.image)).toString("base64")
    const content = [
      { type: "image_url", image_url: { url: `data:image/png;base64,${image}` } },
      { type: "text", text: asked.question },
    ]
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: exact,
        messages: [{ role: "user", content }],
        temperature: 0,
        max_tokens: asked.reply.length,
        ignore_eos: true,
        return_token_ids: true,
      }),
    })
    expect(await response.json()).toMatchObject({
      prompt_token_ids: asked.prompt,
      choices: [{ token_ids: asked.reply }],
    })
    await server.stop()

    for (const folder of [seeing, output]) {
      const { out } = await run(["inspect", folder])
      expect(out).toMatch(/^images +smolvlm_vision, 0\.1 M parameters, q0bf16, 0\.1 MiB$/m)
      expect(out).toMatch(
        /^tile +24 x 24 pixels, whose 36 patches become 4 rows, for which 0\.3 MiB are set aside$/m,
      )
      expect(out).toMatch(/^image +at most 5 tiles and 20 rows$/m)
    }
    const tower = await run(["inspect", output, "--tower", "--show", "plan"])
    expect(tower.out).toMatch(/^plan smolvlm_vision\n/)
    const none = await run(["inspect", original, "--tower"])
    expect(none).toMatchObject({ code: 2, err: expect.stringMatching(/--tower: it has no tower/) })
  },
  120_000,
)

compiling(
  "a layer that guesses ahead goes along with its model, with a library of its own",
  async () => {
    const [published, output] = [join(scratch, "ahead"), join(scratch, "ahead-compiled")]
    mkdirSync(published)
    writeMtpModel("glm4-moe", published)
    const dump = join(scratch, "dump-ahead")
    const written = await run(
      ["compile", published, "--output", output, "--dump", dump],
      "",
      built,
      cache,
    )
    expect(written).toMatchObject({ code: 0, err: "" })
    expect(written.out).toBe(`${output}: glm4_moe, q0bf16; guesses ahead\n`)
    expect(readdirSync(join(output, "mtp/lib"))).toEqual(["cpu.so"])
    expect(readdirSync(join(dump, "mtp"))).toEqual(expect.arrayContaining(["8-plan.txt"]))
    const { out } = await run(["inspect", output])
    expect(out).toMatch(
      /^ahead +a layer of \S+ M parameters, q0bf16, \S+ MiB, \S+ MiB of them its own; KV \S+ KiB a token$/m,
    )

    const named = ["--model-lib", join(output, "lib/cpu.so")]
    const server = await serving([output, ...named, "--speculative-mode", "mtp"])
    await expect.poll(server.err).toBe("")
    expect(server.out()).toMatch(
      new RegExp(`mtp: ahead-compiled: mtp, q0bf16, ${output}/mtp/lib/cpu.so`),
    )
    const { said, expected } = await greedy(server, goldenFolder("models", "glm4-moe"), output)
    expect(said).toBe(expected)
    const metrics = await (await fetch(`${server.url}/metrics`)).text()
    expect(metrics).toMatch(/^sinter_drafted_tokens_total\{.*mode="mtp".*\} [1-9]/m)
    await server.stop()
  },
  120_000,
)

/** A PATH that has Node and nothing that compiles. */
function withoutCompiler() {
  const bin = join(scratch, "bin")
  if (!existsSync(bin)) {
    mkdirSync(bin)
    symlinkSync(process.execPath, join(bin, "node"))
  }
  return { PATH: bin, CC: undefined, XDG_CACHE_HOME: join(scratch, "empty") }
}

test("without a C compiler the embedded model is interpreted, with a warning that names the cure", async () => {
  const server = await serving(["tiny"], withoutCompiler())
  await expect.poll(server.err).toMatch(/No C compiler is here.+install gcc or clang/)
  expect(server.out()).toMatch(/target reference\n +program +interpreted/)
  await server.stop()
})

test.each([
  ["", /^sinter: No C compiler is here \(looked for cc, clang, gcc, zig\); install gcc/],
  ["/nowhere/cc -m64", /^sinter: CC names "\/nowhere\/cc -m64", which does not run; unset it, or /],
])("without a C compiler there is no --target cpu: CC=%s", async (CC, words) => {
  const { code, err } = await start(["serve", "tiny", "--port", "0", "--target", "cpu"], built, {
    ...withoutCompiler(),
    CC,
  }).ended
  expect(code).toBe(2)
  expect(err).toMatch(words)
})

test("a cache that cannot be written costs the caching alone", async () => {
  const blocked = join(scratch, "blocked")
  writeFileSync(blocked, "a file where a folder should be")
  const options = [original, "--target", "reference", "--quantization", "q4f16_1"]
  const server = await serving(options, { XDG_CACHE_HOME: blocked })
  const { said, expected } = await greedy(
    server,
    goldenFolder("mlc", "llama-wide-q4f16_1"),
    original,
  )
  expect(said).toBe(expected)
  const { err } = await server.stop()
  expect(err).not.toMatch(/"level":[4-6]0/) // no warning: so small a model needs no copy
})

compiling("so it does with libraries: one is built at every start, which is said", async () => {
  const blocked = join(scratch, "blocked-too")
  writeFileSync(blocked, "a file where a folder should be")
  const server = await serving([small], { XDG_CACHE_HOME: blocked })
  await expect.poll(server.err).toMatch(/built at every start: .+blocked-too.+ cannot hold it/)
  await server.stop()
})

compiling(
  "libraries of the shelf that a power cut has emptied cost a build, for starts and for compile",
  async () => {
    const env = { XDG_CACHE_HOME: join(scratch, "cut-off") }
    const shelf = join(scratch, "cut-off/sinter/shelf")
    const damage = () => {
      const libraries = readdirSync(shelf).filter((name) => name.endsWith(".so"))
      for (const name of libraries) truncateSync(join(shelf, name))
      expect(libraries.length).toBeGreaterThan(0)
    }
    const compileTo = async (output: string) => {
      const { code, err } = await run(["compile", small, "--output", output], "", built, env)
      expect({ code, err }).toEqual({ code: 0, err: "" })
    }
    const programOf = async (folder: string) => {
      const server = await serving([folder], env)
      await server.stop()
      return /program +(.+)/.exec(server.out())![1]
    }
    const [first, second] = [join(scratch, "first"), join(scratch, "second")]
    await compileTo(first)
    damage()
    expect(await programOf(small)).toMatch(/^built now by/)
    expect(await programOf(small)).toContain(shelf)
    damage()
    expect(await programOf(first)).toMatch(/^built now by/)
    damage()
    await compileTo(second)
    expect(await programOf(second)).toContain(join(second, "lib/cpu.so"))
  },
)

function serving(args: readonly string[], env: Record<string, string | undefined> = cache) {
  return serve(args, built, env)
}

function libc(): string {
  const { sharedObjects } = process.report!.getReport() as unknown as { sharedObjects: string[] }
  return sharedObjects.find((path) => /libc\.|libSystem/.test(path))!
}

function changed(change: (bytes: Buffer) => Buffer): string {
  const path = join(scratch, "changed.so")
  writeFileSync(path, change(readFileSync(library)))
  return path
}
