import { describe, expect, test } from "vitest"
import type { Template } from "../template.ts"
import { readCallList, writeCallList } from "./call-list.ts"
import { CallReader, type FormatName, formatOf, formats } from "./formats.ts"
import type { CallPiece } from "./input.ts"

const TOOLS = new Map<string, object>([
  ["get_weather", { properties: { place: { type: "string" } } }],
  ["now", {}],
  ["add-two", {}],
])

interface Read {
  text: string
  calls: { name: string; arguments: string; ended: boolean }[]
  broken: boolean
}

function read(format: FormatName, deltas: readonly string[]): Read {
  const reader = new CallReader(formats[format], TOOLS)
  const pieces: CallPiece[] = [...deltas.flatMap((delta) => reader.push(delta)), ...reader.flush()]
  expect(pieces.reduce((sum, { length }) => sum + length, 0)).toBe(deltas.join("").length)
  const result: Read = { text: "", calls: [], broken: false }
  for (const piece of pieces) {
    const call = result.calls.at(-1)
    if (piece.kind === "text") result.text += piece.text
    if (piece.kind === "call") result.calls.push({ name: piece.name, arguments: "", ended: false })
    if (piece.kind === "arguments") call!.arguments += piece.text
    if (piece.kind === "end") call!.ended = true
    if (piece.kind === "broken") result.broken = true
  }
  return result
}

const weather = {
  name: "get_weather",
  arguments: '{"place": "Köln 🙂 \\"x\\" <tool_call>"}',
  ended: true,
}
const now = { name: "now", arguments: "{}", ended: true }

const cases: [FormatName, string, string, Partial<Read>][] = [
  [
    "hermes",
    "one call",
    `<tool_call>\n{"name": "get_weather", "arguments": ${weather.arguments}}\n</tool_call>`,
    { calls: [weather] },
  ],
  [
    "hermes",
    "text, then two calls",
    `Let me see.\n\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\n<tool_call>{"arguments": ${weather.arguments}, "name": "get_weather"}</tool_call>\n`,
    { text: "Let me see.", calls: [now, weather] },
  ],
  [
    "hermes",
    "text after a call",
    `<tool_call>{"name": "now"}</tool_call> Done. <tool`,
    { text: "Done. <tool", calls: [now] },
  ],
  [
    "hermes",
    "arguments as a string",
    `<tool_call>{"name": "get_weather", "arguments": "{\\"place\\": 1}"}</tool_call>`,
    { calls: [{ ...weather, arguments: '{"place": 1}' }] },
  ],
  [
    "hermes",
    "parameters, null, ids and types",
    `<tool_call>{"id": "x", "type": "function", "function": {"name": "now", "parameters": null}}</tool_call>`,
    { calls: [now] },
  ],
  [
    "hermes",
    "a call nobody offered",
    `a <tool_call>{"name": "rm"}</tool_call> b`,
    { text: `a <tool_call>{"name": "rm"}</tool_call> b`, broken: true },
  ],
  [
    "hermes",
    "a call that is no JSON",
    `<tool_call>now()</tool_call>`,
    { text: `<tool_call>now()</tool_call>`, broken: true },
  ],
  [
    "hermes",
    "arguments that stop being JSON",
    `<tool_call>{"name": "get_weather", "arguments": {"a": 01}}</tool_call>`,
    {
      calls: [{ name: "get_weather", arguments: '{"a": 0', ended: false }],
      text: "1}}</tool_call>",
      broken: true,
    },
  ],
  [
    "hermes",
    "a call that is cut",
    `<tool_call>{"name": "get_weather", "arguments": {"a": [1, `,
    { calls: [{ name: "get_weather", arguments: '{"a": [1, ', ended: false }], broken: true },
  ],
  [
    "hermes",
    "numbers as they are spelled",
    `<tool_call>{"name": "now", "arguments": {"a": 1.0, "b": 1e-07, "c": 12345678901234567890, "d": [true, false, null, -0.5, {}]}}</tool_call>`,
    {
      calls: [
        {
          ...now,
          arguments:
            '{"a": 1.0, "b": 1e-07, "c": 12345678901234567890, "d": [true, false, null, -0.5, {}]}',
        },
      ],
    },
  ],
  [
    "mistral",
    "a list",
    `[TOOL_CALLS] [{"name": "now", "arguments": {}, "id": "abcdef123"}, {"name": "get_weather", "arguments": ${weather.arguments}}]`,
    { calls: [now, weather] },
  ],
  [
    "mistral",
    "names and arguments",
    `Yes.[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]get_weather[CALL_ID]abcdef123[ARGS]${weather.arguments}`,
    { text: "Yes.", calls: [now, weather] },
  ],
  ["mistral", "no call", `[TOOL_CALLS] sorry`, { text: `[TOOL_CALLS] sorry`, broken: true }],
  [
    "llama3",
    "an object",
    `{"name": "get_weather", "parameters": ${weather.arguments}}`,
    { calls: [weather] },
  ],
  [
    "llama3",
    "the tag and two objects",
    `<|python_tag|>{"name": "now", "parameters": {}}; {"name": "now", "parameters": {}}`,
    { calls: [now, now] },
  ],
  [
    "llama3",
    "a call with a dot",
    `<|python_tag|>get_weather.call(place="x")`,
    { calls: [{ ...weather, arguments: '{"place": "x"}' }] },
  ],
  [
    "llama3",
    "text before the tag",
    `So: <|python_tag|>{"name": "now"}`,
    { text: "So:", calls: [now] },
  ],
  ["llama3", "some other JSON", `{"names": ["now"]}`, { text: `{"names": ["now"]}` }],
  ["llama3", "text", ` {now} is the time`, { text: ` {now} is the time` }],
  [
    "json",
    "a list",
    ` [{"name": "now", "arguments": {}}, {"name": "get_weather", "arguments": ${weather.arguments}}]\n`,
    { calls: [now, weather] },
  ],
  ["json", "an object", `{"name": "now", "arguments": {}}`, { calls: [now] }],
  ["json", "a list of something else", `[1, 2]`, { text: `[1, 2]` }],
  ["json", "somebody's name", `{"name": "Anna", "age": 4}`, { text: `{"name": "Anna", "age": 4}` }],
  [
    "expressions",
    "two calls",
    `[get_weather(place='K\\'s "x" \\x41\\u00e9\\n', n=[1, (2.50, None)], m={'k': True, "l": -1e5}), add-two(), now(**{"class": 1})]`,
    {
      calls: [
        {
          name: "get_weather",
          arguments:
            '{"place": "K\'s \\"x\\" A\\u00e9\\n", "n": [1, [2.50, null]], "m": {"k": true, "l": -1e5}}',
          ended: true,
        },
        { name: "add-two", arguments: "{}", ended: true },
        { name: "now", arguments: '{"class": 1}', ended: true },
      ],
    },
  ],
  [
    "qwen3_coder",
    "text and two calls",
    `Let me see.\n<tool_call>\n<function=get_weather>\n<parameter=place>\nKöln 🙂 "x" <tool_call>\n</parameter>\n</function>\n</tool_call>\n<tool_call><function=now></function></tool_call>\n`,
    { text: "Let me see.", calls: [weather, now] },
  ],
  [
    "qwen3_coder",
    "what is a text by its schema, by its looks, and none",
    `<tool_call>\n<function=get_weather>\n<parameter=place>\n\n5\n\n</parameter>\n<parameter=n>\n[1, {"a": 2.50}]\n</parameter>\n<parameter=m>\nso so\n</parameter>\n</function>\n</tool_call> Done.`,
    {
      text: "Done.",
      calls: [
        { ...weather, arguments: '{"place": "\\n5\\n", "n": [1, {"a": 2.50}], "m": "so so"}' },
      ],
    },
  ],
  [
    "qwen3_coder",
    "a value without its end",
    `<tool_call>\n<function=get_weather>\n<parameter=place>\nx</param`,
    { calls: [{ ...weather, arguments: '{"place": "x', ended: false }], broken: true },
  ],
  [
    "glm45",
    "two calls and text",
    `<tool_call>get_weather\n<arg_key>place</arg_key>\n<arg_value>Köln 🙂 "x" <tool_call></arg_value>\n</tool_call>\n<tool_call>now\n</tool_call> Done.`,
    { text: "Done.", calls: [weather, now] },
  ],
  [
    "glm45",
    "a number",
    `<tool_call>now<arg_key>n</arg_key><arg_value>-5</arg_value></tool_call>`,
    { calls: [{ ...now, arguments: '{"n": -5}' }] },
  ],
  [
    "gemma4",
    "text, a call with all kinds of values, and one without",
    `Let me see. <|tool_call>call:get_weather{place:<|"|>Köln 🙂 "x" <tool_call|> <|<|"|>, "n":[-5,{a:<|"|><|"|>}],<|"|>m<|"|>:true}<tool_call|><|tool_call>call:now{}<tool_call|>`,
    {
      text: "Let me see.",
      calls: [
        {
          ...weather,
          arguments:
            '{"place": "Köln 🙂 \\"x\\" <tool_call|> <|", "n": [-5, {"a": ""}], "m": true}',
        },
        now,
      ],
    },
  ],
  [
    "gemma4",
    "a text without its end",
    `<|tool_call>call:get_weather{place:<|"|>x<|"`,
    { calls: [{ ...weather, arguments: '{"place": "x', ended: false }], broken: true },
  ],
  ["gemma4", "no call", "<|tool_call>now()", { text: "<|tool_call>now()", broken: true }],
  [
    "harmony",
    "text and a call",
    `Let me see.<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>${weather.arguments}`,
    { text: "Let me see.", calls: [weather] },
  ],
  [
    "harmony",
    "functions named before the channel, and with fewer blanks",
    ` to=functions.now<|channel|>commentary json<|message|>{}<|channel|>analysis to=functions.now<|constrain|>json<|message|>{ }`,
    { calls: [now, { ...now, arguments: "{ }" }] },
  ],
  [
    "harmony",
    "a function that a text speaks of, and one that it calls",
    `The message went to=functions.now which is, to=functions.now<b>, odd.<|channel|>commentary to=functions.now json<|message|>{}`,
    {
      text: "The message went to=functions.now which is, to=functions.now<b>, odd.",
      calls: [now],
    },
  ],
  [
    "harmony",
    "a call that is no JSON",
    `<|channel|>commentary to=functions.now code<|message|>now()`,
    { calls: [{ name: "now", arguments: "", ended: false }], text: "now()", broken: true },
  ],
  [
    "lfm2",
    "text, two calls in quotes of either kind, and text",
    `Let me see. <|tool_call_start|>[get_weather(place='Köln 🙂 "x" <tool_call>'), now()]<|tool_call_end|>Done.`,
    { text: "Let me see.Done.", calls: [weather, now] },
  ],
  [
    "lfm2",
    "all kinds of values, as models spell them",
    `<|tool_call_start|>[get_weather(place="a\\d\\'\n'", from=+07, x-y=1_000, n=[.5, 1., (-0,), -1e+5], m={'k': True, "l": None, 'é': [False, {}]})]<|tool_call_end|>`,
    {
      calls: [
        {
          ...weather,
          arguments:
            '{"place": "a\\\\d\'\\n\'", "from": 7, "x-y": 1000, "n": [0.5, 1.0, [-0], -1e+5], "m": {"k": true, "l": null, "é": [false, {}]}}',
        },
      ],
    },
  ],
  [
    "lfm2",
    "calls as JSON, and lists one after the other",
    `<|tool_call_start|>[{"name": "get_weather", "arguments": ${weather.arguments}}]<|tool_call_end|>\n<|tool_call_start|>[now()]<|tool_call_end|>`,
    { calls: [weather, now] },
  ],
  [
    "lfm2",
    "a mark in a text",
    `<|tool_call_start|>[get_weather(place="]<|tool_call_end|>")]<|tool_call_end|>`,
    { calls: [{ ...weather, arguments: '{"place": "]<|tool_call_end|>"}' }] },
  ],
  [
    "lfm2",
    "a list that is cut",
    `<|tool_call_start|>[now(), get_weather(place='x`,
    { calls: [now, { ...weather, arguments: '{"place": "x', ended: false }], broken: true },
  ],
  [
    "lfm2",
    "no call",
    "<|tool_call_start|>now()",
    { text: "<|tool_call_start|>now()", broken: true },
  ],
  [
    "lfm2",
    "an expression that would be evaluated",
    `<|tool_call_start|>[now(a=__import__('os'))]<|tool_call_end|>`,
    {
      calls: [{ ...now, arguments: '{"a": ', ended: false }],
      text: "('os'))]<|tool_call_end|>",
      broken: true,
    },
  ],
  [
    "olmo3",
    "text, a line for each call, and text",
    `Let me see.\n<function_calls>get_weather(place="Köln 🙂 \\"x\\" <tool_call>")\nnow()</function_calls> Done.`,
    { text: "Let me see.Done.", calls: [weather, now] },
  ],
  [
    "olmo3",
    "values in either notation, and a list",
    `<function_calls>[now(a=true, b=None, c=[1, {"d": 'e'}])]</function_calls>`,
    { calls: [{ ...now, arguments: '{"a": true, "b": null, "c": [1, {"d": "e"}]}' }] },
  ],
  [
    "olmo3",
    "a call that is cut",
    `<function_calls>now()\nget_weather(place="x`,
    { calls: [now, { ...weather, arguments: '{"place": "x', ended: false }], broken: true },
  ],
  [
    "deepseek",
    "text and two calls",
    `Let me see.\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n\`\`\`json\n${weather.arguments}\n\`\`\`<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n\`\`\`json\n{}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
    { text: "Let me see.", calls: [weather, now] },
  ],
  [
    "deepseek",
    "without a fence, without what opens them all, cut before its end mark",
    `<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n{}\n`,
    { calls: [now] },
  ],
  [
    "deepseek",
    "a call that is no JSON",
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n\`\`\`json\nnow()`,
    { calls: [{ name: "now", arguments: "", ended: false }], text: "now()", broken: true },
  ],
  [
    "deepseek_v31",
    "two calls, and text",
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>${weather.arguments}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>Done.`,
    { text: "Done.", calls: [weather, now] },
  ],
  [
    "kimi_k2",
    "text, two calls in a section, and text",
    `Let me see.\n<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>${weather.arguments}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>Done.`,
    { text: "Let me see.Done.", calls: [weather, now] },
  ],
  [
    "kimi_k2",
    "blanks, names without their namespace or a number, and a section in the singular",
    `<|tool_call_section_begin|>\n<|tool_call_begin|> get_weather:12\n<|tool_call_argument_begin|> ${weather.arguments} <|tool_call_end|>\n<|tool_call_begin|>functions.add-two<|tool_call_argument_begin|>{}<|tool_call_end|>\n<|tool_call_section_end|>\n`,
    { calls: [weather, { ...now, name: "add-two" }] },
  ],
  [
    "kimi_k2",
    "calls without a section, and a section that is not closed",
    `<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>So: <|tool_calls_section_begin|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}`,
    { text: "So:", calls: [now, now] },
  ],
  [
    "kimi_k2",
    "an id that names no function",
    `<|tool_calls_section_begin|><|tool_call_begin|>call_59adf561<|tool_call_argument_begin|>{}<|tool_call_end|>`,
    {
      text: `<|tool_call_begin|>call_59adf561<|tool_call_argument_begin|>{}<|tool_call_end|>`,
      broken: true,
    },
  ],
  [
    "kimi_k2",
    "text behind a call, a section that is opened again, empty ones, and an end that is missing",
    `<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|><b>x</b><|tool_calls_section_begin|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_calls_section_end|>So<|tool_calls_section_begin|><|tool_calls_section_end|> be it`,
    { text: "<b>x</b>Sobe it", calls: [now, now] },
  ],
  [
    "kimi_k2",
    "a call that is cut",
    `<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"place": "x`,
    { calls: [{ ...weather, arguments: '{"place": "x', ended: false }], broken: true },
  ],
  [
    "atem",
    "two messages to functions",
    ` to=get_weather<|message|><atem:function_calls>\n<atem:invoke name="get_weather">\n<atem:parameter name="place">Köln 🙂 "x" <tool_call></atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=now<|message|><atem:function_calls>\n<atem:invoke name="now">\n</atem:invoke>\n</atem:function_calls>`,
    { calls: [weather, now] },
  ],
  [
    "atem",
    "an answer between calls, and a text that speaks of headers",
    `I go to=now and to=nobody<|message|>. to=now<|message|><atem:function_calls><atem:invoke name="now"></atem:invoke></atem:function_calls><|eom|><|start|>assistant to=user<|message|>Well.`,
    { text: "I go to=now and to=nobody<|message|>.Well.", calls: [now] },
  ],
  [
    "atem",
    "a text that spells headers, and the same behind a call",
    `Say to=user<|message|>Hi or to=now<|message|><b>. to=now<|message|><atem:function_calls><atem:invoke name="now"></atem:invoke></atem:function_calls><|eom|><|start|>assistant to=user<|message|>Well: to=user<|message|>`,
    {
      text: "Say to=user<|message|>Hi or to=now<|message|><b>.Well: to=user<|message|>",
      calls: [now],
    },
  ],
  [
    "atem",
    "a call of a tool that nobody has",
    `<atem:function_calls><atem:invoke name="nobody"></atem:invoke></atem:function_calls>`,
    {
      text: `<atem:function_calls><atem:invoke name="nobody"></atem:invoke></atem:function_calls>`,
      broken: true,
    },
  ],
  [
    "solar_open",
    "text and two calls",
    `Let me see.<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>get_weather<|tool_call:args|>${weather.arguments}<|tool_call:end|><|tool_call:begin|>f6g7h8i9j0<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|>`,
    { text: "Let me see.", calls: [weather, now] },
  ],
  [
    "solar_open",
    "calls without what opens them all, with any id or none, cut before the end mark",
    `<|tool_call:begin|>NOT-VALID<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|><|tool_call:begin|><|tool_call:name|>now<|tool_call:args|>{}`,
    { calls: [now, now] },
  ],
  [
    "solar_open",
    "arguments that are no JSON",
    `<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>now<|tool_call:args|>now()`,
    { calls: [{ name: "now", arguments: "", ended: false }], text: "now()", broken: true },
  ],
  [
    "cohere",
    "two calls and text",
    `<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": ${weather.arguments}},\n    {"tool_call_id": "1", "tool_name": "now", "parameters": {}}\n]<|END_ACTION|> Done.`,
    { text: "Done.", calls: [weather, now] },
  ],
  [
    "cohere",
    "some other list",
    `<|START_ACTION|>[{"name": "now"}]`,
    { text: `<|START_ACTION|>[{"name": "now"}]`, broken: true },
  ],
  [
    "granite",
    "a list, and text around it",
    `Yes. <|tool_call|>[{"name": "now", "arguments": {}}, {"name": "get_weather", "arguments": ${weather.arguments}}] Done.`,
    { text: "Yes.Done.", calls: [now, weather] },
  ],
  ["granite", "an object", `<|tool_call|>{"name": "now"}`, { calls: [now] }],
  [
    "phi4",
    "a list between marks, and one behind a word",
    `<|tool_call|>[{"name": "get_weather", "arguments": ${weather.arguments}}]<|/tool_call|>functools[{"name": "now", "arguments": {}}]`,
    { calls: [weather, now] },
  ],
  [
    "nemotron",
    "a list",
    `<TOOLCALL>[{"name": "get_weather", "arguments": ${weather.arguments}}, {"name": "now"}]</TOOLCALL>`,
    { calls: [weather, now] },
  ],
  [
    "hunyuan",
    "text and two calls",
    `Let me see.\n<tool_calls>\n<tool_call>get_weather\n\`\`\`json\n${weather.arguments}\n\`\`\`</tool_call>\n<tool_call>now\n\`\`\`json\n{}\n\`\`\`</tool_call>\n</tool_calls> Done.`,
    { text: "Let me see.Done.", calls: [weather, now] },
  ],
  [
    "hunyuan",
    "calls one by one, as objects and as a list",
    `<tool_call>now\n{}\n</tool_call><tool_call>{"name": "now"}</tool_call><tool_calls>[{"name": "now"}, {"name": "get_weather", "arguments": ${weather.arguments}}]</tool_calls>`,
    { calls: [now, now, now, weather] },
  ],
  [
    "hunyuan",
    "marks that do not fit",
    `<tool_calls><tool_call>now\n{}</tool_call></tool_call></tool_calls>`,
    { calls: [now], text: "</tool_call></tool_call></tool_calls>", broken: true },
  ],
  [
    "glm4",
    "two calls behind a line break",
    `\nget_weather\n${weather.arguments}\nnow\n{}`,
    { calls: [weather, now] },
  ],
  ["glm4", "a name in a text", "now\nis the time", { text: "now\nis the time" }],
  ["glm4", "text behind a call", "now\n{}\nThat was it.", { calls: [now], text: "That was it." }],
  ["glm4", "text before a call", "So:\nnow\n{}", { text: "So:\nnow\n{}" }],
  [
    "seed_oss",
    "two calls and text",
    `<seed:tool_call>\n<function=get_weather>\n<parameter=place>Köln 🙂 "x" <tool_call></parameter>\n</function>\n</seed:tool_call><seed:tool_call><function=now></function></seed:tool_call> Done.`,
    { text: "Done.", calls: [weather, now] },
  ],
  [
    "minimax_m2",
    "text, two calls and text",
    `Let me see.\n<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="place">Köln 🙂 "x" <tool_call></parameter>\n</invoke>\n<invoke name="now"></invoke></minimax:tool_call> Done.`,
    { text: "Let me see.Done.", calls: [weather, now] },
  ],
  [
    "deepseek_v32",
    "text, two calls and text",
    `Let me see.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="place" string="true">Köln 🙂 "x" <tool_call></｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="now">\n\n</｜DSML｜invoke></｜DSML｜function_calls> Done.`,
    { text: "Let me see.Done.", calls: [weather, now] },
  ],
  [
    "deepseek_v32",
    "a value that nothing is said of",
    `<｜DSML｜function_calls><｜DSML｜invoke name="now"></｜DSML｜invoke><｜DSML｜invoke name="get_weather"><｜DSML｜parameter name="place">x</｜DSML｜parameter>`,
    {
      calls: [now, { ...weather, arguments: "", ended: false }],
      text: "x</｜DSML｜parameter>",
      broken: true,
    },
  ],
  [
    "hy3",
    "text, two calls and text",
    `Let me see.\n<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n<arg_key:opensource>place</arg_key:opensource>\n<arg_value:opensource>Köln 🙂 "x" <tool_call></arg_value:opensource>\n</tool_call:opensource>\n<tool_call:opensource>now<tool_sep:opensource></tool_call:opensource></tool_calls:opensource> Done.`,
    { text: "Let me see.Done.", calls: [weather, now] },
  ],
  [
    "apriel",
    "text, and two calls",
    `Let me see.\n<tool_calls>[{"name": "get_weather", "arguments": ${weather.arguments}}, {"name": "now", "arguments": {}}]</tool_calls>`,
    { text: "Let me see.", calls: [weather, now] },
  ],
  [
    "minimax_m2",
    "marks that do not fit",
    `<minimax:tool_call><invoke name="now"></invoke><invoke name=now></invoke>`,
    { calls: [now], text: "<invoke name=now></invoke>", broken: true },
  ],
  [
    "apertus",
    "text, two calls and text",
    `Let me see.<|tools_prefix|>[{"get_weather": ${weather.arguments}}, {"now": {}}]<|tools_suffix|> Done.`,
    { text: "Let me see.Done.", calls: [weather, now] },
  ],
  [
    "apertus",
    "a value that is no object",
    `<|tools_prefix|>[{"now": 5}]<|tools_suffix|>`,
    { text: `<|tools_prefix|>[{"now": 5}]<|tools_suffix|>`, broken: true },
  ],
  ["expressions", "a list of something else", `[now, then]`, { text: `[now, then]` }],
  ["expressions", "an answer", `It is [now()] somewhere.`, { text: `It is [now()] somewhere.` }],
]

test("of blanks so many are held back for a call that may follow, and no more", () => {
  const call = `<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>`
  const few = ["So", ...Array.from({ length: 1000 }, () => " "), call]
  expect(read("hermes", few)).toEqual({ text: "So", calls: [now], broken: false })
  const reader = new CallReader(formats.hermes, TOOLS)
  const pieces = Array.from({ length: 5000 }, () => reader.push("\n")).flat()
  expect(pieces.reduce((sum, { length }) => sum + length, 0)).toBe(5000 - 1024)
})

describe.each(cases)("%s: %s", (format, _, reply, expected) => {
  const whole = { text: "", calls: [], broken: false, ...expected }

  test("whole", () => {
    expect(read(format, [reply])).toEqual(whole)
  })

  test("character by character, and cut once at every place", () => {
    expect(read(format, Array.from(reply))).toEqual(whole)
    for (let at = 1; at < reply.length; at++) {
      expect(read(format, [reply.slice(0, at), reply.slice(at)])).toEqual(whole)
    }
  })

  test("every beginning is read without a fault, and nothing sent is taken back", () => {
    for (let at = 0; at < reply.length; at++) {
      const begun = read(format, [reply.slice(0, at)])
      begun.calls.forEach((call, index) => {
        expect(whole.calls[index]!.arguments.startsWith(call.arguments)).toBe(true)
      })
    }
  })
})

// One of each way in which a family names a tool.
const NAMED: [FormatName, string][] = [
  ["hermes", `<tool_call>{"name": "NAME", "arguments": {"a": 1}}</tool_call>`],
  ["hermes", `<tool_call>{"arguments": {"a": 1}, "name": "NAME"}</tool_call>`],
  ["hermes", `<tool_call>{"type": "function", "function": {"name": "NAME"}}</tool_call>`],
  ["mistral", `[TOOL_CALLS] [{"name": "NAME", "arguments": {"a": 1}}]`],
  ["mistral", `[TOOL_CALLS]NAME[ARGS]{"a": 1}`],
  ["mistral_args", `[TOOL_CALLS]NAME[CALL_ID]abcdef123[ARGS]{"a": 1}`],
  ["llama3", `{"name": "NAME", "parameters": {"a": 1}}`],
  ["llama3", `<|python_tag|>{"name": "NAME", "parameters": {"a": 1}}`],
  ["llama3", `<|python_tag|>NAME.call(a=1)`],
  ["harmony", `<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{"a": 1}`],
  ["harmony", ` to=functions.NAME<|channel|>commentary json<|message|>{"a": 1}`],
  ["gemma4", `<|tool_call>call:NAME{a:1}<tool_call|>`],
  ["qwen3_coder", `<tool_call><function=NAME><parameter=a>1</parameter></function></tool_call>`],
  ["glm45", `<tool_call>NAME<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>`],
  ["lfm2", `<|tool_call_start|>[NAME(a=1)]<|tool_call_end|>`],
  ["lfm2", `<|tool_call_start|>[{"name": "NAME", "arguments": {"a": 1}}]<|tool_call_end|>`],
  ["olmo3", `<function_calls>NAME(a=1)</function_calls>`],
  [
    "deepseek",
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n{}\n```<｜tool▁call▁end｜>",
  ],
  [
    "deepseek_v31",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
  ],
  [
    "deepseek_v32",
    `<｜DSML｜function_calls><｜DSML｜invoke name="NAME"></｜DSML｜invoke></｜DSML｜function_calls>`,
  ],
  ["kimi_k2", "<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{}<|tool_call_end|>"],
  [
    "solar_open",
    "<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>NAME<|tool_call:args|>{}<|tool_call:end|>",
  ],
  ["cohere", `<|START_ACTION|>[{"tool_name": "NAME", "parameters": {}}]<|END_ACTION|>`],
  ["granite", `<|tool_call|>[{"name": "NAME", "arguments": {"a": 1}}]`],
  ["phi4", `functools[{"name": "NAME", "arguments": {"a": 1}}]`],
  ["nemotron", `<TOOLCALL>[{"name": "NAME", "arguments": {"a": 1}}]</TOOLCALL>`],
  ["apriel", `<tool_calls>[{"name": "NAME", "arguments": {"a": 1}}]</tool_calls>`],
  ["hunyuan", "<tool_calls><tool_call>NAME\n```json\n{}\n```</tool_call></tool_calls>"],
  ["hunyuan", `<tool_calls>[{"name": "NAME"}]</tool_calls>`],
  ["glm4", `NAME\n{"a": 1}`],
  ["seed_oss", `<seed:tool_call><function=NAME></function></seed:tool_call>`],
  [
    "atem",
    `to=NAME<|message|><atem:function_calls><atem:invoke name="NAME"></atem:invoke></atem:function_calls>`,
  ],
  ["minimax_m2", `<minimax:tool_call><invoke name="NAME"></invoke></minimax:tool_call>`],
  [
    "hy3",
    `<tool_calls:opensource><tool_call:opensource>NAME<tool_sep:opensource></tool_call:opensource></tool_calls:opensource>`,
  ],
  ["apertus", `<|tools_prefix|>[{"NAME": {"a": 1}}]<|tools_suffix|>`],
  ["expressions", `[NAME(a=1)]`],
  ["expressions", `[NAME(**{"a": 1})]`],
  ["json", `{"name": "NAME", "arguments": {"a": 1}}`],
  ["json", `[{"name": "NAME", "arguments": {"a": 1}}]`],
]

test.each(NAMED)("%s: only declared tools are called by %s", (format, form) => {
  const calling = read(format, [form.replaceAll("NAME", "now")])
  expect([calling.text, calling.calls.map(({ name }) => name)]).toEqual(["", ["now"]])
  for (const name of ["rm", "no", "nows", "NOW", "toString", "constructor", "__proto__"]) {
    const reply = form.replaceAll("NAME", name)
    expect(read(format, [reply])).toMatchObject({ text: reply, calls: [] })
    expect(read(format, Array.from(reply))).toMatchObject({ text: reply, calls: [] })
  }
})

test("a declared call before an undeclared one stands", () => {
  const two = `{"name": "now", "parameters": {}}; {"name": "rm", "parameters": {}}`
  expect(read("llama3", [two])).toMatchObject({
    calls: [now],
    text: `{"name": "rm", "parameters": {}}`,
  })
  const list = `[{"name": "now", "arguments": {}}, {"name": "rm", "arguments": {}}]`
  expect(read("json", [list])).toMatchObject({ calls: [now] })
})

// Of each family what its published template shows of a call, and of one that nobody here reads.
test.each([
  ["<tool_call>\n<function=example_function_name>\n<parameter=example>\nvalue", "qwen3_coder"],
  ["<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>\n<arg_value>", "glm45"],
  ['<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}', "hermes"],
  ["+ tool_call.name + '<|channel|>commentary ' }}", "harmony"],
  ["{{- '<|tool_call>call:' + function['name'] + '{' -}}", "gemma4"],
  ['"List of tools: <|tool_list_start|>["', "lfm2"],
  ['"List of tools: [" -%}', "lfm2"],
  ['{{- "<|tool_call_start|>[" + (calls | join(", "))', "lfm2"],
  ["[func_name1(params_name1=params_value1, params_name2=params_value2...)]", "expressions"],
  ["{{- '<function_calls>' -}}{%- for tool_call in message['tool_calls'] %}", "olmo3"],
  ["'<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + n + '\\n' + '```json'", "deepseek"],
  [
    "'<｜tool▁call▁begin｜>' + n + '<｜tool▁sep｜>' + tool['function']['arguments']",
    "deepseek_v31",
  ],
  [
    "'<' + '｜DSML｜' + 'invoke name=\"' + n + '\">' + '</' + '｜DSML｜' + 'function_calls>'",
    "deepseek_v32",
  ],
  [
    "'<' + '｜DSML｜' + 'invoke name=\"' + n + '\">' + '</' + '｜DSML｜' + 'tool_calls>'",
    undefined,
  ],
  ["{%- macro render_toolcalls(message) -%}\n  <|tool_calls_section_begin|>", "kimi_k2"],
  ["{{ '<|im_system|>tool_declare<|im_middle|>' -}}", "kimi_k2"],
  ["{{- '<atem:function_calls>\\n<atem:invoke name=\"' + tc.function.name }}", "atem"],
  ["{{- '<|tool_call:begin|>' + tool_call.id + '<|tool_call:name|>' }}", "solar_open"],
  ['<|START_ACTION|>[\n {"tool_call_id": "{{ n }}", "tool_name": "', "cohere"],
  ["respond only with <|tool_call|> followed by a JSON list of tools used.", "granite"],
  ["'<|tool|>' + message['tools'] + '<|/tool|>'", "phi4"],
  ['<TOOLCALL>[{"name": "tool_name1", "arguments": "tool_args1"}]</TOOLCALL>', "nemotron"],
  ["{{- '\\n<tool_calls>[' -}}{%- for tool_call in message[\"tool_calls\"] -%}", "apriel"],
  ["first print <tool_calls>For each function call, …\n<tool_call>function_name", "hunyuan"],
  ["在调用上述函数时，请使用 Json 格式表示调用的参数。", "glm4"],
  ["<seed:tool_call>\n<function=example_function_name>\n<parameter=", "seed_oss"],
  ["{%- set toolcall_begin_token   = '<minimax:tool_call>'         -%}", "minimax_m2"],
  ["{%- set HYTK = ':opensource' %}{%- set t = '<tool_sep{}>'.format(HYTK) %}", "hy3"],
  ["{%- set tool_calls_token = '<|tools_prefix|>' -%}", "apertus"],
  ["[TOOL_CALLS]name[ARGS]{}", "mistral_args"],
  ["[TOOL_CALLS] [", "mistral"],
  ["{{- '<|python_tag|>' }}", "llama3"],
  ['<function=example_function_name>{"example_name": "example_value"}</function>', undefined],
  ["{{ tools }}", undefined],
] as const)("%j shows %s", (source, name) => {
  expect(formatOf({ source, knowsTools: true } as Template)).toBe(name)
  expect(formatOf({ source, knowsTools: false } as Template)).toBeUndefined()
})

test("a template that shows calls and no tools shows a form, too", () => {
  const source = "{% for tool in message['tool_calls'] %}<｜tool▁call▁begin｜>"
  const template = { source, knowsTools: false, knowsCalls: true } as Template
  expect(formatOf(template)).toBe("deepseek_v31")
})

test("every family has its line", () => {
  expect(new Set(NAMED.map(([format]) => format))).toEqual(new Set(Object.keys(formats)))
})

test("text leaves as soon as it cannot be the start of a call", () => {
  const reader = new CallReader(formats.hermes, TOOLS)
  const sent = (delta: string) =>
    reader.push(delta).map((piece) => (piece.kind === "text" ? piece.text : piece.kind))
  expect(
    ["Hi", " <to", "y", "\n", "<tool_call>", '{"name": "now", ', '"arguments": {', "}"].map(sent),
  ).toEqual([["Hi"], [], [" <toy"], [], [], ["call"], ["arguments"], ["arguments"]])
})

describe("the textual list of calls", () => {
  const calls = [
    { name: "get_weather", arguments: '{"location":"Pittsburgh, PA"}' },
    {
      name: "f",
      arguments:
        '{"a": null, "b": [true, {"x-y": "é\\"\\\\\\n🙂\'"}], "c": 1.50, "é": 12345678901234567890}',
    },
    { name: "add-two", arguments: '{"from": 1, "two words": {"class": {}}}' },
    { name: "now", arguments: " { } " },
  ]

  test("is written as Python writes calls", () => {
    expect(writeCallList(calls, "plain")).toBe(
      `[get_weather(location="Pittsburgh, PA"), f(a=None, b=[True, {"x-y": "é\\"\\\\\\n🙂'"}], c=1.50, é=12345678901234567890), add-two(**{"from": 1, "two words": {"class": {}}}), now()]`,
    )
  })

  test.each(["plain", "quoted"] as const)("reads back exactly: %s", (style) => {
    for (const some of [calls, ...calls.map((call) => [call])]) {
      const back = readCallList(writeCallList(some, style))!
      expect(back.map(({ name }) => name)).toEqual(some.map(({ name }) => name))
      back.forEach(({ arguments: json }, index) => {
        expect(json.replace(/\s/g, "")).toBe(some[index]!.arguments.replace(/\s/g, ""))
      })
    }
  })

  test("is read with quotes of either kind, and as a list of strings", () => {
    const location = [{ name: "w", arguments: '{"x": "a\'b"}' }]
    for (const text of [
      `[w(x="a'b")]`,
      `[w(x='a\\'b')]`,
      `['w(x="a\\'b")']`,
      `["w(x='a\\\\'b')"]`,
    ]) {
      expect(readCallList(text)).toEqual(location)
    }
  })

  test("is nothing else", () => {
    for (const text of [
      "",
      "[]",
      "[1]",
      "w(x=1)",
      "[w(1)]",
      "[w(x=1)] and more",
      "[w(x=1",
      "['a']",
      "[w(x=y)]",
      "[w(x=1, x=2)]",
      "[w(x=__import__('os'))]",
    ]) {
      expect(readCallList(text)).toBeUndefined()
    }
  })
})
