// Every option of the command line, in one table. Parsing (read-options.ts), --help, the environment's names and
// docs/options.md are made from it. An option is listed only when it works.

import { appDefaults } from "../app/defaults.ts"
import { FORMATS } from "../audio/format.ts"
import { formats, type FormatName as ToolFormat } from "../chat/formats/formats.ts"
import { libraryTargets, targetNames, targets } from "../compiler/targets/targets.ts"
import { defaultHttpOptions, defaultTimeouts } from "../http/service.ts"
import { DRIVER_MILLISECONDS, deviceNames } from "../runtime/devices.ts"
import { formatNames } from "../runtime/format.ts"
import {
  compiledNames,
  compiledOverrides,
  overrideFields,
  overrides,
  shownOverrides,
} from "./overrides.ts"
import {
  address,
  age,
  bytes,
  decimal,
  device,
  flag,
  integer,
  jsonList,
  list,
  namedList,
  oneOf,
  type Reader,
  seed,
  text,
  variantsOf,
} from "./values.ts"

export interface Option {
  /** The name of its value in the help; absent: a flag. */
  value?: string
  /** A second spelling. */
  also?: string
  /** Given several times, each counts; its value is a list, of one where the environment has it. */
  many?: true
  /** Its value when it is not given. */
  absent: unknown
  /** The default in words, where printing `absent` would not say it. */
  shown?: string
  help: string
  read: Reader<unknown>
}

/** "cpu (a library for …), …" */
function explained(names: typeof targetNames): string {
  return names.map((name) => `${name} (${targets[name].help})`).join(", ")
}

const ADVISED = "as --generation-defaults says"

/** What every command that opens a model takes. */
export const modelOptions = {
  "--lora": {
    value: "LIST",
    absent: [] as string[],
    shown: "none",
    help: "Adapters that change the model's weights, with commas between them: folders as PEFT and MLX write them, by a path or a hub's name, or GGUF files. An adapter that is named as MODEL brings the model that it was trained on.",
    read: list,
  },
  "--mmproj": {
    value: "FILE",
    absent: undefined,
    shown: "the mmproj file in the folder of a GGUF model, if there is one",
    help: "The GGUF file that a GGUF model sees images or hears recordings with, as llama.cpp writes it: a path, or ORG/NAME:FILE of the hub; none: both are refused.",
    read: text,
  },
  "--model-lib": {
    value: "PATH",
    absent: undefined,
    help: "A library that sinter compile made for this model: it is opened wherever it was built.",
    read: text,
  },
  "--trust-libraries": {
    absent: false,
    help: "Opens libraries in model folders even if another machine built them. A library is code, and its manifest does not prove who built it.",
    read: flag,
  },
  "--device": {
    value: "DEVICE",
    absent: appDefaults.device,
    shown: "auto",
    help: `What to run on, as NAME or NAME:ID: ${deviceNames.join(", ")}, or auto, the best device found. sinter devices lists what is here.`,
    read: device,
  },
  "--target": {
    value: "TARGET",
    absent: appDefaults.target,
    help: `What to compile for: ${explained(targetNames)}, or auto, the best for the device that this machine can build.`,
    read: oneOf(...targetNames, "auto"),
  },
  "--quantization": {
    value: "FORMAT",
    absent: undefined,
    shown: "the folder's own",
    help: `The number format to run in: ${formatNames.join(", ")}. Weights in another format are packed once; the shelf keeps them.`,
    read: oneOf(...formatNames),
  },
  "--overrides": {
    value: "OVERRIDES",
    absent: {},
    shown: "none",
    help: `Fields of the engine's configuration as "field=value;field=value". Fields: ${Object.keys(overrideFields).join(", ")}.`,
    read: overrides,
  },
  "--shelf-size": {
    value: "BYTES",
    absent: appDefaults.shelfSize,
    shown: "20GiB",
    help: "The most that the shelf of libraries and packed weights may hold; the least recently used make room.",
    read: bytes,
  },
  "--log-level": {
    value: "LEVEL",
    absent: "info",
    help: "What goes to stderr: debug, info, warn, error or silent.",
    read: oneOf("debug", "info", "warn", "error", "silent"),
  },
} as const satisfies Record<string, Option>

/** How answers are drawn, by who talks to a model in a terminal. */
export const samplingOptions = {
  "--temperature": {
    value: "T",
    absent: undefined,
    shown: ADVISED,
    help: "Lower is less random; 0 always takes the likeliest token.",
    read: decimal(0, 2),
  },
  "--top-p": {
    value: "P",
    absent: undefined,
    shown: ADVISED,
    help: "Draws from the likeliest tokens that are together this likely; 1 from all.",
    read: decimal(0, 1),
  },
  "--top-k": {
    value: "K",
    absent: undefined,
    shown: ADVISED,
    help: "Draws from so many of the likeliest tokens; 0 from all.",
    read: integer(0),
  },
  "--min-p": {
    value: "P",
    absent: undefined,
    shown: ADVISED,
    help: "Draws from tokens that are at least this fraction as likely as the likeliest.",
    read: decimal(0, 1),
  },
  "--presence-penalty": {
    value: "PENALTY",
    absent: undefined,
    shown: ADVISED,
    help: "Taken off every token that the answer has already.",
    read: decimal(-2, 2),
  },
  "--frequency-penalty": {
    value: "PENALTY",
    absent: undefined,
    shown: ADVISED,
    help: "The same for each time that it has it.",
    read: decimal(-2, 2),
  },
  "--repetition-penalty": {
    value: "FACTOR",
    absent: undefined,
    shown: ADVISED,
    help: "Above 1, what prompt and answer have already is less likely.",
    read: decimal(0.01, 10),
  },
  "--max-tokens": {
    value: "N",
    absent: undefined,
    shown: "as far as the context reaches",
    help: "The most tokens an answer may have.",
    read: integer(1),
  },
  "--seed": {
    value: "N",
    absent: undefined,
    shown: "a fresh one for every answer",
    help: "The same seed and conversation give the same answers.",
    read: seed,
  },
} as const satisfies Record<string, Option>

const toolFormats = Object.keys(formats) as ToolFormat[]
const seconds = integer(1, 86_400)

export const serveOptions = {
  "--config": {
    value: "FILE",
    absent: undefined,
    help: "A file of these options, a line each: name = value, without the dashes; model = MODEL as often as there are models; # begins a comment. What the command line says wins.",
    read: text,
  },
  ...modelOptions,
  "--mode": {
    value: "MODE",
    absent: appDefaults.mode,
    help: `local: up to 4 requests at once. interactive: one at a time. server: as many as memory allows, up to ${targets.cpu.steps.sequences}.`,
    read: oneOf("local", "interactive", "server"),
  },
  "--lora-modules": {
    value: "LIST",
    absent: [] as { name: string; text: string }[],
    shown: "none",
    help: "Adapters that requests choose by their names, as NAME=ADAPTER with commas between them: each is served under its name, beside MODEL and over the same weights. They add to matrices of attention and MLPs (LoRA).",
    read: namedList,
  },
  "--additional-models": {
    value: "LIST",
    absent: undefined,
    help: "The draft model or head for speculative decoding, as PATH or PATH,LIBRARY; without a library one is compiled. Of several models: MODEL=PATH for each that has one, with semicolons between them.",
    read: text,
  },
  "--speculative-mode": {
    value: "MODE",
    absent: appDefaults.drafting.mode,
    help: "Speculative decoding, which changes speed and never text. auto: where a reply repeats a run of its own or its prompt's tokens, on processors, as far as that pays. disable: none. lookup: repeats what followed the same tokens before, without a model. small_draft, eagle, medusa: proposed by the model of --additional-models. mtp: by a layer of the model's own that guesses ahead.",
    read: oneOf("auto", "disable", "lookup", "small_draft", "eagle", "medusa", "mtp"),
  },
  "--enable-tracing": {
    absent: false,
    help: "Records the events of every request and step; GET /debug/trace gives them as a Chrome trace.",
    read: flag,
  },
  "--max-loaded": {
    value: "N",
    absent: undefined,
    shown: "all",
    help: "How many of several models are loaded at once, each with an equal part of the memory; the least recently used makes room for another.",
    read: integer(1, 1000),
  },
  "--idle-unload": {
    value: "SECONDS",
    absent: undefined,
    help: "Unloads a model that nobody has asked for so long; the next request loads it again.",
    read: seconds,
  },
  "--metrics-compat": {
    value: "NAMES",
    absent: defaultHttpOptions.metricsCompat,
    help: "Other names under which /metrics repeats its numbers: vllm, for gateways that know vLLM's, or none.",
    read: oneOf("none", "vllm"),
  },
  "--open-metrics": {
    absent: defaultHttpOptions.openMetrics,
    help: "Answers /metrics without a key where keys are asked for, as pickers and some scrapers need it.",
    read: flag,
  },
  "--host": {
    value: "HOST",
    absent: defaultHttpOptions.host,
    help: "The address to listen on.",
    read: text,
  },
  "--port": {
    value: "PORT",
    absent: 8000,
    help: "The port to listen on; 0 takes a free one and prints it.",
    read: integer(0, 65535),
  },
  "--allow-credentials": {
    absent: false,
    help: "Sends cross-origin (CORS) headers, for requests with credentials too.",
    read: flag,
  },
  "--allowed-origins": {
    value: "JSON_LIST",
    also: "--allow-origins",
    absent: undefined,
    shown: '["*"] once any CORS option is given',
    help: "Web origins whose pages may read answers; turns CORS headers on.",
    read: jsonList(
      "origin (scheme://host, without a path)",
      /^(\*|null|[a-z][a-z0-9+.-]*:\/\/[^/?#\s]+)$/i,
      '["https://app.example"]',
    ),
  },
  "--allowed-methods": {
    value: "JSON_LIST",
    also: "--allow-methods",
    absent: undefined,
    shown: '["*"] once any CORS option is given',
    help: "HTTP methods that such pages may use.",
    read: jsonList("HTTP method", /^(\*|[A-Z]+)$/, '["GET", "POST"]'),
  },
  "--allowed-headers": {
    value: "JSON_LIST",
    also: "--allow-headers",
    absent: undefined,
    shown: '["*"] once any CORS option is given',
    help: "Request headers that such pages may send.",
    read: jsonList("header name", /^(\*|[\w!#$%&'*+.^`|~-]+)$/, '["content-type"]'),
  },
  "--allowed-hosts": {
    value: "JSON_LIST",
    absent: defaultHttpOptions.allowedHosts,
    shown: "none",
    help: "Host names under which a server on loopback may be called, besides loopback's own.",
    read: jsonList("host name", /^[^\s/:]+$/, '["gpu-box.lan"]'),
  },
  "--api-key": {
    value: "KEYS",
    absent: defaultHttpOptions.apiKeys,
    shown: "none",
    help: "Requires one of these keys, separated by commas, as a bearer token of every request but health checks (and /metrics with --open-metrics).",
    read: list,
  },
  "--api-key-file": {
    value: "FILE",
    absent: undefined,
    help: "The same from a file, a key a line, # before comments; it is read again when it changes.",
    read: text,
  },
  "--tls-cert": {
    value: "FILE",
    absent: undefined,
    help: "Speaks HTTPS with this certificate (PEM, those that vouch for it below it); with --tls-key. Both are read again when they change.",
    read: text,
  },
  "--tls-key": {
    value: "FILE",
    absent: undefined,
    help: "The certificate's key (PEM).",
    read: text,
  },
  "--served-model-name": {
    value: "NAME",
    absent: undefined,
    help: "One more name for the model, besides MODEL as typed and its folder's name; of one model alone.",
    read: text,
  },
  "--api-dialect": {
    value: "DIALECT",
    absent: defaultHttpOptions.dialect,
    help: "Shape of answers: native, openai, or auto, which looks at the client.",
    read: oneOf("auto", "native", "openai"),
  },
  "--generation-defaults": {
    value: "WHOSE",
    absent: appDefaults.generationDefaults,
    help: "Sampling defaults: the API's (temperature 1, top_p 1), or the model folder's (model).",
    read: oneOf("api", "model"),
  },
  "--reasoning": {
    value: "WHERE",
    absent: defaultHttpOptions.reasoning,
    help: "A model's thinking: split into reasoning_content, or inline in the text.",
    read: oneOf("split", "inline"),
  },
  "--tool-format": {
    value: "FORMAT",
    absent: undefined,
    shown: "as its template shows",
    help: `How the model writes tool calls: ${toolFormats.join(", ")}.`,
    read: oneOf(...toolFormats),
  },
  "--tool-text": {
    value: "FORM",
    absent: defaultHttpOptions.toolText,
    help: "How native streams list tool calls: plain, [f(x=1)], or quoted, ['f(x=1)'].",
    read: oneOf("plain", "quoted"),
  },
  "--max-body": {
    value: "BYTES",
    absent: defaultHttpOptions.maxBody,
    shown:
      "2MiB, or 16 bytes a token of context if that is more; at least 32MiB where a model sees, 40MiB where one hears",
    help: "The largest request body, images in Base64 included.",
    read: bytes,
  },
  "--max-connections": {
    value: "N",
    absent: defaultHttpOptions.maxConnections,
    help: "Connections that are served at once; one more is answered 503.",
    read: integer(1, 1_000_000),
  },
  "--max-queue": {
    value: "N",
    absent: appDefaults.maxQueue,
    help: "Requests that may wait; one more is answered 429.",
    read: integer(0, 1_000_000),
  },
  "--request-timeout": {
    value: "SECONDS",
    absent: undefined,
    help: "The longest a request may take, from its arrival to its end.",
    read: seconds,
  },
  "--header-timeout": {
    value: "SECONDS",
    absent: defaultTimeouts.header / 1000,
    help: "How long a client may take to send a request's headers, from connecting.",
    read: seconds,
  },
  "--body-timeout": {
    value: "SECONDS",
    absent: defaultTimeouts.body / 1000,
    help: "How long a client may take to send a request's body, after the headers.",
    read: seconds,
  },
  "--idle-timeout": {
    value: "SECONDS",
    absent: defaultTimeouts.idle / 1000,
    help: "How long an idle keep-alive connection stays open.",
    read: seconds,
  },
  "--write-timeout": {
    value: "SECONDS",
    absent: defaultTimeouts.write / 1000,
    help: "Closes a connection whose client has read nothing for this long.",
    read: seconds,
  },
  "--shutdown-timeout": {
    value: "SECONDS",
    absent: 30,
    help: "How long running requests may go on after Ctrl-C, SIGTERM or SIGHUP; a second signal ends at once.",
    read: seconds,
  },
  "--keep-alive": {
    value: "SECONDS",
    absent: defaultTimeouts.keepAlive / 1000,
    help: "How long a stream may be silent before a keep-alive comment or empty delta is sent.",
    read: seconds,
  },
} as const satisfies Record<string, Option>

export const chatOptions = {
  ...modelOptions,
  "--log-level": { ...modelOptions["--log-level"], absent: "warn" },
  "--system": {
    value: "TEXT",
    absent: undefined,
    help: "The system message.",
    read: text,
  },
  ...samplingOptions,
  "--generation-defaults": { ...serveOptions["--generation-defaults"], absent: "model" },
  "--speculative-mode": serveOptions["--speculative-mode"],
  "--additional-models": serveOptions["--additional-models"],
  "--stats": {
    absent: false,
    help: "Prints on stderr after each answer its speed and how many proposed tokens were accepted.",
    read: flag,
  },
} as const satisfies Record<string, Option>

export const runOptions = {
  ...chatOptions,
  "--image": {
    value: "FILE",
    many: true,
    absent: [] as string[],
    shown: "none",
    help: "An image that the prompt is about, for a model that sees: PNG, JPEG, WebP or GIF. Given several times, they come in that order, ahead of recordings.",
    read: text,
  },
  "--audio": {
    value: "FILE",
    many: true,
    absent: [] as string[],
    shown: "none",
    help: `A recording that the prompt is about, for a model that hears: ${FORMATS}. Given several times, they come in that order.`,
    read: text,
  },
} as const satisfies Record<string, Option>

export const embedOptions = {
  ...modelOptions,
  "--log-level": chatOptions["--log-level"],
  "--dimensions": {
    value: "N",
    absent: undefined,
    shown: "all",
    help: "How many of the first numbers are kept, at unit length again; of use where the model was trained so.",
    read: integer(1),
  },
  "--prompt": {
    value: "NAME",
    absent: undefined,
    shown: "none",
    help: "Which of the prompts in the model's config_sentence_transformers.json stands before each text: query, say.",
    read: text,
  },
} as const satisfies Record<string, Option>

export const batchOptions = {
  ...modelOptions,
  "--log-level": chatOptions["--log-level"],
  "--input": {
    value: "FILE",
    absent: undefined,
    shown: "stdin",
    help: "The file of requests.",
    read: text,
  },
  "--output": {
    value: "FILE",
    absent: undefined,
    shown: "stdout",
    help: "The file of answers, which must not be there yet.",
    read: text,
  },
  "--resume": {
    absent: false,
    help: "Goes on with the file of answers that an earlier run has begun: what it has answered is not asked again.",
    read: flag,
  },
  "--mode": { ...serveOptions["--mode"], absent: "server" },
  "--served-model-name": serveOptions["--served-model-name"],
  "--generation-defaults": serveOptions["--generation-defaults"],
  "--reasoning": serveOptions["--reasoning"],
  "--tool-format": serveOptions["--tool-format"],
  "--lora-modules": serveOptions["--lora-modules"],
  "--max-body": serveOptions["--max-body"],
  "--speculative-mode": serveOptions["--speculative-mode"],
  "--additional-models": serveOptions["--additional-models"],
} as const satisfies Record<string, Option>

const firstTarget = libraryTargets[0]!

/** What stands behind a target's name and a colon. */
const architectures = Object.fromEntries(
  libraryTargets.flatMap((name) => {
    const kind = targets[name].library!.architectures
    return kind ? [[name, kind]] : []
  }),
)
const named = Object.entries(architectures).map(([name, { example }]) => `${name}:${example}`)

export const compileOptions = {
  "--lora": modelOptions["--lora"],
  "--output": {
    value: "DIR",
    absent: undefined,
    shown: "none; it must be given",
    help: "The folder to write; it must be empty or not exist. With --library-only, the folder that gets lib/.",
    read: text,
  },
  "--quantization": {
    ...modelOptions["--quantization"],
    help: `The number format of the weights: ${formatNames.join(", ")}. The tower of a model that sees stays in the one that it is stored in.`,
  },
  "--target": {
    value: "LIST",
    absent: [{ name: firstTarget, variants: [] }],
    shown: firstTarget,
    help: `What to compile for, one or several separated by commas: ${explained(libraryTargets)}. An architecture behind a name, as in ${named.join(" or ")}, adds its code, so that the driver has nothing to compile there; other devices of the kind are served by the same library.`,
    read: variantsOf(libraryTargets, architectures),
  },
  "--overrides": {
    ...modelOptions["--overrides"],
    help: `Fields that are compiled in, as "field=value;field=value": ${compiledNames}.`,
    read: compiledOverrides,
  },
  "--base": {
    value: "MODEL",
    absent: undefined,
    shown: "none: a whole model is compiled",
    help: "The model that these EAGLE or Medusa heads were trained for, when MODEL is a folder of heads.",
    read: text,
  },
  "--weights-only": {
    absent: false,
    help: "Weights, configuration and tokenizer, no library: needs no C compiler.",
    read: flag,
  },
  "--library-only": {
    absent: false,
    help: "The library alone.",
    read: flag,
  },
  "--dump": {
    value: "DIR",
    absent: undefined,
    help: "Leaves graph, passes, plan and emitted sources there, as readable files.",
    read: text,
  },
} as const satisfies Record<string, Option>

export const inspectOptions = {
  "--lora": modelOptions["--lora"],
  "--show": {
    value: "PART",
    absent: "summary",
    help: "summary, config, parameters, graph, plan, source (what is compiled: C, or kernels and the tape of their launches), library (its manifest) or origin (what a compiled folder says of its making).",
    read: oneOf("summary", "config", "parameters", "graph", "plan", "source", "library", "origin"),
  },
  "--tower": {
    absent: false,
    help: "Shows the tower that reads a model's images instead of its text model; of a model that only hears, the one that reads recordings.",
    read: flag,
  },
  "--audio-tower": {
    absent: false,
    help: "Shows the tower that reads a model's recordings instead of its text model.",
    read: flag,
  },
  "--quantization": compileOptions["--quantization"],
  "--json": {
    absent: false,
    help: "Prints the part as JSON.",
    read: flag,
  },
  "--target": {
    value: "TARGET",
    absent: firstTarget,
    help: `What source and library are shown for: ${libraryTargets.join(", ")}.`,
    read: oneOf(...libraryTargets),
  },
  "--overrides": {
    ...compileOptions["--overrides"],
    help: `What is shown with other fields, as "field=value;field=value": ${compiledNames}, and max_image_patches.`,
    read: shownOverrides,
  },
} as const satisfies Record<string, Option>

export const devicesOptions = {
  "--json": {
    absent: false,
    help: "Prints the same as JSON.",
    read: flag,
  },
  "--check": {
    absent: false,
    help: "Runs kernels on every GPU that can be used, each on up to 20 shapes, and says of each whether its results are right: a table to send with a report.",
    read: flag,
  },
  "--driver-timeout": {
    value: "SECONDS",
    absent: DRIVER_MILLISECONDS / 1000,
    help: "How long a driver may take to answer before it is given up.",
    read: seconds,
  },
} as const satisfies Record<string, Option>

export const psOptions = {
  "--url": {
    value: "URL",
    absent: `http://${defaultHttpOptions.host}:8000`,
    help: "Where the server answers.",
    read: address,
  },
  "--api-key": {
    value: "KEYS",
    absent: [],
    shown: "none",
    help: "The keys that it requires, or one of them: the first is sent.",
    read: list,
  },
} as const satisfies Record<string, Option>

export const pruneOptions = {
  "--max-size": {
    value: "BYTES",
    absent: undefined,
    help: "Removes the least recently used until the rest is no larger than this.",
    read: bytes,
  },
  "--older-than": {
    value: "AGE",
    absent: undefined,
    help: "Removes what has not been used for so long, in days or hours: 30d, 12h.",
    read: age,
  },
} as const satisfies Record<string, Option>

/** Of all commands. */
export const allTables: readonly Readonly<Record<string, Option>>[] = [
  serveOptions,
  chatOptions,
  runOptions,
  embedOptions,
  batchOptions,
  compileOptions,
  inspectOptions,
  devicesOptions,
  psOptions,
  pruneOptions,
]

/** What a model may be called. */
export const MODEL_HELP =
  "a model folder or a GGUF file, the name of one, ORG/NAME[@REVISION][:FILE] of the Hugging Face hub, which is downloaded, or ollama:NAME[:TAG] of Ollama's store"

/** What is done with models of the hub, by their names alone; none takes an option. */
export const modelCommands = {
  pull: "Download a model of the hub, or what is new of it.",
  show: "Show the files of a downloaded model.",
  rm: "Remove a downloaded model.",
} as const

/** The default as help and documents print it. */
export function printedDefault({ absent, shown }: Option): string {
  if (shown !== undefined) return shown
  if (absent === undefined) return "none"
  return absent === false ? "off" : String(absent as string | number)
}
