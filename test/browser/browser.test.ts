// What only a browser shows: the docs page at work, and which pages may read the server.

import { pathToFileURL } from "node:url"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { routes } from "../../src/http/routes.ts"
import type { CorsOptions } from "../../src/http/service.ts"
import { server } from "../api/server.ts"
import { isLeftOut } from "../left-out.ts"
import { parrot, saying } from "../parrot.ts"
import { chromium, openBrowser, type Page } from "./browser.ts"

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

  describe("the docs page on a telephone", () => {
    const running = server()

    test("is as wide as its screen, with everything open and an answer in it", async () => {
      await page.resize(390, 844)
      await page.open(`${running.url}/docs`)
      const widths = await page.evaluate<{ screen: number; page: number; fields: number }>(`
        new Promise((resolve) => {
          const look = () => document.querySelector("details[open]") ? answer() : setTimeout(look, 20)
          const answer = () => {
            for (const each of document.querySelectorAll("details")) each.open = true
            const models = document.getElementById("GET /v1/models")
            models.querySelector("button").click()
            new MutationObserver(() => {
              if (!/ms$/.test(models.textContent)) return
              const { clientWidth, scrollWidth } = document.documentElement
              const fields = document.querySelectorAll("td").length
              resolve({ screen: clientWidth, page: scrollWidth, fields })
            }).observe(models, { childList: true, subtree: true })
          }
          look()
        })`)
      expect(widths.screen).toBe(390)
      expect(widths.page).toBe(390)
      expect(widths.fields).toBeGreaterThan(100)
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
})
