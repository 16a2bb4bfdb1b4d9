// The formats that are enforced: each a regular language, from the documents that define it. Where a definition is not
// regular, or needs tables that change with Unicode, the language here is a part of it: never a text too many. A format
// that is not in the table is an annotation, as JSON Schema says of formats it does not know.

import { combine, type Dfa } from "./dfa.ts"
import { type Portable, portables } from "./portable.ts"
import { wholeLanguage } from "./regex.ts"
import { type Priced, priced } from "./work.ts"

export interface Format {
  /** All texts of the format. */
  language(): Dfa
  /** Those of them that are written: see portable.ts. */
  portable(): Dfa
  /** A bound on the whole text, kept apart because a counter is cheaper than states. */
  maxLength?: number
}

// RFC 3339. A leap second ends a day in UTC, so its local time depends on the offset: real ones are quarters of an hour.
const leap = "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
const date =
  "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)" +
  `|02-(?:0[1-9]|1\\d|2[0-8]))|${leap}-02-29)`
const hours = "(?:[01]\\d|2[0-3])"
const zone = `(?:[Zz]|[+-]${hours}:[0-5]\\d)`
const time = `(?:${hours}:[0-5]\\d:[0-5]\\d(?:\\.\\d+)?${zone}|${leapSeconds()})`

// RFC 3339, appendix A: units in order and without gaps.
const durationTime = "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"
const durationDate = "(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)"
const duration = `P(?:${durationDate}(?:${durationTime})?|${durationTime}|\\d+W)`

// RFC 1123; "--" in the third place belongs to encoded names (RFC 5891), whose decoding is not regular: left out.
const an = "[A-Za-z0-9]"
const anh = "[A-Za-z0-9-]"
const label = `(?:${an}(?:${an}|${anh}${an})?|${an}${anh}(?:(?:${an}|-)${an}|(?:${an}${anh}|-${an})${anh}{0,58}${an}))`
const hostname = `${label}(?:\\.${label})*`
// RFC 5890: scripts read from left to right whose letters combine freely; twelve of them fit 63 bytes when encoded.
const foreign =
  "(?:[\\u00df-\\u00f6\\u00f8-\\u00ff]|[\\u03b1-\\u03c9]|[\\u0430-\\u044f]|[\\u3041-\\u3096]|[\\u4e00-\\u9fa5]|[\\uac00-\\ud7a3])"
const idnLabel = `(?:${label}|(?:${foreign}){1,12})`
const idnHostname = `${idnLabel}(?:[.\\u3002\\uff0e\\uff61]${idnLabel})*`

const octet = "(?:\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])"
const ipv4 = `${octet}(?:\\.${octet}){3}`
const ipv6 = ipv6Forms()

// RFC 5321 and 5322 without folding white space.
const atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
const quoted = '"(?:[ !#-\\[\\]-~]|\\\\[ -~])*"'
const literal = `\\[(?:${ipv4}|IPv6:${ipv6})\\]`
const email = `(?:${atom}+(?:\\.${atom}+)*|${quoted})@(?:${hostname}|${literal})`
const wide = "(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]|[\\u0080-\\u{10ffff}])"
const wideQuoted = '"(?:[ !#-\\[\\]-~\\u0080-\\u{10ffff}]|\\\\[ -~])*"'
const idnEmail = `(?:${wide}+(?:\\.${wide}+)*|${wideQuoted})@(?:${idnHostname}|${literal})`

// RFC 6901 and its relative draft.
const pointer = "(?:/(?:[^~/]|~[01])*)*"
const relativePointer = `(?:0|[1-9]\\d*)(?:#|${pointer})`

const hex = "[0-9A-Fa-f]"

// RFC 6570.
const varName = `(?:\\w|%${hex}{2})(?:\\.?(?:\\w|%${hex}{2}))*`
const varSpec = `${varName}(?::[1-9]\\d{0,3}|\\*)?`
const literals =
  "[!#$&'()*+,\\-./0-9:;=?@A-Z\\[\\]_a-z~\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}]"
const uriTemplate = `(?:${literals}|%${hex}{2}|\\{[+#./;?&]?${varSpec}(?:,${varSpec})*\\})*`

// ECMA-262 patterns with groups at most two deep: what nests without end is not regular.
const plain = "[^\\^$\\\\.*+?()\\[\\]{}|]"
const escaped = "\\\\(?:[dDwWsSfnrtv/^$.*+?()\\[\\]{}|\\\\]|c[A-Za-z])"
const brackets = "\\[\\^?(?:a-z|A-Z|0-9|[^\\\\\\[\\]^-]|\\\\[dDwWsSfnrtv\\\\\\]\\[^-])*\\]"
const between = Array.from({ length: 10 }, (_, least) => `${least},[${least}-9]`).join("|")
const times = `(?:[*+?]\\??|\\{(?:\\d{1,3},?|${between}|\\d,[1-9]\\d)\\}\\??)`
const assertion = "(?:\\^|\\$|\\\\[bB])"
const leaf = `(?:(?:${plain}|${escaped}|${brackets}|\\.)${times}?|${assertion})`
const group = (inner: string) => `(?:\\((?:\\?:)?${inner}*(?:\\|${inner}*)*\\)${times}?)`
const look = (inner: string) => `(?:\\(\\?<?[=!]${inner}*(?:\\|${inner}*)*\\))`
const deeper = `(?:${leaf}|${group(leaf)}|${look(leaf)})`
const regex = `(?:${deeper}|${group(deeper)}|\\|)*|\\(\\?<[a-z]+>${leaf}*\\)`

const sources: Record<string, { source: string; maxLength?: number }> = {
  date: { source: date },
  time: { source: time },
  "date-time": { source: `${date}[Tt]${time}` },
  duration: { source: duration },
  email: { source: email },
  "idn-email": { source: idnEmail },
  hostname: { source: hostname, maxLength: 253 },
  "idn-hostname": { source: idnHostname, maxLength: 63 },
  ipv4: { source: ipv4 },
  ipv6: { source: ipv6 },
  uri: { source: uriForms("", false) },
  "uri-reference": { source: uriForms("", true) },
  iri: {
    source: uriForms("\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}", false),
  },
  "iri-reference": {
    source: uriForms("\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}", true),
  },
  "uri-template": { source: uriTemplate },
  uuid: { source: `${hex}{8}(?:-${hex}{4}){3}-${hex}{12}` },
  "json-pointer": { source: pointer },
  "relative-json-pointer": { source: relativePointer },
  regex: { source: regex },
}

export const formats: Record<string, Format | undefined> = Object.assign(
  Object.create(null) as Record<string, Format>,
  Object.fromEntries(
    Object.entries(sources).map(([name, { source, maxLength }]) => {
      let language: Priced<Dfa> | undefined
      let portable: Priced<Dfa> | undefined
      const format: Format = {
        language() {
          language = priced(language, () => wholeLanguage(source))
          return language.value
        },
        portable() {
          portable = priced(portable, () => portableOf(format.language(), portables[name]))
          return portable.value
        },
        ...(maxLength === undefined ? {} : { maxLength }),
      }
      return [name, format]
    }),
  ),
)

// Of an automaton of portable texts the one of all texts of its format.
const wholes = new WeakMap<Dfa, Dfa>()

/** What some validator may take for a text of the language: more than is written, where that is portable. */
export function everyForm(language: Dfa): Dfa {
  return wholes.get(language) ?? language
}

function portableOf(whole: Dfa, portable: Portable | undefined): Dfa {
  if (!portable) return whole
  const { source, within, without } = portable
  const wanted = [source, ...(within === undefined ? [] : [within])].map(wholeLanguage)
  const parts = [whole, ...wanted, ...(without === undefined ? [] : [wholeLanguage(without)])]
  const language = combine(parts, (accepted) =>
    accepted.every((yes, at) => yes === at <= wanted.length),
  )
  wholes.set(language, whole)
  return language
}

function leapSeconds(): string {
  const day = 24 * 60
  const two = (n: number) => String(n).padStart(2, "0")
  const clock = (minutes: number) => `${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`
  const forms: string[] = []
  for (let hour = 0; hour < 24; hour++) {
    const minutes = [14, 29, 44, 59].map((minute) => {
      // Ahead of UTC by so much, or behind it by what is left of the day.
      const ahead = (hour * 60 + minute + 1) % day
      const zones = ahead === 0 ? "[Zz]|[+-]00:00" : `\\+${clock(ahead)}|-${clock(day - ahead)}`
      return `${minute}:60(?:\\.\\d+)?(?:${zones})`
    })
    forms.push(`${two(hour)}:(?:${minutes.join("|")})`)
  }
  return forms.join("|")
}

// RFC 4291, as the nine forms of RFC 3986.
function ipv6Forms(): string {
  const h16 = `[0-9A-Fa-f]{1,4}`
  const last = `(?:${h16}:${h16}|${ipv4})`
  const forms = [`(?:${h16}:){6}${last}`, `::(?:${h16}:){5}${last}`]
  for (let before = 1; before <= 7; before++) {
    const head = `(?:${h16}(?::${h16}){0,${before - 1}})?`
    const after = 5 - before
    const tail = after >= 0 ? `(?:${h16}:){${after}}${last}` : after === -1 ? h16 : ""
    forms.push(`${head}::${tail}`)
  }
  return `(?:${forms.join("|")})`
}

// RFC 3986, and RFC 3987 when more characters are unreserved.
function uriForms(more: string, relative: boolean): string {
  const unreserved = `A-Za-z0-9._~\\-${more}`
  const sub = "!$&'()*+,;="
  const percent = `%${hex}{2}`
  const char = `(?:[${unreserved}${sub}:@]|${percent})`
  const query = `(?:[${unreserved}${sub}:@/?]|${percent})*`
  const name = `(?:[${unreserved}${sub}]|${percent})*`
  const host = `(?:\\[(?:${ipv6}|[vV]${hex}+\\.[${unreserved}${sub}:]+)\\]|${name})`
  const user = `(?:(?:[${unreserved}${sub}:]|${percent})*@)?`
  const authority = `//${user}${host}(?::\\d*)?(?:/${char}*)*`
  const absolutePath = `/(?:${char}+(?:/${char}*)*)?`
  const tail = `(?:\\?${query})?(?:#${query})?`
  const scheme = "[A-Za-z][A-Za-z0-9+.\\-]*:"
  const whole = `${scheme}(?:${authority}|${absolutePath}|${char}+(?:/${char}*)*|)${tail}`
  if (!relative) return whole
  const first = `(?:[${unreserved}${sub}@]|${percent})+`
  const reference = `(?:${authority}|${absolutePath}|${first}(?:/${char}*)*|)${tail}`
  return `${whole}|${reference}`
}
