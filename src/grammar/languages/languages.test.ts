// Grammars, patterns and lists of texts: which texts fit, judged by llama.cpp's and Lark's own readings where a case names them, that
// whatever fits so far can be finished, and that masks say what bytes say.

import { describe, expect, test } from "vitest"
import { uniform } from "../../../test/random.ts"
import {
  compileLanguage,
  Grammar,
  type Language,
  LanguageRefusal,
  literal,
  type Matcher,
  sequence,
  Vocabulary,
} from "../grammar.ts"

const words = ["ab", "aab", "ba", '{"', '":', "12", "true", " +", "é", "()", "(("]
const end = 256 + words.length
const vocabulary = new Vocabulary(
  [
    ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
    ...words.map((word) => new Uint8Array(Buffer.from(word))),
    new Uint8Array(),
  ],
  [end],
)

const grammarOf = (language: Language) => new Grammar(compileLanguage(language))
/** The texts as JSON strings. */
const quotedOf = (language: Language) =>
  new Grammar(sequence(literal('"'), compileLanguage(language, "quoted"), literal('"')))
const matcherOf = (language: Language) => grammarOf(language).matcher(vocabulary)

function fits(grammar: Grammar, text: string): boolean {
  const matcher = grammar.matcher(vocabulary)
  return Buffer.from(text).every((byte) => matcher.accept(byte)) && matcher.canEnd()
}

const gbnf = (grammar: string): Language => ({ kind: "gbnf", grammar })
const lark = (grammar: string): Language => ({ kind: "lark", grammar })
const regex = (pattern: string): Language => ({ kind: "regex", pattern })

const JSON_GBNF = String.raw`
root   ::= object # as llama.cpp's own json.gbnf
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
`

const SUMS_LARK = String.raw`
?start: sum
?sum: product | sum "+" product -> add | sum "-" product -> sub
?product: atom
    | product "*" atom -> mul   // left-recursive, as Lark's own example
?atom: NUMBER -> number | "-" atom | NAME | "(" sum ")"
NAME: /[a-z_]\w*/i
%import common.NUMBER
%import common.WS_INLINE -> BLANKS
%ignore BLANKS
`

const PATCH_LARK = `
start: "*** Begin Patch" LF hunk+ "*** End Patch" LF?
hunk: "*** Add File: " NAME LF add+ | "*** Delete File: " NAME LF | "*** Update File: " NAME LF change+
add: "+" /(.*)/ LF
change: ("@@" | "@@ " /(.+)/ | ("+" | "-" | " ") /(.*)/) LF
NAME: /(.+)/
%import common.LF
`
const BEGUN = '*** Begin Patch\n*** Update File: a "b".c\n'

const cases: [string, Language, string[], string[]][] = [
  [
    "a patch",
    lark(PATCH_LARK),
    [`${BEGUN}@@\n-"\\n"\n+é\n*** End Patch`, `${BEGUN}@@ f()\n \n*** End Patch\n`],
    [BEGUN, `${BEGUN}-a`, `${BEGUN}-a\n`, `${BEGUN}*a\n*** End Patch`, `${BEGUN}*** End Patch`],
  ],
  ["a pattern", regex("[a-c]+\\d{2}"), ["a12", "abc00"], ["", "12", "a1", "a123", "xa12"]],
  ["a pattern of any text", regex("[^]*"), ["", 'é\n"\\'], []],
  ["a pattern with a choice of edges", regex("^(yes|no)$"), ["yes", "no"], ["yesno", "y", ""]],
  ["a pattern that looks ahead", regex("(?=.*\\d)[a-z0-9]{3}"), ["a1b", "123"], ["abc", "a1"]],
  [
    "texts",
    { kind: "choice", texts: ["positive", "posit", "né", "", '"q"'] },
    ["positive", "posit", "né", "", '"q"'],
    ["pos", "n", "positives"],
  ],
  [
    "JSON",
    gbnf(JSON_GBNF),
    ["{}", '{"a": [1, 2.5e3, {"b":null}] }', '{"\\u00e9":"é"}', '{"a":-0}'],
    ["[]", '{"a"}', '{"a":01}', '{"a":"\n"}', "{", '{"a":1,}'],
  ],
  [
    "nesting",
    gbnf('root ::= "a" root "b" | "ab"'),
    ["ab", "aabb", "aaaaabbbbb"],
    ["", "a", "abab", "aab", "abb"],
  ],
  ["optional nesting", gbnf('root ::= ("(" root ")")*'), ["", "()", "(())()"], ["(", ")(", "(()"]],
  ["itself first", gbnf('root ::= root "+" n | n\nn ::= [0-9]'), ["1", "1+2+3"], ["", "+1", "1+"]],
  [
    "each other first",
    gbnf('root ::= a "x" | "r"\na ::= b "y"? | "a"\nb ::= root? "z" | a "w"'),
    ["r", "ax", "zx", "zyx", "rzx", "rzywx", "awwyx"],
    ["", "a", "x", "zxx", "rx"],
  ],
  ["nothing", gbnf('root ::= ""'), [""], ["a"]],
  ["counts", gbnf('root ::= p{2,3}\np ::= "(" p? ")"'), ["()()", "(())()()"], ["()", "()()()()"]],
  ["sets", gbnf("root ::= [^a-c\\]-] [\\x41é-ë] ."), ["zAx", "0ê\n"], ["aAx", "-Ax", "]Ax", "zf."]],
  [
    "lines",
    gbnf('root ::=\n  "a" | # one\n  "b"\n  | ("c"\n "d")\n'),
    ["a", "b", "cd"],
    ["c", "ab"],
  ],
  [
    "sums",
    lark(SUMS_LARK),
    ["1", "1+2 * x", "(1 - -a)*3", " 1.5e3 + Ab_9 "],
    ["", "+", "1+", "(1", "1 2", "é", "9a"],
  ],
  [
    "terminals",
    lark('start: A B? "x"i ~ 2..3 [C]\nA: "a".."c"\nB: /\\/+/\nC.2: D | "\\u00e9"\nD: "d"'),
    ["axX", "b//xxx", "cxxé", "axxd"],
    ["dxx", "ax", "axxxx", "a/x"],
  ],
  [
    "what is ignored",
    lark('start: "a" list\nlist: ("," "b")*\n%ignore " "'),
    ["a", " a , b ,b ", "a,b"],
    ["", "a,", "ab"],
  ],
  [
    "what guidance captures",
    lark(
      '%llguidance {}\n\nstart: "I say " a b\na[capture]: A\nb[capture="c"]: "!"\n\nA: "yes"\n     | "no"\n\n',
    ),
    ["I say yes!", "I say no!"],
    ["I say ", "yes!", "I say yes"],
  ],
]

describe.each(cases)("%s", (_, language, good, bad) => {
  test("fits and does not", () => {
    const grammar = grammarOf(language)
    expect(good.filter((text) => !fits(grammar, text))).toEqual([])
    expect(bad.filter((text) => fits(grammar, text))).toEqual([])
  })

  test("fits in quotes, escaped, and does not", () => {
    const grammar = quotedOf(language)
    const escaped = (text: string) =>
      `"${Array.from(text, (c) => (c < "~" ? JSON.stringify(c).slice(1, -1) : `\\u${hex(c)}`)).join("")}"`
    for (const written of [JSON.stringify, escaped]) {
      expect(good.filter((text) => !fits(grammar, written(text)))).toEqual([])
      expect(bad.filter((text) => fits(grammar, written(text)))).toEqual([])
    }
    for (const text of good.filter((each) => /["\n\\]/.test(each)))
      expect(fits(grammar, `"${text}"`)).toBe(false)
  })

  test.each([
    ["as it is", matcherOf],
    ["in quotes", (it: Language) => quotedOf(it).matcher(vocabulary)],
  ])("%s, whatever fits so far can be finished, and masks say the same as bytes", (_, begin) => {
    for (let seed = 1; seed <= 4; seed++) {
      const matcher = begin(language)
      const random = uniform(seed)
      for (let step = 0; step < 12; step++) {
        const allowed = allowedBy(matcher)
        expect(allowed, `${seed} ${step}`).toEqual(tried(matcher))
        expect(allowed.length).toBeGreaterThan(0)
        const token = allowed[Math.floor(random() * allowed.length)]!
        if (!matcher.accept(token) || token === end) break
      }
    }
  })
})

const hex = (character: string) => character.charCodeAt(0).toString(16).padStart(4, "0")

function allowedBy(matcher: Matcher): number[] {
  const mask = new Uint32Array(vocabulary.words)
  matcher.mask(mask)
  return Array.from({ length: end + 1 }, (_, token) => token).filter(
    (token) => ((mask[token >>> 5]! >>> (token & 31)) & 1) === 1,
  )
}

function tried(matcher: Matcher): number[] {
  return Array.from({ length: end + 1 }, (_, token) => token).filter((token) => {
    const isTaken = matcher.accept(token)
    if (isTaken) matcher.rollback(1)
    return isTaken
  })
}

test.each([
  "[^a]",
  "[^\\x41-c]",
  "\\x41",
  "\\p{Lu}",
  "[\\D]",
  "é",
  "[ß-ö]",
  "K",
  "ß",
  "ı",
  "σ",
  "ǆ",
  "😀",
])("cases are one under the flag i as they are to JavaScript: %s", (pattern) => {
  const grammars = [grammarOf(lark(`start: /${pattern}/i`))]
  if (pattern.length <= 2) grammars.push(grammarOf(lark(`start: "${pattern}"i`)))
  const regexp = new RegExp(`^(?:${pattern})$`, "iu")
  for (const text of "aAbBkK\u212asSſßẞéÉñÑiIıİσςΣǆǅǄ😀_1-") {
    const told = grammars.map((grammar) => fits(grammar, text))
    expect([text, ...told]).toEqual([text, ...told.map(() => regexp.test(text))])
  }
})

test("a rule that ends in itself grows no stack, so its masks are few", () => {
  const matcher = matcherOf(gbnf('root ::= item root | item\nitem ::= "(" root? ")"'))
  const seen = new Set<string>()
  for (let i = 0; i < 200; i++) {
    expect(matcher.acceptBytes(Buffer.from("()"))).toBe(true)
    seen.add(JSON.stringify(allowedBy(matcher)))
  }
  expect(seen.size).toBe(1)
})

const refusals: [Language, RegExp][] = [
  [regex("(a"), /a group that is not closed/],
  [regex("(a)\\1"), /a back reference/],
  [regex("a(?!.*)"), /no text satisfies it/],
  [{ kind: "choice", texts: [] }, /no text satisfies it/],
  [
    { kind: "choice", texts: Array.from({ length: 9000 }, (_, i) => `${i}${i * i}`.repeat(3)) },
    /the listed texts are too many, or too long/,
  ],
  [gbnf('rot ::= "a"'), /the rule root is missing/],
  [gbnf('root ::= "a" x'), /line 1: x is defined nowhere/],
  [gbnf('root ::= "a" root'), /no text satisfies it/],
  [gbnf('root ::= "a\n'), /line 1: .*goes on past its line/],
  [gbnf('root ::= ("a"\n'), /line 2: expected \), not the end of the line/],
  [gbnf('root ::= "a"\nroot ::= "b"'), /line 2: root is defined twice/],
  [gbnf("root ::= <think>"), /tokens as symbols/],
  [gbnf('root ::= "a"{3,2}'), /bounds out of order/],
  [gbnf('root ::= p{5000}\np ::= "(" p ")" | "x"'), /2000 times at most/],
  [gbnf(`root ::= ${"(".repeat(200)}"a"${")".repeat(200)}`), /nested too deep/],
  [lark("begin: A\nA: /a/"), /the rule start is missing/],
  [lark("start: A\nA: /a(?=b)/"), /line 2: a pattern that looks around itself/],
  [lark("start: A\n%import common.NOTHING"), /line 2: common has no NOTHING/],
  [lark("start: A\n%declare A"), /line 2: %declare is not supported/],
  [lark("start: a{B}\n"), /templates are not supported/],
]

test.each(refusals)("%j is refused", (language, reason) => {
  expect(() => compileLanguage(language)).toThrow(LanguageRefusal)
  expect(() => compileLanguage(language)).toThrow(reason)
})

test("a grammar that asks for too much is refused by what it would cost", () => {
  const names = Array.from({ length: 12 }, (_, i) => `r${i}`)
  const tangle = names.map((name) => `${name} ::= ${names.join(' "x" | ')} "${name}" | "a"`)
  const grammar = ["root ::= r0", ...tangle].join("\n")
  expect(() => compileLanguage(gbnf(grammar))).toThrow(/too many combinations/)
  expect(() => compileLanguage(regex("(a|b)*a(a|b){30}"))).toThrow(LanguageRefusal)
})

const LONGEST = 5

/** The texts of up to five letters that each rule has, found by putting shorter ones together until nothing is new. */
function shortTexts(rules: readonly string[][][]): Set<string>[] {
  const found = rules.map(() => new Set<string>())
  for (let before = -1; before !== found.reduce((sum, set) => sum + set.size, 0); ) {
    before = found.reduce((sum, set) => sum + set.size, 0)
    for (const [at, alternatives] of rules.entries()) {
      for (const items of alternatives) {
        let texts = new Set([""])
        for (const item of items) {
          const ends = /^r/.test(item) ? found[Number(item[1])]! : new Set([item])
          const longer = [...texts].flatMap((text) => [...ends].map((end) => text + end))
          texts = new Set(longer.filter((text) => text.length <= LONGEST))
        }
        for (const text of texts) found[at]!.add(text)
      }
    }
  }
  return found
}

test("random grammars have the texts that putting shorter ones together finds", () => {
  const all = Array.from({ length: LONGEST + 1 }, (_, length) =>
    Array.from({ length: 2 ** length }, (_, bits) =>
      Array.from({ length }, (_, at) => "ab"[(bits >> at) & 1]).join(""),
    ),
  ).flat()
  let accepted = 0
  for (let seed = 1; seed <= 400; seed++) {
    const random = uniform(seed)
    const upTo = (count: number) => Math.floor(random() * count)
    const many = <T>(most: number, make: () => T) => Array.from({ length: upTo(most + 1) }, make)
    const rules = Array.from({ length: 3 }, () => [
      many(3, () => ["a", "b", "r0", "r1", "r2"][upTo(5)]!),
      ...many(2, () => many(3, () => ["a", "b", "r0", "r1", "r2"][upTo(5)]!)),
    ])
    const spelled = rules.map((alternatives, at) => {
      const texts = alternatives.map((items) =>
        items.map((item) => (/^r/.test(item) ? item : `"${item}"`)).join(" "),
      )
      return `${at === 0 ? "root ::= r0\n" : ""}r${at} ::= ${texts.map((text) => text || '""').join(" | ")}`
    })
    const language = gbnf(spelled.join("\n"))
    const expected = shortTexts(rules)[0]!
    accepted += expected.size
    try {
      const grammar = grammarOf(language)
      const got = all.filter((text) => fits(grammar, text))
      expect(got, spelled.join("\n")).toEqual(all.filter((text) => expected.has(text)))
    } catch (error) {
      if (!(error instanceof LanguageRefusal)) throw error
      expect([error.message, expected.size], spelled.join("\n")).toEqual([
        "no text satisfies it",
        0,
      ])
    }
  }
  expect(accepted).toBeGreaterThan(1000)
})
