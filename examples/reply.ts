// A model inside one's own process, asked by function calls: an answer as it is written, and a value by a schema.
//
//   npx tsx examples/reply.ts ["a question"]

import { load } from "sinter"

const model = await load("tiny")
try {
  const question = process.argv[2] ?? "Hello! Who are you?"
  for await (const piece of model.chat(question, { temperature: 0 })) process.stdout.write(piece)
  process.stdout.write("\n")

  const schema = {
    type: "object",
    properties: { name: { type: "string", maxLength: 20 } },
    required: ["name"],
    additionalProperties: false,
  }
  const { name } = await model.schema<{ name: string }>("A name as JSON, please.", schema)
  process.stdout.write(`${name}\n`)
} finally {
  await model.close()
}
