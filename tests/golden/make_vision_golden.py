#!/usr/bin/env python3
"""Makes the tiny random models with vision towers of vision/, and their results with the reference implementations.

    make_vision_golden.py [FOLDER [NAME ...]]         needs torch, torchvision, transformers, safetensors, tokenizers, pillow, gguf

Per model config.json, preprocessor_config.json, tokenizer.json, float16 safetensors (every weight is exact in it), and
for each picture: NAME.rgb (bytes [height, width, 3]), NAME.pixels (float32 [3, height, width]: resized by Pillow with
the processor's sizes, and normalised), NAME.rows (float32 [rows, hidden]: the projector's output), NAME.ids (int32: a
prompt with the picture, whose rows have the placeholder's id) and NAME.logits (float32 [LAST, vocabulary], after the last
ids), from float64 runs. Also resize_*.rgb: a picture resized by Pillow; and
NAME_gguf: some of these models as llama.cpp's two GGUF files. (Pillow 13 resizes the height first if it shrinks by more than
twice as many pixels as the width, earlier ones never do; none of these pictures does.)
"""
import json
import os
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ["<unk>", "<s>", "</s>", "[IMG]", "[IMG_BREAK]", "[IMG_END]"]
IMAGE, BREAK, END = 3, 4, 5
QWEN_SPECIAL = ["<unk>", "<s>", "</s>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"]
GEMMA_SPECIAL = ["<pad>", "<bos>", "<eos>", "<image_soft_token>", "<start_of_image>", "<end_of_image>"]
VOCAB = 264  # special tokens and bytes, rounded up
TEXT = dict(vocab_size=VOCAB, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_size=32, intermediate_size=48,
            num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=512)
PIXTRAL = dict(model_type="pixtral", hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
               head_dim=16, image_size=48, patch_size=4, hidden_act="silu")
CLIP = dict(model_type="clip_vision_model", hidden_size=32, intermediate_size=48, num_hidden_layers=3,
            num_attention_heads=2, image_size=24, patch_size=4, projection_dim=16)
SIGLIP = dict(model_type="siglip_vision_model", hidden_size=72, intermediate_size=48, num_hidden_layers=2,
              num_attention_heads=1, image_size=40, patch_size=4, vision_use_head=False)
QWEN = dict(depth=3, hidden_size=32, intermediate_size=48, num_heads=2, patch_size=4, spatial_merge_size=2,
            temporal_patch_size=2, window_size=16, out_hidden_size=32, fullatt_block_indexes=[1])
QWEN2 = dict(depth=2, embed_dim=32, hidden_size=32, mlp_ratio=2, num_heads=2, patch_size=4, spatial_merge_size=2,
             temporal_patch_size=2)
QWEN3 = dict(depth=3, hidden_size=32, intermediate_size=48, num_heads=2, patch_size=4, spatial_merge_size=2,
             temporal_patch_size=2, out_hidden_size=32, num_position_embeddings=25, deepstack_visual_indexes=[0, 1])
# a head of 72 dimensions, as the published ones
QWEN35 = dict(QWEN3, depth=2, hidden_size=72, num_heads=1, num_position_embeddings=49)
QWEN35.pop("deepstack_visual_indexes")
QWEN_TOKENS = dict(image_token_id=IMAGE, video_token_id=262, vision_start_token_id=4, vision_end_token_id=5)
QWEN_PIXELS = (256, 2304)
MEAN, DEVIATION = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
# name: (class, its configuration)
MODELS = {
    "mistral3": ("Mistral3", dict(text_config=dict(TEXT, model_type="mistral"), vision_config=PIXTRAL,
                                  spatial_merge_size=2, vision_feature_layer=-1, image_token_index=IMAGE)),
    "pixtral": ("Llava", dict(text_config=dict(TEXT, model_type="mistral"), vision_config=PIXTRAL,
                              vision_feature_layer=-1, vision_feature_select_strategy="full",
                              image_token_index=IMAGE)),
    "llava": ("Llava", dict(text_config=dict(TEXT, model_type="llama"), vision_config=CLIP, vision_feature_layer=-2,
                            vision_feature_select_strategy="default", image_token_index=IMAGE)),
    # a picture is longer than the window of five of six layers
    "gemma3": ("Gemma3", dict(text_config=dict(TEXT, model_type="gemma3_text", num_hidden_layers=6, sliding_window=6,
                                               query_pre_attn_scalar=8),
                              vision_config=SIGLIP, mm_tokens_per_image=25, image_token_index=IMAGE,
                              boi_token_index=4, eoi_token_index=5)),
    "qwen2_5_vl": ("Qwen2_5_VL", dict(text_config=dict(TEXT, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, mrope_section=[1, 1, 2])), vision_config=QWEN, **QWEN_TOKENS)),
    "qwen3_vl": ("Qwen3VL", dict(text_config=dict(TEXT, num_hidden_layers=3, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, mrope_section=[2, 1, 1], mrope_interleaved=True)),
        vision_config=QWEN3, **QWEN_TOKENS)),
    "qwen3_5": ("Qwen3_5", dict(text_config=dict(TEXT, head_dim=16, layer_types=["linear_attention", "full_attention"],
        linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5,
                             mrope_section=[2, 1, 1], mrope_interleaved=True)),
        vision_config=QWEN35, **QWEN_TOKENS)),
    "qwen2_vl": ("Qwen2VL", dict(text_config=dict(TEXT, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, mrope_section=[1, 1, 2])), vision_config=QWEN2, **QWEN_TOKENS)),
}
HALVES = ("gemma3", "qwen3_vl", "qwen3_5")  # with a mean and a deviation of 0.5
LAST = 13  # logits that are stored
# name: width, height; the second is resized
PICTURES = {"fits": (40, 24), "large": (97, 61)}


def picture(width, height, seed):
    """A gradient with noise."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / (3 + c)) * np.cos(y / (5 - c)) * 90 + 128 for c in range(3)]
    return np.clip(np.stack(waves, -1) + random.normal(0, 20, (height, width, 3)), 0, 255).astype(np.uint8)


def fill(model, seed, gemma=False):
    """Random weights, exact in float16: matrices preserve the scale of their input, queries and keys are sharpened."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point() or tensor.ndim == 0:
            continue
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        if name.endswith("bias"):
            value = 0.3 * noise
        elif tensor.ndim == 1 and gemma and "vision_tower" not in name:
            value = 0.2 * noise  # norms scale by 1 + w
        elif tensor.ndim == 1 and "class_embedding" not in name:
            value = 1 + 0.2 * noise
        elif any(part in name for part in ("embed_tokens", "position_embedding", "class_embedding", "pos_embed")):
            value = 0.7 * noise / (np.sqrt(tensor.shape[1]) if gemma and "embed_tokens" in name else 1)
        else:
            inputs = tensor.shape[0] if "mm_input_projection" in name else int(np.prod(tensor.shape[1:]))
            value = noise * (1.6 if "q_proj" in name or "k_proj" in name else 1.0) / np.sqrt(inputs)
        tensor.copy_(value.half())
    return model.double().eval()


def fitted(name, width, height):
    """Size after the resize, and after the crop, as the family's processor computes it."""
    if name == "llava":
        edge = CLIP["image_size"]
        short, long = min(width, height), max(width, height)
        scaled = int(edge * long / short)
        return (edge, scaled) if width <= height else (scaled, edge), (edge, edge)
    if name == "gemma3":
        return (SIGLIP["image_size"],) * 2, (SIGLIP["image_size"],) * 2
    if name.startswith("qwen"):
        least, most = QWEN_PIXELS
        size = transformers.models.qwen2_vl.image_processing_qwen2_vl.smart_resize(height, width, 8, least, most)[::-1]
        return size, size
    unit = PIXTRAL["patch_size"] * (2 if name == "mistral3" else 1)
    ratio = max(height / PIXTRAL["image_size"], width / PIXTRAL["image_size"])
    if ratio > 1:
        height, width = int(np.floor(height / ratio)), int(np.floor(width / ratio))
    size = (-(-width // unit) * unit, -(-height // unit) * unit)
    return size, size


def pixels(name, rgb):
    scaled, (width, height) = fitted(name, rgb.shape[1], rgb.shape[0])
    image = Image.fromarray(rgb).resize(scaled, Image.BILINEAR if name == "gemma3" else Image.BICUBIC)
    left, top = (scaled[0] - width) // 2, (scaled[1] - height) // 2
    cut = np.asarray(image.crop((left, top, left + width, top + height))).astype(np.float64)
    if name in HALVES:
        return ((cut / 255 - 0.5) / 0.5).transpose(2, 0, 1)
    return ((cut / 255 - MEAN) / DEVIATION).transpose(2, 0, 1)


def prompt(name, height, width):
    unit = 8 if name == "mistral3" or name.startswith("qwen") else 4
    rows, columns = height // unit, width // unit
    if name == "llava":
        image = [IMAGE] * (rows * columns)
    elif name.startswith("qwen"):
        image = [4] + [IMAGE] * (rows * columns) + [5]
    elif name == "gemma3":
        image = [4] + [IMAGE] * 25 + [5]
    else:
        image = ([IMAGE] * columns + [BREAK]) * rows
        image[-1] = END
    return [1, 80, 81] + image + [(i * i * 7 + i * 13) % 250 + 8 for i in range(12)]


def qwen_patches(values, merge=2, patch=4):
    """As the processor flattens them: the patches of a token are adjacent, and the frame is repeated."""
    height, width = values.shape[1] // patch, values.shape[2] // patch
    frames = np.stack([values, values])  # [time, channel, y, x]
    cut = frames.reshape(2, 3, height // merge, merge, patch, width // merge, merge, patch)
    cut = cut.transpose(2, 5, 3, 6, 1, 0, 4, 7).reshape(height * width, -1)
    return torch.from_numpy(cut), torch.tensor([[1, height, width]])


def write_tokenizer(path, special):
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(special + letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    tokenizer.save(str(path), pretty=False)


def interleaved(value, heads):
    """Rows of adjacent rotary pairs, as llama.cpp's converter stores queries and keys."""
    rows = value.reshape(heads, 2, value.shape[0] // heads // 2, *value.shape[1:])
    return np.ascontiguousarray(rows.swapaxes(1, 2).reshape(value.shape))


# model: (llama.cpp's architecture of its text network, its special tokens)
GGUF = {"mistral3": ("llama", SPECIAL), "gemma3": ("gemma3", GEMMA_SPECIAL), "qwen2_5_vl": ("qwen2vl", QWEN_SPECIAL),
        "qwen3_vl": ("qwen3vl", QWEN_SPECIAL), "qwen2_vl": ("qwen2vl", QWEN_SPECIAL)}


def write_text_gguf(path, name, model):
    config = model.config.text_config
    architecture, special = GGUF[name]
    gemma, llama = name == "gemma3", name == "mistral3"
    writer = gguf.GGUFWriter(path, architecture)
    if gemma:
        writer.add_sliding_window(config.sliding_window)
    if name.startswith("qwen"):
        writer.add_rope_dimension_sections([*config.rope_parameters["mrope_section"], 0])
    if name == "qwen3_vl":
        writer.add_num_deepstack_layers(len(QWEN3["deepstack_visual_indexes"]))
    writer.add_name("vision")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(1000000.0 if gemma else 10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(special + letters + ["ab"])
    writer.add_token_types([gguf.TokenType.CONTROL] * len(special) + [gguf.TokenType.NORMAL] * (len(letters) + 1))
    writer.add_token_merges(["a b"])
    names = gguf.get_tensor_name_map(writer_architecture(architecture), config.num_hidden_layers)
    for key, tensor in model.state_dict().items():
        if not key.startswith(("model.language_model.", "lm_head.")):
            continue
        value = tensor.half().numpy()
        if gemma and key.startswith("lm_head"):
            continue  # tied
        if gemma and value.ndim == 1:
            value = value.astype(np.float32) + 1
        if "q_proj" in key and llama:
            value = interleaved(value, config.num_attention_heads)
        if "k_proj" in key and llama:
            value = interleaved(value, config.num_key_value_heads)
        value = value.astype(np.float32) if value.ndim == 1 else value
        writer.add_tensor(names.get_name(key.replace("model.language_model.", "model."), (".weight", ".bias")), value)
    finish(writer)


def writer_architecture(name):
    return next(kind for kind, label in gguf.MODEL_ARCH_NAMES.items() if label == name)


def write_mmproj(path, model):
    """llama.cpp's file of the tower, with the keys and names of its converter."""
    config = model.config.vision_config
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type(gguf.VisionProjectorType.PIXTRAL)
    writer.add_vision_projection_dim(model.config.text_config.hidden_size)
    writer.add_vision_image_size(config.image_size)
    writer.add_vision_patch_size(config.patch_size)
    writer.add_vision_embedding_length(config.hidden_size)
    writer.add_vision_feed_forward_length(config.intermediate_size)
    writer.add_vision_block_count(config.num_hidden_layers)
    writer.add_vision_head_count(config.num_attention_heads)
    writer.add_vision_attention_layernorm_eps(1e-5)
    writer.add_vision_image_mean(MEAN)
    writer.add_vision_image_std(DEVIATION)
    writer.add_vision_use_silu(True)
    writer.add_vision_spatial_merge_size(model.config.spatial_merge_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, 24)  # also numbers the projector's matrices
    for key, tensor in model.state_dict().items():
        if "language_model" in key or key.startswith("lm_head"):
            continue
        value = tensor.half().numpy()
        if "q_proj" in key or "k_proj" in key:
            value = interleaved(value, config.num_attention_heads)
        value = value.astype(np.float32) if value.ndim == 1 else value
        writer.add_tensor(names.get_name(key.removeprefix("model."), (".weight", ".bias")), value)
    finish(writer)


def write_gemma3_mmproj(path, model):
    config = model.config.vision_config
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type(gguf.VisionProjectorType.GEMMA3)
    writer.add_vision_projection_dim(model.config.text_config.hidden_size)
    writer.add_vision_image_size(config.image_size)
    writer.add_vision_patch_size(config.patch_size)
    writer.add_vision_embedding_length(config.hidden_size)
    writer.add_vision_feed_forward_length(config.intermediate_size)
    writer.add_vision_block_count(config.num_hidden_layers)
    writer.add_vision_head_count(config.num_attention_heads)
    writer.add_vision_attention_layernorm_eps(1e-6)
    writer.add_vision_image_mean([0.5] * 3)
    writer.add_vision_image_std([0.5] * 3)
    writer.add_vision_use_gelu(True)
    writer.add_vision_projector_scale_factor(2)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, config.num_hidden_layers)
    for key, tensor in model.state_dict().items():
        if "language_model" in key or key.startswith("lm_head"):
            continue
        value = tensor.half().numpy()
        if "mm_soft_emb_norm" in key:
            value = value.astype(np.float32) + 1  # the norm scales by 1 + w
        value = value.astype(np.float32) if value.ndim == 1 else value
        key = key.removeprefix("model.").replace("projection_weight", "projection.weight")
        if "vision_model" not in key:
            key = key.replace("vision_tower.", "vision_tower.vision_model.")
        writer.add_tensor(names.get_name(key, (".weight", ".bias")), value)
    finish(writer)


def write_qwen_mmproj(path, name, model):
    """The frames of a patch are two tensors; the newer tower's queries, keys and values are one."""
    config = model.config.vision_config
    deep = getattr(config, "deepstack_visual_indexes", [])
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_clip_has_vision_encoder(True)
    newer, first = name == "qwen3_vl", name == "qwen2_vl"
    kinds = gguf.VisionProjectorType
    writer.add_clip_projector_type(kinds.QWEN3VL if newer else kinds.QWEN2VL if first else kinds.QWEN25VL)
    writer.add_vision_projection_dim(model.config.text_config.hidden_size)
    writer.add_vision_image_size(20 if newer else 560)
    writer.add_vision_patch_size(config.patch_size)
    writer.add_vision_embedding_length(config.embed_dim if first else config.hidden_size)
    writer.add_vision_feed_forward_length(config.hidden_size if first else config.intermediate_size)  # as the converter
    writer.add_vision_block_count(config.depth)
    writer.add_vision_head_count(config.num_heads)
    writer.add_vision_attention_layernorm_eps(1e-6)
    writer.add_vision_image_mean([0.5] * 3 if newer else MEAN)
    writer.add_vision_image_std([0.5] * 3 if newer else DEVIATION)
    writer.add_uint32("clip.vision.image_min_pixels", QWEN_PIXELS[0])
    writer.add_uint32("clip.vision.image_max_pixels", QWEN_PIXELS[1])
    if newer:
        writer.add_vision_use_gelu(True)
        writer.add_vision_spatial_merge_size(config.spatial_merge_size)
        writer.add_vision_is_deepstack_layers([layer in deep for layer in range(config.depth)])
    elif not first:
        writer.add_vision_use_silu(True)
        writer.add_vision_n_wa_pattern(config.fullatt_block_indexes[0] + 1)
        writer.add_uint32("clip.vision.window_size", config.window_size)
    plain = {"norm1": "ln1", "norm2": "ln2", "attn.proj": "attn_out", "attn.qkv": "attn_qkv", "mlp.gate_proj": "ffn_gate",
             "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down",
             "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down"}
    projector = {"merger.norm": "v.post_ln", "merger.ln_q": "v.post_ln", "merger.linear_fc1": "mm.0", "merger.mlp.0": "mm.0",
                 "merger.linear_fc2": "mm.2", "merger.mlp.2": "mm.2", "patch_embed.proj": "v.patch_embd",
                 "pos_embed": "v.position_embd"}
    for key, tensor in model.state_dict().items():
        if ".visual." not in key:
            continue
        key, kind = key.split(".visual.")[1].rsplit(".", 1)
        value = tensor.half().numpy()
        if key == "patch_embed.proj" and kind == "weight":
            writer.add_tensor("v.patch_embd.weight", np.ascontiguousarray(value[:, :, 0]))
            writer.add_tensor("v.patch_embd.weight.1", np.ascontiguousarray(value[:, :, 1]))
            continue
        value = value.astype(np.float32) if value.ndim == 1 else value
        if key.startswith("blocks."):
            _, layer, part = key.split(".", 2)
            if part == "attn.qkv" and not newer:
                for letter, rows in zip("qkv", np.split(value, 3)):
                    writer.add_tensor(f"v.blk.{layer}.attn_{letter}.{kind}", np.ascontiguousarray(rows))
                continue
            target = f"v.blk.{layer}.{plain[part]}"
        elif key.startswith("deepstack_merger_list."):
            _, index, part = key.split(".", 2)
            target = f"v.deepstack.{deep[int(index)]}.{part.removeprefix('linear_')}"
        else:
            target = projector[key]
        writer.add_tensor(f"{target}.{kind}", value)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rows_of(model, values, size):
    if "Qwen" in type(model).__name__:
        return torch.cat(list(model.get_image_features(values, size).pooler_output))
    features = model.get_image_features(pixel_values=values, image_sizes=[size], return_dict=True) \
        if "Mistral3" in type(model).__name__ or model.config.vision_config.model_type == "pixtral" \
        else model.get_image_features(pixel_values=values, return_dict=True)
    features = getattr(features, "pooler_output", features)
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in features])


def main(out, names):
    for seed, (name, (kind, options)) in enumerate(MODELS.items()):
        if names and name not in names:
            continue
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        config = getattr(transformers, kind + "Config")(**options)
        model = getattr(transformers, kind + "ForConditionalGeneration")(config)
        model.set_attn_implementation("eager")
        gemma = name == "gemma3"
        model = fill(model, seed + 900, gemma)
        for number, (label, (width, height)) in enumerate(PICTURES.items()):
            rgb = picture(width, height, number)
            values = pixels(name, rgb)
            ids = prompt(name, *values.shape[1:])
            batch = torch.from_numpy(values)[None]
            extra = {} if name == "llava" else dict(image_sizes=torch.tensor([values.shape[1:]]))
            if name.startswith("qwen"):
                batch, grid = qwen_patches(values)
                extra = dict(image_grid_thw=grid, mm_token_type_ids=(torch.tensor([ids]) == IMAGE).int())
            if gemma:
                extra = dict(token_type_ids=(torch.tensor([ids]) == IMAGE).int())
            with torch.no_grad():
                rows = rows_of(model, batch, grid if name.startswith("qwen") else values.shape[1:])
                logits = model(input_ids=torch.tensor([ids]), pixel_values=batch, **extra).logits[0]
            assert len(rows) == ids.count(IMAGE), (len(rows), ids.count(IMAGE))
            rgb.tofile(folder / f"{label}.rgb")
            values.astype("<f4").tofile(folder / f"{label}.pixels")
            rows.float().numpy().astype("<f4").tofile(folder / f"{label}.rows")
            np.array(ids, "<i4").tofile(folder / f"{label}.ids")
            logits[-LAST:].float().numpy().astype("<f4").tofile(folder / f"{label}.logits")
        if name in GGUF:
            (out / f"{name}_gguf").mkdir(exist_ok=True)
            write_text_gguf(out / f"{name}_gguf" / "model.gguf", name, model)
            mmproj = out / f"{name}_gguf" / "mmproj-model.gguf"
            if name.startswith("qwen"):
                write_qwen_mmproj(mmproj, name, model)
            else:
                (write_gemma3_mmproj if gemma else write_mmproj)(mmproj, model)
        model.half().save_pretrained(folder)  # last, because it also rounds the weights used for the computation
        (folder / "generation_config.json").unlink(missing_ok=True)
        edge = dict(shortest_edge=24) if name == "llava" else dict(longest_edge=48)
        crop = dict(crop_size=dict(height=24, width=24)) if name == "llava" else {}
        processor = dict(size=edge, **crop, image_mean=MEAN, image_std=DEVIATION, resample=3)
        if gemma:
            processor = dict(size=dict(height=40, width=40), image_mean=[0.5] * 3, image_std=[0.5] * 3, resample=2)
        if name.startswith("qwen"):
            area = dict(min_pixels=QWEN_PIXELS[0], max_pixels=QWEN_PIXELS[1], image_mean=MEAN, image_std=DEVIATION)
            if name in HALVES:
                area = dict(size=dict(shortest_edge=QWEN_PIXELS[0], longest_edge=QWEN_PIXELS[1]),
                            image_mean=[0.5] * 3, image_std=[0.5] * 3)
            processor = dict(**area, patch_size=4, temporal_patch_size=2, merge_size=2)
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
        write_tokenizer(folder / "tokenizer.json", GEMMA_SPECIAL if gemma else QWEN_SPECIAL if name.startswith("qwen") else SPECIAL)
    rgb = picture(*PICTURES["large"], 1)
    for label, size, how in (("small", (40, 24), Image.BICUBIC), ("larger", (120, 70), Image.BICUBIC),
                             ("bilinear", (33, 80), Image.BILINEAR)):
        np.asarray(Image.fromarray(rgb).resize(size, how)).tofile(out / f"resize_{label}.rgb")
    total = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    print(f"{total} bytes in {out}")


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "vision", sys.argv[2:])
