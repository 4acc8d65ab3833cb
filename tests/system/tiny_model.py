"""Builds the model of the system tests: a Llama of two thin layers with random weights, a byte-level tokenizer and
ChatML.

It is so small that tests mostly exercise the server around it, and its attention is sharp enough that a lost, stale or
foreign cache row changes the text. The same seed gives the same file, byte for byte. Needs only Python.
"""

import array
import json
import random
import struct
from pathlib import Path

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 32, 64, 2, 4, 2, 16
MERGES = ["t h", "th e", "i n", "a n", "e r", "o u"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END_OF_TURN = 256 + len(MERGES) + len(SPECIAL) - 1  # the id of the last special token
TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
NORMAL, CONTROL = 1, 3  # token types
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9  # GGUF value types
ALIGNMENT = 32


def byte_tokens():
    """The 256 bytes as byte-level tokenizers spell them: printable ones as themselves, the others from U+0100 on."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value_bytes(value):
    """A metadata value preceded by its type."""
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + text(value)
    kind = STRING if isinstance(value[0], str) else I32  # llama.cpp expects token types as int32
    items = b"".join(text(item) if kind == STRING else struct.pack("<I", item) for item in value)
    return struct.pack("<IIQ", ARRAY, kind, len(value)) + items


def metadata():
    tokens = byte_tokens() + [merge.replace(" ", "") for merge in MERGES] + SPECIAL
    return {
        "general.architecture": "llama", "general.name": "tiny", "llama.block_count": LAYERS,
        "llama.context_length": 1 << 14, "llama.embedding_length": HIDDEN, "llama.feed_forward_length": FFN,
        "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": KV_HEADS, "llama.attention.key_length": HEAD_DIM,
        "llama.attention.value_length": HEAD_DIM, "llama.rope.dimension_count": HEAD_DIM, "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL if token in SPECIAL else NORMAL for token in tokens],
        "tokenizer.ggml.merges": MERGES, "tokenizer.ggml.bos_token_id": END_OF_TURN - 2,
        "tokenizer.ggml.eos_token_id": END_OF_TURN,
        "tokenizer.ggml.add_bos_token": False, "tokenizer.chat_template": TEMPLATE,
    }


def shapes(vocabulary):
    """Yields name and (rows, columns), or (columns,) for a norm."""
    heads, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    yield "token_embd.weight", (vocabulary, HIDDEN)
    for layer in range(LAYERS):
        for name, shape in (
            ("attn_norm", (HIDDEN,)), ("attn_q", (heads, HIDDEN)), ("attn_k", (kv, HIDDEN)), ("attn_v", (kv, HIDDEN)),
            ("attn_output", (HIDDEN, heads)), ("ffn_norm", (HIDDEN,)), ("ffn_gate", (FFN, HIDDEN)), ("ffn_up", (FFN, HIDDEN)),
            ("ffn_down", (HIDDEN, FFN)),
        ):
            yield f"blk.{layer}.{name}.weight", shape
    yield "output_norm.weight", (HIDDEN,)
    yield "output.weight", (vocabulary, HIDDEN)


def values(name, shape, rng):
    """Matrices preserve the scale of their input, queries and keys are sharpened, norms are around 1."""
    count = shape[0] * (shape[1] if len(shape) == 2 else 1)
    if len(shape) == 1:
        centre, spread = 1.0, 0.2
    elif name == "token_embd.weight":
        centre, spread = 0.0, 1.0
    else:
        sharpness = 1.6 if "attn_q" in name or "attn_k" in name else 1.0
        centre, spread = 0.0, sharpness / shape[1] ** 0.5
    # Multiples of 2^-12 are exact in every format.
    return array.array("f", (round((centre + spread * rng.gauss(0, 1)) * 4096) / 4096 for _ in range(count))).tobytes()


def hide_all_but_text(data):
    """Clears the output rows of tokens other than printable ASCII: greedy sampling never picks them, the end of turn
    included."""
    tokens = byte_tokens() + MERGES + SPECIAL
    for row, token in enumerate(tokens):
        if token in SPECIAL or not all(" " <= c <= "~" or c in "\u010a\u0120" for c in token):  # line feed and space
            data[row * HIDDEN * 4 : (row + 1) * HIDDEN * 4] = bytes(HIDDEN * 4)
    return data


def write(path, facts, tensors):
    """Writes a GGUF file of float32 tensors given as (name, shape, bytes); returns the path."""
    entries, data = [], bytearray()
    for name, shape, numbers in tensors:
        data.extend(bytes(-len(data) % ALIGNMENT))
        dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        entries.append(text(name) + dimensions + struct.pack("<IQ", 0, len(data)))
        data.extend(numbers)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(entries), len(facts))
    head += b"".join(text(key) + value_bytes(value) for key, value in facts.items()) + b"".join(entries)
    Path(path).write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)
    return str(path)


def make(path, seed=1, more=None, endless=False):
    """Writes the model as a GGUF file; returns the path. `more`: extra metadata; None removes a key. `endless`: at
    temperature 0 it writes printable ASCII and never ends."""
    facts = {key: value for key, value in (metadata() | (more or {})).items() if value is not None}
    rng = random.Random(seed)

    def tensors():
        for name, shape in shapes(len(facts["tokenizer.ggml.tokens"])):
            numbers = values(name, shape, rng)
            yield name, shape, hide_all_but_text(bytearray(numbers)) if endless and name == "output.weight" else numbers

    return write(path, facts, tensors())


def make_shape(folder):
    """Writes the configuration of a small model without weights or tokenizer, for `--load-format dummy`; returns the
    folder."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "max_position_embeddings": 2048, "rope_theta": 10000.0,
        "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2}))
    return folder


def make_adapter(path, seed=1, rank=2):
    """Writes a LoRA adapter for the model as a GGUF file; returns the path."""
    facts = {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora",
             "adapter.lora.alpha": 2.0 * rank}
    rng = random.Random(seed)

    def tensors():
        for name, shape in shapes(0):
            if not name.startswith("blk.") or len(shape) == 1:
                continue
            outputs, inputs = shape
            yield f"{name}.lora_a", (rank, inputs), values("a", (rank, inputs), rng)
            yield f"{name}.lora_b", (outputs, rank), values("b", (outputs, rank), rng)

    return write(path, facts, tensors())


def make_soft_prompt(path, seed=1, rows=3):
    """Writes a soft prompt for the model as a safetensors file; returns the path."""
    rng = random.Random(seed)
    table = array.array("f", (rng.uniform(-1, 1) for _ in range(rows * HIDDEN))).tobytes()
    header = f'{{"table":{{"dtype":"F32","shape":[{rows},{HIDDEN}],"data_offsets":[0,{len(table)}]}}}}'.encode()
    Path(path).write_bytes(struct.pack("<Q", len(header)) + header + table)
    return path
