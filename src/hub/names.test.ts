import { expect, test } from "vitest"
import { parseName, printName } from "./names.ts"
import { ggufGroups, selectModel } from "./selection.ts"

test.each([
  ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B", "main", undefined],
  ["Qwen/Qwen3-0.6B@v1.0", "Qwen/Qwen3-0.6B", "v1.0", undefined],
  ["org/name@main", "org/name", "main", undefined],
  ["hf:org/name@refs/pr/1:Q4_K_M", "org/name", "refs/pr/1", "Q4_K_M"],
  ["hf://org/name:sub/a-Q8_0.gguf", "org/name", "main", "sub/a-Q8_0.gguf"],
  ["ggerganov/whisper.cpp:ggml-base.bin", "ggerganov/whisper.cpp", "main", "ggml-base.bin"],
  ["hf.co/o/n/resolve/main/ggml-base.bin", "o/n", "main", "ggml-base.bin"],
  ["HF://org/name", "org/name", "main", undefined],
  ["HF:org/name@v1:Q8_0", "org/name", "v1", "Q8_0"],
  ["hf:gpt2", "gpt2", "main", undefined],
  ["hf.co/org/name", "org/name", "main", undefined],
  ["hf.co/org/name:Q4_K_M", "org/name", "main", "Q4_K_M"],
  ["HuggingFace.co/org/name@v1:sub/a-Q8_0.gguf", "org/name", "v1", "sub/a-Q8_0.gguf"],
  ["https://hf.co/org/name:Q4_K_M", "org/name", "main", "Q4_K_M"],
  [
    "huggingface.co/org/name/blob/v2/sub/a%20b.gguf?download=true",
    "org/name",
    "v2",
    "sub/a b.gguf",
  ],
  ["https://huggingface.co/org/name", "org/name", "main", undefined],
  ["https://huggingface.co/org/name/tree/v2", "org/name", "v2", undefined],
  ["https://hf.co/org/name/resolve/main/a.gguf?download=true", "org/name", "main", "a.gguf"],
  ["https://huggingface.co/org/name/blob/main/sub/a%20b.gguf", "org/name", "main", "sub/a b.gguf"],
])("%s is a name of the hub's", (text, repository, revision, file) => {
  const pinned = /@|\/(tree|resolve|blob)\//.test(text)
  expect(parseName(text)).toEqual({ kind: "hub", repository, revision, pinned, file })
})

test.each([
  "tiny",
  "./a/b",
  "a/b.gguf",
  "a/ggml-base.bin",
  "/a/b",
  "a/b/c",
  "../b",
  "a/..",
  "a--b/c",
  "a/b@../x",
  "a/b:../x",
  "a/b ",
])("%j can only be a path", (text) => expect(parseName(text)).toBeUndefined())

test.each([
  ["hf:a/b/c", "expected hf:ORG/NAME"],
  ["HF://a/b/c", "expected hf:ORG/NAME"],
  ["hf:", "expected hf:ORG/NAME"],
  ["org/name:Q4_K_M@v1", "a revision stands before the file, as in ORG/NAME@REVISION:FILE"],
  ["https:", "it is no address"],
  ["hf.co/org/name/resolve/main/lib/cpu.so", "or of a .gguf file"],
  ["hf.co/org/name:Q8_0/tree/main", "expected the page of a model"],
  ["huggingface.co/", "expected the page of a model"],
  ["http://example.com/a.gguf", "use https"],
  ["https://example.com/a.safetensors", "that of a .gguf file"],
  ["https://me:secret@example.com/a.gguf", "holds no password"],
  ["https://example.com/a-00001-of-00002.gguf", "one part of several"],
  ["https://huggingface.co/org/name/resolve/main/lib/cpu.so", "or of a .gguf file"],
])("%s is refused", (text, sentence) => {
  expect(() => parseName(text)).toThrow(sentence)
  expect(() => parseName(text)).not.toThrow("secret")
})

test("a name is printed as it was typed", () => {
  for (const text of [
    "org/name",
    "org/name@v1",
    "org/name@main",
    "org/name:Q8_0",
    "org/name@v1:Q8_0",
  ])
    expect(printName(parseName(`hf:${text}`) as never)).toBe(text)
})

const CONFIG = ["config.json", "tokenizer.json", "tokenizer_config.json"]
const OTHERS = ["README.md", "lib/cpu.so", "pytorch_model.bin", "modeling.py", "onnx/model.onnx"]
const index = JSON.stringify({
  weight_map: { a: "model-2.safetensors", b: "model-1.safetensors", c: "model-1.safetensors" },
})
const select = (paths: string[], file?: string) =>
  selectModel("o/n", paths, file, async () => index)

test.each<[string, string[], string | undefined, string[], string]>([
  [
    "safetensors",
    ["model.safetensors", "consolidated.safetensors"],
    undefined,
    [...CONFIG, "model.safetensors"],
    "",
  ],
  [
    "a template in a file of its own, or of a model that sees in its processor's; how images are prepared",
    [
      "chat_template.jinja",
      "chat_template.json",
      "preprocessor_config.json",
      "processor_config.json",
      "model.safetensors",
    ],
    undefined,
    [
      ...CONFIG,
      "chat_template.jinja",
      "chat_template.json",
      "preprocessor_config.json",
      "processor_config.json",
      "model.safetensors",
    ],
    "",
  ],
  [
    "templates for a purpose, in a folder of their own",
    ["chat_template.jinja", "additional_chat_templates/tool_use.jinja", "model.safetensors"],
    undefined,
    [
      ...CONFIG,
      "chat_template.jinja",
      "additional_chat_templates/tool_use.jinja",
      "model.safetensors",
    ],
    "",
  ],
  [
    "shards, those that the index names",
    [
      "model.safetensors.index.json",
      "model-1.safetensors",
      "model-2.safetensors",
      "model-3.safetensors",
    ],
    undefined,
    [...CONFIG, "model.safetensors.index.json", "model-1.safetensors", "model-2.safetensors"],
    "",
  ],
  [
    "one file, beside an index of shards that it has replaced",
    ["model.safetensors.index.json", "model-1.safetensors", "model.safetensors"],
    undefined,
    [...CONFIG, "model.safetensors"],
    "",
  ],
  [
    "a GGUF beside safetensors",
    ["model.safetensors", "a-Q8_0.gguf"],
    "q8_0",
    ["a-Q8_0.gguf"],
    "a-Q8_0.gguf",
  ],
  [
    "Mistral's own beside what others read",
    ["params.json", "consolidated.safetensors", "tekken.json", "model.safetensors"],
    undefined,
    [...CONFIG, "model.safetensors"],
    "",
  ],
  [
    "a compiled folder",
    ["mlc-chat-config.json", "tensor-cache.json", "params_shard_0.bin"],
    undefined,
    [...CONFIG, "mlc-chat-config.json", "tensor-cache.json", "params_shard_0.bin"],
    "",
  ],
  [
    "a compiled folder with a tower",
    [
      "mlc-chat-config.json",
      "tensor-cache.json",
      "params_shard_0.bin",
      "vision/config.json",
      "vision/tokenizer_config.json",
      "vision/processor_config.json",
      "vision/tensor-cache.json",
      "vision/params_shard_0.bin",
      "vision/params_shard_1.bin",
      "vision/lib/cpu.so",
      "vision/modeling.py",
    ],
    undefined,
    [
      ...CONFIG,
      "mlc-chat-config.json",
      "tensor-cache.json",
      "params_shard_0.bin",
      "vision/config.json",
      "vision/tokenizer_config.json",
      "vision/processor_config.json",
      "vision/tensor-cache.json",
      "vision/params_shard_0.bin",
      "vision/params_shard_1.bin",
    ],
    "",
  ],
  [
    "how its quantisers packed it, in a file of its own",
    ["quantize_config.json", "hf_quant_config.json", "model.safetensors"],
    undefined,
    [
      ...CONFIG.slice(0, 1),
      "quantize_config.json",
      "hf_quant_config.json",
      ...CONFIG.slice(1),
      "model.safetensors",
    ],
    "",
  ],
  [
    "SentencePiece alone",
    ["model.safetensors", "tokenizer.model"],
    undefined,
    [...CONFIG, "model.safetensors"],
    "",
  ],
])("of a repository, a model's own files: %s", async (_, paths, file, files, model) => {
  expect(await select([...CONFIG, ...OTHERS, ...paths], file)).toEqual({ files, model })
})

test("an adapter is its configuration, its weights and what it brings of a tokenizer, where there is no model", async () => {
  const texts = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]
  const adapter = ["adapter_config.json", "adapter_model.safetensors"]
  const others = [
    "README.md",
    "adapter_model.bin",
    "training_args.bin",
    "checkpoint-9/adapter_model.safetensors",
  ]
  expect(await select([...others, ...adapter, ...texts])).toEqual({
    files: [...texts, ...adapter],
    model: "",
  })
  const mlx = ["adapter_config.json", "adapters.safetensors"]
  expect((await select([...mlx, "0000100_adapters.safetensors"])).files).toEqual(mlx)
  const merged = await select([...adapter, ...CONFIG, "model.safetensors"])
  expect(merged.files).toEqual([...CONFIG, "model.safetensors"])
})

test("other tokenizers are read where there is no tokenizer.json", async () => {
  const pieces = ["tekken.json", "tokenizer.model", "tiktoken.model", "added_tokens.json"]
  const { files } = await select(["config.json", "model.safetensors", ...pieces])
  expect(files).toEqual(expect.arrayContaining(pieces))
  const { files: others } = await select([...CONFIG, "model.safetensors", ...pieces])
  expect(others).not.toContain("tokenizer.model")
  expect(others).not.toContain("tekken.json")
  expect(others).toContain("added_tokens.json") // of a tokenizer.json that lacks them
})

test("Mistral's own weights are taken where there are no others", async () => {
  const texts = ["params.json", "tekken.json", "README.md", "SYSTEM_PROMPT.txt"]
  const single = "consolidated.safetensors"
  const { files, model } = await select([...texts, single])
  expect(files).toEqual(["tekken.json", "params.json", single])
  expect(model).toBe("")
  const beside = await select([...texts, single, "config.json"]) // which then describes no weights
  expect(beside.files).toEqual(["config.json", "tekken.json", "params.json", single])
  const shards = ["model-1.safetensors", "model-2.safetensors"]
  const index = "consolidated.safetensors.index.json"
  const several = await select([...texts, index, ...shards])
  expect(several.files).toEqual(["tekken.json", "params.json", index, ...shards])
  await expect(select([...texts, index, shards[0]!])).rejects.toThrow(
    `${index} names model-2.safetensors, which is not there`,
  )
  expect((await select([...texts, single, "a-Q8_0.gguf"])).model).toBe("a-Q8_0.gguf")
  await expect(select(texts)).rejects.toThrow("there are neither weights")
})

const SPLIT = ["big/m-Q4_K_M-00001-of-00002.gguf", "big/m-Q4_K_M-00002-of-00002.gguf"]
const GGUF = [
  ...SPLIT,
  "m-UD-Q4_K_XL.gguf",
  "m-F16.gguf",
  "mmproj-m-F16.gguf",
  "imatrix.gguf",
  "m.gguf",
]

test("GGUF models are called by their type, else by their name", async () => {
  expect(ggufGroups(GGUF).map(({ tag }) => tag)).toEqual(["Q4_K_M", "F16", "UD-Q4_K_XL", "m"])
  const types = ["IQ2_XXS", "TQ1_0", "MXFP4_MOE", "NVFP4"]
  expect(ggufGroups(types.map((type) => `m-${type}.gguf`)).map(({ tag }) => tag)).toEqual(
    types.toSorted(),
  )
  const sees = "mmproj-m-F16.gguf"
  expect(await select(GGUF, "q4_k_m")).toEqual({
    files: [...SPLIT, sees],
    model: SPLIT[0],
    mmproj: sees,
  })
  expect(await select(GGUF, "m-F16.gguf")).toMatchObject({ model: "m-F16.gguf" })
  await expect(select(GGUF)).rejects.toThrow(
    "o/n has 4 GGUF models; name one as o/n:NAME, of Q4_K_M",
  )
  await expect(select(GGUF, "Q9")).rejects.toThrow("has no Q9 among its GGUF models")
  await expect(select([...GGUF, "x/m-F16.gguf"], "F16")).rejects.toThrow("m-F16.gguf, x/m-F16.gguf")
})

test("files of whisper.cpp are models, where a repository has no GGUF", async () => {
  const files = [
    "ggml-base.bin",
    "ggml-base-q5_1.bin",
    "ggml-base-encoder.mlmodelc.zip",
    "README.md",
  ]
  const whole = { files: ["ggml-base.bin"], model: "ggml-base.bin" }
  for (const name of ["ggml-base.bin", "ggml-base"])
    expect(await select(files, name)).toEqual(whole)
  expect(await select(["ggml-base.bin", "pytorch_model.bin"])).toEqual(whole)
  await expect(select(files)).rejects.toThrow(
    "o/n has 2 models of whisper.cpp; name one as o/n:NAME, of Q5_1, ggml-base",
  )
  expect(ggufGroups([...files, "a.gguf"])).toEqual([{ tag: "a", files: ["a.gguf"] }])
})

test("a GGUF model brings along what it sees with: the one in f16, beside it or outermost", async () => {
  const filesBeside = async (...paths: string[]) =>
    (await select(["a/m-Q8_0.gguf", ...paths], "Q8_0")).files.slice(1)
  expect(await filesBeside("mmproj-BF16.gguf", "mmproj-F32.gguf", "mmproj-F16.gguf")).toEqual([
    "mmproj-F16.gguf",
  ])
  expect(await filesBeside("mmproj-m-Q8_0.gguf", "mmproj-m-f32.gguf")).toEqual([
    "mmproj-m-f32.gguf",
  ])
  expect(await filesBeside("mmproj-F16.gguf", "a/m.mmproj-bf16.gguf")).toEqual([
    "a/m.mmproj-bf16.gguf",
  ])
  expect(await filesBeside("b/mmproj-F16.gguf", "mmproj.txt")).toEqual([])
  expect(await filesBeside("mmproj-small-F16.gguf", "mmproj-large-F16.gguf")).toEqual([])
  const folder = [...CONFIG, "model.safetensors", "mmproj-F16.gguf"]
  expect((await select(folder)).files).not.toContain("mmproj-F16.gguf")
})

test.each<[string, string[], string]>([
  ["pickles", ["config.json", "pytorch_model.bin"], "may run code when they are read"],
  ["nothing", ["README.md"], "there are neither weights"],
  ["another program's", ["README.md", "a.nemo"], "nor a GGUF file; a.nemo is an archive of NVIDIA"],
  ["half a model", [SPLIT[0]!], "is the first of 2 parts, and 1 are there"],
  [
    "a shard too few",
    ["config.json", "model.safetensors.index.json", "model-1.safetensors"],
    "names model-2",
  ],
])("what cannot be opened is refused: %s", async (_, paths, sentence) => {
  await expect(select(paths)).rejects.toThrow(sentence)
})
