// What APIs differ in beside their requests and replies: how their clients read an error, and how a stream ends. What an API
// is besides lies in folders: a schema, the way from a request to the chat room's, the way from its events to a reply.

import type { TSchema } from "typebox"
import type { Problem } from "../../errors.ts"

/** The JSON of an event; with its name, where an API names its events. */
export type ServerEvent = string | { name: string; data: string }

export interface Api {
  /** An error as JSON. */
  errorBody(error: Problem): string
  /** What that holds. */
  ErrorBody: TSchema
  /** What stands behind a whole stream. */
  streamEnd: readonly ServerEvent[]
  /** What ends one that failed. */
  streamFailure(error: Problem): readonly ServerEvent[]
}
