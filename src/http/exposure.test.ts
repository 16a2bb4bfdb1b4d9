import { expect, test } from "vitest"
import { exposures } from "./exposure.ts"

const cors = { credentials: true, origins: ["*"], methods: ["*"], headers: ["*"] }
const local = { host: "127.0.0.1", apiKeys: [], cors: undefined }
const key = ["secret"]

test.each([
  [local, []],
  [{ ...local, host: "localhost" }, []],
  [{ ...local, host: "0.0.0.0" }, [/^--host 0\.0\.0\.0 without --api-key: [^.]+\.$/]],
  [{ ...local, host: "::" }, [/^--host :: /]],
  [{ ...local, host: "192.168.1.5" }, [/every machine/]],
  [{ ...local, host: "0.0.0.0", apiKeys: key }, []],
  [{ ...local, host: "0.0.0.0", apiKeyFile: "keys" }, []],
  [{ ...local, cors }, [/^--allow-credentials for any origin: [^.]+\.$/]],
  [{ ...local, apiKeys: key, cors }, [/--allow-credentials/]],
  [{ ...local, cors: { ...cors, origins: ["null"] } }, [/--allow-credentials/]],
  [{ ...local, cors: { ...cors, origins: ["https://a.example"] } }, []],
  [{ ...local, cors: { ...cors, credentials: false } }, []],
  [{ host: "0.0.0.0", apiKeys: [], cors }, [/--host/, /--allow-credentials/]],
] as const)("%j is told as %j", (options, sentences) => {
  const told = exposures(options, options.host)
  expect(told).toHaveLength(sentences.length)
  for (const [index, sentence] of sentences.entries()) expect(told[index]).toMatch(sentence)
})

test("what is bound decides, however --host names it", () => {
  expect(exposures({ ...local, host: "LOCALHOST" }, "127.0.0.1")).toEqual([])
  expect(exposures({ ...local, host: "localhost" }, "192.168.1.5")).toHaveLength(1) // as a hosts file may have it
})
