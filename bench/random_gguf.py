"""Writes a model folder that bench/models.ts made (`hollow`: weights are not read) as a GGUF file with random weights.

    pip install gguf; python bench/random_gguf.py FOLDER OUTPUT.gguf [Q4_0 | IQ1_S | IQ2_XXS | … | F16 | BF16 [CHAINS.json]]

Every matrix has the one type, the vocabulary's too, as in a file quantised with --pure, but routers, which are floats in every
file. Q4_0 has as many bits as q4f16_1.

With chains, lists of token ids (bench/copying.ts), each token is followed by the next one of its chain: layers add nothing to a token's
row, and the head, which is then a matrix of its own, has that row again where the next token's is. No speed depends on it.
"""

import json
import sys
from pathlib import Path

import numpy
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType
from gguf.quants import dequantize

folder, output = Path(sys.argv[1]), sys.argv[2]
kind = GGMLQuantizationType[sys.argv[3] if len(sys.argv) > 3 else "Q4_0"]
file_type = LlamaFileType[f"MOSTLY_{kind.name}"]
chains = json.loads(Path(sys.argv[4]).read_text()) if len(sys.argv) > 4 else None
config = json.loads((folder / "config.json").read_text())
tokenizer = json.loads((folder / "tokenizer.json").read_text())
hidden, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
heads, kv_heads, head = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
vocabulary = config["vocab_size"]
random = numpy.random.default_rng(1)


def blocks(rows, columns):
    """Rows of any codes, behind a number that keeps a product's size about 1."""
    values, size = GGML_QUANT_SIZES[kind]
    drawn = random.integers(0, 256, (rows * columns // values, size), numpy.uint8)
    number = drawn[:, :2].view("<f2")
    number[:] = 1
    number[:] = 1 / (dequantize(drawn[:1000], kind).std() * columns**0.5)
    return drawn.reshape(rows, -1)


def halves(rows, columns):
    """The same size in 16 bits: a BF16 is the upper half of a float."""
    values = random.standard_normal((rows, columns), numpy.float32) / columns**0.5
    if kind.name == "F16":
        return values.astype(numpy.float16)
    return (values.view(numpy.uint32) >> 16).astype(numpy.uint16).view(numpy.uint8)


# By config.json's name: the file's, and of its cuts into words. Gemma's are of pieces; what a file says changes no speed.
architecture, cuts = {
    "llama": ("llama", "llama-bpe"),
    "qwen3": ("qwen3", "qwen2"),
    "qwen3_moe": ("qwen3moe", "qwen2"),
    "gemma3_text": ("gemma3", "qwen2"),
}[config["model_type"]]
norms_heads, norms_behind = architecture != "llama", architecture == "gemma3"
experts = config.get("num_experts", 0)
out = GGUFWriter(output, architecture)
out.add_name("random")
out.add_context_length(config["max_position_embeddings"])
out.add_embedding_length(hidden)
out.add_block_count(layers)
out.add_feed_forward_length(inner)
out.add_head_count(heads)
out.add_head_count_kv(kv_heads)
out.add_key_length(head)
out.add_value_length(head)
out.add_rope_dimension_count(head)
out.add_rope_freq_base(config["rope_theta"])
out.add_layer_norm_rms_eps(config["rms_norm_eps"])
if experts:
    out.add_expert_count(experts)
    out.add_expert_used_count(config["num_experts_per_tok"])
    out.add_expert_feed_forward_length(config["moe_intermediate_size"])
if "sliding_window" in config:
    out.add_sliding_window(config["sliding_window"])
    out.add_sliding_window_pattern(config["sliding_window_pattern"])
    out.add_rope_freq_base_swa(config["rope_local_base_freq"])
out.add_vocab_size(vocabulary)
out.add_file_type(file_type)

model = tokenizer["model"]
tokens = {id: token for token, id in model["vocab"].items()}
special = {added["id"]: added["content"] for added in tokenizer["added_tokens"]}
tokens.update(special)
out.add_tokenizer_model("gpt2")
out.add_tokenizer_pre(cuts)
out.add_token_list([tokens[id] for id in range(vocabulary)])
out.add_token_types([TokenType.CONTROL if id in special else TokenType.NORMAL for id in range(vocabulary)])
out.add_token_merges([" ".join(merge) for merge in model["merges"]])
out.add_bos_token_id(config["bos_token_id"])
out.add_eos_token_id(config["eos_token_id"])


drawn = {}


def matrix(name, rows, columns, count=None, adds=False):
    """One, or as many that lie one behind the other. Those of one size are drawn once: a mixture's would take minutes."""
    size = ((count or 1) * rows, columns)
    if size not in drawn:
        drawn[size] = (halves if kind.name in ("F16", "BF16") else blocks)(*size)
    values = drawn[size]
    if chains and adds:
        values = numpy.zeros_like(values)
    if chains and name == "output":
        values = values.copy()
        for chain in chains:
            values[chain[0]] = 0  # the table's own row would follow itself as likely
            values[chain[1:]] = drawn[size][chain[:-1]]
    out.add_tensor(f"{name}.weight", values.reshape(count, rows, -1) if count else values, raw_dtype=kind)


def vector(name, length):
    out.add_tensor(f"{name}.weight", numpy.ones(length, numpy.float32))


matrix("token_embd", vocabulary, hidden)
for layer in range(layers):
    at = f"blk.{layer}"
    vector(f"{at}.attn_norm", hidden)
    matrix(f"{at}.attn_q", heads * head, hidden)
    matrix(f"{at}.attn_k", kv_heads * head, hidden)
    matrix(f"{at}.attn_v", kv_heads * head, hidden)
    matrix(f"{at}.attn_output", hidden, heads * head, adds=True)
    if norms_heads:
        vector(f"{at}.attn_q_norm", head)
        vector(f"{at}.attn_k_norm", head)
    if norms_behind:
        vector(f"{at}.post_attention_norm", hidden)
        vector(f"{at}.post_ffw_norm", hidden)
    vector(f"{at}.ffn_norm", hidden)
    if experts:
        router = random.standard_normal((experts, hidden), numpy.float32) / hidden**0.5
        out.add_tensor(f"{at}.ffn_gate_inp.weight", router)
        inner = config["moe_intermediate_size"]
    each, of = ("_exps", experts) if experts else ("", None)
    matrix(f"{at}.ffn_gate{each}", inner, hidden, of)
    matrix(f"{at}.ffn_up{each}", inner, hidden, of)
    matrix(f"{at}.ffn_down{each}", hidden, inner, of, adds=True)
vector("output_norm", hidden)
if chains or not config["tie_word_embeddings"]:
    matrix("output", vocabulary, hidden)
if architecture == "llama":
    vector("rope_freqs", head // 2)  # Llama 3's scaling, here by nothing
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
