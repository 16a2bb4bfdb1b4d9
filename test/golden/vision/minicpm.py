"""Makes a small MiniCPM-V as it was published, which transformers does not have: its text model, its encoder, how it cuts pictures and
which places their patches take are transformers', and PyTorch's attention is the resampler's. Random weights, pictures, prompts, logits,
greedy tokens.

    python minicpm.py OUTPUT [NAME ...]
"""

import json

import numpy as np
import pictured
import torch
from make import draw
from pictured import FIRST, write
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, SiglipVisionConfig, SiglipVisionModel
from transformers.image_utils import SizeDict
from transformers.models.minicpmv4_6 import MiniCPMV4_6ImageProcessor
from transformers.vision_utils import get_vision_nearest_position_ids

TOKENS = ["<unk>", "<image>", "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>"]
MARK = "(<image>./</image>)"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' %}(<image>./</image>)\n{% elif content['type'] == 'text' %}{{ content['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT = dict(
    hidden_size=128,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=12,
    vocab_size=336,
    hidden_act="silu",
    rms_norm_eps=1e-5,
    max_position_embeddings=512,
    rope_theta=10000.0,
    bos_token_id=None,
    eos_token_id=[FIRST + 1],
    tie_word_embeddings=False,
)
MODELS = {
    # Seven places to each side, of which patches of slices take the nearest.
    "minicpm-v": dict(
        config=dict(
            architectures=["MiniCPMV"],
            version=2.6,
            model_type="minicpmv",
            batch_vision_input=True,
            drop_vision_last_layer=False,
            image_size=24,
            patch_size=4,
            query_num=5,
            slice_config=dict(max_slice_nums=4, patch_size=4, model_type="minicpmv"),
            slice_mode=True,
            sliding_window=None,
            use_sliding_window=False,
            vision_config=dict(
                model_type="siglip",
                hidden_size=32,
                intermediate_size=40,
                num_hidden_layers=2,
                num_attention_heads=2,
                image_size=28,
                patch_size=4,
            ),
            **TEXT,
        ),
        text="qwen2",
        image=dict(
            image_processor_type="MiniCPMVImageProcessor",
            max_slice_nums=4,
            scale_resolution=24,
            patch_size=4,
            use_image_id=True,
            image_feature_size=5,
            im_start="<image>",
            im_end="</image>",
            slice_start="<slice>",
            slice_end="</slice>",
            unk="<unk>",
            im_id_start="<image_id>",
            im_id_end="</image_id>",
            slice_mode=True,
            norm_mean=[0.5] * 3,
            norm_std=[0.5] * 3,
            version=2.6,
        ),
        # Beside its whole two slices side by side; then four of a square, and a small one that is not cut.
        sizes=[[(41, 23)], [(47, 45), (13, 22)]],
    ),
}


def sines(columns, places):
    """A row for each place: sines, and behind them cosines."""
    rates = 10000.0 ** -(torch.arange(columns // 2, dtype=torch.float64) / (columns // 2))
    angles = places[:, None].double() * rates
    return torch.cat([angles.sin(), angles.cos()], 1)


class Resampler(nn.Module):
    def __init__(self, queries, columns, inner):
        super().__init__()
        self.query = nn.Parameter(torch.zeros(queries, columns))
        self.kv_proj = nn.Linear(inner, columns, bias=False)
        self.attn = nn.MultiheadAttention(columns, columns // 128)
        self.ln_q, self.ln_kv, self.ln_post = (nn.LayerNorm(columns, eps=1e-6) for _ in range(3))
        self.proj = nn.Parameter(torch.zeros(columns, columns))

    def forward(self, rows, height, width):
        seen = self.ln_kv(self.kv_proj(rows))
        half = seen.shape[-1] // 2
        across = sines(half, torch.arange(width)).repeat(height, 1)
        down = sines(half, torch.arange(height)).repeat_interleave(width, 0)
        keys = seen + torch.cat([across, down], 1).to(seen.dtype)
        made, _ = self.attn(self.ln_q(self.query), keys, seen, need_weights=False)
        return self.ln_post(made) @ self.proj


class MiniCpmV(nn.Module):
    def __init__(self, config, text):
        super().__init__()
        own = {key: value for key, value in config.items() if key not in ("model_type", "architectures", "vision_config")}
        self.llm = AutoModelForCausalLM.from_config(AutoConfig.for_model(text, **own), attn_implementation="eager")
        self.config = self.llm.config
        self.config.image_token_id = FIRST + 2
        vision = {key: value for key, value in config["vision_config"].items() if key != "model_type"}
        eye = SiglipVisionModel._from_config(SiglipVisionConfig(**vision, vision_use_head=False), attn_implementation="eager")
        self.vpm = getattr(eye, "vision_model", eye)
        self.resampler = Resampler(config["query_num"], self.config.hidden_size, vision["hidden_size"])
        self.side = vision["image_size"] // vision["patch_size"]

    def features(self, pixel_values, target_sizes):
        """@param pixel_values of the patches of all slices [patches, 3, patch, patch]"""
        rows, at = [], 0
        for height, width in target_sizes.tolist():
            patches = self.vpm.embeddings.patch_embedding(pixel_values[at : at + height * width]).flatten(1)
            places = get_vision_nearest_position_ids(torch.tensor([[height, width]]), self.side)
            seen = (patches + self.vpm.embeddings.position_embedding(places))[None]
            seen = self.vpm.post_layernorm(self.vpm.encoder(inputs_embeds=seen).last_hidden_state)[0]
            rows.append(self.resampler(seen, height, width))
            at += height * width
        return torch.cat(rows)

    def forward(self, input_ids, use_cache, **given):
        rows = self.llm.get_input_embeddings()(input_ids)
        rows[0, input_ids[0] == self.config.image_token_id] = self.features(**given)
        return self.llm(inputs_embeds=rows, use_cache=use_cache)


def slices_of(image, picture):
    """All of it, then the slices of its grid, as transformers cuts them for MiniCPM-V 4.6, where more patches become one row."""
    edge, patch = image["scale_resolution"], image["patch_size"]
    processor = MiniCPMV4_6ImageProcessor()
    pixels = torch.from_numpy(np.asarray(picture)).permute(2, 0, 1)
    size = pixels.shape[-2:]
    grid = processor.get_sliced_grid(size, image["max_slice_nums"], edge)
    step = dict(patch_size=patch // 2, downsample_mode="4x")
    resized = lambda height, width: processor.resize(pixels, size=SizeDict(height=height, width=width), resample=processor.resample)
    whole = resized(*processor.find_best_resize(size, edge, allow_upscale=grid is None, **step))
    if grid is None:
        return None, [whole]
    inner = resized(*processor.get_refine_size(size, grid, edge, allow_upscale=True, **step))
    rows, columns = grid
    height, width = inner.shape[-2] // rows, inner.shape[-1] // columns
    return grid, [whole] + [
        inner[:, row * height : (row + 1) * height, column * width : (column + 1) * width] for row in range(rows) for column in range(columns)
    ]


def words_of(image, number, grid):
    soft = image["unk"] * image["image_feature_size"]
    text = f"{image['im_id_start']}{number}{image['im_id_end']}{image['im_start']}{soft}{image['im_end']}"
    rows, columns = grid or (0, 0)
    return text + "\n".join([(image["slice_start"] + soft + image["slice_end"]) * columns] * rows)


def draw_part(name, shape, generator):
    """Weights of a tower that mix enough for every part to show; else as of any model."""
    normal = torch.randn(*shape, generator=generator)
    if "patch_embedding" in name:
        return normal * 1.2 / shape[1:].numel() ** 0.5 if len(shape) > 1 else normal * 0.3
    if "position_embedding" in name:
        return normal * 0.5
    if "query" in name:
        return normal
    if "resampler" in name and "ln_" not in name:
        return normal * 1.7 / shape[-1] ** 0.5 if len(shape) > 1 else normal * 0.3
    return draw(name, shape, generator)


def make(name, folder):
    made = MODELS[name]
    config, image = made["config"], made["image"]
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    model = MiniCpmV(config, made["text"]).eval()
    with torch.no_grad():
        for own, weight in model.named_parameters():
            weight.copy_(draw_part(own, weight.shape, generator).bfloat16().float())
        ids = torch.randint(3, 310, (1, 60), generator=generator)
        norm = model.llm.model.norm
        norm.weight.copy_((norm.weight * 3 / model.llm(input_ids=ids).logits[0].std()).bfloat16().float())
    pictured.save_file({key: weight.bfloat16().contiguous() for key, weight in model.state_dict().items()}, folder / "model.safetensors")
    pictured.bring_texts(folder, ["<|im_start|>", "<|im_end|>", *TOKENS])
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    write(folder, "preprocessor_config.json", image)
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def read(messages, pictures):
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        patches, sizes, grids = [], [], []
        for number, picture in enumerate(pictures):
            grid, slices = slices_of(image, picture)
            text = text.replace(MARK, words_of(image, number, grid), 1)
            grids.append(grid)
            for pixels in slices:
                side = image["patch_size"]
                cut = pixels.unfold(1, side, side).unfold(2, side, side).permute(1, 2, 0, 3, 4)
                sizes.append(list(cut.shape[:2]))
                patches.append(cut.flatten(0, 1) / 127.5 - 1)
        ids = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
        given = dict(pixel_values=torch.cat(patches), target_sizes=torch.tensor(sizes))
        return ids, given, dict(slices=sizes, grids=grids)

    features_of = lambda model, given: model.features(**given)
    sizes = made["sizes"]
    tensors, notes = pictured.prompts_for(model, folder, sizes, np.random.default_rng(1), read, features_of, tokenizer.decode)
    pictured.close(folder, model, tensors, notes, config, {})
    golden = json.loads((folder / "golden.json").read_text())
    golden["oracle"] = "Siglip and Qwen 2 of transformers, attention of PyTorch, float64 throughout"
    write(folder, "golden.json", golden)


if __name__ == "__main__":
    pictured.make_each(MODELS, make)
