// Which proxy a request goes through: HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, unless NO_PROXY names its host. As curl reads them:
// lower case first, and HTTP_PROXY in lower case alone, since a web server would let its clients set it. But for this machine
// itself there is none: what is sent to it in the clear, a token among it, is to stay on it.
// https://everything.curl.dev/usingcurl/proxies/env.html

import { problem } from "../errors.ts"
import type { Environment } from "./cache.ts"
import { isLoopback } from "./names.ts"

/** The proxy for an address; undefined where it is asked itself. */
export function proxyFor(url: URL, env: Environment): URL | undefined {
  if (isLoopback(url.hostname)) return undefined
  const named =
    url.protocol === "https:"
      ? (env.https_proxy ?? env.HTTPS_PROXY)
      : (env.http_proxy ?? env.HTTP_PROXY)
  const proxy = named || (env.all_proxy ?? env.ALL_PROXY)
  if (!proxy || isExempt(url, env.no_proxy ?? env.NO_PROXY ?? "")) return undefined
  return readProxy(proxy)
}

function readProxy(text: string): URL {
  let proxy: URL | undefined
  try {
    proxy = new URL(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`)
  } catch {}
  if (proxy && /^https?:$/.test(proxy.protocol)) return proxy
  throw problem("option_invalid", {
    option: "HTTPS_PROXY",
    problem: "expected http://HOST:PORT or https://HOST:PORT; other proxies are not spoken to.",
  })
}

/** Entries are a host with all that end in it, an address, or `*` for all; a port may stand behind them. */
function isExempt({ hostname, port, protocol }: URL, list: string): boolean {
  const own = port || (protocol === "https:" ? "443" : "80")
  const host = bare(hostname)
  return list
    .split(/[\s,]+/)
    .filter(Boolean)
    .some((entry) => {
      if (entry === "*") return true
      const [, name = "", only] = /^(\[[^\]]*\]|[^:]*|.*:.*:.*?)(?::(\d+))?$/.exec(entry) ?? []
      const suffix = bare(name).replace(/^\*?\./, "")
      if (suffix === "" || (only !== undefined && only !== own)) return false
      return host === suffix || host.endsWith(`.${suffix}`)
    })
}

const bare = (host: string) => host.toLowerCase().replace(/^\[|\]$/g, "")

export function proxyAuthorization({ username, password }: URL): Record<string, string> {
  if (!username && !password) return {}
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { "proxy-authorization": `Basic ${Buffer.from(pair).toString("base64")}` }
}
