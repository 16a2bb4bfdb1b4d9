// PaliGemma and PaliGemma 2: SigLIP's rows through one matrix, and Gemma, which reads an image and what it is asked of it both ways and answers
// from there on. No template was published: its processor writes the images, then what begins a text, the words and the end of their line.
//
// Source: processing_paligemma.py of transformers.

export const PALIGEMMA = "paligemma"

/** What stands in a prompt for an image, where no tokenizer names it. */
export const PALIGEMMA_SOFT = "<image>"

/** One message, as that processor writes it. It refuses to write one without an image, and knows no turns. */
export const PALIGEMMA_TEMPLATE = `
{%- if messages | length != 1 or messages[0]['role'] != 'user' -%}
  {{- raise_exception('PaliGemma answers one message of a user, and knows neither turns nor systems.') -}}
{%- endif -%}
{%- set shown = namespace(images='', words='') -%}
{%- set content = messages[0]['content'] -%}
{%- if content is string -%}
  {%- set shown.words = content -%}
{%- else -%}
  {%- for part in content -%}
    {%- if part['type'] == 'image' -%}
      {%- set shown.images = shown.images ~ '${PALIGEMMA_SOFT}' -%}
    {%- else -%}
      {%- set shown.words = shown.words ~ part['text'] -%}
    {%- endif -%}
  {%- endfor -%}
{%- endif -%}
{%- if not shown.images -%}
  {{- raise_exception('PaliGemma answers about images, and the message has none.') -}}
{%- endif -%}
{{- shown.images ~ bos_token ~ shown.words ~ '\\n' -}}
`
