"""Times concurrent requests with a long common prefix, on a GPU whose memory is full of idle caches.

    python3 tools/bench/gpu/prefix_burst.py --bin build/cuda/bin [--fill 950000] [--requests 32] [--shared 12000]

Starts a server with Llama-3.1-8B's shape and random weights. Fills the memory with conversations of 4,000 tokens, then
sends the requests three times: twice all at once, once the first 50 ms ahead. Prints times to first token, cached
tokens (the two lowest and the highest), and the longest gap in an answer that streams meanwhile. Needs aiohttp.
"""

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import tempfile
import time

import aiohttp
from measure_ranks import SHAPES

VOCABULARY = 128_000
FILLER, OWN = 4_000, (200, 1_500)  # tokens


class Load:
    def __init__(self, session, url, seed):
        self.session, self.url, self.random = session, url, random.Random(seed)

    def ids(self, count):
        return [self.random.randrange(1_000, VOCABULARY) for _ in range(count)]

    async def ask(self, prompt, tokens=4, gaps=None):
        """Returns the seconds until the first token, and the number of cached prompt tokens. `gaps`: receives (seconds,
        moment) of each."""
        began, first, last, cached = time.monotonic(), None, None, None
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True}}
        async with self.session.post(self.url + "/v1/completions", json=body) as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                if not line.startswith(b"data: {"):
                    continue
                chunk, now = json.loads(line[6:]), time.monotonic()
                if chunk.get("usage"):
                    cached = chunk["usage"]["prompt_tokens_details"]["cached_tokens"]
                if not chunk["choices"]:
                    continue
                if first is None:
                    first = now - began
                elif gaps is not None:
                    gaps.append((now - last, now))
                last = now
        return first, cached

    async def fill(self, tokens):
        places = asyncio.Semaphore(64)

        async def one():
            async with places:
                await self.ask(self.ids(FILLER), 1)

        began = time.monotonic()
        await asyncio.gather(*[one() for _ in range(tokens // FILLER)])
        print(f"{tokens} tokens of prompts: {tokens / (time.monotonic() - began):.0f}/s", flush=True)

    async def burst(self, name, requests, shared, ahead_s):
        gaps, prefix = [], self.ids(shared)
        beside = asyncio.create_task(self.ask(self.ids(64), 900, gaps))
        await asyncio.sleep(0.3)
        prompts = [prefix + self.ids(self.random.randrange(*OWN)) for _ in range(requests)]

        async def one(number):
            await asyncio.sleep(ahead_s if number else 0)
            return await self.ask(prompts[number])

        began = time.monotonic()
        answers = await asyncio.gather(*map(one, range(requests)))
        firsts, found = sorted(first for first, _ in answers), sorted(cached for _, cached in answers)
        longest = max(gap for gap, at in gaps if at >= began)
        print(f"{name}: first tokens p50 {1e3 * firsts[requests // 2]:.0f}, last {1e3 * firsts[-1]:.0f} ms; found {found[0]}, "
              f"{found[1]} ... {found[-1]}; longest gap beside them {1e3 * longest:.0f} ms", flush=True)
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)


async def measure(url, args):
    timeout = aiohttp.ClientTimeout(600)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        load = Load(session, url, args.seed)
        await load.fill(args.fill)
        for name, ahead_s in (("at once", 0), ("first 50 ms ahead", 0.05), ("at once", 0)):
            await load.burst(name, args.requests, args.shared, ahead_s)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--fill", type=int, default=950_000, help="tokens")
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--shared", type=int, default=12_000, help="tokens")
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        with open(os.path.join(work, "config.json"), "w") as file:
            json.dump(SHAPES["llama-8b"], file)
        server = subprocess.Popen(
            [os.path.join(args.bin, "ringside-server"), "--model", work, "--load-format", "dummy", "--chat-template", "chatml",
             "--device", "cuda", "--port", "0", "--memory-len", "16384", "--max-connections", "2000", "--max-turns-per-owner",
             "2000", "--log-level", "error", "--store-path", os.path.join(work, "store")],
            stdout=subprocess.PIPE, text=True)
        try:
            asyncio.run(measure(re.search(r"http://\S+", server.stdout.readline())[0], args))
        finally:
            server.terminate()
            server.wait(120)


if __name__ == "__main__":
    main()
