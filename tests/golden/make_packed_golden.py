#!/usr/bin/env python3
"""Makes the tiny models of packed/, with weights in the formats of AWQ, GPTQ, gpt-oss and compressed-tensors, and their
logits.

    make_packed_golden.py [FOLDER [MODEL...]]     needs torch, transformers, safetensors, numpy, gguf, compressed-tensors

Per model config.json, model.safetensors and logits.f32: float32 [len(IDS), vocab], the logits after each of the ids of
make_golden.py, from a float64 run of the reference implementation with the dequantized weights:

    AWQ, GPTQ   scale * (q - zero), one scale and zero point for each output and group of inputs. One matrix of each
    model
                is stored as float32 in k_proj.f32, outputs by inputs: every value is exact in it.
    compressed-tensors   as the library compresses and decompresses random weights; k_proj.f32 as above
    MXFP4       scale * value of E2M1, one scale, a power of two, for 32 inputs of an output. model.gguf is the same
    model.

Integers and zero points are random, and so is, with act-order, the group of each input.
"""
import json
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from family_gguf import write_gguf
from make_family_golden import FAMILIES, make
from make_golden import IDS, VOCAB, fill
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

LLAMA = dict(vocab_size=VOCAB, bos_token_id=1, eos_token_id=2, hidden_size=128, intermediate_size=128,
             num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=64,
             max_position_embeddings=2048, rms_norm_eps=1e-5, tie_word_embeddings=True)
AWQ = dict(quant_method="awq", bits=4, version="gemm")
GPTQ = dict(quant_method="gptq", bits=4, checkpoint_format="gptq", damp_percent=0.01)


def compressed_tensors(layout, **weights):
    """A quantization_config with one group."""
    weights |= dict(dynamic=False, observer="minmax")
    return dict(quant_method="compressed-tensors", format=layout, quantization_status="compressed", ignore=["lm_head"],
                config_groups={"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}})


# name: its quantization_config
MODELS = {
    "awq": dict(AWQ, group_size=64, zero_point=True, modules_to_not_convert=None),
    "awq_symmetric": dict(AWQ, group_size=32, zero_point=False),
    "gptq": dict(GPTQ, group_size=128, desc_act=False, sym=True),
    "gptq_act_order": dict(GPTQ, group_size=32, desc_act=True, sym=False),
}
COMPRESSED = {
    "ct_int4": compressed_tensors("pack-quantized", num_bits=4, type="int", symmetric=True, strategy="group", group_size=32),
    "ct_int4_zeros": compressed_tensors("pack-quantized", num_bits=4, type="int", symmetric=False, strategy="group",
                                        group_size=64),
    "ct_int8": compressed_tensors("int-quantized", num_bits=8, type="int", symmetric=True, strategy="channel"),
    "ct_fp8_block": compressed_tensors("float-quantized", num_bits=8, type="float", symmetric=True, strategy="block",
                                       block_structure=[48, 96]),
    "ct_nvfp4": compressed_tensors("nvfp4-pack-quantized", num_bits=4, type="float", symmetric=True,
                                   strategy="tensor_group", group_size=16, scale_dtype="torch.float8_e4m3fn"),
    "ct_mxfp4": compressed_tensors("mxfp4-pack-quantized", num_bits=4, type="float", symmetric=True, strategy="group",
                                   group_size=32, scale_dtype="torch.uint8"),
}


def packed(numbers, axis, order=range(8)):
    """Packs eight 4-bit numbers along `axis` into an int32, the one at order[i] in bits 4 i ... 4 i + 3."""
    numbers = np.moveaxis(numbers, axis, -1).astype(np.uint32)
    eights = numbers.reshape(*numbers.shape[:-1], -1, 8)
    words = sum(eights[..., place] << np.uint32(4 * i) for i, place in enumerate(order))
    return np.ascontiguousarray(np.moveaxis(words.view(np.int32), -1, axis))


def quantised(rng, outputs, inputs, config):
    """A random matrix: its packed tensors, and its values, outputs by inputs."""
    group, method = config["group_size"], config["quant_method"]
    groups = inputs // group
    q = rng.integers(0, 16, (inputs, outputs))
    symmetric = not config.get("zero_point", True) or config.get("sym", False)
    zeros = np.full((groups, outputs), 8) if symmetric else rng.integers(1, 16, (groups, outputs))
    scales = (rng.uniform(0.5, 1.5, (groups, outputs)) / 4.6 / np.sqrt(inputs)).astype(np.float16)
    of = np.arange(inputs) // group
    if config.get("desc_act"):
        of = rng.permutation(of)
    values = (scales.astype(np.float32)[of] * (q - zeros[of]).astype(np.float32)).T
    if method == "awq":
        order = (0, 2, 4, 6, 1, 3, 5, 7)
        parts = {"qweight": packed(q, 1, order), "scales": scales}
        if config["zero_point"]:
            parts["qzeros"] = packed(zeros, 1, order)
        return parts, values
    return {"qweight": packed(q, 0), "qzeros": packed(zeros - 1, 1), "scales": scales, "g_idx": of.astype(np.int32)}, values


def blocks_of(values, weights):
    """The least and the largest value of each block of a scale, rows by columns."""
    rows, cols = values.shape
    down, across = weights.get("block_structure") or (1, weights.get("group_size") or cols)
    padded = torch.nn.functional.pad(values, (0, -cols % across, 0, -rows % down))
    tiles = padded.reshape(padded.shape[0] // down, down, -1, across)
    return tiles.amin((1, 3)), tiles.amax((1, 3))


def compressed(values, config):
    """The library's parts of a matrix, and the values that it restores from them."""
    scheme = QuantizationScheme(targets=["Linear"], weights=config["config_groups"]["group_0"]["weights"])
    library = BaseCompressor.get_value_from_registry(config["format"])
    least, largest = blocks_of(values, config["config_groups"]["group_0"]["weights"])
    state = {"weight": values}
    factor = None
    if config["format"].startswith("nvfp4"):  # a power of two: exact in any order of the products
        factor = torch.exp2(torch.log2(generate_gparam(values.min(), values.max())).floor())
    scale, zero = calculate_qparams(least, largest, scheme.weights, factor)
    state["weight_scale"] = scale if "fp4" in config["format"] else scale.to(torch.bfloat16)
    state["weight_zero_point"] = zero.to(torch.int8)
    if factor is not None:
        state["weight_global_scale"] = factor
    parts = library.compress(state, scheme)
    restored = library.decompress({k: v.float() if v.dtype == torch.bfloat16 else v for k, v in parts.items()}, scheme)
    return parts, restored["weight"]


def write_compressed(folder, seed, config):
    model = fill(LlamaForCausalLM(LlamaConfig(**LLAMA)), seed)
    tensors = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        if not name.endswith("_proj.weight"):
            tensor.copy_(tensor.half())
            tensors[name] = tensor.half()
            continue
        parts, values = compressed(tensor.clone(), config)
        tensors |= {name.removesuffix("weight") + part: value for part, value in parts.items()}
        tensor.copy_(values)
        if "k_proj" in name:
            values.float().numpy().astype("<f4").tofile(folder / "k_proj.f32")
    save_tensors({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    write_config(model, folder, config)
    logits_of(model).tofile(folder / "logits.f32")


def logits_of(model):
    with torch.no_grad():
        return model.double()(torch.tensor([IDS])).logits[0].float().numpy().astype("<f4")


def write_config(model, folder, quantization):
    config = model.config.to_dict() | dict(architectures=[type(model).__name__], quantization_config=quantization)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True, default=str) + "\n")


def write_llama(folder, seed, config):
    rng = np.random.default_rng(seed)
    model = fill(LlamaForCausalLM(LlamaConfig(**LLAMA)), seed).double()
    tensors = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        if not name.endswith("_proj.weight"):
            tensors[name] = tensor.numpy().astype(np.float16)
            tensor.copy_(tensor.half())
            continue
        parts, values = quantised(rng, *tensor.shape, config)
        tensors |= {name.replace("weight", part): value for part, value in parts.items()}
        tensor.copy_(torch.tensor(values))
        if "k_proj" in name:
            values.astype("<f4").tofile(folder / "k_proj.f32")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    write_config(model, folder, config)
    logits_of(model).tofile(folder / "logits.f32")


def mxfp4(rng, experts, outputs, inputs):
    """Random E2M1 blocks in the file's format: blocks whose bytes hold two consecutive inputs, and scales."""
    blocks = rng.integers(0, 256, (experts, outputs, inputs // 32, 16), np.uint8)
    spread = np.log2(2.9 * np.sqrt(inputs))
    scales = (127 - np.round(spread) + rng.integers(-1, 2, blocks.shape[:3])).astype(np.uint8)
    return blocks, scales


def as_gguf(blocks, scales):
    """As GGUF blocks, whose bytes hold inputs i and i + 16."""
    codes = np.stack([blocks & 15, blocks >> 4], -1).reshape(*blocks.shape[:-1], 2, 16)
    data = np.concatenate([scales[..., None], codes[..., 0, :] | codes[..., 1, :] << 4], -1)
    return data.reshape(*blocks.shape[:2], -1)


def write_gpt_oss(folder, seed):
    rng = np.random.default_rng(seed)
    model = make("gpt_oss", list(FAMILIES).index("gpt_oss") + 100).double()
    tensors, in_gguf = {}, {}
    for name, tensor in model.state_dict().items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            tensors[name] = tensor.numpy().astype(np.float16)
            continue
        experts, inputs, outputs = tensor.shape
        blocks, scales = mxfp4(rng, experts, outputs, inputs)
        tensors |= {name + "_blocks": blocks, name + "_scales": scales}
        values = convert_moe_packed_tensors(torch.tensor(blocks), torch.tensor(scales), dtype=torch.float32)
        tensor.copy_(values)
        data, layer = as_gguf(blocks, scales), name.split(".")[2]
        assert (gguf.quants.dequantize(data, gguf.GGMLQuantizationType.MXFP4) == values.numpy().swapaxes(1, 2)).all()
        if name.endswith("down_proj"):
            in_gguf[f"blk.{layer}.ffn_down_exps.weight"] = data
        else:
            in_gguf |= {f"blk.{layer}.ffn_{part}_exps.weight": data[:, i::2] for i, part in enumerate(("gate", "up"))}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    write_config(model, folder, dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn"]))
    kind = gguf.GGMLQuantizationType.MXFP4
    write_gguf(folder / "model.gguf", "gpt_oss", "gpt-oss", model, {key: (rows, kind) for key, rows in in_gguf.items()})
    logits_of(model).tofile(folder / "logits.f32")


def main(out, names):
    for seed, name in enumerate([*MODELS, "gpt_oss_mxfp4", *COMPRESSED]):
        if names and name not in names:
            continue
        shutil.rmtree(out / name, ignore_errors=True)
        (out / name).mkdir(parents=True)
        if name in MODELS:
            write_llama(out / name, 200 + seed, MODELS[name])
        elif name in COMPRESSED:
            write_compressed(out / name, 200 + seed, COMPRESSED[name])
        else:
            write_gpt_oss(out / name, 200 + seed)
    print(f"{sum(p.stat().st_size for p in out.rglob('*') if p.is_file())} bytes in {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "packed", sys.argv[2:])
