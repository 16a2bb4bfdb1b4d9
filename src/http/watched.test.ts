// Keys and certificates of files, and what becomes of them when the files change.

import { generateKeyPairSync } from "node:crypto"
import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { get } from "node:https"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { TLSSocket } from "node:tls"
import { afterAll, expect, test } from "vitest"
import { hi, parrot, saying } from "../../test/parrot.ts"

const folder = mkdtempSync(join(tmpdir(), "watched-"))
afterAll(() => rmSync(folder, { recursive: true }))
const golden = join(import.meta.dirname, "../../test/golden/tls")
const at = (name: string) => join(folder, name)

/** In one step, as an editor and a mounted secret do. */
function replace(name: string, text: string | Buffer): void {
  writeFileSync(at("next"), text)
  renameSync(at("next"), at(name))
}

/** A key behind a passphrase, in one of the two forms of OpenSSL. */
function encryptedKey(type: "pkcs8" | "pkcs1"): string {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 })
  const secret = { format: "pem", cipher: "aes-256-cbc", passphrase: "secret" } as const
  writeFileSync(at(type), privateKey.export({ type, ...secret }))
  return at(type)
}

test("keys of a file are asked for beside the others, and read again when it changes", async () => {
  replace("keys", "# for the team\n\n first \nsecond\n")
  const { post } = parrot(saying("hello"), { apiKeys: ["given"], apiKeyFile: at("keys") })
  const status = async (key: string) =>
    (await post(hi, { authorization: `Bearer ${key}` })).statusCode
  const all = () => Promise.all(["given", "first", "second", "third", ""].map(status))
  expect(await all()).toEqual([200, 200, 200, 401, 401])
  replace("keys", "third\n")
  await expect.poll(all).toEqual([200, 401, 401, 200, 401])
  replace("keys", "# nobody\n") // which would let everybody in
  await expect.poll(() => status("third")).toBe(200)
  replace("keys", "first\nthird\n")
  await expect.poll(all).toEqual([200, 200, 401, 200, 401])
})

test.each([
  ["--api-key-file", { apiKeyFile: at("none") }, `${at("none")} cannot be read: there is no such`],
  [
    "--api-key-file",
    { apiKeyFile: folder },
    `${folder} cannot be read: it is a folder; name a file.`,
  ],
  ["--api-key-file", { apiKeyFile: at("empty") }, "holds no key"],
  [
    "--tls-cert",
    { tls: { cert: at("none"), key: at("none") } },
    `${at("none")} cannot be read: there`,
  ],
  [
    "--tls-cert",
    { tls: { cert: join(golden, "one.crt"), key: at("none") } },
    `${at("none")} cannot be`,
  ],
  ["--tls-cert", { tls: { cert: at("empty"), key: at("empty") } }, "are no certificate"],
  [
    "--tls-cert",
    { tls: { cert: join(golden, "one.crt"), key: join(golden, "two.key") } },
    "key values mismatch",
  ],
  ...(["pkcs8", "pkcs1"] as const).map((type): [string, object, string] => [
    "--tls-cert",
    { tls: { cert: join(golden, "one.crt"), key: encryptedKey(type) } },
    "is encrypted; openssl pkey -in ",
  ]),
])("%s %j is refused at the start", (option, options, reason) => {
  writeFileSync(at("empty"), "# nothing\n")
  expect(() => parrot(saying("x"), options)).toThrow(
    expect.objectContaining({ code: "option_invalid", message: expect.stringContaining(reason) }),
  )
  expect(() => parrot(saying("x"), options)).toThrow(option)
})

test("over TLS, with the certificate that lies there when a connection begins", async () => {
  for (const kind of ["crt", "key"]) copyFileSync(join(golden, `one.${kind}`), at(`tls.${kind}`))
  const tls = { cert: at("tls.crt"), key: at("tls.key") }
  const { server, listen, lines } = parrot(saying("hello"), { tls, maxConnections: 2 })
  await listen(0)
  const { port } = server.server.address() as AddressInfo
  const called = (path: string) =>
    new Promise<[number, string]>((resolve, reject) => {
      const options = { port, path, agent: false, rejectUnauthorized: false }
      get({ host: "127.0.0.1", ...options }, (answer) => {
        const { subject } = (answer.socket as TLSSocket).getPeerCertificate()
        answer.resume().on("end", () => resolve([answer.statusCode!, String(subject.CN)]))
      }).on("error", reject)
    })
  expect(await called("/v1/models")).toEqual([200, "localhost-one"])
  replace("tls.crt", readFileSync(join(golden, "two.crt"))) // without its key: the old pair stays
  replace("tls.key", readFileSync(join(golden, "two.key")))
  await expect.poll(() => called("/live")).toEqual([200, "localhost-two"])
  await expect(fetch(`http://127.0.0.1:${port}/live`)).rejects.toThrow()
  await expect
    .poll(() => lines)
    .toContainEqual(
      expect.objectContaining({ code: "ERR_SSL_HTTP_REQUEST" }), // OpenSSL's SSL_R_HTTP_REQUEST
    )
  expect(await called("/live")).toEqual([200, "localhost-two"])
})
