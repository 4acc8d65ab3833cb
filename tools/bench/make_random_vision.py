"""Writes a model that reads images, of random weights in the shape of Gemma 3 4B, as llama.cpp's two GGUF files with a
vocabulary and a chat template: FOLDER/model.gguf (2.5 GB in Q4_K_M) and FOLDER/mmproj-model.gguf (0.8 GB in F16).

    python3 tools/bench/make_random_vision.py FOLDER [Q4_K_M|TYPE]

Needs numpy. TYPE as for make_random_gguf.py. A token is a byte, except special tokens; other ids fill the vocabulary.
"""

import struct
import sys
from pathlib import Path

from make_random_gguf import ARRAY, F32, STRING, U32, metadata, string, text, write
from random_shapes import SHAPES, tensors

SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_image>", "<end_of_image>", "<start_of_turn>", "<end_of_turn>"]
TEMPLATE = """{{ bos_token }}{% for message in messages %}<start_of_turn>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}
{%- if part.type == 'image' %}<start_of_image>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<end_of_turn>
{% endfor %}{% if add_generation_prompt %}<start_of_turn>model
{% endif %}"""
I32, BOOL = 5, 7
NORMAL, CONTROL = 1, 3
LAYERS, HIDDEN, FFN, HEADS, PATCH, EDGE = 27, 1152, 4304, 16, 14, 896  # of the tower


def letters():
    """GPT-2's letter of each byte."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) for byte in shown] + [chr(256 + i) for i in range(len(hidden))]


def strings(key, values):
    return text(key) + struct.pack("<IIQ", ARRAY, STRING, len(values)) + b"".join(map(text, values))


def number(key, value):
    return text(key) + struct.pack("<II", U32, value)


def vocabulary(size):
    tokens = SPECIAL + letters() + ["ab"]
    tokens += [f"<{i}>" for i in range(len(tokens), size)]
    kinds = [CONTROL if i < len(SPECIAL) else NORMAL for i in range(size)]
    return [string("tokenizer.ggml.model", "gpt2"), string("tokenizer.ggml.pre", "gpt-2"),
            strings("tokenizer.ggml.tokens", tokens), strings("tokenizer.ggml.merges", ["a b"]),
            text("tokenizer.ggml.token_type") + struct.pack(f"<IIQ{size}i", ARRAY, I32, size, *kinds),
            number("tokenizer.ggml.padding_token_id", 0), number("tokenizer.ggml.eos_token_id", 1),
            number("tokenizer.ggml.bos_token_id", 2), number("tokenizer.ggml.unknown_token_id", 3),
            number("tokenizer.ggml.eot_token_id", 7),
            text("tokenizer.ggml.add_bos_token") + struct.pack("<I?", BOOL, False),
            string("tokenizer.chat_template", TEMPLATE)]


def tower_metadata(text_hidden):
    numbers = {"projection_dim": text_hidden, "image_size": EDGE, "patch_size": PATCH, "embedding_length": HIDDEN,
               "feed_forward_length": FFN, "block_count": LAYERS, "attention.head_count": HEADS,
               "projector.scale_factor": 4}
    halves = struct.pack("<IIQ3f", ARRAY, F32, 3, 0.5, 0.5, 0.5)
    return [string("general.architecture", "clip"), string("clip.projector_type", "gemma3"),
            text("clip.has_vision_encoder") + struct.pack("<I?", BOOL, True),
            text("clip.use_gelu") + struct.pack("<I?", BOOL, True),
            text("clip.vision.attention.layer_norm_epsilon") + struct.pack("<If", F32, 1e-6),
            text("clip.vision.image_mean") + halves, text("clip.vision.image_std") + halves,
            *(number(f"clip.vision.{key}", value) for key, value in numbers.items())]


def tower_tensors(text_hidden):
    yield "v.patch_embd.weight", (HIDDEN, 3, PATCH, PATCH), "RANDOM"
    yield "v.patch_embd.bias", (HIDDEN,), "RANDOM"
    yield "v.position_embd.weight", ((EDGE // PATCH) ** 2, HIDDEN), "RANDOM"
    for i in range(LAYERS):
        for name, rows, columns in (("attn_q", HIDDEN, HIDDEN), ("attn_k", HIDDEN, HIDDEN), ("attn_v", HIDDEN, HIDDEN),
                                    ("attn_out", HIDDEN, HIDDEN), ("ffn_up", FFN, HIDDEN), ("ffn_down", HIDDEN, FFN)):
            yield f"v.blk.{i}.{name}.weight", (rows, columns), "F16"
            yield f"v.blk.{i}.{name}.bias", (rows,), "RANDOM"
        for name in ("ln1", "ln2"):
            yield f"v.blk.{i}.{name}.weight", (HIDDEN,), "F32"
            yield f"v.blk.{i}.{name}.bias", (HIDDEN,), "RANDOM"
    yield "v.post_ln.weight", (HIDDEN,), "F32"
    yield "v.post_ln.bias", (HIDDEN,), "RANDOM"
    yield "mm.soft_emb_norm.weight", (HIDDEN,), "F32"
    yield "mm.input_projection.weight", (HIDDEN, text_hidden), "F16"


def main():
    folder, kind = Path(sys.argv[1]), (sys.argv[2:] or ["Q4_K_M"])[0]
    shape = SHAPES["gemma3-4b"]
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "model.gguf", metadata(shape, vocabulary(shape.vocab)), list(tensors(shape, kind)))
    write(folder / "mmproj-model.gguf", tower_metadata(shape.hidden), list(tower_tensors(shape.hidden)))


if __name__ == "__main__":
    main()
