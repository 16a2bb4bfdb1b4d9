// What `import … from "sinter"` gives: a model inside one's own process, and the server.

export {
  type Answer,
  type ChatFields,
  type ChatInput,
  type EmbedFields,
  type GenerateFields,
  type LoadOptions,
  load,
  type Model,
  type Reply,
} from "./app/library.ts"
export type { AppChat, ChatCall, CompletionCall } from "./app/requests.ts"
export { type App, type AppOptions, createApp, type Ready, type Summary } from "./app.ts"
export type { ChatMessage, ChatReply, ReplyEvent } from "./chat/conversation.ts"
export type { Mode, Overrides } from "./engine/limits.ts"
export { type ErrorCode, Problem } from "./errors.ts"
export type { HttpOptions } from "./http/service.ts"
export { createLog, type Log, type LogLevel } from "./log.ts"
export type { DeviceRequest } from "./runtime/devices.ts"
export { version } from "./version.ts"
