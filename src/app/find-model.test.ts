import { expect, test } from "vitest"
import { Problem } from "../errors.ts"
import { findModel } from "./find-model.ts"

const options = { env: { HF_HUB_OFFLINE: "1", HF_HOME: "/nonexistent" } }

// HF:// is how MLC-LLM's own documents write a name of the hub.
test.each([
  "HF://org/name",
  "hf:org/name",
  "hf.co/org/name",
  "huggingface.co/org/name",
  "org/name",
])("%s is looked for as the hub's", (name) =>
  expect(findModel(name, options)).rejects.toThrow(
    "org/name is neither a path here nor downloaded",
  ),
)

test.each(["HF://", "http:org/name", "https:"])("%s ends in a sentence", (name) =>
  expect(findModel(name, options)).rejects.toBeInstanceOf(Problem),
)
