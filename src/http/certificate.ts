// The certificate of a server that speaks TLS, with its key.

import { createSecureContext } from "node:tls"
import type { Log } from "../log.ts"
import type { TlsOptions } from "./service.ts"
import { Watched } from "./watched.ts"

/** PEM, as Node's TLS takes it. */
export interface Certificate {
  cert: Buffer
  key: Buffer
}

/**
 * @param onChange told of the next ones, for connections to come
 * @throws `option_invalid` for files that cannot be read, are no such thing, or do not belong together
 */
export function watchCertificate(
  { cert, key }: TlsOptions,
  log: Log,
  onChange: (certificate: Certificate) => void,
): Watched<Certificate> {
  const read = (contents: readonly Buffer[]) => {
    const certificate = { cert: contents[0]!, key: contents[1]! }
    if (isEncrypted(certificate.key))
      throw new Error(`${key} is encrypted; openssl pkey -in ${key} -out FILE writes it plain`)
    try {
      createSecureContext(certificate)
    } catch (error) {
      const reason = (error as Error).message.replace(/^error:\w+:[^:]*:[^:]*:/, "")
      throw new Error(`${cert} and ${key} are no certificate with its key (${reason})`)
    }
    return certificate
  }
  return new Watched({ option: "--tls-cert", paths: [cert, key], read, log }, onChange)
}

/** As its first line says, or the lines below that of an older form. */
const isEncrypted = (pem: Buffer) =>
  /^(-----BEGIN ENCRYPTED |Proc-Type: 4,ENCRYPTED)/m.test(String(pem))
