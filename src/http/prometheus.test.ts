// The page is what Prometheus' own client of JavaScript prints of the same numbers.

import { Counter, Gauge, Histogram, Registry } from "prom-client"
import { expect, test } from "vitest"
import { Families, PROMETHEUS_TYPE } from "./prometheus.ts"

const BOUNDS = [0.01, 0.5, 1]
const HARD = 'a "name" with \\ and\na second line'

test("counters, gauges and histograms are printed as prom-client prints them", async () => {
  const registry = new Registry()
  const registers = [registry]
  const families = new Families()

  const requests = families.counter("requests_total", HARD)
  const labelNames = ["route", "status"]
  const theirRequests = new Counter({ name: "requests_total", help: HARD, labelNames, registers })
  for (const [route, status, value] of [
    ["/a", 200, 1],
    ["/b", 499, 2.5],
    ["/a", 200, 3],
    [HARD, 500, 1],
  ] as const) {
    requests.add({ route, status }, value)
    theirRequests.inc({ route, status }, value)
  }

  families.counter("untouched_total", "Nothing yet.")
  new Counter({ name: "untouched_total", help: "Nothing yet.", labelNames: ["kind"], registers })

  families.gauge("late", "Some number.", () => Number.POSITIVE_INFINITY)
  new Gauge({ name: "late", help: "Some number.", registers }).set(Number.POSITIVE_INFINITY)
  families.gauge("unknown", "Not told now.", () => undefined)
  new Gauge({ name: "unknown", help: "Not told now.", labelNames: ["kind"], registers })

  const [plain, labelled] = [
    families.histogram("plain_seconds", "Times.", BOUNDS),
    families.histogram("labelled_seconds", "Times by route.", BOUNDS, true),
  ]
  families.histogram("empty_seconds", "No times.", BOUNDS)
  const buckets = BOUNDS
  const theirPlain = new Histogram({ name: "plain_seconds", help: "Times.", buckets, registers })
  const [name, help] = ["labelled_seconds", "Times by route."]
  const theirLabelled = new Histogram({ name, help, buckets, labelNames: ["route"], registers })
  new Histogram({ name: "empty_seconds", help: "No times.", buckets, registers })
  for (const value of [0, 0.01, 0.010001, 0.5, 0.7, 1, 1.5, 1e-7]) {
    plain.observe(value)
    theirPlain.observe(value)
    const labels = { route: value > 0.4 ? "/a" : HARD }
    labelled.observe(value, labels)
    theirLabelled.observe(labels, value)
  }

  expect(families.print()).toBe(await registry.metrics())
  expect(PROMETHEUS_TYPE).toBe(Registry.PROMETHEUS_CONTENT_TYPE)
})
