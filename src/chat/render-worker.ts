// What runs in the thread of render-thread.ts.

import { serve } from "../worker/serve.ts"
import { OutOfSteps, TemplateError } from "./jinja/meter.ts"
import type { Answer, Opening, Order } from "./render-thread.ts"
import { openRenderer, type Renderer } from "./rendering.ts"

let render: Renderer

serve({
  open({ source, options }: Opening): void {
    render = openRenderer(source, options)
  },
  answer({ rendering, steps }: Order): Answer {
    try {
      const { value, spans } = render(rendering, steps)
      return { value, spans }
    } catch (error) {
      if (error instanceof TemplateError)
        return { refusal: error.message, isOutOfSteps: error instanceof OutOfSteps }
      throw error
    }
  },
})
