// How APIs differ beside their requests and replies: how their clients read an error, and how a stream ends. The rest of an API
// is a folder: a schema, the way from its request to the chat room's, and the way from the chat room's events to its reply.

import type { TSchema } from "typebox"
import type { Problem } from "../../errors.ts"

/** The JSON of an event; with its name, where an API names its events. */
export type ServerEvent = string | { name: string; data: string }

/** How events become the text of a stream. */
export interface Framing {
  type: string
  write(event: ServerEvent): string
}

export interface Api {
  /** Below this path it answers what has no route, too; absent: below its routes. */
  root?: string
  /** The header in which its clients look for a request's id; absent: x-request-id alone. */
  idHeader?: string
  /** An error as JSON. */
  errorBody(error: Problem): string
  /** What that holds. */
  ErrorBody: TSchema
  /** Absent: server-sent events. */
  framing?: Framing
  /** What stands behind a whole stream. */
  streamEnd: readonly ServerEvent[]
  /** What ends one that failed. */
  streamFailure(error: Problem): readonly ServerEvent[]
}
