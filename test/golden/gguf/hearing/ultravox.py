"""Writes a pair of GGUF files of a small Ultravox, what its encoder and projector make of recordings, prompts, logits, greedy tokens.

    python ultravox.py LLAMA_CPP     needs a source tree of llama.cpp, transformers and torch

Ultravox is code that fixie-ai publishes beside its weights, for transformers 4. Here its parts are those of transformers (Whisper's encoder, Llama's
norm), put together as ultravox_model.py and ultravox_processing.py have them: frames are bounded by the loudest of all of a recording and cut
by 3,000; an encoder's rows see those of the recording; eight of them, zeros where there are none, go through the projector. Both files are
llama.cpp's converters', and their text model is that of `../../hearing/hear.py`, whose template knows texts alone.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn.functional import pad, silu
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, WhisperConfig, WhisperFeatureExtractor
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.whisper.modeling_whisper import WhisperEncoder

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "hearing"), str(HERE.parent / "vision")]
import hear  # noqa: E402
import pictured  # noqa: E402
from convert import convert, write  # noqa: E402

NAME, SOFT = "ultravox", "<|reserved_special_token_0|>"
STACKED, BETWEEN, CONTEXT = 8, 48, 3000
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# A second and two thirds; some of a second, of whose frames an odd number is, and of two; more than a window, whose rest has an odd number, too.
SAMPLES = [[26667], [8100, 32123], [490600]]


class Ultravox(torch.nn.Module):
    """A text model, and what it hears with."""

    def __init__(self):
        super().__init__()
        text = LlamaForCausalLM(LlamaConfig(**{k: v for k, v in hear.LLAMA.items() if k != "model_type"}))
        self.model, self.lm_head = torch.nn.Module(), text.lm_head
        self.model.language_model = text.model
        self.audio_tower = WhisperEncoder(WhisperConfig(**hear.WHISPER, attn_implementation="eager"))
        stacked = STACKED * hear.WHISPER["d_model"]
        self.multi_modal_projector = torch.nn.ModuleDict(
            dict(
                ln_pre=LlamaRMSNorm(stacked, eps=1e-6),
                linear_1=torch.nn.Linear(stacked, BETWEEN, bias=False),
                ln_mid=LlamaRMSNorm(BETWEEN // 2, eps=1e-6),
                linear_2=torch.nn.Linear(BETWEEN // 2, text.config.hidden_size, bias=False),
            )
        )
        self.config = text.config

    def get_input_embeddings(self):
        return self.model.language_model.embed_tokens

    def heard(self, frames, count):
        """Rows of a chunk, of which so many frames are the recording's."""
        tower = self.audio_tower
        x = torch.nn.functional.gelu(tower.conv2(torch.nn.functional.gelu(tower.conv1(frames))))
        x = x.transpose(1, 2)
        x = x + tower.embed_positions.weight[: x.shape[1]]
        hidden = torch.arange(x.shape[1]) >= (count - 1) // 2 + 1
        mask = torch.zeros(1, 1, 1, x.shape[1], dtype=x.dtype).masked_fill(hidden, -torch.inf)
        for layer in tower.layers:
            x = layer(x, mask)
        x = tower.layer_norm(x)
        x = pad(x, (0, 0, 0, -x.shape[1] % STACKED)).reshape(1, -1, STACKED * x.shape[2])
        own = self.multi_modal_projector
        first, gate = own["linear_1"](own["ln_pre"](x)).chunk(2, dim=-1)
        rows = own["linear_2"](own["ln_mid"](silu(gate) * first))
        return rows[0, : -(-count // (2 * STACKED))]


def features_of(model, extractor, _, samples):
    given = extractor(
        samples.astype("float32") / 32768,
        sampling_rate=hear.RATE,
        padding="longest",
        pad_to_multiple_of=hear.RATE // 100,
        truncation=False,
        return_attention_mask=True,
        return_tensors="pt",
    )
    frames, count = given["input_features"].to(model.lm_head.weight.dtype), int(given["attention_mask"].sum())
    rows = []
    for first in range(0, count, CONTEXT):
        chunk = frames[..., first : first + CONTEXT]
        rows.append(model.heard(pad(chunk, (0, CONTEXT - chunk.shape[-1])) if first else chunk, min(CONTEXT, count - first)))
    return torch.cat(rows)


def draw_part(name, shape, generator):
    if ".ln_" in name:
        return 0.4 + 0.1 * torch.randn(*shape, generator=generator)
    return hear.draw_part(name, shape, generator)


def weights(model):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(draw_part(name, weight.shape, generator).bfloat16().float())
        ids = torch.randint(3, 310, (1, 60), generator=generator)
        deviation = model.lm_head(model.model.language_model(ids).last_hidden_state).std()
        norm = model.model.language_model.norm
        norm.weight.copy_((norm.weight * 3 / deviation).bfloat16().float())


class Texts:
    """A tokenizer whose template is given texts: of a recording its mark, on a line of its own."""

    def __init__(self, own):
        self.own = own

    def apply_chat_template(self, messages, **options):
        pieces = [part["text"] if part["type"] == "text" else f"{SOFT}\n" for part in messages[0]["content"]]
        return self.own.apply_chat_template([dict(role="user", content="".join(pieces))], **options)

    def __call__(self, *given, **options):
        return self.own(*given, **options)

    def decode(self, tokens):
        return self.own.decode(tokens)


if __name__ == "__main__":
    llama, output = sys.argv[1], HERE / NAME
    output.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    model = Ultravox()
    weights(model)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / NAME
        folder.mkdir()
        pictured.bring_texts(folder, ["<|im_start|>", "<|im_end|>", SOFT], chat_template=TEMPLATE)
        WhisperFeatureExtractor(feature_size=hear.BANDS).save_pretrained(folder)
        named = {name: weight.bfloat16().contiguous() for name, weight in model.state_dict().items()}
        text = {name.replace("model.language_model.", "model."): w for name, w in named.items() if name.startswith(("model.", "lm_head."))}
        write(folder, {**hear.LLAMA, "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False}, text)
        convert(llama, folder, output / "model.gguf", "--outtype", "bf16")
        own = {name: w for name, w in named.items() if not name.startswith(("model.", "lm_head."))}
        audio = {**hear.WHISPER, "model_type": "whisper", "num_hidden_layers": hear.WHISPER["encoder_layers"]}
        whole = dict(model_type=NAME, architectures=["UltravoxModel"], stack_factor=STACKED, hidden_size=BETWEEN, projector_ln_mid=True)
        write(folder, {**whole, "audio_config": audio, "text_config": hear.LLAMA}, own)
        convert(llama, folder, output / "mmproj-model-bf16.gguf", "--outtype", "bf16", "--mmproj")
        hear.features_of = features_of
        tokenizer = AutoTokenizer.from_pretrained(folder)
        hear.AutoTokenizer = type("Own", (), dict(from_pretrained=lambda _: Texts(tokenizer)))
        made = dict(soft=SOFT, samples=SAMPLES, distinct=3)
        tensors, notes = hear.prompts_for(model.double().eval(), folder, made)
    save_file(tensors, output / "golden.safetensors")
    pictured.write(output, "golden.json", {**pictured.golden_of(model, notes), "oracle": __doc__.split("\n\n")[2].replace("\n", " ")})
