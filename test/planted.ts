// Faults that somebody could make, and the test file that notices each: `npm run mutate` plants one after the other in a copy
// and says which were not noticed. A row belongs here when a test was written for it, or when it was once found alive.
// Its text stands once in its file; a test of this table says so, since code moves on.

export interface PlantedFault {
  /** What goes wrong, for whoever reads that it lived. */
  what: string
  file: string
  text: string
  /** What stands there instead. */
  fault: string
  /** The file that must fail then; of one that takes minutes, the test in it. */
  test: string
  name?: string
}

export const planted: readonly PlantedFault[] = [
  // ---- sampling
  {
    what: "min-p at 1 drops the likeliest token itself",
    file: "src/runtime/sampling.ts",
    text: "expSingle(from) < minP",
    fault: "expSingle(from) <= minP",
    test: "src/runtime/sampling.test.ts",
  },
  {
    what: "repetition divides negative logits",
    file: "src/runtime/sampling.ts",
    text: "score > 0 ? inverse : repetition",
    fault: "inverse",
    test: "src/runtime/sampling.test.ts",
  },
  {
    what: "repetition comes after the other penalties",
    file: "src/runtime/sampling.ts",
    text: "settled(settled(repeated - counted) - presence)",
    fault: "settled(repeated - settled((counted + presence) * inverse))",
    test: "src/runtime/sampling.test.ts",
  },
  {
    what: "penalties come before the bias",
    file: "src/runtime/sampling.ts",
    text: "    addBias(scores, row, rows)\n    penalise(scores, row, rows)\n",
    fault: "    penalise(scores, row, rows)\n    addBias(scores, row, rows)\n",
    test: "src/runtime/sampling.test.ts",
  },
  {
    what: "of equals the higher id is taken",
    file: "src/runtime/sampling.ts",
    text: "(scores[a] === scores[b] && a < b)",
    fault: "(scores[a] === scores[b] && a > b)",
    test: "src/runtime/sampling.test.ts",
  },
  {
    what: "the noise leaves out half a step of its word",
    file: "src/runtime/noise.ts",
    text: "Math.fround(Math.fround(r) + 0.5)",
    fault: "Math.fround(r)",
    test: "src/runtime/noise.test.ts",
  },
  {
    what: "the noise has the other sign",
    file: "src/runtime/noise.ts",
    text: "return -logSingle(-log)",
    fault: "return logSingle(-log)",
    test: "src/runtime/noise.test.ts",
  },
  {
    what: "in C, repetition divides negative logits",
    file: "src/compiler/targets/cpu/kernels/sampler.h",
    text: "*score > 0 ? inverse : repetition",
    fault: "inverse",
    test: "test/model/sampler.test.ts",
  },
  {
    what: "in C, repetition comes after the other penalties",
    file: "src/compiler/targets/cpu/kernels/sampler.h",
    text: "settled(repeated - settled((float)a->counts[i] * frequency)) - presence",
    fault: "repeated - settled(((float)a->counts[i] * frequency + presence) * inverse)",
    test: "test/model/sampler.test.ts",
  },
  {
    what: "in C, tokens behind the last whole block never come",
    file: "src/compiler/targets/cpu/kernels/sampler.h",
    text: "s.blocks = (vocabulary + AT_ONCE - 1) / AT_ONCE",
    fault: "s.blocks = vocabulary / AT_ONCE",
    test: "test/model/sampler.test.ts",
  },
  {
    what: "in C, large noise is thought impossible",
    file: "src/compiler/targets/cpu/kernels/sampler.h",
    text: "#define MOST_NOISE 23.0",
    fault: "#define MOST_NOISE 4.0",
    test: "test/model/sampler.test.ts",
  },

  // ---- heads that propose tokens
  {
    what: "EAGLE's token and hidden row change places",
    file: "src/model/architectures/eagle.ts",
    text: "concat(embed(table), hiddenIn(hidden))",
    fault: "concat(hiddenIn(hidden), embed(table))",
    test: "test/model/heads.test.ts",
  },
  {
    what: "Medusa's residual is left out",
    file: "src/model/architectures/medusa.ts",
    text: 'x = add(x, apply("silu", linear(x, matrix, bias)))',
    fault: 'x = apply("silu", linear(x, matrix, bias))',
    test: "test/model/heads.test.ts",
  },
  {
    what: "EAGLE goes on from an empty row instead of its own guess",
    file: "src/engine/drafters/chain.ts",
    text: "end - 1, end, 1, () => last",
    fault: "end - 1, end, 1, () => last.fill(0)",
    test: "test/model/heads.test.ts",
  },
  {
    what: "all of Medusa's heads draw with the first one's noise",
    file: "src/engine/drafters/medusa.ts",
    text: "const end = length + drafts.length",
    fault: "const end = length",
    test: "test/model/heads.test.ts",
  },

  // ---- blocks, prefixes, time
  {
    what: "blocks worth remembering are the first to be taken",
    file: "src/engine/blocks.ts",
    text: "if (this.#contents.has(block)) this.#append(block)",
    fault: "if (!this.#contents.has(block)) this.#append(block)",
    test: "src/engine/prefixes.test.ts",
  },
  {
    what: "a block that others may find again is written into",
    file: "src/engine/blocks.ts",
    text: "return this.#owners[block] === 1 && !this.#contents.has(block)",
    fault: "return this.#owners[block] === 1",
    test: "src/engine/blocks.test.ts",
  },
  {
    what: "a prompt that was seen before leaves nothing to draw from",
    file: "src/engine/memory.ts",
    text: "const reached = Math.min(sequence.shared * BLOCK, length - 1)",
    fault: "const reached = Math.min(sequence.shared * BLOCK, length)",
    test: "src/engine/prefixes.test.ts",
  },
  {
    what: "what no finite row vouched for is found by others",
    file: "src/engine/memory.ts",
    text: "const end = Math.min(length, sequence.sound)",
    fault: "const end = length",
    test: "src/engine/prefixes.test.ts",
  },
  {
    what: "scopes share prefixes",
    file: "src/engine/memory.ts",
    text: "this.cache.root(sequence.family.request.scope)",
    fault: 'this.cache.root("")',
    test: "src/engine/prefixes.test.ts",
  },
  {
    what: "the child of a forgotten block is found again",
    file: "src/engine/prefix-cache.ts",
    text: "this.#serials[block] = ++this.#given",
    fault: "this.#serials[block] = block + 1",
    test: "src/engine/prefix-cache.test.ts",
  },
  {
    what: "a collision hands one prompt another's block",
    file: "src/engine/prefix-cache.ts",
    text: "if (this.#tokens[block * BLOCK + i] !== tokens[at + i]) return false",
    fault: "if (tokens.length < i) return false",
    test: "src/engine/prefix-cache.test.ts",
  },
  {
    what: "a collision hands a prompt the block of another beginning",
    file: "src/engine/prefix-cache.ts",
    text: "    if (this.#parents[block] !== parent) return false",
    fault: "    if (this.#parents[block] === UNKNOWN) return false",
    test: "src/engine/prefix-cache.test.ts",
  },
  {
    what: "whoever comes is let in without room for those who run",
    file: "src/engine/scheduler.ts",
    text: "const HEADROOM = 4",
    fault: "const HEADROOM = 0",
    test: "src/engine/fairness.test.ts",
  },
  {
    what: "a stream that was busy for longer than its interval says that it lives while it speaks",
    file: "src/http/sse.ts",
    text: "    if (!this.#outflow.raw.destroyed) this.#heartbeat.refresh()",
    fault: "",
    test: "src/http/sse.test.ts",
  },
  {
    what: "sinks slide out of the window like other blocks",
    file: "src/engine/memory.ts",
    text: "for (let at = Math.max(sequence.gone, this.#sinkBlocks); at < kept; at++) {",
    fault: "for (let at = sequence.gone; at < kept; at++) {",
    test: "src/engine/schedules.test.ts",
  },
  {
    what: "the loop never breathes between steps",
    file: "src/engine/engine.ts",
    text: "        await breathe()\n        await this.#gather()",
    fault: "        await this.#gather()",
    test: "src/engine/engine.test.ts",
  },
  {
    what: "a request whose reader has paused is never over",
    file: "src/engine/engine.ts",
    text: "this.#alarm = setTimeout(() => this.#wake(), delay)",
    fault: "void delay",
    test: "src/engine/engine.test.ts",
  },
  {
    what: "a count that was taken back stays",
    file: "src/engine/token-counts.ts",
    text: "if (--this.#counts[place]! === 0) this.#place.delete(token)",
    fault: "if (this.#counts[place] === 1) this.#place.delete(token)",
    test: "src/engine/speculative.test.ts",
  },

  // ---- what is open
  {
    what: "what was opened first is closed first",
    file: "src/closing.ts",
    text: "this.#open.reverse()",
    fault: "this.#open",
    test: "src/closing.test.ts",
  },
  {
    what: "one that cannot be closed keeps the others open",
    file: "src/closing.ts",
    text: "failures.push(error)",
    fault: "throw error",
    test: "src/closing.test.ts",
  },
  {
    what: "a start that fails half-way leaves open what it has opened",
    file: "src/closing.ts",
    text: "await closing.close().catch(",
    fault: "await Promise.resolve().catch(",
    test: "src/closing.test.ts",
  },

  // ---- models and their files
  {
    what: "bytes behind the last tensor are let pass",
    file: "src/model/weights/safetensors.ts",
    text: "if (at !== bytes)",
    fault: "if (at > bytes)",
    test: "test/model/broken.test.ts",
  },
  {
    what: "a shape whose size wraps around fits by chance",
    file: "src/model/weights/safetensors.ts",
    text: "BigInt(end - begin) !== bytes",
    fault: "BigInt(end - begin) !== BigInt.asUintN(64, bytes)",
    test: "test/model/broken.test.ts",
  },
  {
    what: "a link may lead out of the model folder",
    file: "src/model/folder.ts",
    text: "if (isInside(path, real)) return true",
    fault: "if (path) return true",
    test: "src/model/folder.test.ts",
  },
  {
    what: "long contexts are turned as fast as short ones (Llama 3)",
    file: "src/model/rotation.ts",
    text: "return blend * frequency + ((1 - blend) * frequency) / factor",
    fault: "return blend * frequency + (1 - blend) * frequency",
    test: "test/model/reference.test.ts",
  },
  {
    what: "scores of attention are not scaled",
    file: "src/model/config.ts",
    text: "scale: 1 / Math.sqrt(headDim)",
    fault: "scale: 1",
    test: "test/model/reference.test.ts",
  },
  {
    what: "halves are rounded up where MLC rounds them to even",
    file: "src/model/weights/convert.ts",
    text: "Math.max(0, nearestEven(centred))",
    fault: "Math.max(0, Math.floor(centred + 0.5))",
    test: "src/model/weights/convert.test.ts",
  },

  // ---- the compiler
  {
    what: "a product with a bias is joined with one that has none",
    file: "src/compiler/passes/join-linears.ts",
    text: "node.bias !== undefined}",
    fault: "node.bias === null}",
    test: "src/compiler/passes.test.ts",
  },
  {
    what: "keys and values are computed for the wanted rows alone",
    file: "src/compiler/passes/select-rows.ts",
    text: 'if (node.op === "attention") needed.add(node.inputs[1]).add(node.inputs[2])',
    fault: 'if (node.op === "attention") needed.add(node.inputs[1])',
    test: "src/compiler/passes.test.ts",
  },
  {
    what: "a query sees the position after its own",
    file: "src/compiler/targets/cpu/kernels/attention.h",
    text: "return first_bits(position + 1 - first) &",
    fault: "return first_bits(position + 2 - first) &",
    test: "test/model/cpu.test.ts",
    name: "models/llama-tied",
  },

  {
    what: "a region begins within the one before it, once a step has rows of logits",
    file: "src/compiler/targets/cpu/layout.ts",
    text: "at[key] + region.bytes[key])",
    fault: 'at[key] + (key === "row" ? 0 : region.bytes[key]))',
    test: "test/device/layout.test.ts",
  },
  {
    what: "a driver leaves no room for a second thread",
    file: "src/compiler/targets/cpu/kernels/driver_model.h",
    text: "e.thread * (size_t)m->host->threads",
    fault: "e.thread",
    test: "test/device/layout.test.ts",
  },
  {
    what: "a sampler's workspace has no room for the highest scores",
    file: "src/compiler/targets/cpu/layout.ts",
    text: "upTo((vocabulary + 64) * 9, LINE)",
    fault: "upTo((vocabulary + 64) * 8, LINE)",
    test: "test/device/layout.test.ts",
  },

  // ---- text
  {
    what: "half a character is sent as U+FFFD",
    file: "src/chat/detokenizer.ts",
    text: "if (byte >= 0xc0) return back < lengthOf(byte) ? back : 0",
    fault: "if (byte >= 0xc0) return 0",
    test: "src/chat/tokenizer.test.ts",
  },
  {
    what: "what a user wrote may become a control token",
    file: "src/chat/encoding.ts",
    text: "for (const found of find(value, own[run]!, own[run + 1]!)) {",
    fault: "for (const found of run > 0 ? [] : find(value, 0, value.length)) {",
    test: "src/chat/prompt.test.ts",
  },
  {
    what: "a marker of thinking in a user's text begins the thinking",
    file: "src/chat/prompt.ts",
    text: "return rendered.value.slice(rendered.spans.at(-1)?.to ?? 0)",
    fault: "return rendered.value",
    test: "src/chat/prompt.test.ts",
  },
  {
    what: "the end of thinking is not seen when two tokens share it",
    file: "src/chat/reasoning.ts",
    text: "end < 0 ? this.#waiting.length - overlap(this.#waiting, close) : end",
    fault: "end < 0 ? this.#waiting.length : end",
    test: "src/chat/reply.test.ts",
  },

  {
    what: "a stop string is missed behind its own beginning: aaab in aaaab",
    file: "src/chat/stops.ts",
    text: "while (matched > 0 && stop[matched] !== character) matched = fallback[matched - 1]!",
    fault: "if (matched > 0 && stop[matched] !== character) matched = fallback[0]!",
    test: "src/chat/stops.test.ts",
  },
  {
    what: "of two stop strings that end together the shorter one counts",
    file: "src/chat/stops.ts",
    text: "longest = Math.max(longest, matched)",
    fault: "longest ||= matched",
    test: "src/chat/stops.test.ts",
  },
  {
    what: "text that may become a stop string is sent",
    file: "src/chat/stops.ts",
    text: "const kept = Math.max(...this.#matched)",
    fault: "const kept = Math.min(...this.#matched)",
    test: "src/chat/stops.test.ts",
  },

  // ---- templates, calls, grammars
  {
    what: "a slice that ends before the text begins counts from one character on",
    file: "src/chat/jinja/slices.ts",
    text: "(index < 0 ? 0 : text.length)",
    fault: "(index < 0 ? 1 : text.length)",
    test: "src/chat/jinja/interpreter.test.ts",
  },
  {
    what: "a negative bound of a slice is one off",
    file: "src/chat/jinja/slices.ts",
    text: "Math.max(value + length, lowest)",
    fault: "Math.max(value + length + 1, lowest)",
    test: "src/chat/jinja/interpreter.test.ts",
  },
  {
    what: "a template changes the case of texts for nothing",
    file: "src/chat/jinja/text.ts",
    text: "  respelled(change: (value: string) => string): Text {\n    spendOnCharacters(this.length)\n",
    fault: "  respelled(change: (value: string) => string): Text {\n",
    test: "src/chat/jinja/meter.test.ts",
  },
  {
    what: "items of a list are walked over for nothing",
    file: "src/chat/jinja/values.ts",
    text: "spend(1 + members.length)",
    fault: "spend(1)",
    test: "src/chat/jinja/meter.test.ts",
  },
  {
    what: "a tool that nobody declared is called by name and brackets",
    file: "src/chat/formats/families.ts",
    text: 'function* readExpression(input: Input, names: Names): Reading<void> {\n  let name = ""\n  while (/[\\w.-]/.test(yield* input.peek())) name += yield* input.take()\n  yield* input.expect("(")\n  if (!names.has(name)) throw new NotACall()\n',
    fault:
      'function* readExpression(input: Input, names: Names): Reading<void> {\n  let name = ""\n  while (/[\\w.-]/.test(yield* input.peek())) name += yield* input.take()\n  yield* input.expect("(")\n  if (name === "") throw new NotACall()\n',
    test: "src/chat/formats/formats.test.ts",
  },
  {
    what: "a tool that nobody declared is called in JSON",
    file: "src/chat/formats/json.ts",
    text: 'typeof name !== "string" || !names.has(name)',
    fault: 'typeof name !== "string"',
    test: "src/chat/formats/formats.test.ts",
  },
  {
    what: "not of maxItems allows as many",
    file: "src/grammar/keywords.ts",
    text: "facts({ mask, minItems: maxItems + 1 })",
    fault: "facts({ mask, minItems: maxItems })",
    test: "src/grammar/grammar.test.ts",
  },
  {
    what: "an item takes the only value left for a later one",
    file: "src/grammar/distinct.ts",
    text: "if (this.unique) this.addHoarded(array, way, avoid)",
    fault: "if (!this.unique) this.addHoarded(array, way, avoid)",
    test: "src/grammar/grammar.test.ts",
  },
  {
    what: "what items before have taken is offered to later ones",
    file: "src/grammar/distinct.ts",
    text: "new Set([...this.items, value])",
    fault: "new Set([value])",
    test: "src/grammar/grammar.test.ts",
  },
  {
    what: "cases are put together for nothing",
    file: "src/grammar/facts.ts",
    text: "  spend(2)\n",
    fault: "",
    test: "src/grammar/work.test.ts",
  },
  {
    what: "a pattern that is kept costs nothing",
    file: "src/grammar/work.ts",
    text: "    spend(known.units)\n",
    fault: "",
    test: "src/grammar/work.test.ts",
  },
  {
    what: "an email address needs no dot in its domain",
    file: "src/grammar/portable.ts",
    text: "){1,4}",
    fault: "){0,4}",
    test: "src/grammar/formats.test.ts",
  },
  {
    what: "what is no portable form breaks a format",
    file: "src/grammar/keywords.ts",
    text: "notLanguages: [everyForm(language)]",
    fault: "notLanguages: [language]",
    test: "src/grammar/formats.test.ts",
  },

  // ---- HTTP
  {
    what: "an integer beyond 2^53 loses digits",
    file: "src/http/json.ts",
    text: "return isWhole && !Number.isSafeInteger(value) ? BigInt(digits) : value",
    fault: "return value",
    test: "src/http/json.test.ts",
  },
  {
    what: "a body nested without end is read",
    file: "src/http/json.ts",
    text: "if (this.#open.length === MAX_DEPTH) {",
    fault: "if (this.#open.length < 0) {",
    test: "src/http/json.test.ts",
  },
  {
    what: "a member __proto__ changes the object's kind",
    file: "src/http/json.ts",
    text: 'if (name !== "__proto__") members[name] = value',
    fault: "if (name) members[name] = value",
    test: "src/http/json.test.ts",
  },
  {
    what: "with credentials, every origin is answered *",
    file: "src/http/cors.ts",
    text: 'return origins.includes("*") && !credentials ? "*" : origin',
    fault: 'return origins.includes("*") ? "*" : origin',
    test: "src/http/cors.test.ts",
  },
  {
    what: "a web page that renames 127.0.0.1 is let in",
    file: "src/http/guards.ts",
    text: "if (!isAllowed && !isLoopback(name)) {",
    fault: 'if (!isAllowed && name === "") {',
    test: "src/http/http.test.ts",
  },
  {
    what: "any key will do",
    file: "src/http/guards.ts",
    text: "if (!match) throw problem(",
    fault: "if (!match && keys.length > 9) throw problem(",
    test: "src/http/http.test.ts",
  },
  {
    what: "1 is a boolean",
    file: "src/http/check.ts",
    text: "return typeof value === schema.type",
    fault: "return typeof value === schema.type || value === 1",
    test: "src/http/check.test.ts",
  },

  {
    what: "a long text is cut inside an escape",
    file: "src/http/json.ts",
    text: "if (backslashes(source, from, to) % 2 === 1) return to - 1",
    fault: "if (to < from) return to - 1",
    test: "src/http/json.test.ts",
  },
  {
    what: "a million objects are read",
    file: "src/http/json.ts",
    text: "if (++this.#values > MAX_VALUES) {",
    fault: "if (++this.#values < 0) {",
    test: "src/http/json.test.ts",
  },
  {
    what: "all large bodies take a piece each turn",
    file: "src/http/turns.ts",
    text: "if (waiting.length > 0) setImmediate(giveTurn)\n  take()",
    fault: "take()\n  for (const next of waiting.splice(0)) next()",
    test: "src/http/turns.test.ts",
  },
  {
    what: "a client with a key that nobody lists gets native shapes",
    file: "src/http/apis/chat/dialects/choose.ts",
    text: "headers.authorization !== undefined ||",
    fault: "headers.authorization === null ||",
    test: "src/http/apis/chat/dialects/dialects.test.ts",
  },
  {
    what: "a foreign field that changes the answer is ignored",
    file: "src/http/apis/refusals.ts",
    text: "if (value === undefined || value === null || !asked(value, members)) continue",
    fault: "if (value !== true || !asked(value, members)) continue",
    test: "src/http/apis/refusals.test.ts",
  },
  {
    what: "the second of two Host headers is not looked at",
    file: "src/http/guards.ts",
    text: "if (given.length > 1)",
    fault: "if (given.length > 9)",
    test: "src/http/connection.test.ts",
  },
  {
    what: "a body that never ends keeps its connection",
    file: "src/http/http.ts",
    text: "if (!(await isOver(raw))) {",
    fault: "if (!(await isOver(raw)) && raw.complete) {",
    test: "src/http/connection.test.ts",
  },
  {
    what: "a client may send a thousand requests ahead",
    file: "src/http/server.ts",
    text: "if (unanswered > MAX_UNANSWERED) {",
    fault: "if (unanswered > 1e9) {",
    test: "src/http/connection.test.ts",
  },
  {
    what: "a tool's type that nobody knows is left out",
    file: "src/grammar/readers.ts",
    text: "if (meant.includes(undefined)) throw",
    fault: "if (meant.length > 99) throw",
    test: "src/chat/constraint.test.ts",
  },

  // ---- the machine
  {
    what: "page cache that the kernel would give back counts as taken",
    file: "src/runtime/memory.ts",
    text: "- Number(reclaimable ?? 0)",
    fault: "- 0 * Number(reclaimable ?? 0)",
    test: "src/runtime/memory.test.ts",
  },
  {
    what: "the lock of a dead process is waited for",
    file: "src/runtime/shelf.ts",
    text: "if (pid) process.kill(pid, 0)",
    fault: "if (pid < 0) process.kill(pid, 0)",
    test: "src/runtime/shelf.test.ts",
  },
  {
    what: "half an item is found on the shelf",
    file: "src/runtime/shelf.ts",
    text: "        await write(aside)\n",
    fault: "        await write(place(name))\n        await write(aside)\n",
    test: "src/runtime/shelf.test.ts",
  },
]
