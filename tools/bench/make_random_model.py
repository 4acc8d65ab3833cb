"""Writes a Hugging Face folder of random bf16 weights, for benchmarks of shapes whose weights are not available.

    python3 tools/bench/make_random_model.py smollm2|gpt2|llama-1b|llama-8b FOLDER
    python3 tools/bench/make_random_model.py SHAPE[-fp8] FOLDER --only-config

Needs torch; on a GPU it takes seconds. Values are N(0, 0.02), norms 1: no zeros, which would make a GPU faster. With
--only-config the folder has a config.json alone, for --load-format dummy, and torch is not needed: also for the shapes
qwen3.6-27b and qwen3.6-35b-a3b, and as block FP8 (SHAPE-fp8: E4M3, a scale per 128 x 128).
"""

import argparse
import json
import os

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
         "max_position_embeddings": 131072, "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16"}
SHAPES = {
    "smollm2": dict(LLAMA, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
                    num_key_value_heads=3, vocab_size=49152, rope_theta=100000.0, tie_word_embeddings=True),
    "llama-1b": dict(LLAMA, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                     num_key_value_heads=8, vocab_size=128256, rope_theta=500000.0, tie_word_embeddings=True),
    "llama-8b": dict(LLAMA, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                     num_key_value_heads=8, vocab_size=128256, rope_theta=500000.0, tie_word_embeddings=False),
    "gpt2": {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 1024, "n_head": 16, "n_layer": 24,
             "n_positions": 8448, "vocab_size": 50257, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
             "n_inner": None, "tie_word_embeddings": True},
}
QWEN = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "max_position_embeddings": 262144, "attention_bias": False,
        "tie_word_embeddings": False, "head_dim": 256, "vocab_size": 248320, "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_num_key_heads": 16, "mtp_num_hidden_layers": 1,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25,
                            "mrope_interleaved": True, "mrope_section": [11, 11, 10]}}
ONLY_CONFIG = {
    "qwen3.6-27b": dict(QWEN, architectures=["Qwen3_5ForCausalLM"], model_type="qwen3_5_text", hidden_size=5120,
                        intermediate_size=17408, num_hidden_layers=64, num_attention_heads=24, num_key_value_heads=4,
                        linear_num_value_heads=48),
    "qwen3.6-35b-a3b": dict(QWEN, architectures=["Qwen3_5MoeForCausalLM"], model_type="qwen3_5_moe_text",
                            hidden_size=2048, num_hidden_layers=40, num_attention_heads=16, num_key_value_heads=2,
                            linear_num_value_heads=32, num_experts=256, num_experts_per_tok=8,
                            moe_intermediate_size=512, shared_expert_intermediate_size=512),
}
BLOCK_FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


def tensors(name, c):
    """Yields (tensor name, shape, is a norm's weight, is a bias)."""
    if name == "gpt2":
        d = c["n_embd"]
        yield "wte.weight", (c["vocab_size"], d), False
        yield "wpe.weight", (c["n_positions"], d), False
        for i in range(c["n_layer"]):
            p = f"h.{i}."
            for norm in ("ln_1", "ln_2"):
                yield p + norm + ".weight", (d,), True
                yield p + norm + ".bias", (d,), False
            for part, rows, cols in (("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, 4 * d),
                                     ("mlp.c_proj", 4 * d, d)):
                yield p + part + ".weight", (rows, cols), False
                yield p + part + ".bias", (cols,), False
        yield "ln_f.weight", (d,), True
        yield "ln_f.bias", (d,), False
        return
    d, heads = c["hidden_size"], c["num_attention_heads"]
    head = d // heads
    yield "model.embed_tokens.weight", (c["vocab_size"], d), False
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        yield p + "input_layernorm.weight", (d,), True
        yield p + "post_attention_layernorm.weight", (d,), True
        yield p + "self_attn.q_proj.weight", (heads * head, d), False
        yield p + "self_attn.k_proj.weight", (c["num_key_value_heads"] * head, d), False
        yield p + "self_attn.v_proj.weight", (c["num_key_value_heads"] * head, d), False
        yield p + "self_attn.o_proj.weight", (d, heads * head), False
        yield p + "mlp.gate_proj.weight", (c["intermediate_size"], d), False
        yield p + "mlp.up_proj.weight", (c["intermediate_size"], d), False
        yield p + "mlp.down_proj.weight", (d, c["intermediate_size"]), False
    yield "model.norm.weight", (d,), True
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], d), False


def write_weights(name, config, folder):
    import torch

    header, offset, plan = {}, 0, list(tensors(name, config))
    for tensor, shape, _ in plan:
        size = 2 * torch.Size(shape).numel()
        header[tensor] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, shape, norm in plan:
            values = torch.ones(shape) if norm else torch.randn(shape, device=device) * 0.02
            file.write(values.to(torch.bfloat16).view(torch.int16).cpu().numpy().tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape")
    parser.add_argument("folder")
    parser.add_argument("--only-config", action="store_true", help="no weights: for --load-format dummy")
    options = parser.parse_args()
    shapes = SHAPES | ONLY_CONFIG if options.only_config else SHAPES
    shape, fp8 = options.shape.removesuffix("-fp8"), options.shape.endswith("-fp8")
    if shape not in shapes or (fp8 and not options.only_config):
        parser.error(f"no shape '{options.shape}': one of {', '.join(shapes)}")
    config = dict(shapes[shape], **({"quantization_config": BLOCK_FP8} if fp8 else {}))
    os.makedirs(options.folder, exist_ok=True)
    with open(os.path.join(options.folder, "config.json"), "w") as file:
        json.dump(config, file)
    if not options.only_config:
        write_weights(shape, config, options.folder)


if __name__ == "__main__":
    main()
