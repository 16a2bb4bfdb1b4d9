// The API as an OpenAPI 3.1 document, printed from the routes and their schemas. Schemas with a title become named
// components, so that a type used in three places is described once.

import type { TSchema } from "typebox"
import { openaiApi } from "./apis/openai.ts"
import type { Json } from "./json.ts"
import type { Route } from "./route.ts"

type Members = Record<string, Json>

/** @param model the name that examples ask for */
export function openapiDocument(routes: readonly Route[], version: string, model: string): Json {
  const components: Members = {}
  const paths: Record<string, Members> = {}
  for (const route of routes) {
    paths[route.path] ??= {}
    paths[route.path]![route.method.toLowerCase()] = operation(route, components, model)
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "sinter",
      version,
      description:
        "A compiled language model behind HTTP. Paths under /v1 are served under /openai/v1 too, in the shapes of OpenAI's clients.",
    },
    paths,
    components: {
      schemas: components,
      securitySchemes: { key: { type: "http", scheme: "bearer" } },
    },
    security: [{}, { key: [] }],
  }
}

function operation(route: Route, components: Members, model: string): Json {
  const parameters = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name: name!,
    in: "path",
    required: true,
    schema: { type: "string" },
  }))
  return {
    summary: route.summary,
    ...(parameters.length > 0 && { parameters }),
    ...(route.body && {
      requestBody: {
        required: true,
        content: {
          [route.takes === "form" ? "multipart/form-data" : "application/json"]: {
            schema: named(route.body, components),
            ...(route.example && { example: exampleOf(route, model) as Json }),
          },
        },
      },
    }),
    responses: {
      "200": { description: "The answer.", content: answerContent(route, components) },
      default: {
        description: "What was wrong, in one sentence.",
        content: {
          "application/json": { schema: named((route.api ?? openaiApi).ErrorBody, components) },
        },
      },
    },
  }
}

/** A body that a server of this model answers as it is. */
export function exampleOf({ body, example }: Route, model: string): object {
  const { properties = {} } = body as { properties?: object }
  return { ...("model" in properties && { model }), ...example }
}

function answerContent({ api, answer, chunk }: Route, components: Members): Json {
  if (answer === "html") return { "text/html": { schema: { type: "string" } } }
  if (answer === "text") return { "text/plain": { schema: { type: "string" } } }
  return {
    "application/json": { schema: named(answer, components) },
    ...(chunk && { [framing(api)]: { schema: named(chunk, components) } }),
  }
}

function framing(api: Route["api"]): string {
  return api?.framing?.type ?? "text/event-stream"
}

/** The schema with every titled part replaced by a reference to its component. */
function named(schema: TSchema, components: Members): Json {
  const printed = within(schema as unknown as Json, components)
  const { title } = schema as { title?: string }
  if (title === undefined) return printed
  components[title] = printed
  return { $ref: `#/components/schemas/${title}` }
}

function within(value: Json, components: Members): Json {
  if (typeof value !== "object" || value === null) return value
  const inner = (each: Json) =>
    typeof each === "object" && each !== null && "title" in each && typeof each.title === "string"
      ? named(each as unknown as TSchema, components)
      : within(each, components)
  if (Array.isArray(value)) return (value as readonly Json[]).map(inner)
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, inner(member as Json)]),
  )
}
