// What only a browser shows: the docs page at work, and which pages may read the server.

import { once } from "node:events"
import { readFileSync } from "node:fs"
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import type { ChatRequest } from "../../src/chat/conversation.ts"
import { routes } from "../../src/http/routes.ts"
import type { CorsOptions } from "../../src/http/service.ts"
import { server } from "../api/server.ts"
import { isLeftOut } from "../left-out.ts"
import { goldenFolder } from "../model/golden.ts"
import { sound, wavOf } from "../model/recordings.ts"
import { parrot, saying, usage } from "../parrot.ts"
import { chromium, openBrowser, type Page } from "./browser.ts"

interface Media {
  image?: Uint8Array
  audio?: Uint8Array
}

const needsChromium = chromium ? "in Chromium" : "in Chromium: none on this machine"

describe.skipIf(isLeftOut(chromium))(needsChromium, () => {
  let page: Page
  beforeAll(async () => {
    page = await openBrowser()
  })
  afterAll(() => page?.close())

  describe("the docs page", () => {
    const running = server()

    test("lists every endpoint, sends a request and shows the stream as it comes", async () => {
      await page.open(`${running.url}/docs`)
      await page.evaluate(`new Promise((resolve) => {
        const look = () => document.querySelector("details[open]") ? resolve() : setTimeout(look, 20)
        look()
      })`)
      const listed = await page.evaluate<string[]>(
        `[...document.querySelectorAll("main > details")].map((row) => row.id)`,
      )
      expect(listed).toEqual(routes.map(({ method, path }) => `${method} ${path}`))

      const lengths = await page.evaluate<number[]>(`new Promise((resolve) => {
        const row = document.querySelector("details[open]")
        const lengths = []
        new MutationObserver(() => {
          const length = row.querySelector(".reply")?.textContent.length ?? 0
          if (length !== lengths.at(-1)) lengths.push(length)
          if (/ms$/.test(row.querySelector(".inside > div > div:last-child > p:last-child")?.textContent)) resolve(lengths)
        }).observe(row, { childList: true, subtree: true, characterData: true })
        row.querySelector("button").click()
      })`)
      expect(lengths.length).toBeGreaterThan(3)
      expect(lengths).toEqual([...lengths].sort((a, b) => a - b))

      // The picture in docs/ is taken anew when asked for, or every run would change it.
      const picture = process.env.SCREENSHOT
      if (picture) await page.screenshot(pathToFileURL(picture))
      const elsewhere = page.requests.filter((url) => !url.startsWith(`${running.url}/`))
      expect(elsewhere.filter((url) => url !== "about:blank" && !url.startsWith("data:"))).toEqual(
        [],
      )
      expect(page.errors).toEqual([])
    })
  })

  test("the docs page shows what it may not copy, as a command that asks the same", async () => {
    const { port } = parrot(saying("Yes."))
    await page.open(`http://127.0.0.1:${await port()}/docs`)
    const commands = await page.evaluate<string[]>(`new Promise((resolve) => {
      // As in a page from another machine over http: https://w3c.github.io/clipboard-apis/ has it in secure contexts alone.
      Object.defineProperty(navigator, "clipboard", { value: undefined })
      const rows = ["POST /v1/chat/completions", "POST /debug/dump_event_trace"]
      const look = () => document.querySelector("details[open]") ? press() : setTimeout(look, 20)
      const press = () => {
        byId("dialect").value = "openai"
        for (const id of rows) byId(id).querySelectorAll("button")[2].click()
        setTimeout(() => resolve(rows.map((id) => byId(id).querySelector(".inside > div > div:last-child pre")?.textContent)))
      }
      look()
    })`)
    expect(commands[0]).toMatch(
      /^curl -N 'http:.+\/v1\/chat\/completions' \\\n {2}-H 'X-API-Dialect: openai'/,
    )
    expect(commands[1]).toMatch(/^curl -N -X POST 'http:.+\/debug\/dump_event_trace'/)
  })

  test("the docs page sends a form with the file that was chosen", async () => {
    const { port, service, asked } = parrot(saying("Yes."))
    Object.assign(service.model, { hears: true })
    await page.open(`http://127.0.0.1:${await port()}/docs`)
    const shown = await page.evaluate<string>(`new Promise((resolve) => {
      const look = () => document.querySelector("details[open]") ? send() : setTimeout(look, 20)
      const send = () => {
        const row = byId("POST /v1/audio/transcriptions")
        const chosen = new DataTransfer()
        chosen.items.add(new File(["RIFF"], "a.wav"))
        row.querySelector("input[type=file]").files = chosen.files
        new MutationObserver(() => {
          const { textContent } = row.querySelector(".inside > div")
          if (/ ms$/.test(textContent)) resolve(textContent)
        }).observe(row, { childList: true, subtree: true })
        row.querySelector("button").click()
      }
      look()
    })`)
    expect(shown).toContain('"text": "Yes."')
    const [{ messages }] = asked as [ChatRequest]
    expect(messages[0]!.parts![0]).toEqual({ audio: Buffer.from("RIFF"), field: "file" })
  })

  describe("the chat page", () => {
    const running = server()
    const until = (condition: string) =>
      page.evaluate(`new Promise((resolve) => {
        const look = async () => (await (${condition})) ? resolve(true) : setTimeout(look, 10)
        look()
      })`)
    const isDone = "!running && document.querySelectorAll('article.assistant').length > 0"
    const say = async (text: string) => {
      await page.evaluate(
        `byId("text").value = ${JSON.stringify(text)}, byId("ask").requestSubmit()`,
      )
    }
    const texts = (selector: string) =>
      page.evaluate<string[]>(
        `[...document.querySelectorAll(${JSON.stringify(selector)})].map((one) => one.textContent)`,
      )

    test("writes as the model does, stops, edits, asks again and remembers", async () => {
      await page.resize(390, 844)
      await page.open(`${running.url}/`)
      await until("document.querySelector('#model option')")
      // So long that it is written over several frames, however quick the machine is.
      await page.evaluate(
        `current.settings = { temperature: 0, seed: 1, ignore_eos: true, max_tokens: 150 }, 0`,
      )
      await page.evaluate(`window.lengths = new Set(), new MutationObserver(() => {
        window.lengths.add(document.querySelector("article.assistant")?.textContent.length)
      }).observe(byId("log"), { childList: true, subtree: true })`)
      await say("Hello! Who are you?")
      await until(isDone)
      expect(await page.evaluate<number>("window.lengths.size")).toBeGreaterThan(3)
      const [first = ""] = await texts("article.assistant .text")
      expect(first).toMatch(/\w+ \w+/)
      expect((await texts("article.assistant .foot"))[0]).toMatch(/\d+ tokens, \d+ a second/)

      await page.evaluate(
        `[...document.querySelectorAll("button")].find((one) => one.textContent === "Again").click()`,
      )
      await until(isDone)
      expect(await texts("article.assistant .text")).toEqual([first])

      await page.evaluate(`delete current.settings.max_tokens, 0`)
      await say("Tell me more.")
      await until("running?.message.content.length > 20")
      await page.evaluate(`document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }))`)
      await until(isDone)
      expect((await texts("article.assistant .foot")).at(-1)).toContain("stopped")

      await page.evaluate(
        `[...document.querySelectorAll("button")].findLast((one) => one.textContent === "Edit").click()`,
      )
      expect(await page.evaluate('byId("text").value')).toBe("Tell me more.")
      expect(await texts("article.assistant .text")).toEqual([first])
      await page.evaluate(`byId("text").value = "", keep()`)
      await page.open(`${running.url}/`)
      await until("document.querySelectorAll('article').length === 2")
      expect(await texts("article.assistant .text")).toEqual([first])
    })

    test("Markdown is elements of its own, and what a model writes is never markup", async () => {
      const written = [
        "# Title <b>",
        "",
        "Some **bold *soft*** `a*b*` 2*3*4 <script>window.hit = 1</script>",
        "",
        "- one",
        "  - two",
        "",
        "1. first",
        "",
        "| a | b |",
        "|---|---|",
        "| 1 | [x](javascript:hit) |",
        "",
        "```html",
        "<i>code</i>",
        "```",
        "> [page](https://example.org)",
      ]
      const seen = await page.evaluate<Record<string, number>>(`(() => {
        current.messages.push({ role: "assistant", content: ${JSON.stringify(written.join("\n"))} })
        showLog()
        const last = [...document.querySelectorAll("article")].at(-1)
        const count = (selector) => last.querySelectorAll(selector).length
        const selectors = ["h2", "strong em", "p > code", "script", "b", "i", "ul ul li", "ol li", "th", "td", "pre code", "blockquote a", "a"]
        return Object.fromEntries(selectors.map((selector) => [selector, count(selector)]))
      })()`)
      expect(seen).toEqual({
        ...{ h2: 1, "strong em": 1, "p > code": 1, script: 0, b: 0, i: 0, "ul ul li": 1 },
        ...{ "ol li": 1, th: 2, td: 2, "pre code": 1, "blockquote a": 1, a: 1 },
      })
      const widths = await page.evaluate<number[]>(
        `[document.documentElement.scrollWidth, byId("log").scrollWidth]`,
      )
      expect(
        widths.every((width) => width <= 390),
        String(widths),
      ).toBe(true)
    })

    test("a reply that is cut, refused by a proxy or never begun says so", async () => {
      const half = 'data: {"choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n'
      const replies: ((answer: ServerResponse) => void)[] = [
        (answer) => answer.write(half, () => answer.socket!.end()),
        (answer) => answer.end(half),
        (answer) => answer.writeHead(502).end("<html>"),
      ]
      const chat = await (await fetch(`${running.url}/`)).text()
      const failing = createServer((request, answer) => {
        if (request.url === "/") answer.setHeader("content-type", "text/html").end(chat)
        else if (request.url === "/v1/models") answer.end('{"data":[{"id":"tiny"}]}')
        else request.resume().once("end", () => replies.shift()!(answer))
      })
      await once(failing.listen(0, "127.0.0.1"), "listening")
      const { port } = failing.address() as AddressInfo
      await page.open(`http://127.0.0.1:${port}/`)
      await until("document.querySelector('#model option')")
      const failures: string[] = []
      for (const text of ["cut", "ended", "refused", "gone"]) {
        if (text === "gone") {
          failing.closeAllConnections()
          await once(failing.close(), "close")
        }
        await say(text)
        const [kept] = await page.evaluate<[{ messages: { content: string }[] }]>("stored()")
        expect(kept.messages.map(({ content }) => content)).toContain(text)
        await until("!running")
        failures.push((await texts("article .bad")).at(-1)!)
      }
      const cut = "The connection ended before the reply did; Again asks once more."
      expect(failures).toEqual([
        ...[cut, cut, "The answer was 502 Bad Gateway"],
        "The server cannot be reached; is it still running?",
      ])
    })

    test("what is focused stays so while the reply goes on", async () => {
      const steps: (() => void)[] = []
      const [first, second] = [1, 2].map(() => new Promise<void>((goOn) => steps.push(goOn)))
      const { port } = parrot(async function* () {
        yield { kind: "reasoning", choice: 0, text: "One", logprobs: [] }
        await first
        yield { kind: "reasoning", choice: 0, text: " two", logprobs: [] }
        yield { kind: "content", choice: 0, text: "```\ncode\n```\n\nsome", logprobs: [] }
        await second
        yield { kind: "content", choice: 0, text: " more", logprobs: [] }
        yield { kind: "finish", choice: 0, reason: "stop" }
        yield { kind: "usage", usage }
      })
      await page.open(`http://127.0.0.1:${await port()}/`)
      await until("document.querySelector('#model option')")
      await say("Think!")
      await until("document.querySelector('summary')")
      await page.evaluate(`document.querySelector("details").open = true,
        document.querySelector("summary").focus()`)
      steps[0]!()
      await until("document.querySelector('.text > p')")
      expect(await page.evaluate("document.activeElement.textContent")).toBe("Thoughts")
      expect(await texts("details[open] > div")).toEqual(["One two"])
      await page.evaluate(`document.querySelector(".block button").focus()`)
      steps[1]!()
      await until(isDone)
      expect(await texts(".text > p")).toEqual(["some more"])
      expect(await page.evaluate("document.activeElement.parentNode.className")).toBe("block")
    })

    test("images and recordings are attached, sent, kept and taken back", async () => {
      const { port, service, asked } = parrot(saying("Yes."))
      const { model } = service
      Object.assign(model, { sees: true, hears: true })
      const url = `http://127.0.0.1:${await port()}/`
      await page.open(url)
      await until("!byId('attach').hidden && !byId('record').hidden")
      expect(await page.evaluate("byId('files').accept")).toBe("image/*,audio/*,video/mp4")
      // A second of 100 Hz, left alone, of a type that the server is not given: half as loud in one channel, as 16 bits of 16 kHz.
      await page.evaluate(`(async () => {
        const sound = new Float32Array(48000).map((_, i) => Math.sin(2 * Math.PI * 100 * i / 48000))
        const stereo = new Int16Array(22 + 96000)
        stereo.set([0x4952, 0x4646, 0, 0, 0x4157, 0x4556, 0x6d66, 0x2074, 16, 0, 1, 2, 48000, 0, 192000, 192000 >> 16, 4, 16, 0x6164, 0x6174, 192000, 192000 >> 16])
        sound.forEach((value, i) => (stereo[22 + 2 * i] = value * 32000))
        const chosen = new DataTransfer()
        chosen.items.add(new File(["GIF8"], "a.gif", { type: "image/gif" }))
        chosen.items.add(new File([stereo], "b.aiff", { type: "audio/aiff" }))
        chosen.items.add(new File(["none"], "c.bmp", { type: "image/bmp" }))
        chosen.items.add(new File(["none"], "d.pdf", { type: "application/pdf" }))
        document.dispatchEvent(new DragEvent("drop", { dataTransfer: chosen, cancelable: true }))
      })()`)
      await until("byId('held').textContent.includes('d.pdf')")
      expect(await texts("#held .bad")).toEqual([
        "c.bmp: this browser cannot read it as an image. d.pdf: this model takes images and recordings.",
      ])
      expect(await page.evaluate("attached.map(({ name }) => name)")).toEqual(["a.gif", "b.aiff"])
      await say("What is it?")
      await until(isDone)
      const parts = (at: number) => (asked[at] as ChatRequest).messages.at(-1)!.parts!
      const [image, recording, text] = parts(0) as [Media, Media, object]
      expect(image.image).toEqual(Buffer.from("GIF8"))
      expect(text).toEqual({ text: "What is it?" })
      const wav = Buffer.from(recording.audio!)
      expect(wav.toString("latin1", 0, 4) + wav.readUInt32LE(24)).toBe("RIFF16000")
      expect(wav.length).toBe(44 + 32_000)
      const expected = (i: number) => (32_000 / 2) * Math.sin((2 * Math.PI * 100 * i) / 16_000)
      for (const i of [4_000, 4_010, 8_025, 12_043])
        expect(Math.abs(wav.readInt16LE(44 + 2 * i) - expected(i))).toBeLessThan(20)

      // As kept: what the page asks next is what it asked, from its store.
      const holds = (count: number) =>
        until(`inStore("readonly", (store) => store.count()).then((count) => count === ${count})`)
      await holds(2)
      await page.open(url)
      await until(
        "document.querySelector('article audio')?.src && document.querySelector('article img')?.src",
      )
      await page.evaluate(
        `[...document.querySelectorAll("button")].find((one) => one.textContent === "Again").click()`,
      )
      await until(isDone)
      expect(parts(1)).toEqual(parts(0))
      await page.evaluate(
        `[...document.querySelectorAll("button")].find((one) => one.textContent === "Edit").click()`,
      )
      await page.evaluate(`document.querySelector("[aria-label='Remove a.gif']").click()`)
      await page.evaluate(`record()`)
      await until("recorder?.state === 'recording'")
      await page.evaluate(`new Promise((resolve) => setTimeout(resolve, 300)).then(record)`)
      await until("attached.length === 2")
      await say("And this?")
      await until(isDone)
      const [kept, spoken] = parts(2) as [Media, Media]
      expect(kept.audio).toEqual(recording.audio)
      expect(Buffer.from(spoken.audio!).readUInt32BE()).toBe(0x1a45dfa3) // WebM
      expect(spoken.audio!.length).toBeGreaterThan(200)
      await page.evaluate("forget(current)")
      await holds(0)
    })

    describe("a model that writes down recordings", () => {
      const running = server({
        model: goldenFolder("whisper", "english"),
        overrides: { kv_dtype: "f32" },
      })

      test("is given them one by one, and refuses words alone", async () => {
        await page.open(running.url)
        await until("!byId('record').hidden")
        await say("Hello?")
        await until(isDone)
        expect(await texts("article .bad")).toEqual([
          "This model writes down what is said: attach a recording, or record one.",
        ])
        const file = join(goldenFolder("whisper", "english"), "golden.json")
        const { prompts } = JSON.parse(readFileSync(file, "utf8"))
        const { sound: recipe, segments } = prompts.find(
          (each: { timestamps?: true }) => !each.timestamps,
        )
        const wav = wavOf(sound(recipe.samples, recipe.seed)).toString("base64")
        await page.evaluate(`(async () => {
          const bytes = Uint8Array.from(atob("${wav}"), (character) => character.charCodeAt(0))
          const names = ["a.wav", "b.wav"]
          await attach(names.map((name) => new File([bytes], name, { type: "audio/wav" })))
          byId("ask").requestSubmit()
        })()`)
        await until(isDone)
        const text = segments
          .map((each: { text: string }) => each.text)
          .join("")
          .trim()
        const whole = await page.evaluate("current.messages.at(-1)")
        expect(whole).toMatchObject({ content: `${text}\n\n${text}` })
      })
    })

    test("two tabs keep each other's conversations", async () => {
      const { port } = parrot(saying("Yes."))
      await page.open(`http://127.0.0.1:${await port()}/live`)
      const titles = ["From the first", "From the second"]
      for (const tab of ["first", "second"]) {
        await page.evaluate(`void (window.${tab} = window.open("/"))`)
        await until(`${tab}.document.querySelector("#model option")`)
      }
      const isListed = (tab: string, title: string) =>
        `[...${tab}.document.querySelectorAll("nav .open")].some((one) => one.textContent === "${title}")`
      for (const [i, tab] of ["first", "second"].entries()) {
        await page.evaluate(`${tab}.open(${tab}.fresh()), ${tab}.document.getElementById("text").value = "${titles[i]}",
          ${tab}.document.getElementById("ask").requestSubmit()`)
        await until(`${tab}.document.querySelector("article.assistant .foot button")`)
        for (const each of ["first", "second"]) await until(isListed(each, titles[i]!))
      }
      await page.evaluate("first.keep(), first.close(), second.close()")
      const kept = await page.evaluate<{ title: string }[]>(
        `JSON.parse(localStorage.getItem("sinter.conversations"))`,
      )
      expect(kept.map(({ title }) => title).sort()).toEqual(titles)
    })

    test("a call waits for its result, and settings hold the reply", async () => {
      await page.open(`${running.url}/`)
      await until("document.querySelector('#model option')")
      await page.evaluate(`open(fresh()), byId("set").click()`)
      const tool = {
        type: "function",
        function: {
          name: "get_weather",
          description: "The weather of a city",
          parameters: {
            type: "object",
            properties: { city: { type: "string" } },
            required: ["city"],
          },
        },
      }
      await page.evaluate(`byId("tools").value = ${JSON.stringify(JSON.stringify([tool]))},
        byId("temperature").value = "0",
        byId("settings").querySelector("button.main").click()`)
      await say("What is the weather in Rome?")
      await until(isDone)
      expect(await texts(".call b")).toEqual(["get_weather"])
      await page.evaluate(`document.querySelector(".call input").value = "12 degrees, sunny",
        document.querySelector(".call button").click()`)
      await until(`${isDone} && document.querySelectorAll("article.assistant").length === 2`)
      expect((await texts("article.assistant .text")).at(-1)).toMatch(/\w/)

      await page.evaluate(`open(fresh()), byId("set").click(),
        byId("schema").value = '{"enum": ["yes", "no"]}',
        byId("settings").querySelector("button.main").click()`)
      await say("Is water wet?")
      await until(isDone)
      expect(['"yes"', '"no"']).toContain((await texts("article.assistant .text"))[0])
      const elsewhere = page.requests.filter((url) => url.startsWith("http"))
      expect(elsewhere.every((url) => url.startsWith("http://127.0.0.1:"))).toBe(true)
      expect(page.errors).toEqual([])
      await page.resize(0, 0)
    })
  })

  describe("the docs page on a telephone", () => {
    const running = server()

    test("is as wide as its screen, with everything open and an answer in it", async () => {
      await page.resize(390, 844)
      await page.open(`${running.url}/docs`)
      const widths = await page.evaluate<Record<"screen" | "page" | "fields" | "deepest", number>>(`
        new Promise((resolve) => {
          const look = () => document.querySelector("details[open]") ? answer() : setTimeout(look, 20)
          const answer = async () => {
            for (const level of ["main >", ...Array(3).fill("[id='POST /v1/chat/completions']")]) {
              const shut = [...document.querySelectorAll(level + " details:not([open])")]
              const opened = shut.map((each) => new Promise((done) => each.addEventListener("toggle", done)))
              for (const each of shut) each.open = true
              await Promise.all(opened)
            }
            const models = document.getElementById("GET /v1/models")
            models.querySelector("button").click()
            new MutationObserver(() => {
              if (!/ ms$/.test(models.querySelector(".inside > div").textContent)) return
              const { clientWidth, scrollWidth } = document.documentElement
              const fields = document.querySelectorAll("td").length
              const deepest = document.querySelectorAll(".nested .nested .nested td").length
              resolve({ screen: clientWidth, page: scrollWidth, fields, deepest })
            }).observe(models, { childList: true, subtree: true })
          }
          look()
        })`)
      expect(widths.screen).toBe(390)
      expect(widths.page).toBe(390)
      expect(widths.fields).toBeGreaterThan(100)
      expect(widths.deepest).toBeGreaterThan(10)
      await page.resize(0, 0)
    }, 30_000)
  })

  const own = { credentials: false, origins: ["*"], methods: ["*"], headers: ["*"] }

  test.each<[string, CorsOptions | undefined, boolean, boolean]>([
    ["no option", undefined, false, false],
    ["all origins", own, true, false],
    ["credentials", { ...own, credentials: true }, true, true],
    ["another origin", { ...own, origins: ["https://a.example"] }, false, false],
    ["no such header", { ...own, headers: [] }, false, false],
    ["GET alone", { ...own, methods: ["GET"] }, false, false],
  ])("a page from elsewhere, with %s", async (_, cors, posts, withCredentials) => {
    const api = parrot(saying("hello"), { cors })
    const other = parrot()
    const url = `http://127.0.0.1:${await api.port()}/v1/chat/completions`
    await page.open(`http://127.0.0.1:${await other.port()}/live`)
    const read = (credentials: string) =>
      page.evaluate<string>(`fetch(${JSON.stringify(url)}, {
        method: "POST",
        credentials: "${credentials}",
        headers: { "content-type": "application/json", "x-key": "1" },
        body: '{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}',
      }).then((answer) => answer.text(), (error) => error.name)`)
    expect(await read("omit")).toMatch(posts ? /hello/ : /^TypeError$/)
    expect(await read("include")).toMatch(withCredentials ? /hello/ : /^TypeError$/)
    expect(api.asked.length).toBe(Number(posts) + Number(withCredentials))
  })

  // A browser asks nobody before it sends a form, and sends it all the same where the page may not read what comes of it.
  test.each<[string, CorsOptions | undefined, number]>([
    ["no option", undefined, 0],
    ["all origins", own, 1],
    ["another origin", { ...own, origins: ["https://a.example"] }, 0],
    ["GET alone", { ...own, methods: ["GET"] }, 0],
  ])("a form of a page from elsewhere, with %s", async (_, cors, taken) => {
    const api = parrot(saying("hello"), { cors })
    Object.assign(api.service.model, { hears: true })
    const other = parrot()
    const url = `http://127.0.0.1:${await api.port()}/v1/audio/transcriptions`
    await page.open(`http://127.0.0.1:${await other.port()}/live`)
    await page.evaluate(`(() => {
      const form = new FormData()
      form.append("model", "tiny")
      form.append("file", new File(["RIFF"], "a.wav"))
      return fetch(${JSON.stringify(url)}, { method: "POST", mode: "no-cors", body: form }).then(() => {})
    })()`)
    expect(api.asked).toHaveLength(taken)
    expect(api.lines).toMatchObject([{ status: taken ? 200 : 403 }])
  })
})
