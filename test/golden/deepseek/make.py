"""Prompts of DeepSeek V3.2 as its encoder writes them, and replies as it reads them (see README.md).

    python make.py ENCODER READER > golden.json

ENCODER is mlx_lm/chat_templates/deepseek_v32.py of the wheel mlx-lm 0.30.7, READER
sglang/srt/entrypoints/openai/encoding_dsv32.py of the wheel sglang 0.5.7: both are copies of the model's own encoding_dsv32.py.
The first has lost its reader, and the second the blank lines of what tells of tools.
"""

import importlib.util
import json
import sys


def module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


encoder = module("encoder", sys.argv[1])
reader = module("reader", sys.argv[2])

weather = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place, “now”",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
            "required": ["place"],
        },
    },
}
now = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


system = {"role": "system", "content": "Be brief.\n"}
user = {"role": "user", "content": "How warm is it in Köln?"}
asking = {
    "role": "assistant",
    "content": "Let me see.",
    "reasoning_content": "A place, and\na day.",
    "tool_calls": [
        call("get_weather", '{"place": "Köln \\"<x>\\"\\n🙂", "days": 2, "of": [1.0, true, null, {"a": "é"}]}'),
        call("now", "{}"),
    ],
}
results = [{"role": "tool", "content": '{"degrees": 21}'}, {"role": "tool", "content": "noon"}]
answer = {"role": "assistant", "content": "21 degrees.", "reasoning_content": "That is warm."}
again = {
    "role": "assistant",
    "content": None,
    "reasoning_content": "Once more.",
    "tool_calls": [call("now", "{}")],
}
thanks = {"role": "user", "content": "Thanks.\n\n"}

CONVERSATIONS = {
    "a user": (None, [user]),
    "a system": (None, [system, user]),
    "turns": (None, [system, user, answer, thanks]),
    "turns of the same": (None, [user, thanks, answer, thanks, user]),
    "a system between": (None, [system, user, answer, system, thanks]),
    "tools": ([weather, now], [system, user]),
    "tools without a system": ([now], [user]),
    "results": ([weather, now], [system, user, asking, *results]),
    "calls after results": ([weather, now], [user, asking, *results, again, results[1]]),
    "a call of which nothing was thought": (None, [user, {**again, "reasoning_content": None}, results[1]]),
    "calls, and an answer": ([weather, now], [system, user, asking, *results, answer, thanks]),
    "calls of earlier turns": ([now], [user, asking, *results, answer, thanks, again, results[1]]),
    "a whole answer": (None, [user, answer]),
}


def prompts(tools, messages):
    if tools:
        system = messages[0] if messages[0]["role"] == "system" else {"role": "system", "content": ""}
        messages = [{**system, "tools": tools}, *messages[system is messages[0] :]]
    return {mode: encoder.encode_messages(messages, thinking_mode=mode) for mode in ["chat", "thinking"]}


D = "｜DSML｜"
CALLS = f"\n\n<{D}function_calls>\n"
CALLS_END = f"</{D}function_calls>"
END = "<｜end▁of▁sentence｜>"


def written(name, *parameters):
    lines = [
        f'<{D}parameter name="{key}" string="{told}">{value}</{D}parameter>\n' for key, told, value in parameters
    ]
    return f'<{D}invoke name="{name}">\n{"".join(lines)}</{D}invoke>\n'


REPLIES = {
    "an answer": ("chat", "21 degrees."),
    "a thought and an answer": ("thinking", "That is\n<warm>.</think>21 degrees.\n\nReally."),
    "a call": ("chat", "Let me see." + CALLS + written("get_weather", ("place", "true", "Köln")) + CALLS_END),
    "a thought and two calls": (
        "thinking",
        "Hm.</think>"
        + CALLS
        + written("get_weather", ("place", "true", 'a "b"\n</｜DSML> 5'), ("days", "false", "2"))
        + written("now")
        + CALLS_END,
    ),
    "a text that could be a number, and values of all types": (
        "chat",
        CALLS
        + written(
            "get_weather",
            ("place", "true", "5"),
            ("days", "false", "5"),
            ("list", "false", '["</", {"a": null}]'),
            ("flag", "false", "true"),
            ("empty", "true", ""),
            ("lines", "true", "\n\n x\n"),
        )
        + CALLS_END,
    ),
    "a call as the encoder shows one without arguments": (
        "chat",
        CALLS + f'<{D}invoke name="now">\n\n</{D}invoke>\n' + CALLS_END,
    ),
}


def parsed(mode, text):
    message = reader.parse_message_from_completion_text(text + END, mode)
    calls = [each["function"] for each in message["tool_calls"]]
    return {"content": message["content"], "reasoning": message["reasoning_content"], "calls": calls}


golden = {
    "conversations": [
        {"name": name, "tools": tools, "messages": messages, "prompts": prompts(tools, messages)}
        for name, (tools, messages) in CONVERSATIONS.items()
    ],
    "replies": [
        {"name": name, "mode": mode, "text": text, **parsed(mode, text)} for name, (mode, text) in REPLIES.items()
    ],
}
json.dump(golden, sys.stdout, ensure_ascii=False, separators=(",", ":"))
print()
