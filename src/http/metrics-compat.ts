// Our numbers under vLLM's names, so that gateways and dashboards made for vLLM route over these servers unchanged. The
// names and their types are those of https://docs.vllm.ai/en/latest/usage/metrics.html; what they say is read from our own
// page, so that the two cannot differ.

/** Reads one sample of our page: its name, with its labels as they are printed. */
type Read = (sample: string) => number

/** A number computed from ours, or a whole family of ours under another name. */
type Row =
  | { name: string; type: "gauge" | "counter"; help: string; value: (read: Read) => number }
  | { name: string; of: string; label?: [ours: string, theirs: string] }

const vllmRows: readonly Row[] = [
  {
    name: "vllm:num_requests_running",
    type: "gauge",
    help: "Sequences with a place in the steps.",
    value: (read) => read("sinter_running"),
  },
  {
    name: "vllm:num_requests_waiting",
    type: "gauge",
    help: "Requests of which nothing runs yet.",
    value: (read) => read("sinter_waiting"),
  },
  {
    name: "vllm:kv_cache_usage_perc",
    type: "gauge",
    help: "Share of the KV blocks that sequences hold; 1 is all of them.",
    value: (read) => read("sinter_blocks_used") / Math.max(1, read("sinter_blocks")),
  },
  {
    name: "vllm:prompt_tokens_total",
    type: "counter",
    help: "Prompt tokens of finished replies.",
    value: (read) => read('sinter_tokens_total{kind="prompt"}'),
  },
  {
    name: "vllm:generation_tokens_total",
    type: "counter",
    help: "Tokens of finished replies.",
    value: (read) => read('sinter_tokens_total{kind="completion"}'),
  },
  // Printed with and without the ending that Prometheus' own libraries add.
  ...["", "_total"].flatMap((ending): Row[] => [
    {
      name: `vllm:prefix_cache_queries${ending}`,
      type: "counter",
      help: "Prompt tokens looked up in the prefix cache.",
      value: (read) => read("sinter_prompt_tokens_total") + read("sinter_cached_tokens_total"),
    },
    {
      name: `vllm:prefix_cache_hits${ending}`,
      type: "counter",
      help: "Prompt tokens found in the prefix cache.",
      value: (read) => read("sinter_cached_tokens_total"),
    },
  ]),
  { name: "vllm:time_to_first_token_seconds", of: "sinter_time_to_first_token_seconds" },
  { name: "vllm:inter_token_latency_seconds", of: "sinter_inter_token_seconds" },
  { name: "vllm:e2e_request_latency_seconds", of: "sinter_reply_seconds" },
  {
    name: "vllm:request_success_total",
    of: "sinter_replies_total",
    label: ["reason", "finished_reason"],
  },
]

/** @param page our own /metrics  @param model the name that the samples are labelled with */
export function vllmNames(page: string, model = "", adapters: readonly string[] = []): string {
  const samples = new Map<string, number>()
  for (const [, sample, value] of page.matchAll(/^([^#\s]\S*) (\S+)$/gm)) {
    samples.set(sample!, Number(value))
  }
  const read: Read = (sample) => samples.get(sample) ?? 0
  const label = `model_name=${JSON.stringify(model)}`
  const blocks = `block_size="${read("sinter_block_tokens")}",num_gpu_blocks="${read("sinter_blocks")}"`
  const info = family(
    "vllm:cache_config_info",
    "gauge",
    "How the KV cache is divided; always 1.",
    `vllm:cache_config_info{${blocks},${label}} 1`,
  )
  const running = JSON.stringify(adapters.join(","))
  const choices = `max_lora="${adapters.length}",running_lora_adapters=${running},waiting_lora_adapters=""`
  const lora = family(
    "vllm:lora_requests_info",
    "gauge",
    "The LoRA adapters that requests choose, all of which are in memory; since when, in Unix time.",
    `vllm:lora_requests_info{${choices},${label}} ${read("process_start_time_seconds")}`,
  )
  return info + lora + vllmRows.map((row) => printed(row, page, read, label)).join("")
}

function printed(row: Row, page: string, read: Read, label: string): string {
  if ("value" in row) {
    return family(row.name, row.type, row.help, `${row.name}{${label}} ${row.value(read)}`)
  }
  const [ours, theirs] = row.label ?? ["", ""]
  const lines = page.split("\n").filter((line) => isOf(line, row.of))
  return `${lines
    .map((line) => {
      const named = line.replace(row.of, row.name)
      if (line.startsWith("#")) return named
      const labelled = named.includes("{")
        ? named.replace("{", `{${label},`)
        : named.replace(" ", `{${label}} `)
      return ours ? labelled.replace(`${ours}=`, `${theirs}=`) : labelled
    })
    .join("\n")}\n`
}

/** Whether a line says something of a family: its help, its type, or a sample. */
function isOf(line: string, family: string): boolean {
  const [, name = ""] = /^(?:# \w+ )?(\w+)/.exec(line) ?? []
  return (
    name.startsWith(family) && ["", "_bucket", "_sum", "_count"].includes(name.slice(family.length))
  )
}

function family(name: string, type: string, help: string, sample: string): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${sample}\n`
}
