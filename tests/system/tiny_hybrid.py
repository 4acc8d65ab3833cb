"""Builds a hybrid model for system tests: tiny_model.py's tokenizer and template over three gated DeltaNet layers and one
attention layer (Qwen3.5), random weights.

A state that is lost, stale or another conversation's changes the text.
"""

import array
import random

import tiny_model
from tiny_model import FFN, HEAD_DIM, HEADS, HIDDEN, KV_HEADS

LAYERS, INTERVAL = 4, 4  # the last layer is attention
KEY_HEADS, VALUE_HEADS, SIZE, KERNEL = 2, 4, 16, 4


def metadata():
    facts = {key: value for key, value in tiny_model.metadata().items() if not key.startswith("llama.")}
    return facts | {
        "general.architecture": "qwen35", "general.name": "tiny-hybrid", "qwen35.block_count": LAYERS,
        "qwen35.context_length": 1 << 14, "qwen35.embedding_length": HIDDEN, "qwen35.feed_forward_length": FFN,
        "qwen35.attention.head_count": HEADS, "qwen35.attention.head_count_kv": KV_HEADS,
        "qwen35.attention.key_length": HEAD_DIM, "qwen35.attention.value_length": HEAD_DIM,
        "qwen35.attention.layer_norm_rms_epsilon": 1e-5, "qwen35.rope.dimension_count": HEAD_DIM // 2,
        "qwen35.rope.freq_base": 10000.0, "qwen35.full_attention_interval": INTERVAL, "qwen35.ssm.conv_kernel": KERNEL,
        "qwen35.ssm.state_size": SIZE, "qwen35.ssm.group_count": KEY_HEADS, "qwen35.ssm.time_step_rank": VALUE_HEADS,
        "qwen35.ssm.inner_size": VALUE_HEADS * SIZE,
    }


def shapes(vocabulary):
    queries, keys, values = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM, VALUE_HEADS * SIZE
    mixed = 2 * KEY_HEADS * SIZE + values
    attention = (("attn_q.weight", (2 * queries, HIDDEN)), ("attn_k.weight", (keys, HIDDEN)), ("attn_v.weight", (keys, HIDDEN)),
                 ("attn_q_norm.weight", (HEAD_DIM,)), ("attn_k_norm.weight", (HEAD_DIM,)),
                 ("attn_output.weight", (HIDDEN, queries)))
    recurrent = (("attn_qkv.weight", (mixed, HIDDEN)), ("attn_gate.weight", (values, HIDDEN)),
                 ("ssm_beta.weight", (VALUE_HEADS, HIDDEN)), ("ssm_alpha.weight", (VALUE_HEADS, HIDDEN)),
                 ("ssm_conv1d.weight", (mixed, KERNEL)), ("ssm_dt.bias", (VALUE_HEADS,)), ("ssm_a", (VALUE_HEADS,)),
                 ("ssm_norm.weight", (SIZE,)), ("ssm_out.weight", (HIDDEN, values)))
    every = (("attn_norm.weight", (HIDDEN,)), ("post_attention_norm.weight", (HIDDEN,)), ("ffn_gate.weight", (FFN, HIDDEN)),
             ("ffn_up.weight", (FFN, HIDDEN)), ("ffn_down.weight", (HIDDEN, FFN)))
    yield "token_embd.weight", (vocabulary, HIDDEN)
    for layer in range(LAYERS):
        for name, shape in (attention if (layer + 1) % INTERVAL == 0 else recurrent) + every:
            yield f"blk.{layer}.{name}", shape
    yield "output_norm.weight", (HIDDEN,)
    yield "output.weight", (vocabulary, HIDDEN)


def values(name, shape, rng):
    """Rates near zero: the state remembers for hundreds of tokens."""
    if name.endswith("ssm_a"):
        return array.array("f", (-(1 + rng.randrange(8)) / 256 for _ in range(shape[0]))).tobytes()
    return tiny_model.values(name, shape, rng)


def make(path, seed=1):
    """Writes the model as a GGUF file; returns the path."""
    facts, rng = metadata(), random.Random(seed)
    return tiny_model.write(path, facts, ((name, shape, values(name, shape, rng)) for name, shape in
                                          shapes(len(facts["tokenizer.ggml.tokens"]))))
