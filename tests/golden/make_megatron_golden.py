#!/usr/bin/env python3
"""Writes gpt2's golden model as Megatron-LM and NeMo save a GPT.

    make_megatron_golden.py [FOLDER]            needs torch, safetensors

megatron/ has an iteration's folder written by two GPUs (checkpoint version 3), with arguments, an optimizer's state and
objects of classes unknown to any reader; megatron/older the first version's format, in float16; megatron/gpt.nemo the
archive of one GPU. All are written by torch.save.
"""
import argparse
import enum
import io
import json
import sys
import tarfile
from pathlib import Path

import torch
from safetensors.torch import load_file

HERE = Path(__file__).resolve().parent
GPUS, HEADS, LAYERS = 2, 2, 2
NAMES = {
    "ln_1": "input_layernorm", "attn.c_attn": "self_attention.query_key_value", "attn.c_proj": "self_attention.dense",
    "ln_2": "post_attention_layernorm", "mlp.c_fc": "mlp.dense_h_to_4h", "mlp.c_proj": "mlp.dense_4h_to_h"}
MERGES = b"#version: 0.2\na b\n"
BY_ROWS, BY_COLUMNS = ("query_key_value", "dense_h_to_4h"), ("self_attention.dense.weight", "dense_4h_to_h.weight")


class AttnMaskType(enum.Enum):
    causal = 2


def by_head(value):
    """[3, heads, width] rows to [heads, 3, width]."""
    width = value.shape[0] // 3 // HEADS
    return value.reshape(3, HEADS, width, *value.shape[1:]).transpose(0, 1).reshape(value.shape)


def encoder(tensors, in_order):
    out = {}
    for layer in range(LAYERS):
        for ours, theirs in NAMES.items():
            for part in ("weight", "bias"):
                value = tensors[f"h.{layer}.{ours}.{part}"]
                value = value.T if value.ndim == 2 else value
                value = in_order(value) if "query_key_value" in theirs else value
                out[f"layers.{layer}.{theirs}.{part}"] = value.contiguous()
    return out | {f"final_layernorm.{part}": tensors[f"ln_f.{part}"] for part in ("weight", "bias")}


def share_of(name, value, gpu, gpus):
    if any(part in name for part in BY_ROWS):
        return value.chunk(gpus, 0)[gpu].clone()
    if any(part in name for part in BY_COLUMNS):
        return value.chunk(gpus, 1)[gpu].contiguous().clone()
    return value


def older_share(name, value, gpu):
    if "query_key_value" in name:
        return torch.cat([part.chunk(GPUS)[gpu] for part in value.chunk(3)]).clone()
    return share_of(name.replace("attention.dense", "self_attention.dense"), value, gpu, GPUS)


def save(checkpoint, folder):
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(checkpoint, folder / "model_optim_rng.pt")


def main():
    to = Path(sys.argv[1] if len(sys.argv) > 1 else HERE) / "megatron"
    tensors = {name.removeprefix("transformer."): value
               for name, value in load_file(HERE / "gpt2/model.safetensors").items()}
    layers, plain = encoder(tensors, by_head), encoder(tensors, lambda value: value)
    (to / "iter_0000100").mkdir(parents=True, exist_ok=True)
    (to / "latest_checkpointed_iteration.txt").write_text("100")
    for gpu in range(GPUS):
        args = argparse.Namespace(
            num_layers=LAYERS, hidden_size=32, num_attention_heads=HEADS, ffn_hidden_size=None, layernorm_epsilon=1e-5,
            max_position_embeddings=64, tensor_model_parallel_size=GPUS, pipeline_model_parallel_size=1, swiglu=False,
            bias_gelu_fusion=True, attention_mask_type=AttnMaskType.causal, params_dtype=torch.float32, large=1 << 80,
            data_path=["a", "b"])

        def language_model(encoder_name, layers):
            embedding = {"word_embeddings": {"weight": tensors["wte.weight"].chunk(GPUS)[gpu].clone()},
                         "position_embeddings": {"weight": tensors["wpe.weight"]}}
            return {"embedding": embedding,
                    encoder_name: {name: share_of(name, value, gpu, GPUS) for name, value in layers.items()}}

        save({
            "args": args, "checkpoint_version": 3.0, "iteration": 100,
            "model": {"language_model": language_model("encoder", layers)},
            "optimizer": {"state": {0: {"step": 100, "exp_avg": torch.zeros(3)}}, "param_groups": [{"lr": 1e-4}]},
            "rng_state": [{"torch": torch.zeros(8, dtype=torch.uint8), "python": (3, (1, 2), None)}],
        }, to / f"iter_0000100/mp_rank_{gpu:02}")
        # The first version's layout: [3, heads, width] rows in each part, other names, and no version.
        older = {name.replace("self_attention", "attention"): value.half() for name, value in plain.items()}
        model = language_model("transformer", {})
        model["transformer"] = {name: older_share(name, value, gpu) for name, value in older.items()}
        for weights in model["embedding"].values():
            weights["weight"] = weights["weight"].half()
        save({"args": args, "model": {"language_model": model}}, to / f"older/mp_rank_{gpu:02}")
    flat = {f"model.language_model.encoder.{name}": value for name, value in layers.items()} | {
        "model.language_model.embedding.word_embeddings.weight": tensors["wte.weight"],
        "model.language_model.embedding.position_embeddings.weight": tensors["wpe.weight"]}
    vocab = {chr(97 + i) if i < 26 else f"<{i}>": i for i in range(94)} | {"ab": 94, "<|endoftext|>": 95}
    weights = io.BytesIO()
    torch.save(flat, weights)
    config = ("# of a tiny model\nmicro_batch_size: 4\ntensor_model_parallel_size: 1\npipeline_model_parallel_size: 1\n"
              "encoder_seq_length: 64\nmax_position_embeddings: ${.encoder_seq_length}\nnum_layers: 2\nhidden_size: 32\n"
              "ffn_hidden_size: 128\nnum_attention_heads: 2\nkv_channels: null\nnormalization: 'layernorm'\n"
              "layernorm_epsilon: 1.0e-05\nactivation: gelu\nbias_activation_fusion: true\n"
              "position_embedding_type: learned_absolute\ntokenizer:\n  library: megatron\n  type: GPT2BPETokenizer\n"
              "  vocab_file: nemo:0a1b_gpt2-vocab.json\n  merge_file: nemo:0a1b_gpt2-merges.txt\n"
              "data:\n  data_prefix:\n  - 1.0\n  - num_layers\n")
    with tarfile.open(to / "gpt.nemo", "w") as archive:
        for name, data in (("./model_config.yaml", config.encode()), ("./model_weights.ckpt", weights.getvalue()),
                           ("./0a1b_gpt2-vocab.json", json.dumps(vocab).encode()), ("./0a1b_gpt2-merges.txt", MERGES)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    main()
