import { expect, test } from "vitest"
import { commandLine } from "./commands.ts"
import { chatOptions, compileOptions, inspectOptions, serveOptions } from "./options.ts"
import { readOptions } from "./read-options.ts"

// Specification §1.1, row by row: option, type or format, default. That of --speculative-mode is "not stated".
const specified = `
| --model-lib | path | none |
| --device | device_name:device_id or device_name | auto |
| --mode | one of local, interactive, server | local |
| --additional-models | model_path or model_path,model_lib | none |
| --speculative-mode | one of disable, small_draft, eagle, medusa | auto |
| --overrides | string of field=value pairs separated by ; | none |
| --enable-tracing | boolean flag | off |
| --host | string | 127.0.0.1 |
| --port | integer | 8000 |
| --allow-credentials | flag | off |
| --allowed-origins | JSON list of strings | ["*"] |
| --allowed-methods | JSON list of strings | ["*"] |
| --allowed-headers | JSON list of strings | ["*"] |
`
  .trim()
  .split("\n")
  .map((row) => row.split("|").map((cell) => cell.trim()))
  .map(([, name, type, fallback]) => ({ name: name!, type: type!, fallback: fallback! }))

const help = (name: string) =>
  commandLine()
    .commands.find((command) => command.name() === name)!
    .configureHelp({ helpWidth: 10_000 })
    .helpInformation()

test.each(specified)("serve --help documents $name", ({ name, type, fallback }) => {
  const line = help("serve")
    .split("\n")
    .find((row) => row.includes(`${name} `))!
  expect(line).toContain(`(default: ${fallback}`)
  expect(line).toMatch(/flag/.test(type) ? new RegExp(`${name} {2,}`) : new RegExp(`${name} <`))
  for (const word of type.match(/(?<=one of ).*/)?.[0].split(", ") ?? [])
    expect(line).toContain(word)
})

test("the help names every device and every override of the specification", () => {
  for (const name of ["cuda", "metal", "vulkan", "rocm", "opencl", "auto"]) {
    expect(serveOptions["--device"].help).toContain(name)
  }
  for (const field of [
    "max_num_sequence",
    "max_total_seq_length",
    "prefill_chunk_size",
    "tensor_parallel_shards",
  ]) {
    expect(serveOptions["--overrides"].help).toContain(field)
  }
})

test("what is compiled for one device, with and without its name, is one library", () => {
  const target = (given: string) =>
    readOptions(compileOptions, { "--target": given }, {})["--target"]
  expect(target("cuda:sm_90a,cpu:baseline,rocm:gfx1100,cuda,cuda:sm_86,metal")).toEqual([
    { name: "cuda", variants: ["sm_90a", "sm_86"] },
    { name: "cpu:baseline", variants: [] },
    { name: "rocm", variants: ["gfx1100"] },
    { name: "metal", variants: [] },
  ])
  expect(() => target("cuda:sm_90a,cuda:sm_90a")).toThrow("expected each entry once")
  for (const wrong of ["metal:m3", "cuda:", "cuda:sm_35", "rocm:sm_90", "tpu:v1"])
    expect(() => target(wrong), wrong).toThrow(/expected (one of|an architecture)/)
})

const read = (given: Record<string, string | true>, environment: Record<string, string> = {}) =>
  readOptions(serveOptions, given, environment)

test("nothing given: the specification's defaults", () => {
  expect(read({})).toMatchObject({
    "--device": { name: "auto", id: 0 },
    "--mode": "local",
    "--overrides": {},
    "--host": "127.0.0.1",
    "--port": 8000,
    "--allow-credentials": false,
    "--allowed-origins": undefined,
  })
})

test("values are typed", () => {
  expect(
    read({
      "--device": "cpu:3",
      "--overrides":
        "max_num_sequence=2; prefill_chunk_size = 64;gpu_memory_utilization=.5;kv_dtype=bf16;",
      "--allowed-origins": '["https://a.example", "*"]',
      "--max-body": "3MiB",
      "--allow-credentials": true,
      "--speculative-mode": "disable",
    }),
  ).toMatchObject({
    "--device": { name: "cpu", id: 3 },
    "--overrides": {
      max_num_sequence: 2,
      prefill_chunk_size: 64,
      gpu_memory_utilization: 0.5,
      kv_dtype: "bf16",
    },
    "--allowed-origins": ["https://a.example", "*"],
    "--max-body": 3 * 2 ** 20,
    "--allow-credentials": true,
  })
})

test("the command line wins over the environment; an empty variable is as none", () => {
  const environment = { SINTER_PORT: "9000", SINTER_HOST: "", SINTER_ALLOW_CREDENTIALS: "1" }
  expect(read({}, environment)).toMatchObject({
    "--port": 9000,
    "--host": "127.0.0.1",
    "--allow-credentials": true,
  })
  expect(read({ "--port": "1" }, environment)["--port"]).toBe(1)
  expect(() => read({}, { SINTER_PORT: "x" })).toThrow("SINTER_PORT: expected a whole number")
})

test.each([
  ["--port", "abc", '--port: expected a whole number, 0 to 65535, got "abc".'],
  ["--port", "80.0", '--port: expected a whole number, 0 to 65535, got "80.0".'],
  ["--port", "65536", '--port: expected a whole number, 0 to 65535, got "65536".'],
  ["--mode", "fast", '--mode: expected one of local, interactive, server, got "fast".'],
  ["--device", "tpu", "--device: expected NAME or NAME:ID with NAME one of cuda, rocm, metal,"],
  ["--device", "cuda:x", "--device: expected NAME or NAME:ID"],
  ["--host", "", "--host: expected a text, got nothing."],
  ["--max-body", "2MB", "--max-body: expected bytes like 65536, 512KiB"],
  ["--allowed-origins", "*", "--allowed-origins: expected a JSON list of strings like"],
  ["--allowed-origins", "[1]", "--allowed-origins: expected a JSON list of strings like"],
  ["--allowed-origins", '["https://a.example/"]', '"https://a.example/" is no origin'],
  ["--allowed-methods", '["get "]', '--allowed-methods: "get " is no HTTP method'],
  ["--overrides", "max_num_sequence", 'expected field=value pairs separated by ";"'],
  ["--overrides", "max_num_sequence=", "--overrides max_num_sequence: expected a whole number"],
  ["--overrides", "max_num_sequence=1.5", "--overrides max_num_sequence: expected a whole number"],
  ["--overrides", "max_num_sequence=0", "1 to 1024, got"],
  ["--overrides", "max_num_sequence=1;max_num_sequence=2", "max_num_sequence is given twice."],
  ["--overrides", "gpu_memory_utilization=2", "expected a number from 0.01 to 1"],
  ["--overrides", "kv_dtype=q4", "expected one of f32, f16, bf16, q8"],
  [
    "--overrides",
    "sequences=4",
    'there is no field "sequences"; known: max_num_sequence, max_total',
  ],
  ["--overrides", "max_image_patches=63", "expected a whole number, 64 to 65536"],
  ["--overrides", "constructor=4", 'there is no field "constructor"'],
  ["--overrides", "tensor_parallel_shards=3", "expected one of 1, 2, 4, 8, got"],
])("%s %j is refused in one sentence", (name, value, sentence) => {
  expect(() => read({ [name]: value })).toThrow(sentence)
  try {
    read({ [name]: value })
  } catch (error) {
    expect((error as Error).message).not.toContain("\n")
  }
})

test("inspect shows what more patches of an image take, too", () => {
  const refused = () => readOptions(inspectOptions, { "--overrides": "max_num_sequence=2" }, {})
  expect(refused).toThrow(
    "only kv_dtype and tensor_parallel_shards and max_image_patches are shown.",
  )
  const taken = { "--overrides": "max_image_patches=16384" }
  expect(readOptions(inspectOptions, taken, {})["--overrides"]).toEqual({
    max_image_patches: 16384,
  })
})

test("compile's help names the fields that its refusal says are compiled in", () => {
  const refused = () => readOptions(compileOptions, { "--overrides": "max_num_sequence=2" }, {})
  expect(refused).toThrow("only kv_dtype and tensor_parallel_shards are compiled in.")
  const taken = { "--overrides": "kv_dtype=f16;tensor_parallel_shards=2" }
  expect(readOptions(compileOptions, taken, {})["--overrides"]).toEqual({
    kv_dtype: "f16",
    tensor_parallel_shards: 2,
  })
  expect(help("compile")).toContain(
    '"field=value;field=value": kv_dtype and tensor_parallel_shards.',
  )
})

test("chat and serve say the same of the options they share", () => {
  const shared = Object.keys(chatOptions).filter((name) => name in serveOptions)
  expect(shared.length).toBeGreaterThan(2)
  for (const name of shared) {
    expect(help("chat")).toContain(chatOptions[name as keyof typeof chatOptions].help)
  }
})
