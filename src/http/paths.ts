// Which rows of the routes table, and whose API, a request's path belongs to.

import type { FastifyRequest } from "fastify"
import type { Api } from "./apis/api.ts"
import { OPENAI_PATH } from "./apis/chat/dialects/choose.ts"
import { openaiApi } from "./apis/openai.ts"
import type { Route } from "./route.ts"
import { routes } from "./routes.ts"

/** Without the query, and without the host that a request to a proxy names. */
export function pathOf(request: FastifyRequest): string {
  return request.url.replace(/[?#].*$/s, "").replace(/^[a-z]+:\/\/[^/]*/i, "")
}

/** Those of the path, one for each method. */
export function routesOf(path: string): readonly Route[] {
  const plain = plainOf(path)
  return routes.filter((route) => {
    const [start = "", parameter] = route.path.split("{")
    return parameter ? plain.startsWith(start) : plain.replace(/\/$/, "") === start
  })
}

function plainOf(path: string): string {
  return path.startsWith(`${OPENAI_PATH}/v1/`) ? path.slice(OPENAI_PATH.length) : path
}

/** Whose errors a path is answered with: also one below a path of an API that has no route itself. */
export function apiOf(path: string): Api {
  const below = `${plainOf(path)}/`
  const own = routes.find(({ api, path }) => api && below.startsWith(`${api.root ?? path}/`))
  return own?.api ?? openaiApi
}

/**
 * The route whose path, with or without its `/v1`, this one ends in; undefined where there is none. A client's base URL that
 * lacks `/v1`, has it twice or has an endpoint in it makes such paths.
 */
export function meantPath(method: string, path: string): string | undefined {
  const plain = path.replace(/\/$/, "")
  return routes
    .filter((route) => route.method === method && route.path !== "/")
    .map((route) => route.path)
    .sort((a, b) => b.length - a.length)
    .find((route) => plain.endsWith(route.replace(/^\/v1(?=\/)/, "")))
}

/** None where there is no such path. */
export function allowedMethods(path: string): string[] {
  const methods = routesOf(path).flatMap(({ method }) =>
    method === "GET" ? ["GET", "HEAD"] : [method],
  )
  return methods.length > 0 ? [...methods, "OPTIONS"] : []
}
