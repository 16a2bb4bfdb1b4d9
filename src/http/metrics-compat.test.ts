import { expect, test } from "vitest"
import { parrot } from "../../test/parrot.ts"

const hi = { model: "tiny", messages: [{ role: "user", content: "Hi" }] }

// What gateways and dashboards look for.
const WANTED = [
  ["vllm:num_requests_waiting", "gauge"],
  ["vllm:num_requests_running", "gauge"],
  ["vllm:kv_cache_usage_perc", "gauge"],
  ["vllm:cache_config_info", "gauge"],
  ["vllm:lora_requests_info", "gauge"],
  ["vllm:time_to_first_token_seconds", "histogram"],
  ["vllm:inter_token_latency_seconds", "histogram"],
  ["vllm:e2e_request_latency_seconds", "histogram"],
  ["vllm:prompt_tokens_total", "counter"],
  ["vllm:generation_tokens_total", "counter"],
  ["vllm:prefix_cache_queries", "counter"],
  ["vllm:prefix_cache_hits", "counter"],
  ["vllm:request_success_total", "counter"],
] as const

test.each(WANTED)("%s is there as a %s, once, and labelled with the model", async (name, type) => {
  const { server, post } = parrot(undefined, { metricsCompat: "vllm" })
  expect((await post(hi)).statusCode).toBe(200)
  const page = (await server.inject("/metrics")).body
  expect(page.match(new RegExp(`^# TYPE ${name} .*$`, "gm"))).toEqual([`# TYPE ${name} ${type}`])
  expect(page).toMatch(new RegExp(`^${name}(_count)?\\{[^}]*model_name="tiny"[^}]*\\} \\d`, "m"))
})

test("the aliases say what our own names say", async () => {
  const { server, post } = parrot(undefined, { metricsCompat: "vllm" })
  await post(hi)
  await post(hi)
  const page = (await server.inject("/metrics")).body
  for (const sample of [
    'vllm:prompt_tokens_total{model_name="tiny"} 6',
    'vllm:generation_tokens_total{model_name="tiny"} 4',
    'vllm:time_to_first_token_seconds_count{model_name="tiny"} 2',
    'vllm:inter_token_latency_seconds_count{model_name="tiny"} 2',
    'vllm:e2e_request_latency_seconds_bucket{model_name="tiny",le="+Inf"} 2',
    'vllm:request_success_total{model_name="tiny",finished_reason="stop"} 2',
  ]) {
    expect(page.split("\n")).toContain(sample)
  }
})

test("unasked, no other names than ours", async () => {
  const { server } = parrot()
  expect((await server.inject("/metrics")).body).not.toContain("vllm:")
})
