// Forms as clients write them: by Node's own writer, and by hand where no writer would.

/** A body, and the headers that go with it. */
export interface SentForm {
  payload: Buffer
  headers: { "content-type": string }
}

/** As a browser or Node writes it; of a list each part has its name. */
export async function formOf(
  fields: Readonly<Record<string, string | Blob | readonly string[]>>,
): Promise<SentForm> {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields))
    for (const each of Array.isArray(value) ? value : [value])
      if (each instanceof Blob) form.append(name, each, "speech.wav")
      else form.append(name, each)
  const written = new Response(form)
  const payload = Buffer.from(await written.arrayBuffer())
  return { payload, headers: { "content-type": written.headers.get("content-type")! } }
}

/** Written by hand, with line ends of one character. */
export function rawForm(text: string, boundary = "b"): SentForm {
  const payload = Buffer.from(text.replaceAll("\n", "\r\n"), "latin1")
  return { payload, headers: { "content-type": `multipart/form-data; boundary=${boundary}` } }
}
