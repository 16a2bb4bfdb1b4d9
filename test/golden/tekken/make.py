"""Makes a small tekken.json and what mistral-common reads texts and conversations as: python make.py

Tokens are trained by tiktoken's bpe_train on the sentences below; 560 of them, the last 40 of which default_vocab_size leaves out.
The file is of version v13; golden.json has the conversations of older versions as well, whose files differ in `version` and in the
special tokens that the package takes for granted.
"""

import base64
import importlib.metadata
import io
import json
import tempfile
import wave
from pathlib import Path

from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.transcription.request import TranscriptionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from mistral_common.tokens.tokenizers.tekken import SpecialTokenPolicy, Tekkenizer
from PIL import Image
from tiktoken._educational import bpe_train

SENTENCES = """
The server reads what it is given, and says what it has read. It reads numbers: 1, 12, 123, 1234 and 12345.
They're here, we've seen them, I'll say so; DON'T SHOUT. Something, somewhere, SomeThing, camelCaseNames, HTTPServer.
def read(text):\n    return [word for word in text.split() if word]\n\n\n// paths/like/this\n# 读书的人很多，读完的人很少。
模型读取文字，然后写出文字。文字越长，时间越久。 naïve café über Straße, ÀÉÎ ЧИТАТЬ книги читает мир हिन्दी में पढ़ना مرحبا بالعالم
[{"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
[{"name": "weather", "arguments": {"city": "Paris"}, "id": "abcdef123"}] {"content": {"degrees": 21.5}, "call_id": "abcdef123"}
""" * 3

PATTERN = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LISTED, USED, SPECIAL = 560, 520, 48
NAMED = {32: "[ARGS]", 33: "[CALL_ID]", 34: "[THINK]", 35: "[/THINK]"}

TEXTS = [
    "The server reads.",
    "  They're reading 1234567 words,\n\n\tthen DON'T.",
    "模型reads文字 then 读书",
    "naïve Straße café ÀÉÎ e\u0301",
    "def f(x):\n        return x  \n",
    "camelCaseName HTTPServer SOMEthing iPhone",
    "читать КНИГИ हिन्दी पढ़ना مرحبا بالعالم ไทย 한국어",
    "😀 unknown ☂ signs 👩‍👩‍👧",
    "https://a.b/c//d.\n\n/e",
    "",
    " ",
    "\r\n \r\n\u00a0\u2003x",
    "[INST]<s></s>[/INST] as they stand <SPECIAL_40>",
]

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city, with ünïcode.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
BARE = {"type": "function", "function": {"name": "now", "strict": True, "parameters": {}}}


def system(content):
    return {"role": "system", "content": content}


def user(content):
    return {"role": "user", "content": content}


def assistant(content=None, calls=(), **more):
    its = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in calls
    ]
    return {"role": "assistant", "content": content, **({"tool_calls": its} if its else {}), **more}


def tool(id, content, name="weather"):
    return {"role": "tool", "tool_call_id": id, "name": name, "content": content}


def text(text):
    return {"type": "text", "text": text}


def image():
    file = io.BytesIO()
    Image.new("RGB", (4, 4), "red").save(file, "PNG")
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()}}


ONE, TWO = "abcdef123", "Z23456789"
CALLED = [
    user("What is the weather in Paris?"),
    assistant(calls=[(ONE, "weather", '{"city":"Paris","days":[1,2.0,1e3],"deep":{"a":null}}')]),
    tool(ONE, '{"degrees": 21.50,"sky":"clear"}'),
]
BOTH = [
    user("Both?"),
    assistant(calls=[(ONE, "weather", '{"city": "Paris"}'), (TWO, "now", "")]),
]
CONVERSATIONS = {
    "a question": dict(messages=[user("Say 读书.")]),
    "a system": dict(messages=[system("Be short."), user("Why?")]),
    "turns": dict(messages=[system("Be short."), user("One?"), assistant("Two.  "), user("Three?")]),
    "blanks behind an answer": dict(messages=[user("One?"), assistant(" Two.\n  "), user("Three?")]),
    "several of the system": dict(messages=[system("One."), system("Two."), user("Why?"), system("Three."), user("So?")]),
    "neighbours of one role": dict(messages=[user("One"), user("Two"), assistant("A"), assistant("B"), user("Three")]),
    "an empty user": dict(messages=[user(""), assistant("A"), user("Three"), user("")]),
    "only a system": dict(messages=[system("One."), system("Two.")]),
    "an answer ahead": dict(messages=[system("S"), assistant("A"), user("Three")]),
    "tools": dict(messages=[user("What is the weather in Paris?")], tools=[WEATHER, BARE]),
    "tools, later": dict(messages=[system("S"), user("Hi"), assistant("Hi."), user("The weather?")], tools=[WEATHER]),
    "tools without a user": dict(messages=[system("S")], tools=[WEATHER]),
    "a call": dict(messages=CALLED, tools=[WEATHER]),
    "a call, told of": dict(messages=[*CALLED, assistant("It is clear."), user("Thanks")], tools=[WEATHER]),
    "a result of text": dict(messages=[*CALLED[:2], tool(ONE, "It's \"clear\"\n[/TOOL_RESULTS]")], tools=[WEATHER]),
    "a result of nothing": dict(messages=[*CALLED[:2], tool(ONE, "")], tools=[WEATHER]),
    "a result of a list": dict(messages=[*CALLED[:2], tool(ONE, '[1, "é", true, 12345678901234567890]')], tools=[WEATHER]),
    "two calls": dict(messages=[*BOTH, tool(ONE, "{}"), tool(TWO, "12")], tools=[WEATHER, BARE]),
    "results in another order": dict(messages=[*BOTH, tool(TWO, "12"), tool(ONE, "{}")], tools=[WEATHER, BARE]),
    "text beside a call": dict(
        messages=[user("Paris?"), assistant("Let me see. ", calls=[(ONE, "weather", "{}")]), tool(ONE, "1")],
        tools=[WEATHER],
    ),
    "arguments that are no JSON": dict(messages=[user("Paris?"), assistant(calls=[(ONE, "weather", "{city")]), tool(ONE, "1")]),
    "other ids": dict(messages=[user("Paris?"), assistant(calls=[("call_1-é", "weather", "{}")]), tool("call_1-é", "1")]),
    "thinking": dict(messages=[user("Why?"), assistant("So. ", reasoning_content="Hm.\n"), user("And?")]),
    "thinking and a call": dict(
        messages=[user("Why?"), assistant(calls=[(ONE, "weather", "{}")], reasoning_content="Hm."), tool(ONE, "1")]
    ),
    "a prefix": dict(messages=[user("Why?"), assistant("Because")], continued=True),
    "control tokens that are spelled": dict(messages=[system("[/SYSTEM_PROMPT]"), user("[/INST]</s>"), assistant("[TOOL_CALLS]"), user("<s>")]),
    "an image": dict(messages=[user([text("What is that?"), image()])]),
    "an image ahead": dict(messages=[system("S"), user([image(), text("What is that?")])]),
    "images among texts": dict(messages=[user([text("One"), text("and"), image(), text("Two"), image()]), user("Three")]),
    "an image alone": dict(messages=[user("One"), user([image()])]),
}
VERSIONS = ["v3", "v7", "v11", "v13"]


def file_of(version):
    """The tekken.json of a version."""
    listed = Tekkenizer.DEPRECATED_SPECIAL_TOKENS
    special = [*listed] + [
        dict(rank=i, token_str=NAMED.get(i, f"<SPECIAL_{i}>"), is_control=True) for i in range(len(listed), 36)
    ]
    config = dict(
        pattern=PATTERN,
        num_vocab_tokens=LISTED,
        default_vocab_size=USED + SPECIAL,
        default_num_special_tokens=SPECIAL,
        version=version,
    )
    image = dict(image_patch_size=16, max_image_size=16)
    more = {} if version in ["v3", "v7"] else dict(special_tokens=special)
    return dict(config=config, vocab=vocab, **more, image=image)


def opened(version):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tekken.json"
        path.write_text(json.dumps(file_of(version)))
        return MistralTokenizer.from_file(str(path))


def encoded(tokenizer, messages, tools=None, continued=False):
    """None where the package refuses it."""
    try:
        request = ChatCompletionRequest.from_openai(messages, tools, continue_final_message=continued)
        return tokenizer.encode_chat_completion(request).tokens
    except (MistralCommonException, ValueError):
        return None


HEARD = {24: "[AUDIO]", 25: "[BEGIN_AUDIO]", 35: "[TRANSCRIBE]"}  # of 36 special tokens, as Voxtral's file names them
LANGUAGES = [None, "en", "de"]


def heard(language):
    """Ids of a request for a transcript of 0.4 seconds, by a file of v7 with what Voxtral's says of audio."""
    given = file_of("v13")
    given["config"]["version"] = "v7"
    for token in given["special_tokens"]:
        token["token_str"] = HEARD.get(token["rank"], token["token_str"])
    spectrogram = dict(num_mel_bins=128, hop_length=160, window_size=400)
    given["audio"] = dict(sampling_rate=16000, frame_rate=12.5, audio_encoding_config=spectrogram, chunk_length_s=None)
    del given["image"]
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(bytes(2 * 6400))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tekken.json"
        path.write_text(json.dumps(given))
        tokenizer = MistralTokenizer.from_file(str(path))
    return tokenizer.encode_transcription(TranscriptionRequest(audio=sound.getvalue(), language=language)).tokens


ranks = bpe_train(SENTENCES, LISTED, PATTERN, visualise=None)
vocab = []
for token, rank in sorted(ranks.items(), key=lambda row: row[1]):
    try:
        spelled = token.decode()
    except UnicodeDecodeError:
        spelled = None
    vocab.append(dict(rank=rank, token_bytes=base64.b64encode(token).decode(), token_str=spelled))

tokenizers = {version: opened(version) for version in VERSIONS}
plain = tokenizers["v13"].instruct_tokenizer.tokenizer
texts = []
for each in TEXTS:
    ids = plain.encode(each, bos=False, eos=False)
    texts.append(dict(text=each, ids=ids, decoded=plain.decode(ids, SpecialTokenPolicy.KEEP)))
special = [plain.id_to_piece(id) for id in range(SPECIAL)]
conversations = []
for name, given in CONVERSATIONS.items():
    ids = {version: encoded(tokenizers[version], **given) for version in VERSIONS}
    conversations.append(dict(name=name, **given, ids=ids))
transcriptions = [dict(language=language, ids=heard(language)) for language in LANGUAGES]
versions = {name: importlib.metadata.version(name) for name in ["mistral-common", "tiktoken"]}
with open("golden.json", "w") as file:
    json.dump(dict(versions=versions, special=special, texts=texts, conversations=conversations, transcriptions=transcriptions), file, separators=(",", ":"))
with open("tekken.json", "w") as file:
    json.dump(file_of("v13"), file, separators=(",", ":"))
