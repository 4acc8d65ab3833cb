"""Bursts of turns for admission_test.py and scripts/bench_crowds.py: clients that ask at the same moment, and retry as advised."""

import asyncio
import json
import random
import time
from dataclasses import dataclass, field


@dataclass
class Asked:
    """A turn of a burst. Times are in seconds."""

    refusals: list = field(default_factory=list)  # status, headers and error of each refused request
    response: dict = None  # None = refused to the end
    first_s: float = None  # from the admitted request to its first token
    all_s: float = None  # from the first request to the first token

    @property
    def admitted(self):
        return self.response is not None


def prompts(count, words):
    """Texts that share no prefix, of about four tokens per word."""
    rng = random.Random(count)
    return [f"{i} " + " ".join(f"{rng.randrange(10_000):04}" for _ in range(words)) for i in range(count)]


async def _ask(port, text, tokens, asked):
    """Sends one request, and reads the answer to its end or the refusal."""
    body = json.dumps({"input": text, "max_output_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                       "store": False}).encode()
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    status, headers = int(lines[0].split()[1]), dict(line.split(": ", 1) for line in lines[1:] if line)
    if status != 200:
        asked.refusals.append((status, headers, json.loads(await reader.read())["error"]))
        writer.close()
        return
    async for line in reader:
        event = json.loads(line[6:]) if line.startswith(b"data: {") else {"type": ""}
        if event["type"] == "response.output_text.delta" and asked.first_s is None:
            asked.first_s = time.perf_counter() - began
        if event["type"] in ("response.completed", "response.incomplete", "response.failed"):
            asked.response = event["response"]
    writer.close()


async def _client(port, text, tokens, tries):
    asked, began = Asked(), time.perf_counter()
    for _ in range(tries):
        await _ask(port, text, tokens, asked)
        if asked.admitted:
            asked.all_s = time.perf_counter() - began
            break
        await asyncio.sleep(int(asked.refusals[-1][1]["Retry-After"]) * random.uniform(1, 1.5) if tries > 1 else 0)
    return asked


async def burst(port, texts, tokens=4, tries=1):
    """Asks for answers of `tokens` tokens to all texts at once, each with at most `tries` requests. Returns an Asked per text."""
    return await asyncio.gather(*(_client(port, text, tokens, tries) for text in texts))
