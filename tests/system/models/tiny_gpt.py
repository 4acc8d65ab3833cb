"""Writes a tiny GPT-2 with eight heads and random weights as a Hugging Face folder, with the tiny Llama's tokenizer.

Up to eight GPUs can share its heads. The same seed gives the same files. Needs only Python.
"""

import array
import json
import random
import struct
from pathlib import Path

from tiny_model import END_OF_TURN, MERGES, SPECIAL, TEMPLATE, byte_tokens

HIDDEN, LAYERS, HEADS, POSITIONS = 32, 2, 8, 256


def shapes(vocabulary):
    yield "wte.weight", (vocabulary, HIDDEN)
    yield "wpe.weight", (POSITIONS, HIDDEN)
    for layer in range(LAYERS):
        for name, shape in (
            ("ln_1.weight", (HIDDEN,)), ("ln_1.bias", (HIDDEN,)), ("attn.c_attn.weight", (HIDDEN, 3 * HIDDEN)),
            ("attn.c_attn.bias", (3 * HIDDEN,)), ("attn.c_proj.weight", (HIDDEN, HIDDEN)), ("attn.c_proj.bias", (HIDDEN,)),
            ("ln_2.weight", (HIDDEN,)), ("ln_2.bias", (HIDDEN,)), ("mlp.c_fc.weight", (HIDDEN, 4 * HIDDEN)),
            ("mlp.c_fc.bias", (4 * HIDDEN,)), ("mlp.c_proj.weight", (4 * HIDDEN, HIDDEN)), ("mlp.c_proj.bias", (HIDDEN,)),
        ):
            yield f"h.{layer}.{name}", shape
    yield "ln_f.weight", (HIDDEN,)
    yield "ln_f.bias", (HIDDEN,)


def values(name, shape, rng):
    count = shape[0] * (shape[1] if len(shape) == 2 else 1)
    if name.endswith("bias"):
        centre, spread = 0.0, 0.2
    elif len(shape) == 1:
        centre, spread = 1.0, 0.2
    elif name.startswith("w"):
        centre, spread = 0.0, 1.0 if name.startswith("wte") else 0.3
    else:
        centre, spread = 0.0, (2.0 if "c_attn" in name else 1.0) / shape[0] ** 0.5
    return array.array("f", (centre + spread * rng.gauss(0, 1) for _ in range(count))).tobytes()


def write_vocabulary(folder):
    """Writes vocab.json and merges.txt, and the files that name the tokens and the template."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = byte_tokens() + [merge.replace(" ", "") for merge in MERGES] + SPECIAL
    assert tokens[END_OF_TURN] == "<|im_end|>"
    (folder / "vocab.json").write_text(json.dumps({token: id for id, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(merge + "\n" for merge in MERGES))
    config = {"eos_token": "<|im_end|>", "bos_token": "<|endoftext|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return tokens


def make(folder, seed=1):
    """Returns the folder. Readers take the vocabulary from tokenizer.json alone."""
    folder = Path(folder)
    tokens = write_vocabulary(folder)
    header, data, rng = {}, bytearray(), random.Random(seed)
    for name, shape in shapes(len(tokens)):
        numbers = values(name, shape, rng)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    told = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(told)) + told + data)
    (folder / "config.json").write_text(json.dumps({
        "model_type": "gpt2", "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS, "n_positions": POSITIONS,
        "vocab_size": len(tokens), "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "bos_token_id": END_OF_TURN - 2,
        "eos_token_id": END_OF_TURN,
    }))
    (folder / "tokenizer.json").write_text(json.dumps({
        "model": {"type": "BPE", "vocab": {token: id for id, token in enumerate(tokens)}, "merges": MERGES},
        "added_tokens": [{"id": tokens.index(token), "content": token, "special": True} for token in SPECIAL],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
    }))
    return folder
