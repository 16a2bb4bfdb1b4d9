// The conversation that DeepSeek V3.2 was taught, as a Jinja template: its folder has none, but an encoder in Python,
// encoding/encoding_dsv32.py of https://huggingface.co/deepseek-ai/DeepSeek-V3.2 (MIT), whose prompts these are, to the character. What the
// encoder refuses is written all the same: results of which there are more or fewer than calls, an answer in which nothing was
// thought, and a reply to something else than a user or a result.
//
// The encoder is told whether to think; here that is `thinking`, as in V3.1's template, `enable_thinking`, or a `reasoning_effort`.
// Thinking is shown behind the last message of a user alone. An answer's header is written with what it answers.

/** How a model is told of tools, up to the first of them. */
const TOOLS = `## Tools

You have access to a set of tools you can use to answer the user's question.
You can invoke functions by writing a "<｜DSML｜function_calls>" block like the following as part of your reply to the user:
<｜DSML｜function_calls>
<｜DSML｜invoke name="$FUNCTION_NAME">
<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>
...
</｜DSML｜invoke>
<｜DSML｜invoke name="$FUNCTION_NAME2">
...
</｜DSML｜invoke>
</｜DSML｜function_calls>

String and scalar parameters should be specified as is without any escaping or quotes, while lists and objects should use JSON format. The "string" attribute should be set to "true" for string type parameters and "false" for other types (numbers, booleans, arrays, objects).

If the thinking_mode is enabled, then after function results you should strongly consider outputting a thinking block. Here is an example:

<｜DSML｜function_calls>
...
</｜DSML｜function_calls>

<function_results>
...
</function_results>

<think>...thinking about results</think>

Here are the functions available in JSONSchema format:
<functions>
`

export const DEEPSEEK_V32 = "deepseek_v32"

export const DEEPSEEK_V32_TEMPLATE = `
{%- set effort = reasoning_effort if reasoning_effort is defined else 'none' -%}
{%- set enabled = enable_thinking if enable_thinking is defined else effort != 'none' -%}
{%- set thinks = thinking if thinking is defined else enabled -%}
{%- set turn = namespace(last=-1) -%}
{%- for message in messages -%}
  {%- if message.role == 'user' -%}
    {%- set turn.last = loop.index0 -%}
  {%- endif -%}
{%- endfor -%}
{{- '<｜begin▁of▁sentence｜>' -}}
{%- if messages[0].role == 'system' -%}
  {{- messages[0].content or '' -}}
{%- endif -%}
{%- if tools -%}
  {{- ${JSON.stringify(`\n\n${TOOLS}`)} -}}
  {%- for tool in tools -%}
    {{- tool.function | tojson + '\\n' -}}
  {%- endfor -%}
  {{- '</functions>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
  {%- set before = '' if loop.first else messages[loop.index0 - 1].role -%}
  {%- set after = '' if loop.last else messages[loop.index0 + 1].role -%}
  {%- set begun = '<think>' if thinks and loop.index0 >= turn.last else '</think>' -%}
  {%- if message.role == 'user' -%}
    {{- '<｜User｜>' + (message.content or '') + '<｜Assistant｜>' + begun -}}
  {%- elif message.role == 'tool' -%}
    {{- '' if before == 'tool' else '\\n\\n<function_results>' -}}
    {{- '\\n<result>' + (message.content or '') + '</result>' -}}
    {{- '' if after == 'tool' else '\\n</function_results>\\n\\n' + begun -}}
  {%- elif message.role == 'assistant' -%}
    {%- if thinks and loop.index0 > turn.last -%}
      {{- (message.reasoning_content or '') + '</think>' -}}
    {%- endif -%}
    {{- message.content or '' -}}
    {%- if message.tool_calls -%}
      {{- '\\n\\n<｜DSML｜function_calls>\\n' -}}
      {%- for call in message.tool_calls -%}
        {{- '<｜DSML｜invoke name="' + call.function.name + '">\\n' -}}
        {%- set given = call.function.arguments or {} -%}
        {%- if given is not mapping -%}
          {{- raise_exception('the arguments of a call are no JSON object') -}}
        {%- endif -%}
        {%- for name, value in given.items() -%}
          {{- '<｜DSML｜parameter name="' + name + '" string="' -}}
          {{- 'true">' + value if value is string else 'false">' + value | tojson -}}
          {{- '</｜DSML｜parameter>' + ('' if loop.last else '\\n') -}}
        {%- endfor -%}
        {{- '\\n</｜DSML｜invoke>\\n' -}}
      {%- endfor -%}
      {{- '</｜DSML｜function_calls>' -}}
    {%- endif -%}
    {{- '<｜end▁of▁sentence｜>' -}}
  {%- elif message.role == 'system' -%}
    {{- '' if loop.first else message.content or '' -}}
  {%- else -%}
    {{- raise_exception('a message is of the system, the user, the assistant or a tool') -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and messages[-1].role not in ['user', 'tool'] -%}
  {{- '<｜Assistant｜>' + ('<think>' if thinks else '</think>') -}}
{%- endif -%}
`
