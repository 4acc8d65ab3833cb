"""Shapes for make_random_gguf.py: the metadata and the tensors of a model's file, as data.

A tensor is (name, sizes, type): sizes are rows and columns, for experts preceded by their number. A type is one of
make_random_gguf.TYPES.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    architecture: str
    hidden: int
    ffn: int  # of a dense layer
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    head: int = 128  # dimensions of a head
    tied: bool = False  # the head is the embedding
    experts: int = 0
    experts_used: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    dense_layers: int = 0  # before the mixtures
    value_heads: int = 0  # of gated DeltaNet layers; every fourth layer has attention
    key_heads: int = 16
    latent: int = 0  # rank of the cached latent (multi-head latent attention)
    query_rank: int = 0
    rotated: int = 64  # rotated dimensions beside the latent
    plain: int = 192  # dimensions of a head that are not rotated
    value: int = 256
    window: int = 0  # of five of six layers, with norms after attention and MLP


SHAPES = {
    "llama-1b": Shape("llama", 2048, 8192, 16, 32, 8, 128256, head=64, tied=True),
    "llama-8b": Shape("llama", 4096, 14336, 32, 32, 8, 128256),
    "gemma3-4b": Shape("gemma3", 2560, 10240, 34, 8, 4, 262208, head=256, tied=True, window=1024),
    "llama-70b": Shape("llama", 8192, 28672, 80, 64, 8, 128256),
    "qwen3-30b-a3b": Shape("qwen3moe", 2048, 768, 48, 32, 4, 151936, experts=128, experts_used=8, expert_ffn=768),
    "qwen3.5-4b": Shape("qwen35", 2560, 9216, 32, 16, 4, 248320, head=256, tied=True, value_heads=32),
    "qwen3.6-27b": Shape("qwen35", 5120, 17408, 64, 24, 4, 248320, head=256, value_heads=48),
    "qwen3.6-35b-a3b": Shape("qwen35moe", 2048, 512, 40, 16, 2, 248320, head=256, value_heads=32, experts=256,
                             experts_used=8, expert_ffn=512, shared_ffn=512),
    "glm-4.7-flash": Shape("deepseek2", 2048, 10240, 47, 20, 1, 154880, latent=512, query_rank=768, experts=64,
                           experts_used=4, expert_ffn=1536, shared_ffn=1536, dense_layers=1),
}
STATE = 128  # dimensions of a key and of a value of gated DeltaNet
KERNEL = 4  # inputs of its convolution
INTERVAL = 4  # layers per layer with attention
SECTIONS = (11, 11, 10, 0)  # rotated pairs of Qwen's text, image rows, image columns


def integers(shape):
    """Metadata of type uint32."""
    numbers = {"block_count": shape.layers, "context_length": 262144 if shape.value_heads else 131072,
               "embedding_length": shape.hidden, "feed_forward_length": shape.ffn, "attention.head_count": shape.heads,
               "attention.head_count_kv": shape.kv_heads, "vocab_size": shape.vocab, "rope.dimension_count": shape.head}
    if shape.experts:
        numbers |= {"expert_count": shape.experts, "expert_used_count": shape.experts_used,
                    "expert_feed_forward_length": shape.expert_ffn}
    if shape.latent:
        numbers |= {"attention.key_length": shape.latent + shape.rotated, "attention.value_length": shape.latent,
                    "attention.key_length_mla": shape.plain + shape.rotated, "attention.value_length_mla": shape.value,
                    "attention.q_lora_rank": shape.query_rank, "attention.kv_lora_rank": shape.latent,
                    "rope.dimension_count": shape.rotated, "leading_dense_block_count": shape.dense_layers,
                    "expert_shared_count": 1, "expert_gating_func": 2}
    elif shape.architecture != "llama":
        numbers |= {"attention.key_length": shape.head, "attention.value_length": shape.head}
    if shape.value_heads:
        numbers |= {"ssm.conv_kernel": KERNEL, "ssm.state_size": STATE, "ssm.group_count": shape.key_heads,
                    "ssm.time_step_rank": shape.value_heads, "ssm.inner_size": STATE * shape.value_heads,
                    "full_attention_interval": INTERVAL, "rope.dimension_count": shape.head // 4}
    if shape.window:
        numbers["attention.sliding_window"] = shape.window
    if shape.shared_ffn and not shape.latent:
        numbers["expert_shared_feed_forward_length"] = shape.shared_ffn
    return numbers


def more_bits(layer, layers):
    """Whether a layer is among those whose matrices Q4_K_M stores in Q6_K."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def tensors(shape, kind):
    """Yields the tensors of a file of this type."""
    mixed = kind == "Q4_K_M"
    plain = "Q4_K" if mixed else kind
    yield "token_embd.weight", (shape.vocab, shape.hidden), "Q6_K" if mixed and shape.tied else plain
    for i in range(shape.layers):
        high = "Q6_K" if mixed and more_bits(i, shape.layers) else plain
        if shape.value_heads and (i + 1) % INTERVAL:
            mixer = delta_net(shape, plain, "Q5_K" if mixed else plain)
        elif shape.latent:
            mixer = latent_attention(shape, plain)
        else:
            mixer = attention(shape, plain, high)
        for name, sizes, of in (*mixer, *mlp(shape, i, plain, high)):
            yield f"blk.{i}.{name}", sizes, of
    yield "output_norm.weight", (shape.hidden,), "F32"
    if not shape.tied:
        yield "output.weight", (shape.vocab, shape.hidden), "Q6_K" if mixed else plain


def attention(shape, plain, high):
    queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
    gate = 2 if shape.value_heads else 1  # queries with a gate of the output
    yield "attn_q.weight", (gate * queries, shape.hidden), plain
    yield "attn_k.weight", (keys, shape.hidden), plain
    yield "attn_v.weight", (keys, shape.hidden), high
    yield "attn_output.weight", (shape.hidden, queries), plain
    if shape.architecture != "llama":
        yield "attn_q_norm.weight", (shape.head,), "F32"
        yield "attn_k_norm.weight", (shape.head,), "F32"


def latent_attention(shape, plain):
    yield "attn_q_a.weight", (shape.query_rank, shape.hidden), plain
    yield "attn_q_a_norm.weight", (shape.query_rank,), "F32"
    yield "attn_q_b.weight", (shape.heads * (shape.plain + shape.rotated), shape.query_rank), plain
    yield "attn_kv_a_mqa.weight", (shape.latent + shape.rotated, shape.hidden), plain
    yield "attn_kv_a_norm.weight", (shape.latent,), "F32"
    yield "attn_k_b.weight", (shape.heads, shape.latent, shape.plain), "Q8_0"  # 192 columns: no blocks of 256
    yield "attn_v_b.weight", (shape.heads, shape.value, shape.latent), plain
    yield "attn_output.weight", (shape.hidden, shape.heads * shape.value), plain


def delta_net(shape, plain, mixed):
    values = STATE * shape.value_heads
    channels = 2 * STATE * shape.key_heads + values
    yield "attn_qkv.weight", (channels, shape.hidden), mixed
    yield "attn_gate.weight", (values, shape.hidden), plain
    yield "ssm_alpha.weight", (shape.value_heads, shape.hidden), plain
    yield "ssm_beta.weight", (shape.value_heads, shape.hidden), plain
    yield "ssm_conv1d.weight", (channels, KERNEL), "RANDOM"
    yield "ssm_dt.bias", (shape.value_heads,), "F32"
    yield "ssm_a", (shape.value_heads,), "RATE"
    yield "ssm_norm.weight", (STATE,), "F32"
    yield "ssm_out.weight", (shape.hidden, values), plain


def mlp(shape, layer, plain, high):
    yield "attn_norm.weight", (shape.hidden,), "F32"
    yield ("post_attention_norm.weight" if shape.value_heads else "ffn_norm.weight"), (shape.hidden,), "F32"
    if shape.window:
        yield "post_attention_norm.weight", (shape.hidden,), "F32"
        yield "post_ffw_norm.weight", (shape.hidden,), "F32"
    if shape.experts == 0 or layer < shape.dense_layers:
        yield from gated("", (), shape.ffn, shape.hidden, plain, high)
        return
    yield from gated("_exps", (shape.experts,), shape.expert_ffn, shape.hidden, plain, high)
    yield "ffn_gate_inp.weight", (shape.experts, shape.hidden), "RANDOM"
    if shape.latent:
        yield "exp_probs_b.bias", (shape.experts,), "RANDOM"
    if shape.shared_ffn:
        yield from gated("_shexp", (), shape.shared_ffn, shape.hidden, plain, high)
    if shape.shared_ffn and not shape.latent:
        yield "ffn_gate_inp_shexp.weight", (shape.hidden,), "RANDOM"


def gated(suffix, experts, ffn, hidden, plain, high):
    yield f"ffn_gate{suffix}.weight", (*experts, ffn, hidden), plain
    yield f"ffn_up{suffix}.weight", (*experts, ffn, hidden), plain
    yield f"ffn_down{suffix}.weight", (*experts, hidden, ffn), high
