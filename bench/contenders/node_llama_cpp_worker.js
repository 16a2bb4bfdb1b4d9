// node-llama-cpp for worker.ts, through its own JavaScript interface: reads questions, one line of JSON each, and answers
// tokens a second. It is installed in a folder of its own; what it prints of itself goes to standard error.
//
// Prompts are drawn anew, so that no cache helps. A rate of decoding counts from a sequence's first token on, and ends of
// texts are gone past.

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { pathToFileURL } from "node:url"

const { folder, model: modelPath, threads, context } = JSON.parse(process.argv[2])
const home = join(folder, "node_modules/node-llama-cpp")
const { getLlama } = await import(pathToFileURL(join(home, "dist/index.js")).href)
const { version } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"))

const llama = await getLlama({ gpu: false, build: "never", maxThreads: threads })
const model = await llama.loadModel({ modelPath })
const DECODED = 32

const about = `node-llama-cpp ${version}, llama.cpp ${llama.llamaCppRelease.release}, its prebuilt library, ${threads} threads, batches of 512`
console.log(JSON.stringify({ about }))

for await (const line of createInterface(process.stdin)) {
  const { prefill, sequences = 1, depth = 0 } = JSON.parse(line)
  const rate = prefill ? await readPrompt(prefill) : await decode(sequences, Math.max(depth, 16))
  console.log(JSON.stringify({ rate }))
}
await llama.dispose()

async function withSequences(count, length, use) {
  const contextSize = Math.min(length + 64, context)
  const it = await model.createContext({ sequences: count, contextSize, batchSize: 512, threads })
  try {
    return await use(Array.from({ length: count }, () => it.getSequence()))
  } finally {
    await it.dispose()
  }
}

function prompt(length) {
  return Array.from({ length }, () => 300 + Math.floor(Math.random() * 100_000))
}

function readPrompt(tokens) {
  return withSequences(1, tokens, async ([sequence]) => {
    const begun = performance.now()
    await sequence.evaluateWithoutGeneratingNewTokens(prompt(tokens))
    return (tokens * 1000) / (performance.now() - begun)
  })
}

function decode(count, depth) {
  return withSequences(count, depth + DECODED, async (all) => {
    await Promise.all(all.map((one) => one.evaluateWithoutGeneratingNewTokens(prompt(depth))))
    const begun = performance.now()
    await Promise.all(all.map(take))
    return (count * DECODED * 1000) / (performance.now() - begun)
  })
}

async function take(sequence) {
  let taken = 0
  for await (const _ of sequence.evaluate(prompt(1), { yieldEogToken: true }))
    if (++taken === DECODED) return
}
