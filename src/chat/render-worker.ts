// What runs in the thread of render-thread.ts: takes orders, renders, answers.

import { parentPort, workerData } from "node:worker_threads"
import { TemplateError } from "./jinja/meter.ts"
import type { Text } from "./jinja/text.ts"
import type { Answer, Opening, Order } from "./render-thread.ts"
import { openRenderer } from "./rendering.ts"

const { source, options } = workerData as Opening
const render = openRenderer(source, options)

parentPort!.on("message", ({ id, rendering, steps }: Order) => {
  parentPort!.postMessage(answer(id, () => render(rendering, steps)))
})

function answer(id: number, work: () => Text): Answer {
  try {
    const { value, spans } = work()
    return { id, value, spans }
  } catch (error) {
    if (error instanceof TemplateError) return { id, refusal: error.message }
    throw error
  }
}
