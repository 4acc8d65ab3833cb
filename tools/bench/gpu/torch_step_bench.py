"""The counterpart of step_bench: the fastest decode and prefill in PyTorch that we can write, for the same shapes.

    python3 tools/bench/gpu/torch_step_bench.py smollm2|gpt2|llama-1b|llama-8b [--batches 1,8,32,128] [--contexts 1024,4096]
                                                [--prefill 512,2048,8192] [--append 64]  (onto the longest context)

Random bf16 weights N(0, 0.02), N(0, 1) keys and values, greedy. Fused q-k-v and gate-up matrices, static cache,
Inductor (coordinate descent at batch 1, max-autotune at 32, cuBLAS elsewhere), the same compiled code for every layer,
the whole step with its greedy sampling and feedback in one CUDA graph. Decode attention: FlexAttention over the used
blocks of 128 keys, or two batched products with a masked softmax; prefill: scaled_dot_product_attention by
FlashAttention or by cuDNN; append: FlashAttention with a lower-right mask, FlexAttention, or two batched products. Each
is measured; one JSON object per measurement, "ms" of the median and the name of the variant. CUDA events time a step
over 32 replays (a prompt: 2), so host time is excluded; for a prompt also "wall_ms": from its ids on the host to the
next token on the host, as in step_bench.
"""

import argparse
import functools
import json
import statistics
import sys
import time
import traceback
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

sys.path.append(str(Path(__file__).parents[1]))
from make_random_model import SHAPES  # noqa: E402

STEPS, REPEATS = 32, 7


class Shape:
    def __init__(self, name):
        c = SHAPES[name]
        self.name, self.vocab, self.gpt2 = name, c["vocab_size"], name == "gpt2"
        self.hidden = c.get("hidden_size") or c["n_embd"]
        self.layers = c.get("num_hidden_layers") or c["n_layer"]
        self.heads = c.get("num_attention_heads") or c["n_head"]
        self.kv_heads = c.get("num_key_value_heads") or self.heads
        self.ffn = c.get("intermediate_size") or 4 * self.hidden
        self.dim = self.hidden // self.heads
        self.positions = c.get("n_positions") or 1 << 20
        self.theta, self.tied = c.get("rope_theta", 1e4), c["tie_word_embeddings"]


def random(*shape, scale=0.02):
    return torch.empty(*shape, device="cuda", dtype=torch.bfloat16).normal_(0, scale)


class Network:
    """Weights of a shape, and its layers as three functions: the part before the first attention, between two
    attentions, and after the last."""

    def __init__(self, s):
        self.shape = s
        width = (s.heads + 2 * s.kv_heads) * s.dim
        wide = s.ffn if s.gpt2 else 2 * s.ffn
        ones = lambda: torch.ones(s.hidden, device="cuda", dtype=torch.bfloat16)
        self.layers = []
        for _ in range(s.layers):
            w = [ones(), random(width, s.hidden), random(s.hidden, s.heads * s.dim), ones(), random(wide, s.hidden),
                 random(s.hidden, s.ffn)]
            self.layers.append(w + ([random(s.hidden), random(width), random(s.hidden), random(s.hidden), random(wide),
                                     random(s.hidden)] if s.gpt2 else [None] * 6))
        self.table = random(s.vocab, s.hidden)
        self.head = self.table if s.tied else random(s.vocab, s.hidden)
        self.last_norm, self.last_bias = ones(), random(s.hidden) if s.gpt2 else None
        self.places = random(s.positions, s.hidden) if s.gpt2 else None
        turns = s.theta ** (-torch.arange(0, s.dim, 2, device="cuda", dtype=torch.float64) / s.dim)
        angles = torch.outer(torch.arange(16384, device="cuda", dtype=torch.float64), turns)
        self.cos, self.sin = angles.cos().float(), angles.sin().float()

    def norm(self, x, weight, bias):
        if self.shape.gpt2:
            return F.layer_norm(x, (x.shape[-1],), weight, bias)
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight

    def before(self, x, w):
        return F.linear(self.norm(x, w[0], w[6]), w[1], w[7])

    def after(self, x, a, w):
        x = x + F.linear(a, w[2], w[8])
        y = F.linear(self.norm(x, w[3], w[9]), w[4], w[10])
        if self.shape.gpt2:
            return x + F.linear(F.gelu(y, approximate="tanh"), w[5], w[11])
        gate, up = y.chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, w[5])

    def between(self, x, a, w, following):
        x = self.after(x, a, w)
        return x, self.before(x, following)

    def end(self, x, a, w):
        x = self.norm(self.after(x, a, w), self.last_norm, self.last_bias)[-self.wanted:]
        return F.linear(x, self.head).argmax(-1)

    def rotated(self, t, cos, sin):
        if self.shape.gpt2:
            return t
        first, second = t.float().chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(t.dtype)

    def forward(self, ids, places, attend, functions):
        before, between, end = functions
        x = self.table[ids]
        if self.places is not None:
            x = x + self.places[places]
        qkv = before(x, self.layers[0])
        for i, w in enumerate(self.layers):
            a = attend(i, qkv)
            if i + 1 < len(self.layers):
                x, qkv = between(x, a, w, self.layers[i + 1])
        return end(x, a, self.layers[-1])

    def compiled(self, wanted, options):
        self.wanted = wanted  # rows whose logits are needed
        torch._dynamo.reset()
        return [torch.compile(f, dynamic=False, fullgraph=True, options=options)
                for f in (self.before, self.between, self.end)]


def captured(run):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def median_ms(graph, steps, reset):
    found = []
    for i in range(REPEATS + 2):
        reset()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        for _ in range(steps):
            graph.replay()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) / steps)
    return statistics.median(found[2:])


def median_wall_ms(graph, ids, token):
    found, prompt = [], ids.cpu().pin_memory()
    for _ in range(REPEATS + 2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        ids.copy_(prompt, non_blocking=True)
        graph.replay()
        token.item()
        found.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(found[2:])


def report(name, s, variant, batch, context, tokens, ms, **more):
    print(json.dumps({"name": name, "model": s.name, "variant": variant, "batch": batch, "context": context,
                      "tokens": tokens, "ms": round(ms, 4), **more}), flush=True)


def decode_attention(kind, net, batch, room, place):
    """f(qkv, keys, values, cos, sin, blocks) -> [batch, heads * dim] that stores the row at `place` first; blocks and
    their update, per step."""
    s = net.shape
    sizes = [s.heads * s.dim, s.kv_heads * s.dim, s.kv_heads * s.dim]

    def store(qkv, keys, values, cos, sin):
        q, k, v = qkv.split(sizes, -1)
        c, sn = cos[place], sin[place]
        keys[:, :, place] = net.rotated(k.view(batch, s.kv_heads, 1, s.dim), c, sn)
        values[:, :, place] = v.view(batch, s.kv_heads, 1, s.dim)
        return net.rotated(q.view(batch, s.heads, 1, s.dim), c, sn)

    if kind == "products":
        def products(qkv, keys, values, cos, sin, _):
            q = store(qkv, keys, values, cos, sin).view(batch, s.kv_heads, s.heads // s.kv_heads, s.dim)
            scores = torch.matmul(q, keys.transpose(-1, -2)).float() * s.dim**-0.5
            scores = scores.masked_fill(torch.arange(room, device="cuda") > place, float("-inf"))
            return torch.matmul(torch.softmax(scores, -1).to(q.dtype), values).reshape(batch, -1)
        return products, None, lambda: None

    blocks = BlockMask.from_kv_blocks(torch.full((1, 1, 1), room // 128, dtype=torch.int32, device="cuda"),
                                      torch.arange(room // 128, dtype=torch.int32, device="cuda").view(1, 1, 1, -1),
                                      BLOCK_SIZE=(128, 128), mask_mod=lambda b, h, q, k: k <= place[0],
                                      seq_lengths=(1, room))

    def flex(qkv, keys, values, cos, sin, blocks):
        q = store(qkv, keys, values, cos, sin)
        return flex_attention(q, keys, values, block_mask=blocks, enable_gqa=True).reshape(batch, -1)
    return flex, blocks, lambda: blocks.kv_num_blocks.copy_((place // 128 + 1).to(torch.int32).view(1, 1, 1))


def decode(net, batch, contexts):
    s = net.shape
    options = {"coordinate_descent_tuning": True} if batch == 1 else {}
    if batch == 32:
        options = {"max_autotune": True, "max_autotune_gemm_backends": "ATEN,TRITON"}
    functions = net.compiled(batch, options)
    for context in contexts:
        room = (context + 64 + 127) // 128 * 128
        if room > s.positions:
            continue
        keys, values = ([random(batch, s.kv_heads, room, s.dim, scale=1) for _ in range(s.layers)] for _ in range(2))
        place = torch.full((1,), context, device="cuda")
        ids = torch.randint(0, s.vocab, (batch,), device="cuda")
        for kind in ("products",) if s.heads // s.kv_heads == 3 else ("flex", "products"):
            attention, blocks, update = decode_attention(kind, net, batch, room, place)
            attention = torch.compile(attention, dynamic=False, fullgraph=True)

            def step():
                update()
                attend = lambda i, qkv: attention(qkv, keys[i], values[i], net.cos, net.sin, blocks)
                ids.copy_(net.forward(ids, place, attend, functions))
                place.add_(1)

            place.fill_(context)
            graph = captured(step)
            report("decode", s, kind, batch, context, 1, median_ms(graph, STEPS, lambda: place.fill_(context)))
            del graph
        del keys, values
        torch.cuda.empty_cache()


def append_attention(s, tokens, context):
    """For rows after `context` others: name -> a backend, f(q, keys, values)."""
    room, group = context + tokens, s.heads // s.kv_heads
    flash = functools.partial(F.scaled_dot_product_attention, attn_mask=causal_lower_right(tokens, room), enable_gqa=True)
    blocks = create_block_mask(lambda b, h, q, k: k <= q + context, 1, 1, tokens, room)
    flex = functools.partial(torch.compile(flex_attention, dynamic=False, fullgraph=True), block_mask=blocks,
                             enable_gqa=True)

    def products(q, keys, values):
        scores = torch.matmul(q.reshape(1, s.kv_heads, group * tokens, s.dim), keys.transpose(-1, -2)).float()
        hidden = torch.arange(room, device="cuda") > torch.arange(context, room, device="cuda").repeat(group)[:, None]
        weights = torch.softmax((scores * s.dim**-0.5).masked_fill(hidden, float("-inf")), -1).to(q.dtype)
        return torch.matmul(weights, values).view(1, s.heads, tokens, s.dim)

    return {"FLASH_ATTENTION": (SDPBackend.FLASH_ATTENTION, flash), "flex": (SDPBackend.MATH, flex),
            "products": (SDPBackend.MATH, torch.compile(products, dynamic=False, fullgraph=True))}


def prefill(net, tokens, context=0):
    s, room = net.shape, context + tokens
    if room > s.positions:
        return
    functions = net.compiled(1, {})
    ids, places = torch.randint(0, s.vocab, (tokens,), device="cuda"), torch.arange(context, room, device="cuda")
    token = torch.zeros(1, dtype=torch.int64, device="cuda")
    cache = [[random(1, s.kv_heads, room, s.dim) for _ in range(2)] for _ in range(s.layers)]
    sizes = [s.heads * s.dim, s.kv_heads * s.dim, s.kv_heads * s.dim]

    def split(qkv, keys, values, cos, sin):
        q, k, v = (part.view(1, tokens, -1, s.dim).transpose(1, 2) for part in qkv.split(sizes, -1))
        c, sn = cos[context:room], sin[context:room]
        keys[:, :, context:].copy_(net.rotated(k, c, sn))
        values[:, :, context:].copy_(v)
        return net.rotated(q, c, sn)

    split = torch.compile(split, dynamic=False, fullgraph=True)
    scaled = functools.partial(F.scaled_dot_product_attention, is_causal=True, enable_gqa=True)
    variants = {kind.name: (kind, scaled) for kind in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION)}
    if context > 0:
        variants = append_attention(s, tokens, context)
    for kind, (backend, attention) in variants.items():

        def attend(i, qkv):
            keys, values = cache[i]
            q = split(qkv, keys, values, net.cos, net.sin)
            with sdpa_kernel(backend):
                out = attention(q, keys, values)
            return out.transpose(1, 2).reshape(tokens, -1)

        try:
            graph = captured(lambda: token.copy_(net.forward(ids, places, attend, functions)))
            report("append" if context > 0 else "prefill", s, kind, 1, context, tokens,
                   median_ms(graph, 2, lambda: None), wall_ms=round(median_wall_ms(graph, ids, token), 4))
        except (RuntimeError, ValueError) as e:
            print(f"{s.name} prefill {tokens} onto {context} {kind}: {e}", file=sys.stderr)


def main():
    numbers = lambda text: [int(n) for n in text.split(",") if n]
    p = argparse.ArgumentParser()
    p.add_argument("shape", choices=SHAPES)
    p.add_argument("--batches", type=numbers, default=[1, 8, 32, 128])
    p.add_argument("--contexts", type=numbers, default=[1024, 4096])
    p.add_argument("--prefill", type=numbers, default=[512, 2048, 8192])
    p.add_argument("--append", type=numbers, default=[64])
    a = p.parse_args()
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    net = Network(Shape(a.shape))
    failed = False
    for f, arguments in ([(prefill, (n,)) for n in a.prefill] + [(prefill, (n, max(a.contexts))) for n in a.append] +
                         [(decode, (b, a.contexts)) for b in a.batches]):
        try:
            f(net, *arguments)
        except Exception:  # a failed measurement must not prevent the others
            traceback.print_exc()
            failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
