"""When transformers says that each word is said, and what it thinks of each window that it has written: words.json of both golden Whispers.
And alignment.json: queries that look for rows one behind the other, in numbers small enough to be read, and where it finds them.

    python words.py [NAME ...]

Other heads are asked than the folders name, several of several layers. Recordings are drawn until the token that is chosen leads, as in
transcribe.py, and until the times stay the same when attention is off by a hundred thousandth.
"""

import json
import sys
import zlib
from pathlib import Path

import torch
import transformers
from transformers import AutoTokenizer, WhisperFeatureExtractor, WhisperForConditionalGeneration
from transformers.models.whisper.tokenization_whisper import LANGUAGES, _combine_tokens_into_words

GOLDEN = Path(__file__).parent
sys.path[:0] = [str(GOLDEN)]
from transcribe import DISTINCT, FIRST, MARGIN, SHORT, Float64, Leads, generated, sound  # noqa: E402

HEADS = {"english": [[0, 1], [0, 3]], "multilingual": [[0, 1], [1, 2], [1, 0]]}
ASKED = {
    "english": [dict(samples=SHORT), dict(samples=500123)],
    "multilingual": [
        dict(samples=SHORT, language="zh"),
        dict(samples=120123, language="de", moves=3),
    ],
}
OFF, TIMES, MOVES = 1e-5, 6, 6


class Aligned:
    """What `generate` is asked beside what transcribe.py asks it, and what it says of each window."""

    def __init__(self, model, text, frames):
        self.model, self.text, self.frames = model, text, frames
        self.outputs, self.windows, self.stable = None, [], True
        self.generate, self.extract = model.generate, model._extract_token_timestamps

    def __enter__(self):
        def generate(*given, attention_mask, **asked):
            attention_mask = (torch.arange(attention_mask.shape[1]) < self.frames).long()[None]
            self.outputs = self.generate(
                *given, attention_mask=attention_mask, return_token_timestamps=True, **asked,
                temperature=(0.0,), logprob_threshold=-1.0, no_speech_threshold=2.0, compression_ratio_threshold=1e9,
            )
            return self.outputs

        def extract(outputs, heads, **asked):
            times = self.extract(outputs, heads, **asked)
            right = outputs.cross_attentions
            for _ in range(TIMES):
                off = lambda weights: weights * (1 + OFF * torch.randn_like(weights))
                outputs.cross_attentions = tuple(tuple(off(layer) for layer in step) for step in right)
                self.stable &= torch.equal(times, self.extract(outputs, heads, **asked))
            outputs.cross_attentions = right
            return times

        def judge(sequence, outputs, index, processors, *_):
            logprob = self.model._retrieve_avg_logprobs(outputs[index]["scores"], sequence, 0.0)
            [nobody] = [each.no_speech_prob for each in processors if hasattr(each, "no_speech_prob")]
            text = self.text(sequence.tolist()).strip().encode()
            judged = dict(avg_logprob=logprob.item(), no_speech_prob=nobody[index].item())
            self.windows.append(dict(**judged, compression_ratio=len(text) / len(zlib.compress(text))))  # as OpenAI's program has it
            return False, False

        self.model.generate, self.model._extract_token_timestamps, self.model._need_fallback = generate, extract, judge
        return self

    def __exit__(self, *_):
        for name in ["generate", "_extract_token_timestamps", "_need_fallback"]:
            self.model.__dict__.pop(name)


class Plain:
    """A tokenizer as the words' function wants it."""

    def __init__(self, tokenizer):
        self.tokenizer, self.eos_token_id = tokenizer, FIRST

    def decode(self, tokens, **_):
        return self.tokenizer.decode(tokens)


def words_of(segment, tokenizer, language):
    """As _decode_asr has them: from where the token before begins to where the last one does."""
    times = segment["token_timestamps"].tolist()
    places = [place for place, token in enumerate(segment["tokens"].tolist()) if token < FIRST]
    tokens = [segment["tokens"][place].item() for place in places]
    words, _, parts = _combine_tokens_into_words(Plain(tokenizer), tokens, LANGUAGES[language])
    for word, part in zip(words, parts):
        if word.strip():
            yield dict(word=word.strip(), start=round(times[places[part[0]] - 1], 2), end=round(times[places[part[-1]]], 2))


def make(name):
    folder = GOLDEN / name
    model = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval().double()
    tokenizer, extractor = AutoTokenizer.from_pretrained(folder), WhisperFeatureExtractor.from_pretrained(folder)
    model.generation_config.alignment_heads = HEADS[name]
    text = lambda tokens: tokenizer.decode([token for token in tokens if token < FIRST])
    notes, number = [], 1000
    for asked in ASKED[name]:
        good, moves = False, asked.pop("moves", MOVES)
        while not good:
            number += 1
            leads, samples = Leads(), sound(asked["samples"], number)
            with Float64(), torch.no_grad(), Aligned(model, text, len(samples) // 160) as aligned:
                segments, _ = generated(model, extractor, tokenizer, samples, {**asked, "timestamps": True}, leads)
            said = [token for segment in segments for token in segment["tokens"]]
            words = [word for each in aligned.outputs["segments"][0] for word in words_of(each, tokenizer, asked.get("language", "en"))]
            ends = {word["end"] for word in words}
            good = leads.least > MARGIN and len(set(said)) >= DISTINCT and aligned.stable and len(ends) >= moves
        asked = {**asked, "sound": dict(samples=asked["samples"], seed=number)}
        asked.pop("samples")
        texts = [text(segment["tokens"]) for segment in segments]
        notes.append(dict(**asked, texts=texts, words=words, windows=aligned.windows))
        print(number, notes[-1], flush=True)
    (folder / "words.json").write_text(json.dumps(dict(alignment_heads=HEADS[name], prompts=notes), ensure_ascii=False))


def make_alignment():
    """Rows are told by their places; each token of 14 looks for its own, some less than others, and behind the 52nd row is silence."""
    rows, heard, tokens, count, width = 60, 52, 14, 3, 8
    generator = torch.Generator().manual_seed(1)
    draw = lambda *shape: torch.randn(shape, generator=generator)
    places = lambda at: torch.cat([(at[:, None] * f).sin() if i % 2 else (at[:, None] * f).cos() for i, f in enumerate([0.06, 0.06, 0.19, 0.19, 0.6, 0.6, 1.7, 1.7])], 1)
    sought = torch.tensor([1, 3, 4, 9, 14, 15, 20, 28, 29, 35, 36, 44, 45, 50])
    given = (places(torch.arange(rows).float()) + 0.1 * draw(rows, width)).float()
    keys = draw(count, width, width).float()
    queries = torch.stack([(places(sought.float()) @ torch.linalg.pinv(key).float() * 2.5 + draw(tokens, width) * 0.6) for key in keys], 1).float()
    scores = torch.einsum("thd,hdw,rw->htr", queries.double(), keys.double(), given.double()) * width**-0.5
    weights = scores.softmax(-1)[None]
    config = transformers.WhisperConfig(decoder_layers=1, median_filter_width=7)
    outputs = transformers.generation.GenerateEncoderDecoderOutput(sequences=torch.zeros(1, tokens + 3), cross_attentions=[[torch.cat([weights[:, :, :1], weights], 2)]])
    extract = WhisperForConditionalGeneration._extract_token_timestamps
    asked = dict(num_frames=torch.tensor([2 * heard]), num_input_ids=1)
    heads = [[0, head] for head in range(count)]
    times = extract(type("Model", (), dict(config=config)), outputs, heads, **asked)
    begins = [round(time / 0.02) for time in times[0, 1:-1].tolist()]
    told = dict(heads=count, heard=heard, rows=given, keys=keys.reshape(-1, width), queries=queries.reshape(tokens, -1))
    written = {name: [[round(n, 6) for n in row] for row in value.tolist()] if torch.is_tensor(value) else value for name, value in told.items()}
    (GOLDEN / "alignment.json").write_text(json.dumps({**written, "begins": begins}))
    print(begins)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    make_alignment()
    for name in sys.argv[1:] or HEADS:
        make(name)
