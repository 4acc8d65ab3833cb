#!/usr/bin/env python3
"""Makes the tiny random encoder-decoder models of encoders/ and their logits with the reference implementation.

    make_encoder_golden.py [FOLDER]            needs torch, transformers, safetensors, numpy, gguf

Per model config.json, float16 safetensors (every weight is exact in it) and logits.f32: float32 [len(ANSWER), vocab],
the logits after each token of ANSWER to the encoder input INPUT, from a float64 run; for one also model.gguf. Distance
buckets are few and small, so that all of them are used.
"""
import json
import os
import shutil
import sys
from pathlib import Path

import gguf
import safetensors.torch
import torch
import transformers
from make_family_golden import COMMON
from make_golden import IDS

INPUT = IDS[:30] + [2]
ANSWER = [3] + IDS[5:29]
SMALL = dict(COMMON, d_model=32, d_kv=12, num_heads=4, d_ff=48, num_layers=3, num_decoder_layers=2,
             decoder_start_token_id=3, relative_attention_num_buckets=12, relative_attention_max_distance=20)
MODELS = {
    "t5": dict(SMALL, feed_forward_proj="relu", tie_word_embeddings=True),
    # Also in GGUF, where the largest distance is always this one.
    "t5_gated": dict(SMALL, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                     relative_attention_max_distance=128),
    # As the library writes it today: a tied head next to a separate one, and no scaling.
    "mt5": dict(SMALL, feed_forward_proj="gated-gelu", tie_word_embeddings=True),
}


def fill(model, seed):
    """Random weights, exact in float16; queries and keys are sharpened, distance biases and norms strong."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in model.state_dict().items():
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        if "layer_norm" in name:
            value = 1 + 0.2 * noise
        elif "relative_attention_bias" in name or name.endswith(("shared.weight", "embed_tokens.weight")):
            value = noise
        else:
            # Scores are not divided by the root of the head size.
            sharp = name.endswith((".q.weight", ".k.weight"))
            value = noise * (0.8 if sharp else 1.0) / tensor.shape[-1] ** 0.5
        tensor.copy_(value.half())
    model.tie_weights()
    return model.eval()


def write_gguf(path, name, options, tensors):
    """As llama.cpp's converter does it."""
    writer = gguf.GGUFWriter(path, "t5")
    writer.add_name(name)
    writer.add_context_length(512)
    writer.add_embedding_length(options["d_model"])
    writer.add_feed_forward_length(options["d_ff"])
    writer.add_block_count(options["num_layers"])
    writer.add_decoder_block_count(options["num_decoder_layers"])
    writer.add_head_count(options["num_heads"])
    writer.add_key_length(options["d_kv"])
    writer.add_value_length(options["d_kv"])
    writer.add_layer_norm_eps(1e-6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_relative_attn_buckets_count(options["relative_attention_num_buckets"])
    writer.add_decoder_start_token_id(options["decoder_start_token_id"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.T5, options["num_layers"])
    for key, value in tensors.items():
        theirs = names.get_name(key, (".weight",))
        writer.add_tensor(theirs, value.numpy().astype("f2" if value.ndim > 1 else "f4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(out):
    for seed, (name, options) in enumerate(MODELS.items()):
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        kind = "MT5" if name == "mt5" else "T5"
        config = getattr(transformers, f"{kind}Config")(**options)
        config._attn_implementation = "eager"
        model = fill(getattr(transformers, f"{kind}ForConditionalGeneration")(config), seed + 500).double()
        own_head = name == "mt5" or not options["tie_word_embeddings"]
        if own_head:  # no longer created by the library, but present in files
            head = torch.randn(model.shared.weight.shape, generator=torch.Generator().manual_seed(seed + 600))
            model.lm_head.weight = torch.nn.Parameter((head / 32**0.5).half().double())
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([INPUT]), decoder_input_ids=torch.tensor([ANSWER])).logits[0]
        folder.mkdir(parents=True)
        logits.float().numpy().astype("<f4").tofile(folder / "logits.f32")
        tensors = {key: value.half().contiguous() for key, value in model.state_dict().items()
                   if "embed_tokens" not in key and (own_head or key != "lm_head.weight")}
        safetensors.torch.save_file(tensors, folder / "model.safetensors")
        if name == "t5_gated":
            write_gguf(folder / "model.gguf", name, options, tensors)
        settings = dict(options, model_type=kind.lower(), architectures=[f"{kind}ForConditionalGeneration"])
        (folder / "config.json").write_text(json.dumps(settings, indent=1) + "\n")
    print(f"{sum(p.stat().st_size for p in out.rglob('*') if p.is_file())} bytes in {out}")


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "encoders")
