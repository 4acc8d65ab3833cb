#!/usr/bin/env python3
"""Makes the tiny random models of this folder and their logits with the reference implementations.

    make_golden.py [FOLDER]            needs torch, transformers, safetensors, numpy, gguf

Every model is small enough to store (about 100 KB) and has attention sharp enough that one lost key shows in the
logits. Per model: config.json and safetensors (Hugging Face) or one GGUF file, and logits.f32: float32 [len(IDS),
vocab], the logits after each of the ids below, from a float64 run. Variants that differ only in rotation have just
their config.json and logits.f32. GGUF files of quantized types are compared with the logits of their dequantized
weights.
"""
import json
import os
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import (AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)

VOCAB, LENGTH = 96, 40
IDS = [(i * i * 7 + i * 13 + 5) % VOCAB for i in range(LENGTH)]
# Shared by the GPT-2 and Llama models.
SMALL = dict(vocab_size=VOCAB, bos_token_id=1, eos_token_id=2)
LLAMA = dict(SMALL, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=2048, rms_norm_eps=1e-5)


def fill(model, seed):
    """Random weights: matrices preserve the scale of their input, queries and keys are sharpened,
    norms are around 1."""
    generator = torch.Generator().manual_seed(seed)
    state = model.state_dict()
    for name, tensor in state.items():
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        if name.endswith("bias"):
            value = 0.2 * noise
        elif tensor.ndim == 1:
            value = 1 + 0.2 * noise
        elif any(part in name for part in ("embed", "wte")):
            value = noise
        elif "wpe" in name:
            value = 0.3 * noise
        else:
            inputs = tensor.shape[0] if isinstance(model, GPT2LMHeadModel) and "lm_head" not in name else tensor.shape[1]
            sharp = any(part in name for part in ("q_proj", "k_proj", "c_attn"))
            value = noise * (1.6 if sharp else 1.0) / np.sqrt(inputs)
        # Multiples of 2^-12 are exact in every format.
        tensor.copy_((value * 4096).round() / 4096)
    model.load_state_dict(state)
    return model.eval()


def logits_of(model):
    with torch.no_grad():
        return model.double()(torch.tensor([IDS])).logits[0].float().numpy()


def write_logits(folder, logits):
    folder.mkdir(parents=True, exist_ok=True)
    logits.astype("<f4").tofile(folder / "logits.f32")


def write_hf(out, name, model, **options):
    folder = out / name
    model.float().save_pretrained(folder, **options)
    (folder / "generation_config.json").unlink(missing_ok=True)
    write_logits(folder, logits_of(model))
    return model


def write_variant(out, name, base, **changes):
    """The weights of `base` with another rotation: only its config and its logits are stored."""
    config = type(base.config).from_dict(dict(base.config.to_dict(), **changes))
    model = type(base)(config)
    model.load_state_dict(base.state_dict())
    write_logits(out / name, logits_of(model.eval()))
    config.architectures = base.config.architectures
    config.save_pretrained(out / name)
    return model


# ---- GGUF ------------------------------------------------------------------------------------------------------------
LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm.weight", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight", "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
NAMES = {"embed_tokens": "token_embd", "wte": "token_embd", "wpe": "position_embd", "norm": "output_norm",
         "ln_f": "output_norm"}


def gguf_name(name):
    name = name.removeprefix("model.").removeprefix("transformer.")
    if name == "lm_head.weight":
        return "output.weight"
    parts = name.split(".")
    if parts[0] in ("layers", "h"):
        rest = ".".join(parts[2:])
        for ours, theirs in LAYER_NAMES.items():
            if rest == ours or rest.startswith(ours + "."):
                return f"blk.{parts[1]}.{theirs}{rest[len(ours):]}"
    return NAMES[parts[0]] + "." + parts[-1]


def interleave(rows, heads):
    """From rotation pairs (j, j + d/2) to (2j, 2j + 1), per head."""
    half = rows.shape[0] // heads // 2
    return np.ascontiguousarray(rows.reshape(heads, 2, half, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape))


def write_gguf(path, model, architecture, type_of=lambda name: "F32", rope_factors=None):
    """The model as its converter would write it. type_of returns the type of each matrix."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(path.stem)
    gpt2 = architecture == "gpt2"
    writer.add_block_count(config.n_layer if gpt2 else config.num_hidden_layers)
    writer.add_context_length(config.n_positions if gpt2 else config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(4 * config.n_embd if gpt2 else config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if gpt2:
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
        writer.add_rope_dimension_count(head_dim)
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors.astype(np.float32))
    tied = config.tie_word_embeddings
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and tied:
            continue
        value, theirs = tensor.float().numpy(), gguf_name(name)
        if gpt2 and value.ndim == 2 and not name.endswith(("wte.weight", "wpe.weight")):
            value = np.ascontiguousarray(value.T)
        if architecture == "llama" and "q_proj" in name:
            value = interleave(value, config.num_attention_heads)
        if architecture == "llama" and "k_proj" in name:
            value = interleave(value, config.num_key_value_heads)
        add(writer, theirs, value, "F32" if value.ndim == 1 else type_of(theirs))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add(writer, name, value, type_name):
    kind = gguf.GGMLQuantizationType[type_name]
    if type_name == "F32":
        writer.add_tensor(name, value)
    elif type_name == "F16":
        writer.add_tensor(name, value.astype(np.float16))
    else:
        data = random_blocks(value, type_name) if type_name in SPREADS else gguf.quants.quantize(value, kind)
        writer.add_tensor(name, data, raw_dtype=kind)


# For random blocks of a type with a float16 scale of 1: the spread; the byte offset of the scale; the byte offset and
# value (in units of the scale) of the minimum's scale that centres the values.
SPREADS = {"Q4_K": (200, 0, (2, 7.5)), "Q5_K": (400, 0, (2, 15.5)), "Q6_K": (1300, 208, None), "Q2_K": (15, 80, (82, 1.5)),
           "Q3_K": (42, 108, None), "IQ4_NL": (72, 0, None), "IQ4_XS": (1300, 0, None), "MXFP4": (5.5, None, None),
           "IQ2_XXS": (53, 0, None), "IQ2_XS": (56, 0, None), "IQ2_S": (56, 0, None), "IQ3_XXS": (142, 0, None),
           "IQ3_S": (140, 0, None), "IQ1_S": (7.2, 0, None), "IQ1_M": (7.2, None, None), "TQ1_0": (0.82, 52, None),
           "NVFP4": (2.9, None, None)}


def random_blocks(value, type_name):
    """Random blocks with about the spread of `value`: every bit of the type is used, and every block is valid."""
    rng = np.random.default_rng(abs(hash_of(value)) % 2**32)
    spread, place, minimum = SPREADS[type_name]
    values, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[type_name]]
    rows, blocks = value.shape[0], value.shape[1] // values
    data = rng.integers(0, 256, (rows, blocks, block_bytes), dtype=np.uint8)
    scale = np.full((rows, blocks, 1), value.std() / spread, np.float16)
    if type_name == "NVFP4":  # E4M3, about half to twice the spread
        data[..., :4] = 56 + 8 * np.round(np.log2(value.std() / spread)) + rng.integers(-8, 9, (rows, blocks, 4))
    elif type_name == "IQ1_M":  # a float16 in the highest four bits of four words, lowest bits first
        for i in range(4):
            data[..., 49 + 2 * i] = data[..., 49 + 2 * i] & 15 | (scale.view(np.uint16)[..., 0] >> 4 * i & 15) << 4
    elif place is None:  # MXFP4: a power of two in units of half the values
        data[..., 0] = 128 + np.round(np.log2(value.std() / spread)) + rng.integers(-1, 2, (rows, blocks))
    else:
        data[..., place : place + 2] = scale.view(np.uint8)
    if minimum is not None:
        place, centre = minimum
        data[..., place : place + 2] = (scale * np.float16(centre)).view(np.uint8)
    return data.reshape(rows, -1)


def hash_of(value):
    return int(np.abs(value * 4096).sum())


def load_dequantised(path, model):
    """The model with the file's dequantized weights (llama only)."""
    state = {}
    by_name = {t.name: t for t in gguf.GGUFReader(path).tensors}
    for name, tensor in model.state_dict().items():
        t = by_name[gguf_name(name)]
        value = gguf.quants.dequantize(t.data, t.tensor_type).reshape(tuple(tensor.shape)).astype(np.float64)
        heads = {"q_proj": model.config.num_attention_heads, "k_proj": model.config.num_key_value_heads}
        for part, count in heads.items():
            if part in name:
                half = value.shape[0] // count // 2
                value = value.reshape(count, half, 2, -1).swapaxes(1, 2).reshape(value.shape)
        state[name] = torch.tensor(np.ascontiguousarray(value))
    out = type(model)(model.config).double()
    out.load_state_dict(state)
    return out.eval()


def write_quantised(out, name, model, type_of):
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.gguf"
    write_gguf(path, model, "llama", type_of)
    write_logits(folder, logits_of(load_dequantised(path, model)))


def main(out):
    for entry in out.iterdir():
        if entry.is_dir() and (entry / "logits.f32").exists():
            shutil.rmtree(entry)
    llama = write_hf(out, "llama", fill(LlamaForCausalLM(LlamaConfig(**LLAMA)), 1))
    llama3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=64)
    scaled = write_variant(out, "llama_rope_llama3", llama, rope_parameters=llama3)
    write_variant(out, "llama_rope_linear", llama,
                  rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0))
    write_variant(out, "llama_rope_yarn", llama, rope_parameters=dict(
        rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64, beta_fast=8.0))
    write_hf(out, "llama_biases", fill(LlamaForCausalLM(LlamaConfig(
        **dict(LLAMA, num_hidden_layers=1), attention_bias=True, mlp_bias=True, tie_word_embeddings=True)), 2))
    write_hf(out, "mistral", fill(MistralForCausalLM(MistralConfig(
        **dict(LLAMA, num_hidden_layers=1), sliding_window=64)), 3))
    qwen2 = write_hf(out, "qwen2", fill(Qwen2ForCausalLM(Qwen2Config(
        **{k: v for k, v in LLAMA.items() if k != "head_dim"}, tie_word_embeddings=True)), 4))
    qwen3 = write_hf(out, "qwen3", fill(Qwen3ForCausalLM(Qwen3Config(**LLAMA)), 5), max_shard_size="60KB")
    gpt2 = write_hf(out, "gpt2", fill(GPT2LMHeadModel(GPT2Config(
        **SMALL, n_positions=64, n_embd=32, n_layer=2, n_head=2)), 6))

    for name, model in (("llama", llama), ("qwen2", qwen2), ("qwen3", qwen3), ("gpt2", gpt2)):
        write_gguf(out / name / "model.gguf", model, name)
    base = 10000.0 ** (-np.arange(0, 16, 2) / 16)
    write_gguf(out / "llama_rope_llama3" / "model.gguf", scaled, "llama",
               rope_factors=base / scaled.model.rotary_emb.inv_freq.double().numpy())
    for kind in ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"):
        write_quantised(out, f"gguf_{kind.lower()}", llama, lambda name, kind=kind: kind)
    wide = fill(LlamaForCausalLM(LlamaConfig(**dict(
        LLAMA, hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=1, head_dim=64, vocab_size=VOCAB))), 7)
    mix = {"attn_q": "Q4_K", "attn_k": "Q5_K", "attn_v": "Q6_K", "attn_output": "Q5_K", "ffn_gate": "Q4_K",
           "ffn_up": "Q5_K", "ffn_down": "Q6_K", "token_embd": "Q6_K", "output": "Q4_K"}
    write_quantised(out, "gguf_k_quants", wide, lambda name: mix[name.split(".")[-2]])
    low = {"attn_q": "Q2_K", "attn_k": "Q3_K", "attn_v": "IQ4_XS", "attn_output": "IQ4_NL", "ffn_gate": "MXFP4",
           "ffn_up": "Q2_K", "ffn_down": "Q3_K", "token_embd": "IQ4_NL", "output": "IQ4_XS"}
    write_quantised(out, "gguf_low_bits", wide, lambda name: low[name.split(".")[-2]])
    codebooks = {"attn_q": "IQ2_XXS", "attn_k": "IQ2_XS", "attn_v": "IQ3_S", "attn_output": "IQ3_XXS",
                 "ffn_gate": "IQ1_S", "ffn_up": "IQ2_S", "ffn_down": "IQ1_M", "token_embd": "TQ1_0", "output": "NVFP4"}
    write_quantised(out, "gguf_codebooks", wide, lambda name: codebooks[name.split(".")[-2]])
    (out / "ids.json").write_text(json.dumps(IDS) + "\n")
    total = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    print(f"{total} bytes in {out}")


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
