// The conversations that Mistral's models were taught, as Jinja templates, for folders that bring a tekken.json and no template: its
// version says which. A prompt has the tokens that mistral-common makes of the same messages (normalize.py and instruct.py); with one
// difference: where it refuses a text beside calls (v3) or a message of nothing, that is written as later versions have it.
//
// Messages of one role that follow one another are one, their texts with a blank line between them; what is written of users and of
// answers is therefore kept in `turn` until the last of them.

/** How a version differs from others. */
interface Conversation {
  /** What the system says stands between marks of its own, else ahead of what the user says last. */
  system: "marked" | "in the last user's"
  /** Ahead of which message of the user tools are shown. */
  tools: "first" | "last"
  /** Calls are a list of objects, or name and arguments behind marks, with the call's id or without. */
  calls: "list" | "marked with ids" | "marked"
  /** A result is an object, or a text behind the call's id, or a text alone. */
  results: "object" | "behind its id" | "text"
  /** Results stand in the order of their calls, else as they came. */
  sorts: boolean
}

const v7 = {
  system: "marked",
  tools: "last",
  calls: "list",
  results: "behind its id",
  sorts: false,
} as const satisfies Conversation

export const versions = {
  v3: { ...v7, system: "in the last user's", results: "object" },
  v7,
  v11: { ...v7, calls: "marked with ids", sorts: true },
  v13: { system: "marked", tools: "first", calls: "marked", results: "text", sorts: true },
} as const satisfies Record<string, Conversation>

export type Version = keyof typeof versions

const BASE = ["<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"]
const TOOLS = ["[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"]

/**
 * @param thinks whether the tokenizer has marks for thinking, which only conversations from v13 on show
 * @returns the tokens, too, without which no such conversation can be written
 */
export function tekkenTemplate(
  version: Version,
  thinks: boolean,
): { template: string; marks: readonly string[] } {
  const conversation: Conversation = versions[version]
  const { system, calls, results } = conversation
  const template = lines(
    "{{- bos_token -}}",
    ...places(conversation),
    "{%- for message in messages -%}",
    "{%- set before = '' if loop.first else messages[loop.index0 - 1].role -%}",
    "{%- set after = '' if loop.last else messages[loop.index0 + 1].role -%}",
    "{%- if before != message.role -%}",
    "{%- set turn.text = '' -%}{%- set turn.texts = '' -%}{%- set turn.images = 0 -%}",
    "{%- set turn.ends = '' -%}{%- set turn.thinks = false -%}",
    "{%- set turn.calls = [] -%}{%- set turn.results = [] -%}",
    "{%- endif -%}",
    "{%- if message.role == 'user' -%}",
    ...user(conversation),
    "{%- elif message.role == 'assistant' -%}",
    ...assistant(conversation, thinks && version === "v13"),
    "{%- elif message.role == 'tool' -%}",
    ...tool(conversation),
    "{%- elif message.role == 'system' -%}",
    ...(system === "marked"
      ? ["{{- '[SYSTEM_PROMPT]' + (message.content or '') + '[/SYSTEM_PROMPT]' -}}"]
      : []),
    "{%- else -%}",
    "{{- raise_exception('a message is of the system, the user, the assistant or a tool') -}}",
    "{%- endif -%}",
    "{%- endfor -%}",
  )
  const marks = [
    ...[...BASE, ...TOOLS],
    ...(system === "marked" ? ["[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"] : []),
    ...(results === "behind its id" ? ["[TOOL_CONTENT]"] : []),
    ...(calls === "list" ? [] : ["[ARGS]"]),
    ...(calls === "marked with ids" ? ["[CALL_ID]"] : []),
  ]
  return { template, marks }
}

const lines = (...parts: readonly string[]) => parts.join("\n")

/** Which of the user's messages is the first and which the last, and what the system says in all. */
function places({ system }: Conversation): string[] {
  return [
    "{%- set turn = namespace(first=none, last=none, system='', ids=[]) -%}",
    "{%- for message in messages -%}",
    "{%- set begins = loop.first or messages[loop.index0 - 1].role != message.role -%}",
    "{%- if message.role == 'user' and begins -%}",
    "{%- set turn.first = loop.index0 if turn.first is none else turn.first -%}",
    "{%- set turn.last = loop.index0 -%}",
    "{%- elif message.role == 'system' and message.content -%}",
    "{%- set turn.system = turn.system + ('\\n\\n' if turn.system else '') + message.content -%}",
    "{%- endif -%}",
    "{%- endfor -%}",
    ...(system === "marked" ? [] : emptyUser()),
  ]
}

/** A conversation that does not begin with the user is given an empty message of theirs. */
function emptyUser(): string[] {
  return [
    "{%- set others = messages | rejectattr('role', 'equalto', 'system') | list -%}",
    "{%- if not others or others[0].role != 'user' -%}",
    "{%- if turn.last is none -%}",
    ...shownTools(),
    "{%- endif -%}",
    "{{- '[INST]' + (turn.system + '\\n\\n' if turn.system and turn.last is none else '') + '[/INST]' -}}",
    "{%- endif -%}",
  ]
}

function shownTools(): string[] {
  return [
    "{%- if tools -%}",
    "{{- '[AVAILABLE_TOOLS][' -}}",
    "{%- for tool in tools -%}",
    "{%- set own = tool.function -%}",
    "{%- set shown = {'name': own.name, 'description': own.description or '', 'parameters': own.parameters or {}} -%}",
    "{{- {'type': 'function', 'function': shown} | tojson -}}",
    "{{- '' if loop.last else ', ' -}}",
    "{%- endfor -%}",
    "{{- '][/AVAILABLE_TOOLS]' -}}",
    "{%- endif -%}",
  ]
}

/** An image behind a text, and no other, comes ahead of it. */
function user({ system, tools }: Conversation): string[] {
  const ahead = [
    `{%- if loop.index0 == turn.${tools} -%}`,
    ...shownTools(),
    "{%- endif -%}",
    "{{- '[INST]' -}}",
    ...(system === "marked"
      ? []
      : [
          "{%- if loop.index0 == turn.last and turn.system -%}",
          "{{- turn.system + '\\n\\n' -}}",
          "{%- endif -%}",
        ]),
  ]
  return [
    "{%- if before != 'user' -%}",
    ...ahead,
    "{%- endif -%}",
    "{%- set parts = message.content or '' -%}",
    "{%- for part in ([{'type': 'text', 'text': parts}] if parts is string else parts) -%}",
    "{%- if part.type == 'image' -%}",
    "{%- set turn.images = turn.images + 1 -%}",
    "{%- set turn.text = turn.text + '[IMG]' -%}",
    "{%- set turn.ends = 'image' -%}",
    "{%- elif part.type == 'audio' -%}",
    "{%- set turn.text = turn.text + '[AUDIO]' -%}",
    "{%- set turn.ends = 'audio' -%}",
    "{%- elif part.text -%}",
    ...added("turn.text", "part.text"),
    "{%- set turn.texts = turn.texts + ('\\n\\n' if turn.texts else '') + part.text -%}",
    "{%- endif -%}",
    "{%- endfor -%}",
    "{%- if after != 'user' -%}",
    "{%- set swaps = turn.images == 1 and turn.ends == 'image' -%}",
    "{{- ('[IMG]' + turn.texts if swaps else turn.text) + '[/INST]' -}}",
    "{%- endif -%}",
  ]
}

/** A text behind another, with a blank line between them. */
function added(to: string, text: string): string[] {
  return [
    `{%- set ${to} = ${to} + ('\\n\\n' if turn.ends == 'text' else '') + ${text} -%}`,
    "{%- set turn.ends = 'text' -%}",
  ]
}

function assistant({ calls, results }: Conversation, thinks: boolean): string[] {
  const thinking = [
    "{%- if message.reasoning_content -%}",
    "{%- set turn.text = turn.text + '[THINK]' + message.reasoning_content + '[/THINK]' -%}",
    "{%- set turn.ends = 'thinking' -%}",
    "{%- set turn.thinks = true -%}",
    "{%- endif -%}",
  ]
  const id = results === "text" ? [] : shortId("call.id")
  return [
    ...(thinks ? thinking : []),
    "{%- if message.content -%}",
    ...added("turn.text", "message.content"),
    "{%- endif -%}",
    "{%- for call in message.tool_calls or [] -%}",
    ...id,
    "{%- set turn.calls = turn.calls + [call] -%}",
    "{%- set turn.ids = turn.ids + [call.id] -%}",
    "{%- endfor -%}",
    "{%- if after != 'assistant' -%}",
    "{{- turn.text if turn.thinks else turn.text.rstrip(' ') -}}",
    ...(calls === "list" ? listedCalls() : markedCalls(calls)),
    "{{- eos_token -}}",
    "{%- endif -%}",
  ]
}

const shortId = (id: string) => [
  `{%- if (${id} or '') | length != 9 or not (${id}.isascii() and ${id}.isalnum()) -%}`,
  "{{- raise_exception('ids of calls are nine letters and digits') -}}",
  "{%- endif -%}",
]

const ARGUMENTS = "({} if call.function.arguments == '' else call.function.arguments)"

function listedCalls(): string[] {
  return [
    "{%- if turn.calls -%}",
    "{{- '[TOOL_CALLS][' -}}",
    "{%- for call in turn.calls -%}",
    `{{- {'name': call.function.name, 'arguments': ${ARGUMENTS}, 'id': call.id} | tojson -}}`,
    "{{- '' if loop.last else ', ' -}}",
    "{%- endfor -%}",
    "{{- ']' -}}",
    "{%- endif -%}",
  ]
}

function markedCalls(calls: Conversation["calls"]): string[] {
  const id = calls === "marked" ? "" : " + '[CALL_ID]' + call.id"
  return [
    "{%- for call in turn.calls -%}",
    `{{- '[TOOL_CALLS]' + call.function.name${id} + '[ARGS]' + ${ARGUMENTS} | tojson -}}`,
    "{%- endfor -%}",
  ]
}

function tool({ results, sorts }: Conversation): string[] {
  const id = results === "text" ? [] : shortId("message.tool_call_id")
  const written = (result: string) => {
    const text = `(${result}.content or '')`
    if (results === "text") return [`{{- '[TOOL_RESULTS]' + ${text} + '[/TOOL_RESULTS]' -}}`]
    const named = `${result}.tool_call_id`
    if (results === "behind its id")
      return [
        `{{- '[TOOL_RESULTS]' + ${named} + '[TOOL_CONTENT]' + ${text} + '[/TOOL_RESULTS]' -}}`,
      ]
    return [
      `{%- set content = ${text} or '{}' -%}`,
      `{%- set shown = {'content': content | fromjson | default(content), 'call_id': ${named}} -%}`,
      "{{- '[TOOL_RESULTS]' + shown | tojson + '[/TOOL_RESULTS]' -}}",
    ]
  }
  if (!sorts) return [...id, ...written("message")]
  return [
    ...id,
    "{%- set turn.results = turn.results + [message] -%}",
    "{%- if after != 'tool' -%}",
    "{%- for id in turn.ids | unique(case_sensitive=true) -%}",
    "{%- for result in turn.results if result.tool_call_id == id -%}",
    ...written("result"),
    "{%- endfor -%}",
    "{%- endfor -%}",
    "{%- for result in turn.results if result.tool_call_id not in turn.ids -%}",
    ...written("result"),
    "{%- endfor -%}",
    "{%- set turn.ids = [] -%}",
    "{%- endif -%}",
  ]
}
