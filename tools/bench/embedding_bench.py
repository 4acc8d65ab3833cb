"""Embedded texts per second: a server's /v1/embeddings, and the same network in transformers (the mean of its last
hidden states, in batches, bf16). Weights are random; texts are token ids, all of one length.

    python3 tools/bench/embedding_bench.py server URL [--model NAME]     any server with OpenAI's API
    python3 tools/bench/embedding_bench.py transformers CONFIG_FOLDER
                        [--texts 1024] [--tokens 32,256,1024] [--at-once 1,64,192] [--repeats 3]

--at-once: texts per request, or per batch; requests are sequential.
"""

import argparse
import base64
import json
import random
import statistics
import time
import urllib.request


class Server:
    def __init__(self, args):
        self.url = args.where
        self.model = args.model
        if self.model is None:
            with urllib.request.urlopen(self.url + "/v1/models") as answer:
                self.model = json.load(answer)["data"][0]["id"]

    def embed(self, texts):
        body = {"model": self.model, "input": texts, "encoding_format": "base64"}
        request = urllib.request.Request(self.url + "/v1/embeddings", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            data = json.load(answer)["data"]
        assert len(data) == len(texts) and all(len(base64.b64decode(datum["embedding"])) >= 4 * 64 for datum in data)


class Transformers:
    def __init__(self, args):
        import torch
        from transformers import AutoConfig, AutoModel
        self.torch = torch
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda"):
            self.network = AutoModel.from_config(AutoConfig.from_pretrained(args.where)).eval()

    def embed(self, texts):
        with self.torch.inference_mode():
            states = self.network(input_ids=self.torch.tensor(texts, device="cuda"), use_cache=False).last_hidden_state
            mean = states.float().mean(dim=1)
            vectors = (mean / mean.norm(dim=1, keepdim=True)).cpu()
        assert vectors.shape[0] == len(texts)


def main():
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["server", "transformers"])
    parser.add_argument("where", help="the server's address, or a folder with a config.json")
    parser.add_argument("--model")
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--tokens", type=numbers, default=[32, 256, 1024])
    parser.add_argument("--at-once", type=numbers, default=[1, 64, 192])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    rng = random.Random(1)
    what = {"server": Server, "transformers": Transformers}[args.what](args)
    for tokens in args.tokens:
        for at_once in args.at_once:
            count = min(args.texts, 32 * at_once) // at_once * at_once
            seconds = []
            for repeat in range(args.repeats + 1):  # the first repeat loads kernels and allocates memory
                texts = [[rng.randrange(10, 256) for _ in range(tokens)] for _ in range(count)]
                begin = time.perf_counter()
                for first in range(0, count, at_once):
                    what.embed(texts[first:first + at_once])
                seconds.append(time.perf_counter() - begin)
            taken = statistics.median(seconds[1:])
            print(f"{args.what}: {tokens} tokens, {at_once} at once: {count / taken:.0f} texts/s, {count * tokens / taken:.0f} tokens/s",
                  flush=True)


if __name__ == "__main__":
    main()
