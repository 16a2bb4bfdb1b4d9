// Every error a user can meet, in one table. A row is a sentence with {blanks}; `problem()` fills them and nothing else
// in the product words an error. The HTTP room prints a row as a status and a body, the command line as one line and an
// exit code; docs/errors.md is printed from here. Our own bugs are not rows: they are `new Error("internal: …")`.

interface Row {
  /** HTTP status; start-up errors, which no client ever sees, have 0. */
  status: number
  /** OpenAI's error family, which clients switch on. */
  type:
    | "invalid_request_error"
    | "authentication_error"
    | "rate_limit_error"
    | "server_error"
    | "startup_error"
  /** What is wrong and how to mend it; {name} is filled from the values given. */
  text: string
}

export const errors = {
  // requests
  invalid_value: { status: 400, type: "invalid_request_error", text: "{problem}" },
  invalid_json: {
    status: 400,
    type: "invalid_request_error",
    text: "The body is not valid JSON: {problem}",
  },
  invalid_form: {
    status: 400,
    type: "invalid_request_error",
    text: "The body is not a valid form: {problem}",
  },
  unsupported_value: { status: 400, type: "invalid_request_error", text: "{problem}" },
  context_length_exceeded: {
    status: 400,
    type: "invalid_request_error",
    // Clients, LiteLLM and agents among them, know it by "prompt is too long" where they see no code.
    text: "The prompt has {tokens} tokens; this server reads at most {limit}, so this prompt is too long. {cure}",
  },
  template_failed: {
    status: 400,
    type: "invalid_request_error",
    text: "The model's chat template refuses this conversation: {problem}",
  },
  model_not_found: {
    status: 404,
    type: "invalid_request_error",
    text: "The model {model} is not served here; served: {served}.",
  },
  previous_response_not_found: {
    status: 400,
    type: "invalid_request_error",
    text: "Previous response with id {id} not found; responses are kept in memory, for an hour at most.",
  },
  response_not_found: {
    status: 404,
    type: "invalid_request_error",
    text: "Nothing is kept under {id}; responses are kept in memory, for an hour at most.",
  },
  thread_not_found: {
    status: 404,
    type: "invalid_request_error",
    text: "Nothing is kept under {id}; this server keeps no threads, so send the whole conversation.",
  },
  route_not_found: {
    status: 404,
    type: "invalid_request_error",
    text: "There is no {method} {path}; {cure}.",
  },
  tracing_off: {
    status: 404,
    type: "invalid_request_error",
    text: "Nothing is traced here; start the server with --enable-tracing.",
  },
  invalid_api_key: {
    status: 401,
    type: "authentication_error",
    text: "This server asks for its API key; send it as Authorization: Bearer KEY or as x-api-key: KEY.",
  },
  host_refused: {
    status: 403,
    type: "invalid_request_error",
    text: "This server does not answer to the host name {host}; start it with --allowed-hosts to add one.",
  },
  origin_refused: {
    status: 403,
    type: "invalid_request_error",
    text: "A form from a page of {origin} is not taken; start the server with --allowed-origins to add that origin.",
  },
  method_not_allowed: {
    status: 405,
    type: "invalid_request_error",
    text: "{path} takes {allowed}, not {method}.",
  },
  websocket_unsupported: {
    status: 426,
    type: "invalid_request_error",
    text: "{path} is not served over WebSocket; it takes {allowed}.",
  },
  body_timeout: {
    status: 408,
    type: "invalid_request_error",
    text: "The request's body did not arrive within {seconds} seconds.",
  },
  header_timeout: {
    status: 408,
    type: "invalid_request_error",
    text: "The request's headers did not arrive in time.",
  },
  body_too_large: {
    status: 413,
    type: "invalid_request_error",
    text: "The body has {size} bytes; this server reads at most {most}, which --max-body raises.",
  },
  bodies_full: {
    status: 429,
    type: "rate_limit_error",
    text: "This server has bodies of {held} bytes in memory already, its limit; try again in a moment.",
  },
  unsupported_media_type: {
    status: 415,
    type: "invalid_request_error",
    text: "The body's content type is not understood: {problem}",
  },
  headers_too_large: {
    status: 431,
    type: "invalid_request_error",
    text: "The request's headers are larger than 16 KiB.",
  },
  invalid_http: {
    status: 400,
    type: "invalid_request_error",
    text: "This is not a valid HTTP request: {problem}",
  },
  queue_full: {
    status: 429,
    type: "rate_limit_error",
    text: "{waiting} requests are waiting already and the queue is full; try again in a moment.",
  },
  too_many_connections: {
    status: 503,
    type: "server_error",
    text: "{most} connections are open already, this server's limit (--max-connections); try again in a moment.",
  },
  not_ready: {
    status: 503,
    type: "server_error",
    text: "The server is {state}; try again in a moment.",
  },
  model_unavailable: {
    status: 503,
    type: "server_error",
    text: "The model {model} cannot be loaded now; the server's log says why.",
  },
  generation_failed: {
    status: 500,
    type: "server_error",
    text: "The model failed while generating: {problem}",
  },
  program_lost: {
    status: 503,
    type: "server_error",
    text: "The model's program is lost and this server is shutting down ({problem}); retry with the next one.",
  },
  worker_failed: {
    status: 500,
    type: "server_error",
    text: "The server's {worker} failed on this request: {problem}. It has been replaced; if the request fails again, change it.",
  },
  request_timeout: {
    status: 503,
    type: "server_error",
    text: "The request exceeded this server's limit of {seconds} s (--request-timeout); ask for less, or retry when it is less busy.",
  },
  server_closing: {
    status: 503,
    type: "server_error",
    text: "The server is shutting down; retry with the next one.",
  },
  internal_error: {
    status: 500,
    type: "server_error",
    text: "Internal server error; the server's log has the details under request {request}.",
  },
  // start-up
  model_missing: {
    status: 0,
    type: "startup_error",
    text: "No model {model}: looked in {looked}; {found}.",
  },
  base_missing: {
    status: 0,
    type: "startup_error",
    text: "{adapter} is an adapter of {base}. {problem} Wherever that model is, sinter serve MODEL --lora {adapter} takes both.",
  },
  name_invalid: {
    status: 0,
    type: "startup_error",
    text: "{name} is no name of a model: {problem}.",
  },
  hub_missing: {
    status: 0,
    type: "startup_error",
    text: "No model {model}: it is no path here, and {host} has none of that name that you may see; check its spelling, and if it is private, set HF_TOKEN.",
  },
  hub_revision: {
    status: 0,
    type: "startup_error",
    text: "{model} has no revision {revision} on {host}; its page lists branches and tags.",
  },
  hub_gated: {
    status: 0,
    type: "startup_error",
    text: "{model} is gated: accept its conditions at {page}, then set HF_TOKEN to a token of that account.",
  },
  hub_token: {
    status: 0,
    type: "startup_error",
    text: "{host} does not accept the token of {source}; make a new one at {page}, or take it away to ask without.",
  },
  hub_renamed: {
    status: 0,
    type: "startup_error",
    text: "{model} is called {renamed} now; use that name.",
  },
  hub_unfit: {
    status: 0,
    type: "startup_error",
    text: "{model} holds no model that can be opened: {problem}.",
  },
  hub_choice: {
    status: 0,
    type: "startup_error",
    text: "{model} {problem}; name one as {model}:NAME, of {names}.",
  },
  hub_busy: {
    status: 0,
    type: "startup_error",
    text: "{host} limits how often it is asked; try again in {seconds} seconds{cure}.",
  },
  hub_refused: {
    status: 0,
    type: "startup_error",
    text: "{host} refuses {what}: {problem}.",
  },
  hub_unreachable: {
    status: 0,
    type: "startup_error",
    text: "{host} cannot be reached for {what}: {problem}; check the network and {cure}.",
  },
  hub_absent: {
    status: 0,
    type: "startup_error",
    text: "{model} is not downloaded; sinter list names what is.",
  },
  hub_offline: {
    status: 0,
    type: "startup_error",
    text: "{model} is neither a path here nor downloaded whole, and HF_HUB_OFFLINE forbids asking for it; unset that, or name a folder.",
  },
  download_broken: {
    status: 0,
    type: "startup_error",
    text: "{file} does not arrive as {host} describes it: {problem}; try again later, or from another HF_ENDPOINT.",
  },
  disk_short: {
    status: 0,
    type: "startup_error",
    text: "{what} needs {needed} MiB in {folder}, and {free} MiB are free there; make room, or name another folder in {variable}.",
  },
  model_broken: { status: 0, type: "startup_error", text: "{file}: {problem}" },
  memory_short: {
    status: 0,
    type: "startup_error",
    text: "The model needs at least {needed} MiB (weights {weights}, KV blocks {kv}, activations {activations}, buffers {buffers}); {available} MiB may be taken. {cure}",
  },
  host_memory_short: {
    status: 0,
    type: "startup_error",
    text: "What drafts needs at least {needed} MiB of the host's memory, beside the device's; {available} MiB may be taken. {cure}",
  },
  memory_refused: {
    status: 0,
    type: "startup_error",
    text: "The system has no memory for {what}; lower the limits with --overrides, or serve a smaller format.",
  },
  piece_refused: {
    status: 0,
    type: "startup_error",
    text: 'The model takes {needed} MiB in one piece, and {device} gives at most {largest} MiB at once, however much is free; lower --overrides "prefill_chunk_size=…", serve a smaller format (--quantization), or choose another --device.',
  },
  scratch_refused: {
    status: 0,
    type: "startup_error",
    text: "No temporary folder can be made in {folder} ({problem}); set TMPDIR to a folder that can be written.",
  },
  system_refused: {
    status: 0,
    type: "startup_error",
    text: "The system refused {call}: {problem}.",
  },
  device_missing: {
    status: 0,
    type: "startup_error",
    text: "{asked} {why}; found: {found}. sinter devices lists what is here and why it cannot be used.",
  },
  device_failed: {
    status: 0,
    type: "startup_error",
    text: "The device {device} failed while the model was loaded: {problem}. Update its driver, or choose another --device; sinter devices --check tries it out.",
  },
  library_unusable: {
    status: 0,
    type: "startup_error",
    text: "{file} cannot be used as this model's library: {problem}.",
  },
  compiler_failed: {
    status: 0,
    type: "startup_error",
    text: "{compiler} failed while building {file}: {output}",
  },
  compiler_missing: {
    status: 0,
    type: "startup_error",
    text: "No C compiler is here (looked for {looked}); install gcc or clang, or name one in CC.",
  },
  compiler_unusable: {
    status: 0,
    type: "startup_error",
    text: "CC names {command}, which does not run; unset it, or name a C compiler that does.",
  },
  cuda_compiler_missing: {
    status: 0,
    type: "startup_error",
    text: "No compiler for CUDA is here (looked for {looked}); install NVRTC (of NVIDIA's CUDA toolkit, or of the Python package nvidia-cuda-nvrtc; NVRTC=PATH names it) or clang, or serve a folder that was compiled for cuda elsewhere.",
  },
  rocm_compiler_missing: {
    status: 0,
    type: "startup_error",
    text: "No compiler for ROCm is here, which code for {architecture} takes (looked for HIPRTC and clang); install ROCm, or clang and lld, or name rocm alone: its driver compiles the kernels.",
  },
  option_invalid: { status: 0, type: "startup_error", text: "{option}: {problem}" },
} as const satisfies Record<string, Row>

export type ErrorCode = keyof typeof errors

/** An error with a row in the table. `param` names the request's field, in the client's own spelling. */
export class Problem extends Error {
  readonly code: ErrorCode
  readonly status: number
  readonly type: Row["type"]
  readonly param: string | undefined
  /** What the sentence's blanks are filled with. */
  readonly values: Readonly<Record<string, string | number>>

  constructor(code: ErrorCode, values: Record<string, string | number>, param?: string) {
    const row: Row = errors[code]
    super(row.text.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name])))
    this.name = "Problem"
    this.code = code
    this.status = row.status
    this.type = row.type
    this.param = param
    this.values = values
  }
}

/** The error `code` with its blanks filled, ready to be thrown. */
export function problem(
  code: ErrorCode,
  values: Record<string, string | number>,
  param?: string,
): Problem {
  return new Problem(code, values, param)
}

/** Errors of the system that are nobody's bug: it has no file, process, thread or memory to give. Any other code is a bug of ours. */
const REFUSALS = new Set(
  "EACCES EAGAIN EBUSY EDQUOT EEXIST EIO EISDIR ELOOP EMFILE ENAMETOOLONG ENFILE ENODEV ENOENT ENOMEM ENOSPC ENOTDIR EPERM EROFS ETXTBSY".split(
    " ",
  ),
)

/** An error of the system as a sentence; undefined for any other. */
export function systemProblem(error: unknown): Problem | undefined {
  const { code, syscall, path } = (error ?? {}) as NodeJS.ErrnoException
  if (!code || !syscall || !REFUSALS.has(code)) return undefined
  const call = path === undefined || syscall.endsWith(path) ? syscall : `${syscall} ${path}`
  return problem("system_refused", { call, problem: systemWords(error as Error) })
}

/** That a file which somebody named cannot be read, why, and what to do about it: the words of a sentence, without its full stop. */
export function unreadable(path: string, error: unknown): string {
  return `${printable(path)} cannot be read: ${whyUnreadable(error)}`
}

export function whyUnreadable(error: unknown): string {
  return CURES[(error as NodeJS.ErrnoException).code ?? ""] ?? systemWords(error as Error)
}

const CURES: Partial<Record<string, string>> = {
  ENOENT: "there is no such file; check its path",
  ENOTDIR: "there is no such file; check its path",
  EACCES: "this user may not read it; give it other permissions or another owner",
  EISDIR: "it is a folder; name a file",
}

/** The system's own words for its error. */
export function systemWords({ code, message }: NodeJS.ErrnoException): string {
  const [, words = "no more of them can be had"] = /^E[A-Z]+: ([^,]+)/.exec(message) ?? []
  return `${words} (${code})`
}

/** A stranger's words as they may stand in a sentence: nothing in them ends its line or moves a terminal's cursor. */
export function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  )
}
