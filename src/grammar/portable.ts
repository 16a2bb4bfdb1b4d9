// Formats as they are generated: the part of each definition that common validators agree on. Definitions also allow what few
// readers accept: `a@b`, quoted mailboxes, leap seconds, the year 0, offsets of 23 hours, hosts that WHATWG's parser refuses.
// Judged by ajv-formats, python's jsonschema with its checkers, pydantic and browsers (formats.test.ts, test/golden/formats).
// A format that is not here is written in all of its forms.

export interface Portable {
  readonly source: string
  /** Of these texts the ones that this describes as well. */
  readonly within?: string
  /** But none of these. */
  readonly without?: string
}

// The years that Python and .NET know; offsets in use, as ISO 8601 spells them; milli- or microseconds.
const year = "(?:\\d{3}[1-9]|\\d\\d[1-9]0|\\d[1-9]00|[1-9]000)"
const leap = "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
const date =
  `(?:${year}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)` +
  `|02-(?:0[1-9]|1\\d|2[0-8]))|${leap}-02-29)`
const offset = "(?:Z|\\+(?:(?:0\\d|1[0-3]):[0-5]\\d|14:00)|-(?:0[1-9]|1[0-2]):[0-5]\\d)"
const time = `(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{3}(?:\\d{3})?)?${offset}`

// As many digits as a timedelta holds, in every unit.
const n = "\\d{1,5}"
const durationTime = `T(?:${n}H(?:${n}M(?:${n}S)?)?|${n}M(?:${n}S)?|${n}S)`
const durationDate = `(?:${n}Y(?:${n}M(?:${n}D)?)?|${n}M(?:${n}D)?|${n}D)`
const duration = `P(?:${durationDate}(?:${durationTime})?|${durationTime}|${n}W)`

// Hosts whose last label begins with a letter: others are read as addresses. Lengths are counted where a mailbox has to stay
// below 254 characters; elsewhere the format itself bounds them, or nobody does.
const an = "[A-Za-z0-9]"
const label = `${an}(?:-?${an}){0,17}`
const top = "[A-Za-z]{2,24}"
const domain = `(?:${label}\\.){1,4}${top}`
const host = `(?:${an}(?:-?${an})*\\.)*[A-Za-z](?:-?${an})*`
// Registered for special use (RFC 6761 and others): nothing is delivered there.
const special =
  "(?:.*\\.)?(?:[Aa][Rr][Pp][Aa]|[Ii][Nn][Vv][Aa][Ll][Ii][Dd]|[Ll][Oo][Cc][Aa][Ll]" +
  "|[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt]|[Oo][Nn][Ii][Oo][Nn]|[Tt][Ee][Ss][Tt])"
const mailbox = "[A-Za-z0-9_'+-]"
const email = `${mailbox}+(?:\\.${mailbox}+)*@${domain}`
const emailLengths = "[^@]{0,63}[^'@]@.*"

const letter =
  "[\\u00df-\\u00f6\\u00f8-\\u00ff\\u03b1-\\u03c9\\u0430-\\u044f\\u3041-\\u3096\\u4e00-\\u9fa5\\uac00-\\ud7a3]"
const foreign =
  "(?:[\\u00df-\\u00f6\\u00f8-\\u00ff]|[\\u03b1-\\u03c9]|[\\u0430-\\u044f]|[\\u3041-\\u3096]|[\\u4e00-\\u9fa5]|[\\uac00-\\ud7a3])"
const idnLabel = `(?:${label}|${foreign}{1,12})`
const idnEmail = `(?:${mailbox}|${letter})+(?:\\.(?:${mailbox}|${letter})+)*@(?:${idnLabel}\\.){1,3}${top}`
const idnHost = `(?:(?:${an}(?:-?${an})*|${foreign}+)\\.)*(?:[A-Za-z](?:-?${an})*|${foreign}+)`

// Schemes with an authority have a host that every parser reads; those that WHATWG calls special have no other form.
const hex = "[0-9A-Fa-f]"
const octet = "(?:\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])"
const port = "(?::(?:[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d\\d|655[0-2]\\d|6553[0-5]))?"
const scheme = "[a-z][a-z0-9+.\\-]*"
const specialScheme = "(?:https?|wss?|ftp|file):(?:[^/].*|/[^/].*|/?)|file://[^/?#]*[:@].*"

function uri(more: string): string {
  const unreserved = `A-Za-z0-9._~\\-${more}`
  const char = `(?:[${unreserved}!$&'()*+,;=:@]|%${hex}{2})`
  const tail = `(?:\\?(?:${char}|[/?])*)?(?:#(?:${char}|[/?])*)?`
  const user = `(?:(?:[A-Za-z0-9._~\\-]|%${hex}{2})+(?::(?:[A-Za-z0-9._~\\-]|%${hex}{2})+)?@)?`
  const authority = `${user}(?:${host}|${octet}(?:\\.${octet}){3})${port}`
  const forms = `//${authority}(?:/${char}*)*|${char}+(?:/${char}*)*`
  return `(?:${scheme}:(?:${forms})|file://(?:/${char}*)+)${tail}`
}

function reference(more: string): string {
  const unreserved = `A-Za-z0-9._~\\-${more}`
  const plain = `(?:[${unreserved}!$&'()*+,;=@]|%${hex}{2})`
  const char = `(?:${plain}|:)`
  const tail = `(?:\\?(?:${char}|[/?])*)?(?:#(?:${char}|[/?])*)?`
  return `${uri(more)}|(?:/(?:${char}+(?:/${char}*)*)?|${plain}+(?:/${char}*)*|)${tail}`
}

const varName = `\\w(?:\\w|%${hex}{2})*`
const varSpec = `${varName}(?::[1-9]\\d{0,2}|\\*)?`
const literals = "[!#$&()*+,\\-./0-9:;=?@A-Z\\[\\]_a-z~]"
const uriTemplate = `(?:${literals}|%${hex}{2}|\\{[+#./;?&]?${varSpec}(?:,${varSpec})*\\})*`

// python's jsonschema takes a zero before another digit for a leading one.
const relativePointer = "(?:0|[1-9]+0?)(?:#|(?:/(?:[^~/]|~[01])*)*)"

// What ECMA-262 with its flags u and v, Python and RE2 all read: no looking around, no names, no controls by letter.
const escapedChar = "\\\\[dDwWsSfnrtv^$.*+?()\\[\\]{}|\\\\]"
const inBrackets = "(?:a-z|A-Z|0-9|\\w| |_|[^\\u0000-\\u00bf]|\\\\[dDwWsSnrt\\\\\\]\\[^-])"
const leaf =
  `(?:(?:[^\\^$\\\\.*+?()\\[\\]{}|]|${escapedChar}|\\[\\^?${inBrackets}+\\]|\\.)` +
  "(?:[*+?]\\??|\\{\\d{1,2}(?:,\\d{0,2})?\\}\\??)?|\\^|\\$|\\\\[bB])"
const group = `(?:\\((?:\\?:)?${leaf}+(?:\\|${leaf}+)*\\)[*+?]?)`
const regex = `(?:${leaf}|${group}|\\|)*`

export const portables: Readonly<Record<string, Portable>> = {
  date: { source: date },
  time: { source: time },
  "date-time": { source: `${date}T${time}` },
  duration: { source: duration },
  email: { source: email, within: emailLengths, without: `.*@${special}` },
  "idn-email": { source: idnEmail, within: emailLengths, without: `.*@${special}` },
  hostname: { source: host },
  "idn-hostname": { source: idnHost },
  uri: { source: uri(""), without: specialScheme },
  "uri-reference": { source: reference(""), without: specialScheme },
  iri: { source: uri(letter.slice(1, -1)), without: specialScheme },
  "iri-reference": { source: reference(letter.slice(1, -1)), without: specialScheme },
  "uri-template": { source: uriTemplate },
  "relative-json-pointer": { source: relativePointer },
  regex: { source: regex },
}
