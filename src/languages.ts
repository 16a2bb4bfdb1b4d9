// The languages that a Whisper may know, by the codes that its tokens have, and other names that people have for them. A model knows
// those whose tokens it has. Source: tokenizer.py of OpenAI's whisper.

const names =
  "en english, zh chinese, de german, es spanish, ru russian, ko korean, fr french, ja japanese, pt portuguese, tr turkish, pl polish, ca catalan, nl dutch, ar arabic, sv swedish, it italian, id indonesian, hi hindi, fi finnish, vi vietnamese, he hebrew, uk ukrainian, el greek, ms malay, cs czech, ro romanian, da danish, hu hungarian, ta tamil, no norwegian, th thai, ur urdu, hr croatian, bg bulgarian, lt lithuanian, la latin, mi maori, ml malayalam, cy welsh, sk slovak, te telugu, fa persian, lv latvian, bn bengali, sr serbian, az azerbaijani, sl slovenian, kn kannada, et estonian, mk macedonian, br breton, eu basque, is icelandic, hy armenian, ne nepali, mn mongolian, bs bosnian, kk kazakh, sq albanian, sw swahili, gl galician, mr marathi, pa punjabi, si sinhala, km khmer, sn shona, yo yoruba, so somali, af afrikaans, oc occitan, ka georgian, be belarusian, tg tajik, sd sindhi, gu gujarati, am amharic, yi yiddish, lo lao, uz uzbek, fo faroese, ht haitian creole, ps pashto, tk turkmen, nn nynorsk, mt maltese, sa sanskrit, lb luxembourgish, my myanmar, bo tibetan, tl tagalog, mg malagasy, as assamese, tt tatar, haw hawaiian, ln lingala, ha hausa, ba bashkir, jw javanese, su sundanese, yue cantonese"

const others: Readonly<Record<string, string>> = {
  burmese: "my",
  valencian: "ca",
  flemish: "nl",
  haitian: "ht",
  letzeburgesch: "lb",
  pushto: "ps",
  panjabi: "pa",
  moldavian: "ro",
  moldovan: "ro",
  sinhalese: "si",
  castilian: "es",
  mandarin: "zh",
  jv: "jw",
}

/** By their codes. */
export const languages: ReadonlyMap<string, string> = new Map(
  names.split(", ").map((entry) => {
    const at = entry.indexOf(" ")
    return [entry.slice(0, at), entry.slice(at + 1)]
  }),
)

const codes = new Map([...languages].map(([code, name]) => [name, code]))

/** Of a language as a client names it: by its code, whatever its region, or in English. */
export function languageCode(asked: string): string {
  const name = asked.trim().toLowerCase()
  const known = codes.get(name) ?? (Object.hasOwn(others, name) ? others[name] : undefined)
  if (known) return known
  const [code] = name.split(/[-_]/) as [string]
  return Object.hasOwn(others, code) ? others[code]! : code
}
