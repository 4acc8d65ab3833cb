"""The counterpart of `step_bench --ranks N`: tensor-parallel decode and prefill in PyTorch, as fast as we can make
them.

    python3 tools/bench/gpu/torch_ranks_bench.py llama-8b|llama-70b [--ranks 2] [--batches 1,32] [--context 1024] [--prefill
    2048]

One process per GPU. The layers of torch_step_bench.py with the usual sharding: q-k-v, gate-up and head by rows, the two
others by columns, an all-reduce after each of those; the embedding table is replicated. The whole step including
all-reduces is one CUDA graph. All-reduces use NCCL, or one-shot kernels over symmetric memory (not for a prompt's 16 MB
and more); the greedy token is found from each rank's best (value, id). Prints one JSON object per measurement: "ms" of
the slowest rank.
"""

import argparse
import json
import os
import sys
import traceback

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric
import torch.multiprocessing as mp
import torch.nn.functional as F
from measure_ranks import SHAPES
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch_step_bench import STEPS, Network, captured, decode_attention, median_ms, random


class Share:
    """One rank's share of a shape, with the names that Network expects."""

    def __init__(self, name, ranks):
        c = SHAPES[name]
        self.name, self.vocab, self.gpt2, self.tied = name, c["vocab_size"], False, True  # its head: CutNetwork
        self.hidden, self.layers, self.theta = c["hidden_size"], c["num_hidden_layers"], c["rope_theta"]
        self.dim = self.hidden // c["num_attention_heads"]
        self.heads, self.kv_heads = c["num_attention_heads"] // ranks, c["num_key_value_heads"] // ranks
        self.ffn, self.positions = c["intermediate_size"] // ranks, 1 << 20


class Sums:
    """All-reduces over the ranks, in the stream."""

    def __init__(self, kind, rows, hidden):
        self.kind = kind
        if kind == "one shot":
            self.shared = symmetric.empty(rows, hidden, device="cuda", dtype=torch.bfloat16)
            symmetric.rendezvous(self.shared, dist.group.WORLD)

    def __call__(self, part):
        if self.kind == "nccl":
            dist.all_reduce(part)
            return part
        self.shared.copy_(part)
        return torch.ops.symm_mem.one_shot_all_reduce(self.shared, "sum", dist.group.WORLD.group_name)


class CutNetwork(Network):
    def __init__(self, share, ranks):
        super().__init__(share)
        self.ranks = ranks
        self.head = random(share.vocab // ranks, share.hidden)

    def out(self, a, w):
        return F.linear(a, w[2])

    def middle(self, x, o, w):
        x = x + o
        gate, up = F.linear(self.norm(x, w[3], None), w[4]).chunk(2, -1)
        return x, F.linear(F.silu(gate) * up, w[5])

    def onward(self, x, d, following):
        x = x + d
        return x, self.before(x, following)

    def best(self, x, d):
        x = self.norm(x + d, self.last_norm, None)[-self.wanted:]
        value, id = F.linear(x, self.head).float().max(-1)
        return torch.stack((value, (id + self.first_id).float()), -1)

    def compiled(self, wanted, options):
        self.wanted, self.first_id = wanted, dist.get_rank() * self.head.shape[0]
        torch._dynamo.reset()
        return [torch.compile(f, dynamic=False, fullgraph=True, options=options)
                for f in (self.before, self.out, self.middle, self.onward, self.best)]

    def forward(self, ids, attend, sums, functions):
        before, out, middle, onward, best = functions
        x = self.table[ids]
        qkv = before(x, self.layers[0])
        for i, w in enumerate(self.layers):
            x, d = middle(x, sums(out(attend(i, qkv), w)), w)
            d = sums(d)
            if i + 1 < len(self.layers):
                x, qkv = onward(x, d, self.layers[i + 1])
        mine = best(x, d)
        every = torch.empty(self.ranks, *mine.shape, device="cuda")
        dist.all_gather_into_tensor(every, mine)
        return every[:, :, 1].gather(0, every[:, :, 0].argmax(0, keepdim=True))[0].long()


def report(name, share, variant, batch, context, tokens, ms):
    slowest = torch.tensor([ms], device="cuda")
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(json.dumps({"name": name, "model": share.name, "ranks": dist.get_world_size(), "variant": variant, "batch": batch,
                          "context": context, "tokens": tokens, "ms": round(slowest.item(), 4)}), flush=True)


def decode(net, batch, context):
    s, room = net.shape, (context + 64 + 127) // 128 * 128
    options = {"coordinate_descent_tuning": True} if batch == 1 else {}
    functions = net.compiled(batch, options)
    keys, values = ([random(batch, s.kv_heads, room, s.dim, scale=1) for _ in range(s.layers)] for _ in range(2))
    place = torch.full((1,), context, device="cuda")
    ids = torch.zeros(batch, dtype=torch.int64, device="cuda")
    for kind in ("flex", "products"):
        attention, blocks, update = decode_attention(kind, net, batch, room, place)
        attention = torch.compile(attention, dynamic=False, fullgraph=True)
        for sum_kind in ("nccl", "one shot"):
            sums = Sums(sum_kind, batch, s.hidden)

            def step():
                update()
                attend = lambda i, qkv: attention(qkv, keys[i], values[i], net.cos, net.sin, blocks)
                ids.copy_(net.forward(ids, attend, sums, functions))
                place.add_(1)

            place.fill_(context)
            graph = captured(step)
            report("decode", s, f"{kind}, {sum_kind}", batch, context, 1,
                   median_ms(graph, STEPS, lambda: (place.fill_(context), dist.barrier())))
            del graph


def prefill(net, tokens):
    s = net.shape
    functions = net.compiled(1, {})
    ids = torch.randint(0, s.vocab, (tokens,), device="cuda")
    dist.broadcast(ids, 0)
    token = torch.zeros(1, dtype=torch.int64, device="cuda")
    cache = [[random(1, s.kv_heads, tokens, s.dim) for _ in range(2)] for _ in range(s.layers)]
    sizes = [s.heads * s.dim, s.kv_heads * s.dim, s.kv_heads * s.dim]

    def split(qkv, keys, values, cos, sin):
        q, k, v = (part.view(1, tokens, -1, s.dim).transpose(1, 2) for part in qkv.split(sizes, -1))
        keys.copy_(net.rotated(k, cos[:tokens], sin[:tokens]))
        values.copy_(v)
        return net.rotated(q, cos[:tokens], sin[:tokens])

    split = torch.compile(split, dynamic=False, fullgraph=True)
    sums = Sums("nccl", tokens, s.hidden)
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):

        def attend(i, qkv):
            q = split(qkv, *cache[i], net.cos, net.sin)
            with sdpa_kernel(backend):
                out = F.scaled_dot_product_attention(q, *cache[i], is_causal=True, enable_gqa=True)
            return out.transpose(1, 2).reshape(tokens, -1)

        graph = captured(lambda: token.copy_(net.forward(ids, attend, sums, functions)))
        report("prefill", s, backend.name, 1, 0, tokens, median_ms(graph, 2, dist.barrier))
        del graph


def work(rank, args):
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{args.port}", rank=rank, world_size=args.ranks,
                            device_id=torch.device("cuda", rank))
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    net = CutNetwork(Share(args.shape, args.ranks), args.ranks)
    failed = False
    for f, arguments in [(prefill, (n,)) for n in args.prefill] + [(decode, (b, args.context)) for b in args.batches]:
        try:
            f(net, *arguments)
        except Exception:  # a failed measurement must not prevent the others
            traceback.print_exc()
            failed = True
        torch.cuda.empty_cache()
    dist.destroy_process_group()
    sys.exit(failed)


def main():
    numbers = lambda text: [int(n) for n in text.split(",") if n]
    p = argparse.ArgumentParser()
    p.add_argument("shape", choices=SHAPES)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--batches", type=numbers, default=[1, 32])
    p.add_argument("--context", type=int, default=1024)
    p.add_argument("--prefill", type=numbers, default=[2048])
    p.add_argument("--port", type=int, default=29531)
    args = p.parse_args()
    mp.spawn(work, (args,), nprocs=args.ranks)


if __name__ == "__main__":
    main()
