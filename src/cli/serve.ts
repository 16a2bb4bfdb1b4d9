// `sinter serve MODEL...`: opens the port, loads the models, says what it chose, and serves until a signal. What it says for
// people goes to stdout; the log goes to stderr.

import { networkInterfaces } from "node:os"
import { findServed } from "../app/find-model.ts"
import { createApp, type Ready, type Summary } from "../app.ts"
import type { Chosen, EngineLimits, MemoryShares } from "../engine/limits.ts"
import { version } from "../version.ts"
import { GiveBack } from "../worker/give-back.ts"
import { residentSize } from "../worker/resident-size.ts"
import { choicesOf, draftingOf, openingOf } from "./opening.ts"
import type { serveOptions } from "./options.ts"
import type { Values } from "./read-options.ts"
import { endNow, endSignal } from "./signals.ts"
import { refuse } from "./values.ts"

type Options = Values<typeof serveOptions>

export async function serve(given: readonly string[], options: Options): Promise<void> {
  const begun = performance.now()
  const opening = openingOf(options)
  const models = await findServed(given, opening.log)
  if (models.length > 1) refuseForOne(options)
  const end = endSignal()
  speakToNobody()
  const starting = createApp({
    ...opening,
    model: models,
    maxLoaded: options["--max-loaded"],
    idleUnload: options["--idle-unload"] && options["--idle-unload"] * 1000,
    mode: options["--mode"],
    servedName: options["--served-model-name"],
    choices: choicesOf(options),
    drafting: draftingOf(options),
    toolFormat: options["--tool-format"],
    generationDefaults: options["--generation-defaults"],
    maxQueue: options["--max-queue"],
    tracing: options["--enable-tracing"],
    requestTimeout: options["--request-timeout"] && options["--request-timeout"] * 1000,
    http: {
      host: options["--host"],
      allowedHosts: options["--allowed-hosts"],
      apiKeys: options["--api-key"],
      apiKeyFile: options["--api-key-file"],
      tls: tls(options),
      cors: cors(options),
      dialect: options["--api-dialect"],
      reasoning: options["--reasoning"],
      toolText: options["--tool-text"],
      maxBody: options["--max-body"],
      maxConnections: options["--max-connections"],
      metricsCompat: options["--metrics-compat"],
      openMetrics: options["--open-metrics"],
      timeouts: {
        header: options["--header-timeout"] * 1000,
        body: options["--body-timeout"] * 1000,
        idle: options["--idle-timeout"] * 1000,
        write: options["--write-timeout"] * 1000,
        keepAlive: options["--keep-alive"] * 1000,
      },
    },
    activity: new GiveBack(),
  })
  const app = await Promise.race([starting, end])
  if (!app) return endNow() // nothing is open yet that outlives the process
  try {
    const port = await app.listen(options["--port"])
    console.log(addresses(options, port))
    const ready = await Promise.race([app.ready, end])
    if (!ready) return
    for (const summary of ready.summaries) console.log(startUpTable(summary))
    const later = models.length - ready.summaries.length
    if (later > 0)
      console.log(`  ${later} more of ${models.length} models when they are asked for\n`)
    console.log(
      `ready in ${((performance.now() - begun) / 1000).toFixed(1)} s, ${inUse(ready)}; Ctrl-C ends`,
    )
    const lost = await Promise.race([end, app.lost])
    if (lost) {
      console.error(`sinter: ${lost.message}`)
      process.exitCode = 1
    }
  } finally {
    await app.close(options["--shutdown-timeout"] * 1000)
  }
}

/** What is said of one model, and means nothing of several. */
function refuseForOne(options: Options): void {
  const names = ["--model-lib", "--served-model-name"] as const
  const said = names.find((name) => options[name] !== undefined)
  if (said) refuse(said, "belongs to one model, and several are to be served; leave it out.")
  if (options["--lora"].length > 0)
    refuse(
      "--lora",
      "belongs to one model, and several are to be served; name the adapters as models.",
    )
  if (options["--lora-modules"].length > 0)
    refuse(
      "--lora-modules",
      "belongs to one model, and several are to be served; serve that one by itself.",
    )
  const mmproj = options["--mmproj"]
  if (mmproj !== undefined && mmproj !== "none")
    refuse(
      "--mmproj",
      "belongs to one model, and several are to be served; put it into the model's folder, where it is found.",
    )
  if (options["--metrics-compat"] !== "none")
    refuse("--metrics-compat", "tells of one model, and several are to be served; leave it out.")
}

/** A server goes on when its words cannot be written: whoever read them has left, or the disk is full. */
function speakToNobody(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.removeAllListeners("error").on("error", () => {})
  }
}

function tls({ "--tls-cert": cert, "--tls-key": key }: Options) {
  if (cert !== undefined && key !== undefined) return { cert, key }
  if (cert !== undefined) refuse("--tls-cert", "needs its key; add --tls-key.")
  if (key !== undefined) refuse("--tls-key", "needs its certificate; add --tls-cert.")
  return undefined
}

/** Cross-origin headers are sent once any of their options is given; what is left open then allows all. */
function cors(options: Options) {
  const credentials = options["--allow-credentials"]
  const origins = options["--allowed-origins"]
  const methods = options["--allowed-methods"]
  const headers = options["--allowed-headers"]
  if (!credentials && !origins && !methods && !headers) return undefined
  return {
    credentials,
    origins: origins ?? ["*"],
    methods: methods ?? ["*"],
    headers: headers ?? ["*"],
  }
}

/** Of all addresses of a machine, those that can be opened are said: here, and from elsewhere. */
function addresses({ "--host": host, "--tls-cert": cert }: Options, port: number): string {
  const scheme = cert === undefined ? "http" : "https"
  const isEverywhere = host === "0.0.0.0" || host === "::"
  const [here, ...elsewhere] = (isEverywhere ? ["127.0.0.1", ...ownAddresses()] : [host]).map(
    (name) => `${scheme}://${name.includes(":") ? `[${name}]` : name}:${port}`,
  )
  return `sinter ${version}

  ${here}/v1         the API
  ${here}/openai/v1  the same, always in OpenAI's shapes
  ${here}/docs       try it
  ${here}/           chat
${elsewhere.map((base) => `  ${base}/v1         from other machines\n`).join("")}`
}

function ownAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flatMap((entries) => entries ?? [])
    .filter(({ family, internal }) => family === "IPv4" && !internal)
    .map(({ address }) => address)
}

function startUpTable(summary: Summary): string {
  const { mode, limits, memoryOf } = summary
  const { context, sequences, total, program, drafts, memory } = limits
  const rows = [
    [
      "model",
      `${summary.name}: ${summary.architecture}, ${millions(summary.parameters)} parameters, ${summary.format}`,
    ],
    ["folder", summary.folder + packed(summary)],
    ...summary.adapters.map((path) => ["changed by", path]),
    ...summary.choices.map(({ name, adapter }) => ["adapter", `${name}: ${adapter}`]),
    ["device", `${devicesOf(summary)}, target ${summary.target}`],
    ["program", summary.program],
    ["mode", mode],
    ["sequences", `${count(sequences)} at once (${sequences.why})`],
    ["context", `${count(context)} tokens, ${context.why}`],
    ["in all", `${total.value} tokens in ${program.blocks.join(" and ")} blocks (${total.why})`],
    ["prefill", `at most ${promptsOf(limits)}${drafts > 0 ? `, and ${drafts} proposed ones` : ""}`],
    ...(summary.drafting ? [["drafts", summary.drafting]] : []),
    ...(summary.vision ? [["images", summary.vision]] : []),
    ...(summary.hearing ? [["audio", summary.hearing]] : []),
    [
      "memory",
      `weights ${mib(memory.weights)}, KV ${mib(memory.kv)}${perGroup(memory)}, activations ${mib(memory.activations)}, buffers ${mib(memory.buffers)}${memory.draft > 0 ? `, draft ${mib(memory.draft)}` : ""} of ${mib(memory.available)} that may be taken, ${percent(memory.share)} of what ${leftBy[memoryOf]} has left${memory.host ? `; ${mib(memory.host.taken)} of the host's` : ""}`,
    ],
  ]
  return rows.map(([name, value]) => `  ${name!.padEnd(10)} ${value}\n`).join("")
}

/** What the mode or an override wants of a prompt in one step, or what a step has room for. */
function promptsOf({ chunk, program, drafts }: EngineLimits): string {
  const room = program.tokens - drafts
  const { value, why } = chunk.value > room ? { value: room, why: "a step's most" } : chunk
  return `${value} prompt tokens a step (${why})`
}

/** Layers that are kept differently long, where there are such. */
function perGroup({ groups }: MemoryShares): string {
  if (groups.length < 2) return ""
  const parts = groups.map(({ layers, window, isState, bytes }) => {
    if (isState) return `states of ${layers} ${layers === 1 ? "layer" : "layers"}: ${mib(bytes)}`
    const seen = window === undefined ? "all tokens" : `${window} tokens`
    return `${layers} ${layers === 1 ? "layer sees" : "layers see"} ${seen}: ${mib(bytes)}`
  })
  return ` (${parts.join(", ")})`
}

/** What is there now; keys and values take their memory when they are first written. */
function inUse({ weightsFrom }: Ready): string {
  const held = residentSize()
  return `weights from the ${weightsFrom}${held === undefined ? "" : `, ${mib(held)} in use`}`
}

const leftBy = {
  machine: "this machine",
  cgroup: "this process's control group",
  device: "the device",
} as const

const count = ({ value, of }: Chosen) => (of === undefined ? `${value}` : `${value} of ${of}`)
const percent = (share: number) => `${Number((share * 100).toFixed(1))} %`

/** "cuda:0 (NVIDIA H100)", or "cuda:0, cuda:1 (NVIDIA H100) in 2 shards" */
function devicesOf({ device, shards }: Summary): string {
  const names = new Set(shards.map(({ name, id }) => `${name}:${id}`))
  const parts = shards.length > 1 ? ` in ${shards.length} shards` : ""
  return `${[...names].join(", ")} (${device.description})${parts}`
}

function packed({ format, storedFormat }: Summary): string {
  return format === storedFormat ? "" : ` (${storedFormat}, served as ${format})`
}

const millions = (count: number) => `${(count / 1e6).toFixed(count < 1e7 ? 1 : 0)} M`
const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`
