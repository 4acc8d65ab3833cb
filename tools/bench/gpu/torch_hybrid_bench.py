"""Decode and prefill of a hybrid's shape in transformers, with flash-linear-attention's kernels if it is installed.

    python3 tools/bench/gpu/torch_hybrid_bench.py qwen3.5-4b|qwen3.6-27b|qwen3.6-35b-a3b [--layers N] [--prefill 2048,8192]
                                                  [--batches 1,32] [--context 1024]

Random bf16 weights N(0, 0.02). Decode is the model's forward with its own cache, greedy, without a graph: what a user
of transformers gets. One JSON object per measurement, "ms" the median, named like step_bench's.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import torch
import transformers
from transformers.initialization import no_init_weights

sys.path.append(str(Path(__file__).parents[1]))
from random_shapes import INTERVAL, KERNEL, SHAPES, STATE  # noqa: E402

STEPS, REPEATS = 16, 3


def make_model(shape):
    sizes = dict(vocab_size=shape.vocab, hidden_size=shape.hidden, num_hidden_layers=shape.layers,
                 num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads, head_dim=shape.head,
                 linear_conv_kernel_dim=KERNEL, linear_key_head_dim=STATE, linear_value_head_dim=STATE,
                 linear_num_key_heads=shape.key_heads, linear_num_value_heads=shape.value_heads,
                 tie_word_embeddings=shape.tied, max_position_embeddings=262144,
                 layer_types=["linear_attention" if (i + 1) % INTERVAL else "full_attention" for i in range(shape.layers)])
    if shape.experts:
        config = transformers.Qwen3_5MoeTextConfig(**sizes, num_experts=shape.experts, num_experts_per_tok=shape.experts_used,
                                                   moe_intermediate_size=shape.expert_ffn,
                                                   shared_expert_intermediate_size=shape.shared_ffn)
        kind = transformers.Qwen3_5MoeForCausalLM
    else:
        config = transformers.Qwen3_5TextConfig(**sizes, intermediate_size=shape.ffn)
        kind = transformers.Qwen3_5ForCausalLM
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"), no_init_weights():
        model = kind(config)
    for parameter in model.parameters():
        if parameter.dim() >= 2:
            parameter.data.normal_(0, 0.02)
        else:
            parameter.data.fill_(1)
    for name, parameter in model.named_parameters():
        if name.endswith("A_log"):
            parameter.data.uniform_(-3, 1)
    return model.eval()


def timed(work):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - begin), result


def report(name, shape, times, **more):
    print(json.dumps({"name": name, "model": shape, **more, "ms": round(statistics.median(times), 4),
                      "least": round(min(times), 4), "most": round(max(times), 4)}), flush=True)


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--prefill", default="2048,8192")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--context", type=int, default=1024)
    options = parser.parse_args()
    shape = SHAPES[options.shape]
    if options.layers:
        shape = SHAPES[options.shape].__class__(**{**shape.__dict__, "layers": options.layers})
    model = make_model(shape)
    for tokens in map(int, options.prefill.split(",")):
        ids = torch.randint(0, shape.vocab, (1, tokens), device="cuda")
        run = lambda: model(ids, use_cache=True, logits_to_keep=1).logits.argmax(-1).item()
        run()
        report("prefill", options.shape, [timed(run)[0] for _ in range(REPEATS)], batch=1, tokens=tokens)
    for batch in map(int, options.batches.split(",")):
        ids = torch.randint(0, shape.vocab, (batch, options.context), device="cuda")
        cache = model(ids, use_cache=True, logits_to_keep=1).past_key_values
        token = torch.zeros(batch, 1, dtype=torch.long, device="cuda")
        step = lambda: model(token, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
        times = []
        for _ in range(STEPS):
            milliseconds, token = timed(step)
            times.append(milliseconds)
        report("decode", options.shape, times[4:], batch=batch, context=options.context)


if __name__ == "__main__":
    main()
