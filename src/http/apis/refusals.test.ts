import { expect, test } from "vitest"
import { hi, parrot } from "../../../test/parrot.ts"
import { ChatCompletionRequest } from "./chat/schema.ts"
import { CompletionRequest } from "./completions/schema.ts"
import { unsupported } from "./refusals.ts"

const kinds = {
  chat: { path: "/v1/chat/completions", body: hi, schema: ChatCompletionRequest },
  completions: {
    path: "/v1/completions",
    body: { model: "tiny", prompt: "hi" },
    schema: CompletionRequest,
  },
}

test.each<[keyof typeof kinds | "both", string, unknown]>([
  ["both", "functions", [{ name: "f" }]],
  ["both", "function_call", { name: "f" }],
  ["chat", "suffix", "end"],
  ["both", "best_of", 4],
  ["both", "store", true],
  ["both", "modalities", ["text", "audio"]],
  ["both", "audio", { voice: "x" }],
  ["both", "format", "json"],
  ["both", "stop_sequences", ["x"]],
  ["both", "max_new_tokens", 5],
  ["both", "n_predict", -1],
  ["both", "repeat_penalty", 1.1],
  ["both", "typical_p", 0.9],
  ["both", "mirostat", 2],
  ["both", "top_n_sigma", 1],
  ["both", "logits_processors", ["x"]],
  ["both", "use_beam_search", true],
  ["both", "skip_special_tokens", false],
  ["both", "prompt_logprobs", 0],
  ["both", "think", false],
  ["both", "think", "high"],
  ["both", "enable_thinking", true],
  ["both", "reasoning", { effort: "low" }],
  ["both", "thinking_budget", 100],
  ["both", "chat_template", "{{ messages }}"],
  ["both", "web_search_options", {}],
  ["both", "options", { temperature: 0 }],
  ["both", "system", "Be brief."],
  ["chat", "echo", true],
  ["chat", "prompt", "hi"],
  ["chat", "continue_final_message", true],
  ["chat", "add_generation_prompt", false],
  ["chat", "add_special_tokens", true],
  ["completions", "add_special_tokens", false],
  ["completions", "tools", [{ type: "function", function: { name: "f" } }]],
  ["completions", "max_completion_tokens", 5],
  ["completions", "top_logprobs", 2],
  ["completions", "messages", hi.messages],
])("%s: %s: %j is refused in a sentence that names it", async (which, param, value) => {
  for (const kind of which === "both" ? (["chat", "completions"] as const) : [which]) {
    const { post, asked } = parrot()
    const { path, body } = kinds[kind]
    const answer = await post({ ...body, [param]: value }, {}, path)
    expect(answer.statusCode).toBe(400)
    expect(answer.json().error).toMatchObject({ code: "unsupported_value", param })
    expect(answer.json().message).toMatch(new RegExp(`^${param}: .+[.…]$`))
    expect(asked).toEqual([])
  }
})

/** What clients send that ask for nothing: the neutral values of other servers' defaults. */
const harmless: Record<string, unknown> = {
  functions: [],
  function_call: "none",
  suffix: "",
  best_of: 1,
  store: false,
  modalities: ["text"],
  skip_special_tokens: true,
  include_stop_str_in_output: false,
  repeat_penalty: 1,
  typical_p: 1,
  tfs_z: 1,
  mirostat: 0,
  xtc_probability: 0,
  dry_multiplier: 0,
  top_n_sigma: -1,
  use_beam_search: false,
  do_sample: true,
  format: "",
  thinking_budget: -1,
  continue_final_message: false,
  add_generation_prompt: true,
  plugins: [],
  prompt_logprobs: false,
  reasoning: {},
}

test("none of them is refused where it asks for nothing", async () => {
  const { post } = parrot()
  for (const [kind, { path, body }] of Object.entries(kinds)) {
    for (const { params, by = kind } of unsupported) {
      for (const param of by === kind ? params : []) {
        for (const value of [null, harmless[param] ?? null]) {
          const answer = await post({ ...body, [param]: value }, {}, path)
          expect(answer.statusCode, `${kind} ${param}: ${JSON.stringify(value)}`).toBe(
            value === null && param in body ? 400 : 200,
          )
        }
      }
    }
  }
})

test("a last message of the assistant is continued, whichever of two fields says so", async () => {
  const { post } = parrot()
  const messages = [...hi.messages, { role: "assistant", content: "Once" }]
  const ask = async (fields: object) => (await post({ ...hi, messages, ...fields })).statusCode
  expect(await ask({ continue_final_message: true, add_generation_prompt: false })).toBe(200)
  expect(await ask({ continue_final_message: false })).toBe(400)
  expect(await ask({ add_generation_prompt: true })).toBe(400)
})

test("no row refuses a field that its kind of completion has built", () => {
  const literal = ["best_of", "store"] // in the schemas with the one value that asks for nothing
  for (const [kind, { schema }] of Object.entries(kinds)) {
    const refused = unsupported
      .filter(({ by = kind }) => by === kind)
      .flatMap(({ params }) => params)
    expect(new Set(refused).size, kind).toBe(refused.length)
    const built = refused.filter((param) => Object.hasOwn(schema.properties, param))
    expect(
      built.filter((param) => !literal.includes(param)),
      kind,
    ).toEqual([])
  }
})
