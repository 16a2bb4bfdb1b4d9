// Constraints away from the event loop: one thread compiles schemas, another makes masks, so that masks never wait for
// compiling; a third, started when it is needed, makes those of what compiled or moved slowly, so that nobody waits for
// these either. What has been compiled is remembered here: who asks for it again does not wait for what others compile.

import { createHash } from "node:crypto"
import { Closing } from "../closing.ts"
import type { Constraint } from "../engine/generation.ts"
import { LruMap } from "../lru.ts"
import type { Caller } from "../worker/lane.ts"
import { type CompileLimits, CompileThread } from "./compile-thread.ts"
import { type ConstraintHandle, type ConstraintOptions, grammarOptions } from "./constraint.ts"
import type { ResponseFormat, SchemaVerdict } from "./conversation.ts"
import { type Arguments, type ConstraintSpec, keyOf } from "./grammars.ts"
import {
  DistantConstraint,
  type Known,
  type MaskLimits,
  type MaskThread,
  maskThread,
} from "./mask-thread.ts"

export interface ConstraintLimits {
  compiling: Partial<CompileLimits>
  quick: Partial<MaskLimits>
  slow: Partial<MaskLimits>
  /** What takes longer to compile has its masks made by the slow thread, which compiles it once more. */
  compiledMilliseconds: number
  /** Whether threads begin before somebody asks for them; absent: they do. */
  areAhead: boolean
}

// What takes the quick thread too long goes to the slow one, which compiles it once more before its first mask.
const QUICK: MaskLimits = { milliseconds: 3_000, megabytes: 1024 }
const SLOW: MaskLimits = { milliseconds: 10_000, megabytes: 1024 }

const QUICKLY_COMPILED = 250 // milliseconds

const MAX_KNOWN = 1024

/** Threads that nobody has asked for yet leave the processors to the server's start, and to the answer it was started for. */
const BEFORE_START = 1000 // milliseconds

export class ConstraintThreads {
  readonly #words: number
  readonly #compiler: CompileThread
  readonly #threads: { quick: MaskThread; slow: MaskThread }
  readonly #known = new LruMap<Known>(MAX_KNOWN)
  readonly #compiledMilliseconds: number
  readonly #closing = new Closing()
  #sequences = 0

  constructor(options: ConstraintOptions, limits: Partial<ConstraintLimits> = {}) {
    this.#words = Math.ceil(options.tokens.size / 32)
    this.#compiledMilliseconds = limits.compiledMilliseconds ?? QUICKLY_COMPILED
    this.#compiler = new CompileThread(grammarOptions(options), limits.compiling)
    this.#threads = {
      quick: maskThread(options, { ...QUICK, ...limits.quick }),
      slow: maskThread(options, { ...SLOW, ...limits.slow }),
    }
    for (const each of [this.#compiler, ...Object.values(this.#threads)]) this.#closing.add(each)
    if (limits.areAhead === false) return
    const timer = setTimeout(() => this.#start(), BEFORE_START).unref()
    this.#closing.add({ close: async () => clearTimeout(timer) })
  }

  /** Before the first request that needs them, or with it: the vocabulary takes too long to begin behind its schema. */
  #start(): void {
    this.#compiler.start()
    this.#threads.quick.start()
  }

  /** Rejects with the problem that refuses a schema, `queue_full`, or the signal's reason. */
  async hold(spec: ConstraintSpec, caller: Caller): Promise<ConstraintHandle> {
    caller.signal?.throwIfAborted()
    this.#start()
    const text = keyOf(spec)
    const key = createHash("sha256").update(text).digest("base64")
    const known =
      this.#known.get(key) ?? this.#known.put(key, await this.#compiled(spec, text.length, caller))
    return { unenforced: known.unenforced, constraint: () => this.#open(spec, known) }
  }

  check(schema: ResponseFormat | Arguments, caller: Caller): Promise<SchemaVerdict> {
    return this.#compiler.check(schema, caller)
  }

  async close(): Promise<void> {
    await this.#closing.close()
  }

  async #compiled(spec: ConstraintSpec, size: number, caller: Caller): Promise<Known> {
    const { unenforced, milliseconds } = await this.#compiler.hold(spec, size, caller)
    return { unenforced, isSlow: milliseconds > this.#compiledMilliseconds }
  }

  #open(spec: ConstraintSpec, known: Known): Constraint {
    return new DistantConstraint(spec, known, this.#threads, this.#sequences++, this.#words)
  }
}
