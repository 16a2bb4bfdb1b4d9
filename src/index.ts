// What `import … from "sinter"` gives: the server, to be run inside one's own process.

export type { AppChat, ChatCall, CompletionCall } from "./app/requests.ts"
export { type App, type AppOptions, createApp, type Ready, type Summary } from "./app.ts"
export type { ChatMessage, ChatReply, ReplyEvent } from "./chat/conversation.ts"
export type { Mode, Overrides } from "./engine/limits.ts"
export { type ErrorCode, Problem } from "./errors.ts"
export type { HttpOptions } from "./http/service.ts"
export { createLog, type Log, type LogLevel } from "./log.ts"
export type { DeviceRequest } from "./runtime/devices.ts"
export { version } from "./version.ts"
