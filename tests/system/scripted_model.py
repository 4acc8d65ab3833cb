"""Builds models that give one fixed answer each, to test answer formats: a one-layer Llama whose attention looks at
fixed distances and whose output matrix encodes the next token.

A script is a list of tokens. The last token determines the next one; where it occurs more than once, a token at some
distance before it decides. Needs only Python.
"""

import array
import math
from pathlib import Path

import tiny_model

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "chat_template"
HEAD_DIM, FFN = 16, 32
ROPE_BASE = 10000.0
SHARPNESS = 400.0  # attention scale: neighbours of the distance get e^-50 of the weight
CONFIDENCE = 8.0  # output scale: other tokens are never sampled
SPACE, LINE = "\u0120", "\u010a"  # as byte-level tokenizers spell them
USER_DEFINED = 4  # token type


def words(text):
    """Splits a text into one token per word, each with its leading white space."""
    tokens = []
    for char in text.replace(" ", SPACE).replace("\n", LINE):
        if not tokens or (char in (SPACE, LINE) and tokens[-1][-1] not in (SPACE, LINE)):
            tokens.append("")
        tokens[-1] += char
    return tokens


REASONING, ANSWER = "Let me see.", "The answer is 42."
THINK = {
    "template": "qwen3.jinja", "control": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], "marks": ["<think>", "</think>"],
    "eos": "<|im_end|>", "merged": ["assistant", LINE + LINE],
    "script": ["assistant", LINE, "<think>", *words("\n" + REASONING + "\n"), "</think>", LINE + LINE, *words(ANSWER), "<|im_end|>"],
}
HARMONY = {
    "template": "harmony.jinja",
    "control": ["<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>",
                "<|message|>", "<|call|>"],
    "marks": [], "eos": "<|return|>", "merged": ["assistant", "analysis", "final", "commentary"],
    "script": ["<|start|>", "assistant", "<|channel|>", "analysis", "<|message|>", *words(REASONING), "<|end|>",
               "<|start|>", "assistant", "<|channel|>", "final", "<|message|>", *words(ANSWER), "<|return|>"],
}
ARGUMENTS = '{"what": "x"}'
HARMONY_CALLS = HARMONY | {
    "template": "harmony_calls.jinja", "eos": "<|call|>",
    "script": ["<|start|>", "assistant", "<|channel|>", "commentary", SPACE + "to=", "functions", ".look", SPACE, "<|constrain|>",
               "json", "<|message|>", '{"what":', SPACE + '"x"', "}", "<|call|>"],
}


def saying(text):
    """A model that always gives this answer."""
    return THINK | {"script": ["assistant", LINE, *words(text), "<|im_end|>"]}


def calling(name, arguments):
    """A model that answers each question with this call (a tool name and JSON arguments), and each tool result with ANSWER."""
    call = words(f'\n{{"name": "{name}", "arguments": {arguments}}}\n')
    return {
        "template": "qwen3_tools.jinja", "control": THINK["control"],
        "marks": ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"], "eos": "<|im_end|>", "merged": ["assistant"],
        "script": ["assistant", LINE, "<tool_call>", *call, "</tool_call>", "<|im_end|>"],
        # Before the line that opens an answer: </tool_response><|im_end|>\n<|im_start|>assistant
        "other": {"begins": (LINE, (5, "</tool_response>")), "script": [*words(ANSWER), "<|im_end|>"]},
    }


def merges(texts):
    """Merges that make a tokenizer read each of these texts as one token."""
    return list(dict.fromkeys(f"{text[:i]} {text[i]}" for text in texts for i in range(1, len(text))))


def vocabulary(model):
    parts = [merge.replace(" ", "") for merge in merges(model["merged"])]
    other = model["other"]["script"] if "other" in model else []
    tokens = tiny_model.byte_tokens() + parts + model["control"] + model["marks"] + model["script"] + other
    return list(dict.fromkeys(tokens))


def rules(model):
    """Returns (token, next token, (distance, context token) or None where the token alone decides)."""
    script, plain = model["script"], set(model["control"] + model["marks"])
    found = []
    for i, (token, after) in enumerate(zip(script, script[1:])):
        others = [j for j, other in enumerate(script[:-1]) if other == token and script[j + 1] != after and j != i]
        first = token not in script[:i]
        if not others or first:
            found.append((token, after, None))
            continue
        # The other occurrences, and the prompt, must have a different token at that distance.
        distance = next(d for d in range(1, i + 1)
                        if script[i - d] not in plain and all(j < d or script[j - d] != script[i - d] for j in others))
        found.append((token, after, (distance, script[i - distance])))
    if other := model.get("other"):
        token, context = other["begins"]
        found.append((token, other["script"][0], context))
        found += [(token, after, None) for token, after in zip(other["script"], other["script"][1:])]
    return list(dict.fromkeys(found))


def matrix(rows, columns, entries):
    data = array.array("f", bytes(rows * columns * 4))
    for (row, column), value in entries.items():
        data[row * columns + column] = value
    return (rows, columns), data.tobytes()


def attention(tokens, hidden, features):
    """Each head attends to one distance and writes a separate dimension for each context token."""
    distances = sorted({distance for distance, _ in features}) or [1]
    root, scale = math.sqrt(hidden), math.sqrt(SHARPNESS)
    q, k, v, o = {}, {}, {}, {}
    for head, distance in enumerate(distances):
        for pair in range(HEAD_DIM // 2):
            angle = distance * ROPE_BASE ** (-2 * pair / HEAD_DIM)
            row = head * HEAD_DIM + 2 * pair
            for token in range(len(tokens)):
                q[row, token], q[row + 1, token] = scale * math.cos(angle) / root, -scale * math.sin(angle) / root
                k[row, token] = scale / root
        known = [feature for feature in features if feature[0] == distance]
        for i, feature in enumerate(known):
            v[head * HEAD_DIM + i, tokens.index(feature[1])] = 1 / root
            o[len(tokens) + features.index(feature), head * HEAD_DIM + i] = 1.0
    width = len(distances) * HEAD_DIM
    return len(distances), {"attn_q": matrix(width, hidden, q), "attn_k": matrix(width, hidden, k),
                            "attn_v": matrix(width, hidden, v), "attn_output": matrix(hidden, width, o)}


def make(path, model, window=1 << 14):
    """Writes the model, THINK, HARMONY or one of `calling`, as a GGUF file with a context of `window` tokens; returns the path."""
    tokens, follows = vocabulary(model), rules(model)
    features = list(dict.fromkeys(context for _, _, context in follows if context))
    hidden = -(-(len(tokens) + len(features)) // 64) * 64
    heads, layer = attention(tokens, hidden, features)
    output = {}
    for token, after, context in follows:
        row = tokens.index(after)
        # With its context it beats the context-free continuation; the context alone is not enough.
        output[row, tokens.index(token)] = (0.5 if context else 1.0) * CONFIDENCE
        if context:
            output[row, len(tokens) + features.index(context)] = 0.75 * CONFIDENCE
    ones = array.array("f", [1.0] * hidden).tobytes()
    tensors = {
        "token_embd": matrix(len(tokens), hidden, {(i, i): 1.0 for i in range(len(tokens))}),
        **{f"blk.0.{name}": tensor for name, tensor in layer.items()},
        "blk.0.attn_norm": ((hidden,), ones), "blk.0.ffn_norm": ((hidden,), ones),
        "blk.0.ffn_gate": matrix(FFN, hidden, {}), "blk.0.ffn_up": matrix(FFN, hidden, {}),
        "blk.0.ffn_down": matrix(hidden, FFN, {}),
        "output_norm": ((hidden,), ones), "output": matrix(len(tokens), hidden, output),
    }
    kinds = {**dict.fromkeys(model["control"], tiny_model.CONTROL), **dict.fromkeys(model["marks"], USER_DEFINED)}
    facts = tiny_model.metadata() | {
        "general.name": "scripted", "llama.block_count": 1, "llama.context_length": window, "llama.embedding_length": hidden,
        "llama.feed_forward_length": FFN, "llama.attention.head_count": heads, "llama.attention.head_count_kv": heads,
        "llama.attention.key_length": HEAD_DIM, "llama.attention.value_length": HEAD_DIM,
        "llama.rope.dimension_count": HEAD_DIM, "llama.rope.freq_base": ROPE_BASE,
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [kinds.get(token, tiny_model.NORMAL) for token in tokens],
        "tokenizer.ggml.merges": merges(model["merged"]), "tokenizer.ggml.bos_token_id": tokens.index(model["control"][0]),
        "tokenizer.ggml.eos_token_id": tokens.index(model["eos"]),
        "tokenizer.chat_template": (GOLDEN / model["template"]).read_text(),
    }
    return tiny_model.write(path, facts, ((f"{name}.weight", shape, data) for name, (shape, data) in tensors.items()))
