#!/usr/bin/env python3
"""Makes quantized GGUF files of tiny models with multi-head latent attention, and the logits of the reference
implementation with their dequantized weights.

    make_quantised_family_golden.py [FOLDER]        needs torch, transformers, numpy, gguf

deepseek_v3_q4_k: matrices in Q4_K, those with fewer than 256 inputs in Q8_0, as llama.cpp stores them; one matrix for
keys and one for values (attn_k_b, attn_v_b). deepseek_v3_q8_0: all in Q8_0, with one matrix for both (attn_kv_b) as
in older files.
"""
import os
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from family_gguf import gguf_tensors, write_gguf
from make_family_golden import DEEPSEEK, MLA, YARN, fill
from make_golden import IDS, random_blocks
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

CONFIG = dict(MLA | DEEPSEEK, hidden_size=256, intermediate_size=64, num_attention_heads=2, num_key_value_heads=2,
              q_lora_rank=256, kv_lora_rank=256, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32,
              n_routed_experts=4, num_experts_per_tok=4, n_group=1, topk_group=1, moe_intermediate_size=32,
              n_shared_experts=1, num_hidden_layers=2, routed_scaling_factor=2.5,
              rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0))


def quantised(name, value, kind):
    """(the file's rows, its type). Routers keep 32 bits."""
    if value.ndim == 1 or "ffn_gate_inp" in name:
        return value.astype(np.float32), gguf.GGMLQuantizationType.F32
    if kind == "Q4_K" and value.shape[-1] % 256 == 0:
        rows = random_blocks(value.reshape(-1, value.shape[-1]), kind)
        return rows.reshape(*value.shape[:-1], -1), gguf.GGMLQuantizationType.Q4_K
    return gguf.quants.quantize(value, gguf.GGMLQuantizationType.Q8_0), gguf.GGMLQuantizationType.Q8_0


def dequantised_model(path, model):
    """`model` with the weights of the file."""
    files = {t.name: torch.tensor(gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64))
             for t in gguf.GGUFReader(path).tensors}
    known = gguf.get_tensor_name_map(gguf.MODEL_ARCH.DEEPSEEK2, model.config.num_hidden_layers)
    file_tensor = lambda key: files[known.get_name(key, (".weight", ".bias"))]
    state = {}
    for key, tensor in model.state_dict().items():
        key_of = key.replace("correction_bias", "correction.bias")
        if "kv_b_proj" in key and known.get_name(key_of, (".weight",)) not in files:
            parts = [file_tensor(key.replace("kv_b", part)) for part in ("k_b", "v_b")]
            value = torch.cat([parts[0].transpose(1, 2), parts[1]], 1)
        elif key.endswith("gate_up_proj"):
            value = torch.cat([file_tensor(key.replace("gate_up", part) + ".weight") for part in ("gate", "up")], 1)
        else:
            value = file_tensor(key_of if key_of.endswith((".weight", ".bias")) else key_of + ".weight")
        state[key] = value.reshape(tensor.shape)
    model.load_state_dict(state)
    return model


def make(folder, seed, kind, joined):
    config = DeepseekV3Config(**CONFIG)
    config._experts_implementation = config._attn_implementation = "eager"
    model = fill(DeepseekV3ForCausalLM(config), seed).double()
    tensors = dict(gguf_tensors("deepseek_v3", "deepseek2", model))
    if joined:
        for key, value in model.state_dict().items():
            if "kv_b_proj" in key:
                layer = key.split(".")[2]
                del tensors[f"blk.{layer}.attn_k_b.weight"], tensors[f"blk.{layer}.attn_v_b.weight"]
                tensors[f"blk.{layer}.attn_kv_b.weight"] = value.float().numpy()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stored = {name: quantised(name, value, kind) for name, value in tensors.items()}
    write_gguf(folder / "model.gguf", folder.name, "deepseek2", model, stored, whole=True)
    with torch.no_grad():
        logits = dequantised_model(folder / "model.gguf", model)(torch.tensor([IDS])).logits[0]
    logits.float().numpy().astype("<f4").tofile(folder / "logits.f32")


def main(out):
    make(out / "deepseek_v3_q4_k", 401, "Q4_K", False)
    make(out / "deepseek_v3_q8_0", 402, "Q8_0", True)


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "families")
