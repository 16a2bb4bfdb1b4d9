// Walks through the text of a JSON value without parsing it: for values of megabytes of which a part is wanted, or wanted as
// text. What is no JSON is thrown as a SyntaxError where that is noticed; whoever wants it said well has it parsed.

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a

const opens = (code: number) => code === 0x5b || code === 0x7b // [ {
const closes = (code: number) => code === 0x5d || code === 0x7d

/** Where the value or the sign at or behind `at` begins. */
export function skipBlanks(json: string, at: number): number {
  let begin = at
  while (isBlank(json.charCodeAt(begin))) begin++
  return begin
}

const isBlank = (code: number) => code === 0x20 || code === 0x09 || code === 0x0a || code === 0x0d

/** Where the value that begins at `at` is over. */
export function endOfValue(json: string, at: number): number {
  const first = json.charCodeAt(at)
  if (first === QUOTE) return endOfString(json, at)
  if (!opens(first)) return endOfWord(json, at)
  let depth = 0
  for (let i = at; i < json.length; ) {
    const code = json.charCodeAt(i)
    if (code === QUOTE) {
      i = endOfString(json, i)
      continue
    }
    i++
    if (opens(code)) depth++
    else if (closes(code) && --depth === 0) return i
  }
  throw cutShort()
}

function endOfString(json: string, at: number): number {
  for (let end = at; ; ) {
    end = json.indexOf('"', end + 1)
    if (end < 0) throw cutShort()
    let escapes = 0
    while (json.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++
    if (escapes % 2 === 0) return end + 1
  }
}

/** A number, or null and its like. */
function endOfWord(json: string, at: number): number {
  let end = at
  for (; end < json.length; end++) {
    const code = json.charCodeAt(end)
    if (code === COMMA || closes(code) || code <= 0x20) break
  }
  if (end === at) throw new SyntaxError(`a value is missing at ${at}`)
  return end
}

/**
 * Visits what an object has.
 * @param visit told where a name's quotes begin and end and where its value begins; says where that is over
 * @returns where the object is over
 */
export function eachMember(
  json: string,
  at: number,
  visit: (name: number, end: number, value: number) => number,
): number {
  return eachPart(json, at, (name) => {
    expect(json, name, QUOTE)
    const end = endOfString(json, name)
    const colon = skipBlanks(json, end)
    expect(json, colon, COLON)
    return visit(name, end, skipBlanks(json, colon + 1))
  })
}

/**
 * Visits what an array has, or an object, name and value as one.
 * @param visit told where it begins; says where it is over
 */
export function eachPart(json: string, at: number, visit: (from: number) => number): number {
  if (!opens(json.charCodeAt(at))) throw new SyntaxError(`no list begins at ${at}`)
  let next = skipBlanks(json, at + 1)
  if (closes(json.charCodeAt(next))) return next + 1
  for (;;) {
    next = skipBlanks(json, visit(next))
    if (closes(json.charCodeAt(next))) return next + 1
    expect(json, next, COMMA)
    next = skipBlanks(json, next + 1)
  }
}

function expect(json: string, at: number, code: number): void {
  if (json.charCodeAt(at) === code) return
  throw new SyntaxError(`${String.fromCharCode(code)} is missing at ${at}`)
}

const cutShort = () => new SyntaxError("it ends too soon")
