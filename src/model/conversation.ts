// The conversation templates of MLC folders, as Jinja: separators and role names in a small table instead of a program. The
// rendering is that of MLC's conversation_protocol.py: the system text, then each message as role, separator, content,
// separator, and at the end the assistant's role. Read only when a folder has no Jinja template of its own.

import type { Fields } from "./fields.ts"

interface Conversation {
  systemTemplate: string // with {system_message}
  systemMessage: string // when the conversation brings none
  roles: Readonly<Record<string, string>>
  roleTemplates: Readonly<Record<string, string>> // with {user_message} and the like
  seps: readonly string[] // after every message, or after users' and after assistants'
  roleContentSep: string
  roleEmptySep: string
  /** false: the first turn has no role in front when there is a system text. */
  addRoleAfterSystem: boolean
}

const base: Conversation = {
  systemTemplate: "{system_message}",
  systemMessage: "",
  roles: { user: "", assistant: "" },
  roleTemplates: {},
  seps: [""],
  roleContentSep: "",
  roleEmptySep: "",
  addRoleAfterSystem: true,
}

const chatml: Conversation = {
  ...base,
  systemTemplate: "<|im_start|>system\n{system_message}<|im_end|>\n",
  roles: { user: "<|im_start|>user", assistant: "<|im_start|>assistant", tool: "<|im_start|>user" },
  seps: ["<|im_end|>\n"],
  roleContentSep: "\n",
  roleEmptySep: "\n",
}

const llama3: Conversation = {
  ...base,
  systemTemplate: "<|start_header_id|>system<|end_header_id|>\n\n{system_message}<|eot_id|>",
  systemMessage: "You are a helpful, respectful and honest assistant.",
  roles: {
    user: "<|start_header_id|>user",
    assistant: "<|start_header_id|>assistant",
    tool: "<|start_header_id|>ipython",
  },
  seps: ["<|eot_id|>"],
  roleContentSep: "<|end_header_id|>\n\n",
  roleEmptySep: "<|end_header_id|>\n\n",
}

/** Older folders give only a name; these are the ones that the architectures here were published with. */
const named = {
  LM: base,
  chatml,
  qwen2: { ...chatml, systemMessage: "You are a helpful assistant." },
  qwen3: { ...chatml, systemMessage: "You are a helpful assistant." },
  "llama-3": llama3,
  "llama-3_1": { ...llama3, systemMessage: "You are a helpful assistant." },
  mistral_default: {
    ...base,
    systemTemplate: "[INST] {system_message}",
    systemMessage: "Always assist with care, respect, and truth.",
    roles: { user: "[INST]", assistant: "[/INST]", tool: "[INST]" },
    seps: [" ", "</s>"],
    roleContentSep: " ",
    addRoleAfterSystem: false,
  },
  "llama-2": {
    ...base,
    systemTemplate: "[INST] <<SYS>>\n{system_message}\n<</SYS>>\n\n",
    systemMessage: "You are a helpful, respectful and honest assistant.",
    roles: { user: "[INST]", assistant: "[/INST]", tool: "[INST]" },
    seps: [" ", " </s><s>"],
    roleContentSep: " ",
    roleEmptySep: " ",
    addRoleAfterSystem: false,
  },
} as const satisfies Record<string, Conversation>

/** The Jinja template of a `conv_template`, an object or a name; nothing when there is none. */
export function conversationTemplate(config: Fields, prefix: string): string | undefined {
  const given = config.json.conv_template
  if (typeof given !== "string") {
    const fields = config.object("conv_template")
    return fields && jinja(readConversation(fields), prefix)
  }
  if (Object.hasOwn(named, given)) return jinja(named[given as keyof typeof named], prefix)
  throw config.wrong(
    "conv_template",
    `is "${given}"; known by name: ${Object.keys(named).join(", ")}`,
  )
}

/** Tokens that end an answer in an MLC folder: those of the template. */
export function conversationStops(config: Fields, vocabulary: number): number[] {
  if (typeof config.json.conv_template === "string") return []
  return config.object("conv_template")?.tokens("stop_token_ids", vocabulary) ?? []
}

/** The tokens that MLC puts before every prompt. */
export function conversationPrefix(config: Fields, vocabulary: number): number[] {
  if (typeof config.json.conv_template === "string") return []
  return config.object("conv_template")?.tokens("system_prefix_token_ids", vocabulary) ?? []
}

function readConversation(fields: Fields): Conversation {
  const texts = (name: string) => {
    const object = fields.object(name)
    return Object.fromEntries(
      Object.keys(object?.json ?? {}).map((key) => [key, object!.text(key)]),
    )
  }
  return {
    systemTemplate: fields.text("system_template", base.systemTemplate),
    systemMessage: fields.text("system_message", ""),
    roles: texts("roles"),
    roleTemplates: texts("role_templates"),
    seps: fields.has("seps") ? fields.texts("seps") : base.seps,
    roleContentSep: fields.text("role_content_sep", ""),
    roleEmptySep: fields.text("role_empty_sep", ""),
    addRoleAfterSystem: fields.flag("add_role_after_system_message", true),
  }
}

function jinja(conversation: Conversation, prefix: string): string {
  const { systemTemplate, systemMessage, roles, roleTemplates, seps } = conversation
  const [before, after] = halves(systemTemplate, "{system_message}")
  const turn = (role: string) => {
    const [open, close] = halves(roleTemplates[role] ?? "", `{${role}_message}`)
    const header = quoted((roles[role] ?? roles.user ?? "") + conversation.roleContentSep)
    const sep = quoted(close + (role === "assistant" ? seps.at(-1)! : seps[0]!))
    return `{{ (${header} if named else '') + ${quoted(open)} + (message.content or '') + ${sep} }}`
  }
  const always = conversation.addRoleAfterSystem
  return [
    quoted(prefix) === "''" ? "" : `{{ ${quoted(prefix)} }}`,
    `{%- set told = messages and messages[0].role == 'system' -%}`,
    `{%- set system = messages[0].content if told else ${quoted(systemMessage)} -%}`,
    `{%- if system %}{{ ${quoted(before)} + system + ${quoted(after)} }}{% endif -%}`,
    `{%- for message in (messages[1:] if told else messages) -%}`,
    `{%- set named = ${always ? "true" : "not (loop.first and system)"} -%}`,
    `{%- if message.role == 'assistant' %}${turn("assistant")}`,
    `{%- elif message.role == 'tool' %}${turn("tool")}`,
    `{%- elif message.role == 'user' %}${turn("user")}`,
    `{%- else %}{{ raise_exception('system messages come first') }}{% endif -%}`,
    `{%- endfor -%}`,
    `{%- if add_generation_prompt %}{{ ${quoted((roles.assistant ?? "") + conversation.roleEmptySep)} }}{% endif -%}`,
  ].join("")
}

/** What stands before and behind the place in a text where something belongs. */
function halves(text: string, place: string): [string, string] {
  const at = text.indexOf(place)
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + place.length)]
}

function quoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`
}
