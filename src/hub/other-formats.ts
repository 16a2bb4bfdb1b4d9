// Models in files of other programs, as people download or name them: what each is, by how it is called, and what to take in its place.
// None of them is opened. A pickle that lies beside a configuration has words of its own, which convert it (model/weights/pickles.ts).

interface OtherFormat {
  endings: readonly string[]
  is: string
  instead: string
  /** It may be a folder. */
  isFolder?: true
}

const FOLDER = "the folder that it was made from, with its config.json and safetensors"

const otherFormats: readonly OtherFormat[] = [
  {
    endings: [".nemo"],
    is: "an archive of NVIDIA NeMo",
    instead:
      "the model as transformers has it, with a config.json and a model.safetensors; what is published as .nemo alone, its convert_nemo_to_hf.py converts",
  },
  {
    endings: [".pt", ".pth", ".ckpt", ".pkl"],
    is: "a pickle, which can run any program,",
    instead: "the model's folder with its config.json and safetensors",
  },
  { endings: [".onnx", ".onnx_data", ".ort"], is: "a graph of ONNX", instead: FOLDER },
  {
    endings: [".engine", ".plan"],
    is: "an engine of TensorRT, made for one GPU,",
    instead: FOLDER,
  },
  {
    endings: [".mlmodelc", ".mlpackage", ".mlmodel"],
    is: "a model of Core ML",
    instead: `${FOLDER}, or whisper.cpp's own .bin beside it`,
    isFolder: true,
  },
  { endings: [".tflite", ".task", ".litertlm"], is: "a model of LiteRT", instead: FOLDER },
  { endings: [".h5", ".keras", ".msgpack"], is: "a model of Keras or Flax", instead: FOLDER },
  {
    endings: [".safetensors"],
    is: "a part of a model, weights alone,",
    instead: "the folder that it lies in, with its config.json",
  },
  {
    endings: [".zip", ".tar", ".gz", ".tgz", ".zst", ".7z"],
    is: "an archive",
    instead: "what is in it, unpacked",
  },
]

/** What a file of that name is, or a folder, where it is another program's, and what to take in its place. */
export function otherFormat(name: string, isFolder = false): string | undefined {
  const ending = /\.[^./\\]+$/.exec(name.toLowerCase())?.[0] ?? ""
  const format = otherFormats.find(({ endings }) => endings.includes(ending))
  if (!format || (isFolder && !format.isFolder)) return undefined
  return `${format.is} and is not read; take ${format.instead}`
}

/** The same of the first of several: weights in safetensors among them are the right ones, and archives may be anything. */
export function otherFormatAmong(names: readonly string[]): string | undefined {
  const isTelling = (name: string) =>
    otherFormat(name) !== undefined && !/\.(safetensors|zip|tar|gz|tgz|zst|7z)$/i.test(name)
  const name = names.toSorted().find(isTelling)
  return name && `${name} is ${otherFormat(name)}`
}
