// Templates that refuse what every client sends, in the ways of published ones, and what they are then given: the text of a
// conversation that was written as they want it.

import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { turnsUntil } from "../../test/loop-turns.ts"
import type { ChatMessage, Tool } from "./conversation.ts"
import { formats } from "./formats/formats.ts"
import { preparePrompt } from "./prompt.ts"
import { openTemplate } from "./template.ts"

const llama3: { chat_template: string } = JSON.parse(
  readFileSync(
    new URL("../../test/golden/tokenizers/llama3/tokenizer_config.json", import.meta.url),
    "utf8",
  ),
)

async function textOf(source: string, messages: readonly ChatMessage[], tools?: readonly Tool[]) {
  const specialTokens = { bos_token: "<s>", eos_token: "</s>" }
  const template = openTemplate(source, "f", { specialTokens, now: new Date(0) })
  let text = ""
  const request = { messages, templateArguments: {}, ...(tools && { tools }) }
  await preparePrompt(request, template, formats.json, async ({ value }) => {
    text = value
    return new Int32Array()
  })
  return text
}

const user = (content: string): ChatMessage => ({ role: "user", content })
const system = (content: string): ChatMessage => ({ role: "system", content })
const result = (toolCallId: string, content: string): ChatMessage => ({
  ...{ role: "tool", content, toolCallId },
})
const calls = (content: string | null, ...ids: string[]): ChatMessage => ({
  ...{ role: "assistant", content },
  toolCalls: ids.map((id) => ({ id, name: "f", arguments: `{"of": "${id}"}` })),
})

const CALLS =
  "{% if m.tool_calls %}{% for c in m.tool_calls %}({{ c.function.name }} {{ c.function.arguments | tojson }}){% endfor %}{% endif %}"
const show = (refusals: string) =>
  `{% for m in messages %}${refusals}[{{ m.role }}] {{ m.content }}${CALLS}\n{% endfor %}`
const refused = (condition: string) => `{% if ${condition} %}{{ raise_exception("no") }}{% endif %}`

/** As Mistral's: the turns of users and of answers without calls alternate. */
const alternating = `{% set ns = namespace(n=0) %}${show(
  `{% if m.role == 'user' or m.role == 'assistant' and not m.tool_calls %}${refused("(m.role == 'user') != (ns.n % 2 == 0)")}{% set ns.n = ns.n + 1 %}{% endif %}`,
)}`

test.each<[string, string, ChatMessage[], ChatMessage[]]>([
  [
    "a content of null is none",
    show("{% if '</think>' in m.content %}{% endif %}"),
    [user("a"), calls(null, "1"), result("1", "r")],
    [user("a"), calls("", "1"), result("1", "r")],
  ],
  [
    "a user's text behind a result belongs to it",
    alternating,
    [user("a"), calls("", "1", "2"), result("1", "r"), result("2", "s"), user("b")],
    [user("a"), calls("", "1", "2"), result("1", "r"), result("2", "s\n\nb")],
  ],
  [
    "neighbours of one role are one turn",
    alternating,
    [user("a"), user("b"), { role: "assistant", content: "c" }, user("d")],
    [user("a\n\nb"), { role: "assistant", content: "c" }, user("d")],
  ],
  [
    "what the system says goes before the first turn of the user",
    show(refused("m.role == 'system'")),
    [system("s"), user("a"), system("t")],
    [user("s\n\nt\n\na")],
  ],
  [
    "two of these at once",
    `${show(refused("m.role == 'system'"))}${refused("messages[0].content == messages[1].content")}{% if '' in messages[1].content %}{% endif %}`,
    [system("s"), user("a"), calls(null, "1"), result("1", "r")],
    [user("s\n\na"), calls("", "1"), result("1", "r")],
  ],
])("%s", async (_, source, given, wanted) => {
  const text = await textOf(source, wanted)
  expect(await textOf(source, given)).toBe(text)
})

const othersOf = show("{% if m.role == 'system' %}{% continue %}{% endif %}")

/** As gpt-oss' and SmolLM3's. */
const firstSystem = `{% if messages[0].role == 'system' %}({{ messages[0].content }}){% endif %}${othersOf}`

/** As DeepSeek R1's distillates'. */
const lastSystem = `{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.s = m.content %}{% endif %}{% endfor %}({{ ns.s }})${othersOf}`

/** As Qwen 3.5's. */
const systemFirst = show(refused("m.role == 'system' and not loop.first"))

test.each([
  ["reads the first message of the system alone", firstSystem],
  ["reads the last alone", lastSystem],
  ["refuses any but the first", systemFirst],
])("a template that %s is shown what the system says later where it stands", async (_, source) => {
  const asked = [user("a"), calls("", "1"), result("1", "r")]
  const given = [system("One."), system("Two."), ...asked, system("Three."), user("b")]
  const wanted = [system("One.\n\nTwo."), ...asked, user("Three."), user("b")]
  const text = await textOf(source, wanted)
  expect(text).toContain("[user] Three.")
  expect(await textOf(source, given)).toBe(text)
  const begun = await textOf(source, given.slice(0, -2))
  expect(text.startsWith(begun), "what was read before stays as it was").toBe(true)
})

test("tools that are told in words, which the system's first message has, stay where a later one hides it", async () => {
  const given = [system("One."), user("a"), system("Two.")]
  const text = await textOf(lastSystem, given, [tool({ description: "d" })])
  expect(text).toMatch(/^\(One\.\n\nYou can call these functions[\s\S]*\[user\] Two\./)
})

test("a template that takes words out of what the system says is left alone", async () => {
  const source = `({{ messages[0].content | replace("/no_think", "") }})${othersOf}`
  expect(await textOf(source, [system("Be brief. /no_think"), user("a")])).toBe(
    "(Be brief. )[user] a",
  )
})

test("Llama 3.1's template is shown calls one by one, each before its own result", async () => {
  const { chat_template: source } = llama3
  const given = [
    ...[user("a"), calls("both", "1", "2"), result("2", "s"), result("1", "r"), user("b")],
    ...[calls(null, "3", "4")],
  ]
  const wanted = [
    ...[user("a"), calls("both", "1"), result("1", "r"), calls("", "2"), result("2", "s")],
    ...[user("b"), calls("", "3"), calls("", "4")],
  ]
  const text = await textOf(source, wanted)
  expect(text).toContain('{"of": "2"}')
  expect(await textOf(source, given)).toBe(text)
})

const tool = (definition: object): Tool => {
  const own = { type: "function", function: { name: "f", ...definition } }
  return { name: "f", definition: own } as unknown as Tool
}

test("tools without a description or properties have empty ones, and are told in words if need be", async () => {
  const source = `{% for t in tools %}{{ t.function.name + t.function.description }}{% for p in t.function.parameters.properties %}{{ p }}{% endfor %}\n{% endfor %}${show("")}`
  const asked = [user("a")]
  expect(await textOf(source, asked, [tool({})])).toBe("f[user] a")
  expect(await textOf(source, asked, [tool({ description: "d" })])).toBe("fd[user] a")
  const parameters = { type: "object", properties: { x: {} } }
  expect(await textOf(source, asked, [tool({ parameters })])).toBe("fx[user] a")
  const never = `{% if tools %}{{ raise_exception("no") }}{% endif %}${source}`
  expect(await textOf(never, asked, [tool({})])).toMatch(/^\[system\] You can call these functions/)
})

test("what no concession helps is refused in the template's first words, and one without an end is not asked again", async () => {
  const first = `{{ raise_exception("it is " ~ messages[0].content) }}`
  await expect(textOf(first, [user("a"), user("b")])).rejects.toThrow("it is a")
  const endless = `{% if messages | length == 2 %}{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}{% endif %}joined`
  await expect(textOf(endless, [user("a"), user("b")])).rejects.toThrow("without an end")
})

test("others have their turn between the times that a template is asked", async () => {
  const refusing = `{% if tools or messages[0].tool_calls %}{% endif %}{{ raise_exception("no") }}`
  const messages = [system("s"), user("a"), user("b"), calls(null, "1", "2"), result("1", "r")]
  const refused = textOf(refusing, messages, [tool({})])
  expect(await turnsUntil(refused)).toBeGreaterThan(15)
  await expect(refused).rejects.toThrow("no")
})
