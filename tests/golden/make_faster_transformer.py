#!/usr/bin/env python3
"""Writes a Hugging Face folder of GPT-2, OPT, BLOOM, GPT-J, GPT-NeoX or T5 as a FasterTransformer checkpoint folder.

    make_faster_transformer.py FOLDER TO [--gpus N...] [--type fp32|fp16|bf16]

Follows the layout of FasterTransformer's guides and converters, and shares no code with ours. Matrices are [in, out];
queries, keys and values are [in, 3, out]; several GPUs shard along the last of these, except for the two matrices that
write to the residual stream, which are sharded along their inputs. TO/N-gpu gets config.ini and a file for each tensor
or shard. Needs only Python; meant for small models.
"""
import argparse
import array
import json
import struct
from pathlib import Path


def read_safetensors(path):
    """Name to (shape, values)."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, told in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in told["data_offsets"])
        kind = {"F32": "f", "F16": "e"}[told["dtype"]]
        values = struct.unpack(f"<{(end - begin) // struct.calcsize(kind)}{kind}", data[begin:end])
        tensors[name] = told["shape"], list(values)
    return tensors


def as_bytes(values, kind):
    if kind == "fp32":
        return struct.pack(f"<{len(values)}f", *values)
    if kind == "fp16":
        return struct.pack(f"<{len(values)}e", *values)
    upper = array.array("H")
    for bits in struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values)):
        upper.append((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)  # to nearest, ties to even
    return upper.tobytes()


def transposed(rows, cols, values):
    return [values[row * cols + col] for col in range(cols) for row in range(rows)]


class Folder:
    def __init__(self, path, gpus, kind, prefix="model."):
        self.path, self.gpus, self.kind, self.prefix = path, gpus, kind, prefix
        path.mkdir(parents=True)

    def whole(self, name, values):
        (self.path / f"{self.prefix}{name}.bin").write_bytes(as_bytes(values, self.kind))

    def cut(self, name, values, rows):
        """Splits each of `rows` equal stretches into one part per GPU."""
        stretch = len(values) // rows
        part = stretch // self.gpus
        assert rows * part * self.gpus == len(values), f"{name} cannot be shared by {self.gpus} GPUs"
        for gpu in range(self.gpus):
            piece = [
                value
                for row in range(rows)
                for value in values[row * stretch + gpu * part : row * stretch + (gpu + 1) * part]
            ]
            (self.path / f"{self.prefix}{name}.{gpu}.bin").write_bytes(as_bytes(piece, self.kind))


def matrix(tensors, name, out_in):
    """[in, out], and the number of inputs."""
    (first, second), values = tensors[name]
    return (transposed(first, second, values), second) if out_in else (values, first)


def by_kind(values, outer, heads, width):
    """[outer, heads, 3, width] to [outer, 3, heads, width]."""
    return [
        values[((row * heads + head) * 3 + kind) * width + i]
        for row in range(outer)
        for kind in range(3)
        for head in range(heads)
        for i in range(width)
    ]


def side_by_side(parts, rows):
    """[rows, n] each to [rows, 3 n]."""
    width = len(parts[0]) // rows
    return [value for row in range(rows) for part in parts for value in part[row * width : (row + 1) * width]]


FAMILIES = {
    "gpt2": dict(
        section="gpt", prefix="transformer.", layer="h.{}.", embedding="wte", norms=("ln_1", "ln_2", "ln_f"), out_in=False,
        qkv="attn.c_attn", dense="attn.c_proj", up="mlp.c_fc", down="mlp.c_proj"),
    "opt": dict(
        section="gpt", prefix="model.decoder.", layer="layers.{}.", embedding="embed_tokens",
        norms=("self_attn_layer_norm", "final_layer_norm", "final_layer_norm"), out_in=True,
        qkv=["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], dense="self_attn.out_proj", up="fc1", down="fc2"),
    "bloom": dict(
        section="gpt", prefix="transformer.", layer="h.{}.", embedding="word_embeddings",
        norms=("input_layernorm", "post_attention_layernorm", "ln_f"), out_in=True, by_head=True,
        qkv="self_attention.query_key_value", dense="self_attention.dense", up="mlp.dense_h_to_4h",
        down="mlp.dense_4h_to_h"),
    "gptj": dict(
        section="gptj", prefix="transformer.", layer="h.{}.", embedding="wte", norms=("ln_1", None, "ln_f"), out_in=True,
        qkv=["attn.q_proj", "attn.k_proj", "attn.v_proj"], dense="attn.out_proj", up="mlp.fc_in", down="mlp.fc_out"),
    "gpt_neox": dict(
        section="gptneox", prefix="gpt_neox.", layer="layers.{}.", embedding="embed_in",
        norms=("input_layernorm", "post_attention_layernorm", "final_layer_norm"), out_in=True, by_head=True,
        qkv="attention.query_key_value", dense="attention.dense", up="mlp.dense_h_to_4h", down="mlp.dense_4h_to_h"),
}


def write_layer(folder, family, tensors, config, layer, heads, shared_biases):
    at, to = family["prefix"] + family["layer"].format(layer), f"layers.{layer}."
    names = [family["qkv"]] if isinstance(family["qkv"], str) else family["qkv"]
    parts = [matrix(tensors, f"{at}{name}.weight", family["out_in"]) for name in names]
    inputs = parts[0][1]
    qkv = side_by_side([part for part, _ in parts], inputs)
    biases = [value for name in names for value in tensors.get(f"{at}{name}.bias", (0, []))[1]]
    if family.get("by_head"):
        width = len(qkv) // inputs // 3 // heads
        qkv, biases = by_kind(qkv, inputs, heads, width), by_kind(biases, 1, heads, width)
    folder.cut(to + "attention.query_key_value.weight", qkv, 3 * inputs)
    if biases:
        folder.cut(to + "attention.query_key_value.bias", biases, 3)
    for name, ours in zip(family["norms"][:2], ("input_layernorm", "post_attention_layernorm")):
        for part in ("weight", "bias") if name else ():
            folder.whole(f"{to}{ours}.{part}", tensors[f"{at}{name}.{part}"][1])
    stream = {}
    for name, ours in ((family["dense"], "attention.dense"), (family["down"], "mlp.dense_4h_to_h")):
        folder.cut(f"{to}{ours}.weight", matrix(tensors, f"{at}{name}.weight", family["out_in"])[0], 1)
        if f"{at}{name}.bias" in tensors:
            share = folder.gpus if shared_biases else 1
            stream[ours] = [value / share for value in tensors[f"{at}{name}.bias"][1]]
            folder.whole(f"{to}{ours}.bias", stream[ours])
    if shared_biases and config.get("use_parallel_residual", True):
        folder.whole(to + "mlp.attention.bias.sum", [a + b for a, b in zip(*stream.values())])
    up, inputs = matrix(tensors, f"{at}{family['up']}.weight", family["out_in"])
    folder.cut(to + "mlp.dense_h_to_4h.weight", up, inputs)
    folder.cut(to + "mlp.dense_h_to_4h.bias", tensors[f"{at}{family['up']}.bias"][1], 1)


def settings(config, heads, hidden, vocab, ffn, layers):
    kind = config["model_type"]
    told = dict(model_name=kind, head_num=heads, size_per_head=hidden // heads, inter_size=ffn, num_layer=layers,
                vocab_size=vocab, start_id=config.get("bos_token_id"), end_id=config.get("eos_token_id"))
    if kind == "gpt2":
        told |= dict(max_pos_seq_len=config["n_positions"], layernorm_eps=config["layer_norm_epsilon"])
    elif kind == "opt":
        told |= dict(max_pos_seq_len=config["max_position_embeddings"], layernorm_eps="1e-5", layernorm_type="pre_layernorm",
                     activation_type="Relu", has_post_decoder_layernorm=1)
    elif kind == "bloom":
        told |= dict(model_variant="bloom-pre", layernorm_eps=config["layer_norm_epsilon"], layernorm_type="pre_layernorm",
                     activation_type="Gelu", has_positional_encoding=False, has_pre_decoder_layernorm=True,
                     has_post_decoder_layernorm=True, use_attention_linear_bias=True)
    elif kind == "gptj":
        told |= dict(rotary_embedding=config["rotary_dim"], layernorm_eps=config["layer_norm_epsilon"])
    else:
        partial = config.get("rotary_pct") or config["rope_parameters"]["partial_rotary_factor"]
        told |= dict(rotary_embedding=int(hidden // heads * partial), layernorm_eps=config["layer_norm_eps"],
                     use_gptj_residual=int(config["use_parallel_residual"]),
                     activation_type={"gelu": "GeluErf"}.get(config["hidden_act"], "Gelu"))
    return told


def write_t5(folder, config, tensors):
    """Names as in Hugging Face's files; sharded files have a number. The decoder's self-attention queries, keys and
    values are one matrix; distance biases are stored head by head; the embedding is stored in both orientations."""
    gated, attention = config["feed_forward_proj"].startswith("gated"), "SelfAttention."
    for name, (shape, values) in tensors.items():
        if name == "shared.weight":
            folder.whole("shared.weight_T", values)
            folder.whole("shared.weight", transposed(*shape, values))
        elif len(shape) == 1 or name == "lm_head.weight":
            folder.whole(name, values)
        elif name.startswith("decoder") and any(f"{attention}{kind}.weight" in name for kind in "kv"):
            continue
        elif name.startswith("decoder") and f"{attention}q.weight" in name:
            parts = [transposed(*shape, tensors[name.replace("q.weight", f"{kind}.weight")][1]) for kind in "qkv"]
            folder.cut(name.replace("q.weight", "qkv.weight"), side_by_side(parts, shape[1]), 3 * shape[1])
        else:
            along_inputs = name.endswith(("o.weight", "relative_attention_bias.weight"))
            name = name.replace("wi_0", "wi").replace("wi_1", "wi2")
            folder.cut(name, transposed(*shape, values), 1 if along_inputs else shape[1])
    if "lm_head.weight" not in tensors:
        folder.whole("lm_head.weight", tensors["shared.weight"][1])
    lines = []
    for part, layers in (("encoder", config["num_layers"]), ("decoder", config["num_decoder_layers"])):
        told = {key: value for key, value in config.items() if not isinstance(value, list)} | dict(num_layers=layers)
        told["relative_attention_num_buckets_or_max_pos_seq_len"] = told.pop("relative_attention_num_buckets")
        told |= dict(weight_data_type=folder.kind, task_specific_params=None)
        lines += [f"[{part}]", *(f"{key} = {value}" for key, value in told.items()), ""]
    lines += ["[structure]", "t5_with_bias = false", f"use_gated_activation = {1 if gated else 'false'}",
              "position_embedding_type = relative", ""]
    (folder.path / "config.ini").write_text("\n".join(lines))
    return folder.path


def write(source, to, gpus=1, kind="fp32"):
    """Returns the folder with the config.ini."""
    config = json.loads((Path(source) / "config.json").read_text())
    tensors = read_safetensors(Path(source) / "model.safetensors")
    if config["model_type"] == "t5":
        return write_t5(Folder(Path(to) / f"{gpus}-gpu", gpus, kind, prefix=""), config, tensors)
    family = FAMILIES[config["model_type"]]
    if not any(name.startswith(family["prefix"]) for name in tensors):
        family = family | {"prefix": ""}
    prefix = family["prefix"]
    heads = config.get("n_head") or config["num_attention_heads"]
    layers = config.get("n_layer") or config["num_hidden_layers"]
    (vocab, hidden), embedding = tensors[f"{prefix}{family['embedding']}.weight"]
    first = prefix + family["layer"].format(0)
    folder = Folder(Path(to) / f"{gpus}-gpu", gpus, kind)
    folder.whole("wte", embedding)
    for name, ours in (("wpe", 0), ("embed_positions", 2 * hidden)):  # OPT's first two rows are unused
        if f"{prefix}{name}.weight" in tensors:
            folder.whole("wpe", tensors[f"{prefix}{name}.weight"][1][ours:])
    for part in ("weight", "bias"):
        folder.whole(f"final_layernorm.{part}", tensors[f"{prefix}{family['norms'][2]}.{part}"][1])
        if f"{prefix}word_embeddings_layernorm.{part}" in tensors:
            folder.whole(f"pre_decoder_layernorm.{part}", tensors[f"{prefix}word_embeddings_layernorm.{part}"][1])
        for head in ("lm_head", "embed_out"):
            if f"{head}.{part}" in tensors:
                folder.whole(f"lm_head.{part}", tensors[f"{head}.{part}"][1])
    for layer in range(layers):
        write_layer(folder, family, tensors, config, layer, heads, family["section"] == "gptneox")
    told = settings(config, heads, hidden, vocab, len(tensors[f"{first}{family['up']}.bias"][1]), layers)
    told |= dict(weight_data_type=kind, tensor_para_size=gpus)
    lines = [f"[{family['section']}]", *(f"{key} = {value}" for key, value in told.items())]
    (folder.path / "config.ini").write_text("\n".join(lines) + "\n\n")
    return folder.path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("to")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1])
    parser.add_argument("--type", default="fp32", choices=["fp32", "fp16", "bf16"])
    options = parser.parse_args()
    for gpus in options.gpus:
        write(options.folder, options.to, gpus, options.type)


if __name__ == "__main__":
    main()
