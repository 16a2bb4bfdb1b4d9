import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { readConfigFile } from "./config-file.ts"
import { serveOptions } from "./options.ts"
import { assertKnownNames, readOptions } from "./read-options.ts"

const folder = mkdtempSync(join(tmpdir(), "config-"))
afterAll(() => rmSync(folder, { recursive: true }))
const path = join(folder, "sinter.conf")

function read(text: string) {
  writeFileSync(path, text)
  return readConfigFile(path, serveOptions)
}

const file = `\uFEFF# of a service
model = /srv/models/a b
model=qwen3
  port =  8080
--allow-origins = ["https://a.example"]\r
enable-tracing
overrides = max_num_sequence=4;context_window_size=512

allow-credentials = false
`

test("what a file says stands between the command line and the environment", () => {
  const { models, values } = read(file)
  expect(models).toEqual(["/srv/models/a b", "qwen3"])
  const environment = { SINTER_PORT: "1", SINTER_MAX_QUEUE: "2", SINTER_MODE: "server" }
  expect(readOptions(serveOptions, { "--mode": "interactive" }, environment, values)).toMatchObject(
    {
      "--port": 8080,
      "--mode": "interactive",
      "--max-queue": 2,
      "--allowed-origins": ["https://a.example"],
      "--enable-tracing": true,
      "--allow-credentials": false,
      "--overrides": { max_num_sequence: 4, context_window_size: 512 },
    },
  )
})

test.each([
  ["\nprot = 1", /:2 prot: is no option; did you mean port\?$/],
  ["zzz", /:1 zzz: is no option\.$/],
  ["port", /:1 port: needs a value: port = PORT\.$/],
  ["model", /:1 model: needs a value: model = MODEL\.$/],
  ["\nmodel =", /:2 model: needs a value: model = MODEL\.$/],
  ['\nhost = "127.0.0.1"', /:2 host: takes its value without quotes; leave them out\.$/],
  ["model = '/srv/a b'", /:1 model: takes its value without quotes; leave them out\.$/],
  ["port = 1\nport = 2", /:2 port: is given twice; give it once\.$/],
  ["allow-origins = []\nallowed-origins = []", /:2 allowed-origins: is given twice/],
  ["config = other", /:1 config: a file of options names no other\.$/],
  ["port: 8080", /:1: expected name = value, got "port: 8080"\.$/],
  ["PORT = 8080", /:1: expected name = value/],
])("%j is refused", (text, sentence) => {
  expect(() => read(text)).toThrow(sentence)
})

test("a value that cannot be read is refused with its line, and a file with its reason", () => {
  const { values } = read("# one\nport = many")
  expect(() => readOptions(serveOptions, {}, {}, values)).toThrow(
    `${path}:2 port: expected a whole number, 0 to 65535, got "many".`,
  )
  expect(() => readConfigFile(folder, serveOptions)).toThrow(
    `--config: ${folder} cannot be read: it is a folder; name a file.`,
  )
  expect(() => readConfigFile(join(folder, "none"), serveOptions)).toThrow(
    `--config: ${folder}/none cannot be read: there is no such file; check its path.`,
  )
})

test("the file that comes along says what can be read, and its unit waits for the server's end", () => {
  const deploy = join(import.meta.dirname, "../../deploy")
  const text = readFileSync(join(deploy, "sinter.conf"), "utf8")
  const { models, values } = read(text.replaceAll(/^# (?=[a-z-]+ = )/gm, ""))
  expect(models).toHaveLength(2)
  readOptions(serveOptions, {}, {}, values)
  const unit = readFileSync(join(deploy, "sinter.service"), "utf8")
  const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(unit)!
  expect(Number(seconds)).toBeGreaterThan(serveOptions["--shutdown-timeout"].absent)
})

test("names of the environment that no option has are refused; those that Kubernetes sets are not ours", () => {
  const links = { SINTER_SERVICE_HOST: "10.0.0.1", SINTER_SERVICE_PORT_HTTP: "8000" }
  const ports = { SINTER_PORT: "tcp://10.0.0.1:8000", SINTER_PORT_8000_TCP_ADDR: "10.0.0.1" }
  assertKnownNames({ ...links, ...ports, SINTER_HOME: "/srv", SINTER_MAX_TOKENS: "5", PATH: "" })
  expect(readOptions(serveOptions, {}, { ...links, ...ports })["--port"]).toBe(8000)
  // Of the Service sinter-epp: its name in upper case, with _ for -
  const picker = { SINTER_EPP_SERVICE_HOST: "10.0.0.2", SINTER_EPP_SERVICE_PORT_GRPC_EXT: "9002" }
  const its = { SINTER_EPP_PORT: "tcp://10.0.0.2:9002", SINTER_EPP_PORT_9002_TCP_PROTO: "tcp" }
  assertKnownNames({ ...picker, SINTER_EPP_SERVICE_PORT: "9002", ...its })
  expect(() => assertKnownNames({ SINTER_HTTP_PORT: "8000" })).toThrow("is the name of no option")
  expect(() => assertKnownNames({ SINTER_PROT: "1" })).toThrow(
    "SINTER_PROT: is the name of no option; did you mean SINTER_PORT?",
  )
})
