"""OpenVINO GenAI for bench/contenders/worker.ts: reads questions, one line of JSON each, and answers tokens a second.

Prompts are drawn anew, so that no cache helps. A rate of decoding is what is left of the time of 33 tokens when the time of
one is taken away: the prompt's.
"""

import json
import random
import sys
import time

import numpy
import openvino
import openvino_genai as genai

options = json.loads(sys.argv[1])
sys.stdout.reconfigure(line_buffering=True)
properties = {
    "INFERENCE_NUM_THREADS": options["threads"],
    "PERFORMANCE_HINT": "LATENCY",
}
if "group" in options:
    properties["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = options["group"]
scheduler = genai.SchedulerConfig()
scheduler.cache_size = 4  # GB
scheduler.enable_prefix_caching = False
scheduler.max_num_batched_tokens = options["context"] * 2
pipe = genai.LLMPipeline(options["model"], "CPU", scheduler_config=scheduler, **properties)
vocabulary = 120_000


def seconds(sequences, prompt, new):
    """How long so many random prompts of one length and so many new tokens each take, all at once."""
    config = genai.GenerationConfig()
    config.max_new_tokens = new
    config.min_new_tokens = new
    config.ignore_eos = True
    config.do_sample = False
    ids = numpy.array(
        [[random.randrange(300, vocabulary) for _ in range(prompt)] for _ in range(sequences)], dtype=numpy.int64
    )
    inputs = openvino.Tensor(ids)
    begun = time.perf_counter()
    pipe.generate(genai.TokenizedInputs(inputs, openvino.Tensor(numpy.ones_like(ids))), config)
    return time.perf_counter() - begun


print(
    json.dumps(
        {
            "about": f"OpenVINO GenAI {genai.__version__}, {options['model'].rstrip('/').split('/')[-1]}, "
            + ", ".join(f"{name} {value}" for name, value in properties.items())
            + ", continuous batching without prefix cache"
        }
    )
)
for line in sys.stdin:
    question = json.loads(line)
    if "prefill" in question:
        rate = question["prefill"] / seconds(1, question["prefill"], 1)
    else:
        sequences, depth = question["sequences"], max(question["depth"], 16)
        rest = seconds(sequences, depth, 33) - seconds(sequences, depth, 1)
        rate = sequences * 32 / rest
    print(json.dumps({"rate": rate}))
