"""llama.cpp on the CPU, measured like tools/bench/engine_bench: one JSON object per measurement.

Needs the package llama-cpp-python, built for this machine. Decode: tokens per second of single-token steps with
`context` tokens in the cache. Prefill: tokens per second of one pass over an empty cache. The ids are random but fixed.
"""
import argparse
import ctypes
import json
import random
import statistics
import time

import llama_cpp


class Peer:
    def __init__(self, path, threads, room):
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), model_params)
        if not self.model:
            raise SystemExit(f"cannot load {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = room, 512, 512
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def feed(self, ids, position):
        """Runs one pass over `ids`, with logits for the last; returns its seconds."""
        batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i] = token
            batch.pos[i] = position + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i + 1 == len(ids)
        begin = time.perf_counter()
        failed = llama_cpp.llama_decode(self.context, batch)
        llama_cpp.llama_synchronize(self.context)
        seconds = time.perf_counter() - begin
        llama_cpp.llama_batch_free(batch)
        if failed:
            raise SystemExit(f"llama_decode failed: {failed}")
        return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--contexts", default="16,1024")
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    contexts = [int(c) for c in options.contexts.split(",")]

    keep_alive = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(keep_alive, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    peer = Peer(options.model, options.threads, max(contexts + [options.prefill]) + options.decode + 64)
    generator = random.Random(1)
    ids = [generator.randrange(peer.vocab) for _ in range(max(contexts + [options.prefill]) + options.decode)]

    def report(name, context, rates):
        print(json.dumps({"name": name, "threads": options.threads, "context": context,
                          "tokens_per_s": round(statistics.median(rates[1:]), 1)}), flush=True)

    rates = []
    for _ in range(options.repeats + 1):  # the first round warms up
        peer.clear()
        rates.append(options.prefill / peer.feed(ids[:options.prefill], 0) if options.prefill <= 512 else
                     options.prefill / sum(peer.feed(ids[p:p + 512], p) for p in range(0, options.prefill, 512)))
    report("prefill", options.prefill, rates)
    for context in contexts:
        rates = []
        for _ in range(options.repeats + 1):
            peer.clear()
            for at in range(0, context, 512):
                peer.feed(ids[at:min(at + 512, context)], at)
            seconds = sum(peer.feed([ids[context + i]], context + i) for i in range(options.decode))
            rates.append(options.decode / seconds)
        report("decode", context, rates)


main()
