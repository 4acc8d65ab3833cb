"""A server with an encoder-decoder network, and the same network in transformers: output tokens per second, and the
time to first token for an input. Weights are random (--load-format dummy); all answers have full length.

    python3 tools/bench/encoder_bench.py config t5-xl FOLDER         config.json, for the server's --model
    python3 tools/bench/encoder_bench.py server t5-xl URL            asks the server, over HTTP, all at a time
    python3 tools/bench/encoder_bench.py transformers t5-xl          T5ForConditionalGeneration.generate on a GPU, bf16,
    in one batch
                                                          [--conversations 1,8,32,64] [--inputs 512,4096] [--repeats 3]

Answers of 128 tokens to inputs with the first length of --inputs; for every length also the time of one token, alone.
"""

import argparse
import json
import os
import random
import statistics
import threading
import time
import urllib.request

T5 = {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_kv": 64, "vocab_size": 32128,
      "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "layer_norm_epsilon": 1e-6,
      "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "decoder_start_token_id": 0, "pad_token_id": 0,
      "eos_token_id": 1, "is_encoder_decoder": True, "torch_dtype": "bfloat16", "dropout_rate": 0.0}
SHAPES = {
    "t5-small": dict(T5, d_model=512, num_heads=6, d_ff=1024, num_layers=8, num_decoder_layers=8),
    "t5-base": dict(T5, d_model=768, num_heads=12, d_ff=2048, num_layers=12, num_decoder_layers=12),
    "t5-xl": dict(T5, d_model=2048, num_heads=32, d_ff=5120, num_layers=24, num_decoder_layers=24),
}
ANSWER = 128


class Server:
    name = "server"

    def __init__(self, url):
        self.url = url
        with urllib.request.urlopen(url + "/v1/models") as answer:
            self.model = json.load(answer)["data"][0]["id"]

    def ask(self, prompt, tokens, counts):
        body = {"model": self.model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            counts.append(json.load(answer)["usage"]["completion_tokens"])

    def run(self, inputs, tokens):
        counts = []
        threads = [threading.Thread(target=self.ask, args=(ids, tokens, counts)) for ids in inputs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts == [tokens] * len(inputs), counts


class Transformers:
    name = "transformers"

    def __init__(self, shape):
        import torch
        from transformers import T5Config, T5ForConditionalGeneration
        self.torch = torch
        torch.set_default_dtype(torch.bfloat16)
        settings = {key: value for key, value in shape.items() if key not in ("architectures", "model_type", "torch_dtype")}
        with torch.device("cuda"):
            self.network = T5ForConditionalGeneration(T5Config(**settings)).eval()

    def run(self, inputs, tokens):
        ids = self.torch.tensor(inputs, device="cuda")
        with self.torch.inference_mode():
            out = self.network.generate(input_ids=ids, attention_mask=self.torch.ones_like(ids), do_sample=False,
                                        min_new_tokens=tokens, max_new_tokens=tokens)
        self.torch.cuda.synchronize()
        assert out.shape[1] == tokens + 1, out.shape


def seconds(what, count, length, tokens, random_ids):
    inputs = [random_ids(length) for _ in range(count)]
    begin = time.perf_counter()
    what.run(inputs, tokens)
    return time.perf_counter() - begin


def main():
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["config", "server", "transformers"])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("where", nargs="?", help="a folder, or the server's address")
    parser.add_argument("--conversations", type=numbers, default=[1, 8, 32, 64])
    parser.add_argument("--inputs", type=numbers, default=[512, 4096])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    shape, rng = SHAPES[args.shape], random.Random(1)
    if args.what == "config":
        os.makedirs(args.where, exist_ok=True)
        with open(os.path.join(args.where, "config.json"), "w") as file:
            json.dump(shape, file)
        return
    what = Server(args.where) if args.what == "server" else Transformers(shape)
    random_ids = lambda length: [rng.randrange(10, 32000) for _ in range(length)]
    for length in args.inputs:
        seconds(what, 1, length, 1, random_ids)  # loads kernels and allocates memory
        times = [seconds(what, 1, length, 1, random_ids) for _ in range(args.repeats)]
        print(f"{what.name}: {length} tokens read and one written in {1e3 * statistics.median(times):.1f} ms", flush=True)
    for count in args.conversations:
        times = [seconds(what, count, args.inputs[0], ANSWER, random_ids) for _ in range(args.repeats)]
        print(f"{what.name}: {count} at a time: {count * ANSWER / statistics.median(times):.0f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
