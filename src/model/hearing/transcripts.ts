// How models that hear are asked for transcripts, where they were taught a form of their own: what their reply begins with, their names
// of languages, and what of a reply is no transcript (OpenedTranscript in http/service.ts says what each field means).
//
// Sources: processing_qwen3_asr.py of transformers, and inference/qwen3_asr.py of QwenLM/Qwen3-ASR; tokens/tokenizers/instruct.py of
// mistral-common.

const ASR_TEXT = "<asr_text>"

export const qwen3Asr = {
  languages: {
    ar: "Arabic",
    cs: "Czech",
    da: "Danish",
    de: "German",
    el: "Greek",
    en: "English",
    es: "Spanish",
    fa: "Persian",
    fi: "Finnish",
    fil: "Filipino",
    fr: "French",
    hi: "Hindi",
    hu: "Hungarian",
    id: "Indonesian",
    it: "Italian",
    ja: "Japanese",
    ko: "Korean",
    mk: "Macedonian",
    ms: "Malay",
    nl: "Dutch",
    pl: "Polish",
    pt: "Portuguese",
    ro: "Romanian",
    ru: "Russian",
    sv: "Swedish",
    th: "Thai",
    tr: "Turkish",
    vi: "Vietnamese",
    yue: "Cantonese",
    zh: "Chinese",
  },
  opening: (language?: string) => language && `language ${language}${ASR_TEXT}`,
  header: ASR_TEXT,
  context: "system",
} as const

export const voxtral = {
  opening: (language?: string) => `${language ? `lang:${language}` : ""}[TRANSCRIBE]`,
}

export type OpenedTranscription = typeof qwen3Asr | typeof voxtral
