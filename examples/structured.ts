// Structured output: the answer follows a JSON schema, whatever the model would rather have said.
//
//   npx tsx examples/structured.ts ["a sentence about somebody"]

import OpenAI from "openai"
import { createApp } from "sinter"

const sentence = process.argv[2] ?? "Tom lives in Oslo and is 31 years old."
const schema = {
  type: "object",
  properties: { name: { type: "string" }, city: { type: "string" }, age: { type: "integer" } },
  required: ["name", "city", "age"],
  additionalProperties: false,
}

const app = await createApp({ model: "tiny" })
try {
  const port = await app.listen(0)
  await app.ready

  const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: "none" })
  const { choices } = await client.chat.completions.create({
    model: "tiny",
    messages: [{ role: "user", content: `Extract name, city and age as JSON: ${sentence}` }],
    response_format: { type: "json_schema", json_schema: { name: "person", schema } },
    temperature: 0,
  })
  const person: { name: string; city: string; age: number } = JSON.parse(
    choices[0]!.message.content!,
  )
  process.stdout.write(`${person.name}, ${person.age}, of ${person.city}\n`)
} finally {
  await app.close()
}
