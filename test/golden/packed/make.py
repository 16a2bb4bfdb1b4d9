"""Packs a small random model as quantisers do, and writes down what its weights and logits are.

    pip install numpy
    python make.py            writes NAME.safetensors and golden.json beside itself

Codes, scales and zeros are drawn; a weight is what the packers' definitions say of them, in float64. Hashes are of the
matrices as float32, which holds them exactly; logits are computed in float64.
"""
import hashlib
import json
import struct
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
HIDDEN, INNER, HEADS, KV, DIM, VOCAB = 64, 256, 4, 2, 16, 32
SHAPES = {
    "self_attn.q_proj": (HEADS * DIM, HIDDEN), "self_attn.k_proj": (KV * DIM, HIDDEN),
    "self_attn.v_proj": (KV * DIM, HIDDEN), "self_attn.o_proj": (HIDDEN, HEADS * DIM),
    "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN), "mlp.down_proj": (HIDDEN, INNER),
}
PROMPT = [1, 5, 9, 31, 17, 3, 3, 22, 8, 14, 30, 2, 6, 27, 11, 19, 4, 25, 13, 7]


# ---------------------------------------------------------------- numbers as files keep them

def f16(x):
    return "F16", np.asarray(x, np.float16)


def f32(x):
    return "F32", np.asarray(x, np.float32)


def bf16(x):
    return "BF16", (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def value(stored):
    kind, array = stored
    if kind == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def i32(x):
    return "I32", np.asarray(x, np.int64).astype(np.uint32).view(np.int32)


def e4m3(codes):
    """The floats of bytes: a sign, 4 bits of exponent with bias 7, 3 of fraction; no infinities."""
    codes = codes.astype(np.int64)
    sign = np.where(codes >> 7, -1.0, 1.0)
    exponent, fraction = (codes >> 3) & 15, codes & 7
    return sign * np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (exponent - 7))


def words(codes, bits, axis, order=None):
    """Neighbours along an axis packed into words of 32 bits, the first lowest, or in another order."""
    per = 32 // bits
    codes = np.moveaxis(np.asarray(codes, np.int64), axis, -1)
    short = -codes.shape[-1] % per
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, short)])
    codes = codes.reshape(*codes.shape[:-1], -1, per)
    packed = sum(codes[..., order[i] if order else i] << (bits * i) for i in range(per))
    return i32(np.moveaxis(packed, -1, axis))


def groups_of(columns, group):
    return np.arange(columns) // (columns if group == -1 else group)


# ---------------------------------------------------------------- packers

def draw(rng, rows, columns, index, bits, symmetric, scales):
    count = index.max() + 1
    codes = rng.integers(0, 2**bits, (rows, columns))
    zeros = np.full((rows, count), 2 ** (bits - 1)) if symmetric else rng.integers(1, 2**bits, (rows, count))
    stored = scales(rng.uniform(0.5, 1.5, (rows, count)) * 0.5 / 2**bits * 8 / columns**0.5)
    weight = (codes - zeros[:, index]) * value(stored)[:, index]
    return codes, zeros, stored, weight


def transposed(stored):
    return stored[0], np.ascontiguousarray(stored[1].T)


def gptq(bits=4, group=32, symmetric=True, version=1, act_order=False, scales=f16):
    """AutoGPTQ's QuantLinear.pack: qweight [in / 8, out], qzeros [groups, out / 8] less one in the first version."""
    def pack(rng, rows, columns):
        index = groups_of(columns, group)
        if act_order:
            index = rng.permutation(index)
        codes, zeros, stored, weight = draw(rng, rows, columns, index, bits, symmetric, scales)
        return {
            "qweight": words(codes.T, bits, 0),
            "qzeros": words((zeros - (version == 1)).T % 2**bits, bits, 1),
            "scales": transposed(stored),
            "g_idx": i32(index),
        }, weight
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": symmetric, "desc_act": act_order}
    return config | ({"checkpoint_format": "gptq_v2"} if version == 2 else {}), pack


def awq(group=64):
    """AutoAWQ's WQLinear_GEMM.from_linear."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def pack(rng, rows, columns):
        codes, zeros, stored, weight = draw(rng, rows, columns, groups_of(columns, group), 4, False, f16)
        return {
            "qweight": words(codes.T, 4, 1, order),
            "qzeros": words(zeros.T, 4, 1, order),
            "scales": transposed(stored),
        }, weight
    return {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}, pack


def compressed(form, **weights):
    groups = {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": groups, "ignore": ["lm_head"]}


def packed(bits=4, group=32, symmetric=True, act_order=False, scales=bf16):
    """compressed_tensors' pack_to_int32: half the range added, along the row; zeros along the column."""
    def pack(rng, rows, columns):
        index = groups_of(columns, group)
        if act_order:
            index = rng.permutation(index)
        codes, zeros, stored, weight = draw(rng, rows, columns, index, bits, symmetric, scales)
        parts = {
            "weight_packed": words(codes, bits, 1),
            "weight_scale": stored,
            "weight_shape": ("I64", np.array([rows, columns], np.int64)),
        }
        if not symmetric:
            parts["weight_zero_point"] = words(zeros, bits, 0)
        if act_order:
            parts["weight_g_idx"] = i32(index)
        return parts, weight
    return compressed("pack-quantized", num_bits=bits, type="int", symmetric=symmetric, group_size=group), pack


def bytes8(symmetric=True):
    """compressed_tensors' int-quantized: bytes with a sign, a scale for each row."""
    def pack(rng, rows, columns):
        codes, zeros, stored, weight = draw(rng, rows, columns, groups_of(columns, -1), 8, symmetric, bf16)
        parts = {"weight": ("I8", (codes - 128).astype(np.int8)), "weight_scale": stored}
        if not symmetric:
            parts["weight_zero_point"] = ("I8", (zeros - 128).astype(np.int8))
        return parts, weight
    return compressed("int-quantized", num_bits=8, type="int", symmetric=symmetric, strategy="channel"), pack


def float8(config, kind, block, scales=f32, shape=None):
    def pack(rng, rows, columns):
        tall, wide = block or (rows, columns)
        wide = wide or columns
        codes = rng.integers(0, 256, (rows, columns))
        codes[(codes & 127) == 127] = 0
        codes[(codes & 127) > 100] -= 32
        stored = scales(rng.uniform(0.5, 1.5, (-(-rows // tall), -(-columns // wide))) * 0.02 / columns**0.5)
        spread = np.repeat(np.repeat(value(stored), tall, 0), wide, 1)[:rows, :columns]
        weight = np.float32(e4m3(codes)) * np.float32(spread)
        if shape is not None:
            stored = stored[0], stored[1].reshape(shape)
        return {"weight": ("F8_E4M3", codes.astype(np.uint8)), kind: stored}, weight.astype(np.float64)
    return config, pack


MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def mxfp4():
    """compressed_tensors' pack_fp4_to_uint8: a sign and an index of the magnitude, two to a byte, the first lower."""
    def pack(rng, rows, columns):
        codes = rng.integers(0, 16, (rows, columns))
        exponents = rng.integers(-7, -3, (rows, columns // 32))
        values = MAGNITUDES[codes & 7] * np.where(codes >> 3, -1.0, 1.0)
        return {
            "weight_packed": ("U8", (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)),
            "weight_scale": ("U8", (exponents + 127).astype(np.uint8)),
        }, values * 2.0 ** np.repeat(exponents, 32, 1)
    return compressed("mxfp4-pack-quantized", num_bits=4, type="float", group_size=32), pack


def pairs(codes):
    return "U8", (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)


def nvfp4(config, names, factor=None, stored=pairs):
    """Codes as in mxfp4, a float of 8 bits without a sign for each 16; times one number, or over it, where there is one."""
    def pack(rng, rows, columns):
        codes = rng.integers(0, 16, (rows, columns))
        scales = rng.integers(*((24, 72) if factor else (1, 28)), (rows, columns // 16))
        parts = {names[0]: stored(codes), names[1]: (names[2], scales.astype(np.uint8))}
        spread = np.float32(e4m3(scales))
        if factor:
            name, spread, parts[name] = factor(rng, spread)
        values = MAGNITUDES[codes & 7] * np.where(codes >> 3, -1.0, 1.0)
        return parts, np.float32(values * np.repeat(spread, 16, 1)).astype(np.float64)
    return config, pack


def over(rng, scales):
    """compressed_tensors: one of a list of one."""
    one = np.float32(rng.uniform(10, 40))
    return "weight_global_scale", scales / one, ("F32", np.array([one]))


def times(rng, scales):
    """ModelOpt."""
    one = np.float32(rng.uniform(0.02, 0.1))
    return "weight_scale_2", scales * one, ("F32", np.array(one))


def largest(rng, scales):
    """MLX: what the largest float of 4 bits, 6, under the largest of 8, 448, stands for."""
    one = np.float32(rng.uniform(50, 200))
    return "global_scale", scales * np.float32(one / np.float32(2688)), ("F32", np.array(one))


def stream(codes, bits):
    """Codes one behind the other in a stream of bits, the first lowest, as words."""
    planes = (np.asarray(codes)[..., None] >> np.arange(bits) & 1).astype(np.uint8).reshape(len(codes), -1)
    return "U32", np.packbits(planes, axis=1, bitorder="little").view("<u4")


def mlx(bits, group, scales=bf16):
    """mlx.core.quantize, affine: code * scale + bias."""
    def pack(rng, rows, columns):
        codes = rng.integers(0, 2**bits, (rows, columns))
        steps = scales(rng.uniform(0.5, 1.5, (rows, columns // group)) * 4 / 2**bits / columns**0.5)
        least = scales(-value(steps) * rng.uniform(0.3, 0.7, steps[1].shape) * 2**bits)
        product = codes * np.repeat(value(steps), group, 1)
        weight = np.float32(np.float32(product) + np.float32(np.repeat(value(least), group, 1)))
        return {"weight": stream(codes, bits), "scales": steps, "biases": least}, weight.astype(np.float64)
    return {"group_size": group, "bits": bits}, pack


def mlx_floats(mode):
    """Its other modes: floats of 4 and 8 bits under powers of two."""
    bits = int(mode[-1])

    def pack(rng, rows, columns):
        codes = rng.integers(0, 2**bits, (rows, columns))
        if bits == 8:
            codes[(codes & 127) == 127] = 0
            codes[(codes & 127) > 80] -= 32
        exponents = rng.integers(-8, -4, (rows, columns // 32))
        values = e4m3(codes) if bits == 8 else MAGNITUDES[codes & 7] * np.where(codes >> 3, -1.0, 1.0)
        parts = {"weight": stream(codes, bits), "scales": ("U8", (exponents + 127).astype(np.uint8))}
        return parts, values * 2.0 ** np.repeat(exponents, 32, 1)
    return {"group_size": 32, "bits": bits, "mode": mode}, pack


# The quantiles of a normal distribution that QLoRA takes: https://arxiv.org/abs/2305.14314, appendix E.
NF4 = np.float32([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
])


def rounded(x):
    """To bfloat16, halves to even."""
    bits = np.float32(x).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32).astype(np.float64)


def nf4(nested):
    """bitsandbytes: two codes to a byte, the first upper, over the largest of 64, which may be a byte for a number of a list itself."""
    def pack(rng, rows, columns):
        codes = rng.integers(0, 16, rows * columns)
        blocks = rows * columns // 64
        state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [rows, columns]}
        parts = {
            "weight": ("U8", (codes[::2] << 4 | codes[1::2]).astype(np.uint8)[:, None]),
            "weight.quant_map": ("F32", NF4),
        }
        largest = np.float32(rng.uniform(1, 3, blocks) / columns**0.5)
        if nested:
            numbers = np.sort(rng.uniform(-1, 1, 256)).astype(np.float32)
            bytes_, scales = rng.integers(0, 256, blocks), np.float32(rng.uniform(0.5, 1, -(-blocks // 256)) / columns**0.5)
            offset = 2 / columns**0.5
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": offset}
            parts |= {
                "weight.absmax": ("U8", bytes_.astype(np.uint8)), "weight.nested_absmax": ("F32", scales),
                "weight.nested_quant_map": ("F32", numbers),
            }
            largest = numbers[bytes_] * np.repeat(scales, 256)[:blocks] + np.float32(offset)
        else:
            parts["weight.absmax"] = "F32", largest
        text = np.frombuffer(json.dumps(state).encode(), np.uint8)
        parts["weight.quant_state.bitsandbytes__nf4"] = "U8", text
        return parts, rounded(NF4[codes] * np.repeat(largest, 64)).reshape(rows, columns)
    return {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, pack


def llm_int8():
    """bitsandbytes: bytes with a sign, the largest of a row over 127."""
    def pack(rng, rows, columns):
        codes = rng.integers(-127, 128, (rows, columns))
        largest = np.float32(rng.uniform(1, 3, rows) / columns**0.5)
        weight = np.float32(codes * np.float32(largest / np.float64(127))[:, None].astype(np.float64))
        return {"weight": ("I8", codes.astype(np.int8)), "SCB": ("F32", largest)}, weight.astype(np.float64)
    return {"quant_method": "bitsandbytes", "load_in_8bit": True}, pack


def quarters(signs):
    """transformers' pack_weights: four rows to a byte, a quarter of the matrix apart, the first lowest."""
    return "U8", sum(part << (2 * i) for i, part in enumerate(np.split(signs + 1, 4))).astype(np.uint8)


def bitnet(linear):
    """Ternary: times one number, or over it."""
    def pack(rng, rows, columns):
        signs = rng.integers(-1, 2, (rows, columns))
        stored = bf16([rng.uniform(0.5, 2) * (1 if linear == "autobitlinear" else columns**0.5)])
        number = value(stored)[0] if linear == "autobitlinear" else np.float16(1 / value(stored)[0])
        return {"weight": quarters(signs), "weight_scale": stored}, np.float32(signs * number).astype(np.float64)
    return {"quant_method": "bitnet", "linear_class": linear, "quantization_mode": "offline"}, pack


def bitnet_floats():
    """WeightQuant: what is nearest of three numbers, when it is read."""
    def pack(rng, rows, columns):
        stored = bf16(rng.normal(size=(rows, columns)) / columns**0.5)
        weight = value(stored)
        over = np.float32(1 / np.abs(weight).mean())
        signs = np.clip(np.round(np.float32(weight) * over), -1, 1)
        return {"weight": stored}, rounded(signs / over)
    return {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"}, pack


VARIANTS = {
    "gptq-4-32": gptq(),
    "gptq-4-128-zeros": gptq(group=128, symmetric=False),
    "gptq-4-row-v2": gptq(group=-1, symmetric=False, version=2, scales=bf16),
    "gptq-4-order": gptq(act_order=True),
    "gptq-8-64": gptq(bits=8, group=64),
    "gptq-8-32-zeros": gptq(bits=8, symmetric=False),
    "awq-64": awq(),
    "compressed-int4": packed(),
    "compressed-int4-zeros": packed(group=64, symmetric=False, scales=f16),
    "compressed-int4-order": packed(act_order=True, scales=f16),
    "compressed-int8-row": packed(bits=8, group=-1),
    "compressed-bytes": bytes8(),
    "compressed-bytes-zeros": bytes8(symmetric=False),
    "compressed-fp8": float8(compressed("float-quantized", num_bits=8, type="float"), "weight_scale", None, bf16, [1]),
    "compressed-fp8-row": float8(compressed("float-quantized", num_bits=8, type="float"), "weight_scale", (1, 0)),
    "fp8": float8({"quant_method": "fp8", "activation_scheme": "static"}, "weight_scale", None, shape=[]),
    "fp8-blocks": float8({"quant_method": "fp8", "weight_block_size": [128, 128]}, "weight_scale_inv", (128, 128)),
    "fp8-ragged": float8({"quant_method": "fp8", "weight_block_size": [48, 40]}, "weight_scale_inv", (48, 40), bf16),
    "compressed-mxfp4": mxfp4(),
    "gptq-8-order": gptq(bits=8, symmetric=False, act_order=True),
    "compressed-nvfp4": nvfp4(
        compressed("nvfp4-pack-quantized", num_bits=4, type="float", group_size=16),
        ("weight_packed", "weight_scale", "F8_E4M3"), over,
    ),
    "modelopt-nvfp4": nvfp4(
        {"quant_method": "modelopt", "quant_algo": "NVFP4"}, ("weight", "weight_scale", "F8_E4M3"), times,
    ),
    "modelopt-fp8": float8({"quant_method": "modelopt", "quant_algo": "FP8"}, "weight_scale", None, shape=[]),
    "mlx-2-32": mlx(2, 32),
    "mlx-3-64": mlx(3, 64, f16),
    "mlx-4-64": mlx(4, 64),
    "mlx-5-32": mlx(5, 32),
    "mlx-6-64": mlx(6, 64, f16),
    "mlx-8-64": mlx(8, 64, f32),
    "mlx-mxfp4": mlx_floats("mxfp4"),
    "mlx-mxfp8": mlx_floats("mxfp8"),
    "mlx-nvfp4": nvfp4(
        {"group_size": 16, "bits": 4, "mode": "nvfp4"}, ("weight", "scales", "U8"), stored=lambda codes: stream(codes, 4),
    ),
    "bitsandbytes-nf4": nf4(False),
    "bitsandbytes-nf4-nested": nf4(True),
    "bitsandbytes-int8": llm_int8(),
    "mlx-nvfp4-number": nvfp4(
        {"group_size": 16, "bits": 4, "mode": "nvfp4"}, ("weight", "scales", "U8"), largest, lambda codes: stream(codes, 4),
    ),
    "bitnet": bitnet("autobitlinear"),
    "bitnet-over": bitnet("bitlinear"),
    "bitnet-floats": bitnet_floats(),
}


# ---------------------------------------------------------------- the model

def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def turned(x):
    """[tokens, heads, DIM], theta 10000, halves."""
    angles = np.arange(len(x))[:, None] / 10000 ** (np.arange(0, DIM, 2) / DIM)
    sin, cos = np.sin(angles)[:, None], np.cos(angles)[:, None]
    a, b = x[..., : DIM // 2], x[..., DIM // 2 :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def logits(weights, embedding, norms):
    w = {name.split(".")[1]: weight for name, weight in weights.items()}
    x = embedding[PROMPT]
    h = norm(x, norms[0])
    q, k, v = (( h @ w[n].T).reshape(len(x), -1, DIM) for n in ("q_proj", "k_proj", "v_proj"))
    q, k = turned(q), turned(k)
    k, v = np.repeat(k, HEADS // KV, 1), np.repeat(v, HEADS // KV, 1)
    scores = np.einsum("thd,shd->hts", q, k) / DIM**0.5
    scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    x = x + np.einsum("hts,shd->thd", shares, v).reshape(len(x), -1) @ w["o_proj"].T
    h = norm(x, norms[1])
    gate = h @ w["gate_proj"].T
    x = x + (gate / (1 + np.exp(-gate)) * (h @ w["up_proj"].T)) @ w["down_proj"].T
    return norm(x, norms[2])[-1] @ embedding.T


def save(path, tensors):
    header, at = {}, 0
    for name, (kind, array) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(np.ascontiguousarray(array).tobytes() for _, array in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


golden = {}
for number, (name, (config, pack)) in enumerate(VARIANTS.items()):
    rng = np.random.default_rng([20, number])
    embedding = f16(rng.normal(size=(VOCAB, HIDDEN)))
    norms = [f32(rng.uniform(0.5, 1.5, HIDDEN)) for _ in range(3)]
    tensors = {"model.embed_tokens.weight": embedding, "model.norm.weight": norms[2]}
    tensors["model.layers.0.input_layernorm.weight"] = norms[0]
    tensors["model.layers.0.post_attention_layernorm.weight"] = norms[1]
    weights = {}
    for matrix, shape in SHAPES.items():
        parts, weights[matrix] = pack(rng, *shape)
        for part, stored in parts.items():
            tensors[f"model.layers.0.{matrix}.{part}"] = stored
    for matrix, weight in weights.items():
        assert (weight.astype(np.float32) == weight).all(), (name, matrix)
    save(HERE / f"{name}.safetensors", tensors)
    golden[name] = {
        "quantization_config": config,
        "weights": {m: hashlib.sha256(np.float32(w + 0.0).tobytes()).hexdigest() for m, w in weights.items()},
        "logits": logits(weights, value(embedding), [value(n) for n in norms]).tolist(),
    }
(HERE / "golden.json").write_text(json.dumps({"prompt": PROMPT, "models": golden}, indent=1) + "\n")
