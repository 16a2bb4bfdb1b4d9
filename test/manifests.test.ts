// The manifests of docs/scaling.md beside what their makers publish: values by the schemas of Kubernetes and of the Gateway API,
// names by their types, since those schemas let unknown names pass. Of the inference extension's pool neither is published for
// JavaScript: its fields stand here as its API reference lists them (InferencePool, inference.networking.k8s.io/v1).

import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { HTTPRoute } from "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute"
import { Ajv } from "ajv"
import { Deployment } from "kubernetes-models/apps/v1/Deployment"
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler"
import { Service } from "kubernetes-models/v1/Service"
import { describe, expect, onTestFinished, test } from "vitest"
import { parseAllDocuments } from "yaml"
import { routes } from "../src/http/routes.ts"
import { configurationsOf } from "./proxies.ts"
import { serving, start } from "./sinter.ts"

interface Manifest {
  kind?: string
}

interface Probe {
  httpGet: { path: string }
}

interface Container {
  args: string[]
  startupProbe: Probe
  readinessProbe: Probe
  livenessProbe: Probe
}

const documents = configurationsOf("yaml").flatMap((text) =>
  parseAllDocuments(text).map((each) => {
    expect(each.errors).toEqual([])
    return each.toJS() as Manifest
  }),
)

function manifestOf<T = Manifest>(kind: string): T {
  const [manifest, ...others] = documents.filter((each) => each.kind === kind)
  expect([kind, others]).toEqual([kind, []])
  return manifest as T
}

const published = {
  Deployment: { Model: Deployment, from: "kubernetes-models/apps/v1" },
  Service: { Model: Service, from: "kubernetes-models/v1" },
  HorizontalPodAutoscaler: {
    Model: HorizontalPodAutoscaler,
    from: "kubernetes-models/autoscaling/v2",
  },
  HTTPRoute: {
    Model: HTTPRoute,
    from: "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1",
  },
} as const

const label = { type: "object", additionalProperties: { type: "string", maxLength: 63 } }
const port = {
  type: "object",
  properties: { number: { type: "integer", minimum: 1, maximum: 65535 } },
  required: ["number"],
  additionalProperties: false,
}
const pool = {
  type: "object",
  properties: {
    apiVersion: { const: "inference.networking.k8s.io/v1" },
    kind: { const: "InferencePool" },
    metadata: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
    spec: {
      type: "object",
      properties: {
        selector: {
          type: "object",
          properties: { matchLabels: label },
          required: ["matchLabels"],
          additionalProperties: false,
        },
        targetPorts: { type: "array", items: port, minItems: 1, maxItems: 8 },
        endpointPickerRef: {
          type: "object",
          properties: {
            group: { type: "string" },
            kind: { type: "string" },
            name: { type: "string", minLength: 1 },
            port,
            failureMode: { enum: ["FailOpen", "FailClose"] },
          },
          required: ["name", "port"], // the port of a Service, which is what `kind` is unless told otherwise
          additionalProperties: false,
        },
      },
      required: ["selector", "targetPorts", "endpointPickerRef"],
      additionalProperties: false,
    },
  },
  required: ["apiVersion", "kind", "metadata", "spec"],
  additionalProperties: false,
}

describe("the manifests of docs/scaling.md", () => {
  test("are all judged here", () => {
    const kinds = documents.flatMap(({ kind }) => kind ?? [])
    expect(kinds.sort()).toEqual([...Object.keys(published), "InferencePool"].sort())
  })

  test.for(Object.entries(published))("%s: values by its schema", ([kind, { Model }]) => {
    new Model(manifestOf(kind)).validate()
  })

  test("names by their types", () => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-manifests-"))
    try {
      symlinkSync(resolve("node_modules"), join(folder, "node_modules"))
      const lines = Object.entries(published).flatMap(([kind, { from }]) => [
        `import type { I${kind} } from "${from}/${kind}"`,
        `export const a${kind}: I${kind} = ${JSON.stringify(manifestOf(kind))}`,
      ])
      writeFileSync(join(folder, "manifests.ts"), lines.join("\n"))
      const flags = [
        "--noEmit",
        "--strict",
        "--module",
        "nodenext",
        "--skipLibCheck",
        "--types",
        "",
      ]
      const args = [resolve("node_modules/typescript/bin/tsc"), ...flags, "manifests.ts"]
      const { stdout, status } = spawnSync(process.execPath, args, { cwd: folder })
      expect([String(stdout), status]).toEqual(["", 0])
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test("InferencePool: by the fields of its API", () => {
    const validate = new Ajv().compile(pool)
    validate(manifestOf("InferencePool"))
    expect(validate.errors).toBe(null)
  })

  test("a path leads to the pool if the picker reads its body, and the rest to the same port", () => {
    interface Rule {
      matches: { path: { type: string; value: string } }[]
      backendRefs: { kind?: string; name: string; port?: number }[]
    }
    const [read, rest, ...more] = manifestOf<{ spec: { rules: Rule[] } }>("HTTPRoute").spec.rules
    expect(more).toEqual([])
    expect(read!.backendRefs).toMatchObject([{ kind: "InferencePool", name: "sinter" }])
    const posted = routes.filter(({ method }) => method === "POST").map(({ path }) => path)
    for (const { path } of read!.matches) {
      expect(path.type).toBe("Exact") // below /v1/responses nothing has a body
      expect(posted).toContain(path.value)
      expect(path.value).toMatch(/\/(completions|responses|embeddings)$/) // as its parser tells them apart
    }
    expect(rest!.matches).toEqual([{ path: { type: "PathPrefix", value: "/" } }])
    const { spec } = manifestOf<{ spec: { ports: { port: number }[] } }>("Service")
    const pool = manifestOf<{ spec: { targetPorts: { number: number }[] } }>("InferencePool")
    const [{ port }] = spec.ports as [{ port: number }]
    expect(rest!.backendRefs).toEqual([{ name: "sinter", port }])
    expect(pool.spec.targetPorts).toEqual([{ number: port }])
  })

  test("what they start is there: its options, its probes, the numbers that it is scaled by", async () => {
    const { spec } = manifestOf<{ spec: { template: { spec: { containers: Container[] } } } }>(
      "Deployment",
    )
    const [container] = spec.template.spec.containers
    // What a container runs is its image's ENTRYPOINT with the manifest's args behind it.
    const image = readFileSync(new URL("../deploy/Containerfile", import.meta.url), "utf8")
    const entry: string[] = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(image)![1]!)
    const [program, main, ...typed] = [...entry, ...container!.args]
    expect([program, main]).toEqual(["node", "/opt/sinter/build/cli/main.js"])
    const here = typed
      .map((each) => (each === "/models/my-model" ? "tiny" : each))
      .filter((each) => each !== "--host=0.0.0.0")
    const server = await serving(start([...here, "--port", "0"]))
    onTestFinished(() => void server.stop())
    const { startupProbe, readinessProbe, livenessProbe } = container!
    for (const { httpGet } of [startupProbe, readinessProbe, livenessProbe])
      expect((await fetch(`${server.url}${httpGet.path}`)).status).toBe(200)
    const metrics = await (await fetch(`${server.url}/metrics`)).text()
    const rules = documents.find((each) => "rules" in each)
    const names = new Set(JSON.stringify(rules).match(/sinter_\w+(?={)/g))
    expect([...names].sort()).toEqual(["sinter_blocks", "sinter_blocks_used", "sinter_waiting"])
    for (const name of names) expect(metrics).toMatch(new RegExp(`^${name}[{ ]`, "m"))
  })
})
