"""Time to the first token with a picture of 1,024 x 1,024 pixels, beside llama.cpp's mtmd on the same files: the first
turn, with a new picture, and the second, with new text about it. The two programs answer alternately.

    scripts/bench_images                            makes the files and runs this

Each answer has one token, so that a turn ends with it. A turn of Ringside is a request over HTTP with the picture as
PNG in base64; one of llama.cpp begins with the PNG in memory. Both keep the cache between the turns. Prints medians.
"""

import argparse
import base64
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib
from pathlib import Path

FIRST, SECOND = "What is in the picture?", "Which of its colors is the brightest one?"


def picture(side, seed):
    """A PNG of waves with noise."""
    dice, rows = random.Random(seed), []
    slopes = [1 + dice.randrange(5) for _ in range(6)]
    for y in range(side):
        noise = dice.randbytes(3 * side)
        rows.append(b"\0" + bytes(((x * slopes[c] + y * slopes[c + 3]) // 8 + noise[3 * x + c] // 8) & 255
                                  for x in range(side) for c in range(3)))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"".join(rows), 1)) + chunk(b"IEND", b"")


class Ringside:
    def __init__(self, options):
        command = [options.server, "--model", options.folder / "model.gguf", "--threads", str(options.threads), "--port", "0",
                   "--memory-len", "4096", "--slots", "1", "--log-level", "warning"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if "http://" not in line:
            sys.exit("the server did not start")
        self.url = "http://127.0.0.1:" + line.rsplit(":", 1)[1].strip()

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def begin(self, png):
        self.conversation = self.post("/v1/conversations", {})["id"]
        url = "data:image/png;base64," + base64.b64encode(png).decode()
        return self.turn([{"role": "user", "content": [{"type": "input_image", "image_url": url},
                                                       {"type": "input_text", "text": FIRST}]}])

    def turn(self, text):
        begin = time.perf_counter()
        answer = self.post("/v1/responses", {"conversation": self.conversation, "input": text, "max_output_tokens": 1,
                                             "temperature": 0})
        seconds = time.perf_counter() - begin
        assert answer["usage"]["output_tokens"] == 1, answer
        return seconds


class Peer:
    """llama.cpp in a process of its own (image_peer.py)."""

    def __init__(self, options):
        command = [options.peer, Path(__file__).with_name("image_peer.py"), options.folder, str(options.threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask({})

    def ask(self, what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("llama.cpp ended")
        return json.loads(line)

    def begin(self, png):
        with tempfile.NamedTemporaryFile(suffix=".png") as file:
            file.write(png)
            file.flush()
            return self.ask({"png": file.name, "text": FIRST})["seconds"]

    def turn(self, text):
        return self.ask({"text": text})["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the ringside-server binary")
    parser.add_argument("--peer", help="a Python that has llama-cpp-python")
    parser.add_argument("--folder", type=Path, required=True, help="of model.gguf and mmproj-model.gguf")
    parser.add_argument("--side", type=int, default=1024, help="pixels")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    programs = {"Ringside": Ringside(options)} | ({"llama.cpp": Peer(options)} if options.peer else {})
    times = {name: ([], []) for name in programs}
    try:
        for number in range(options.rounds + 1):  # the first round warms up
            png = picture(options.side, number)
            for name, program in programs.items():
                turns = program.begin(png), program.turn(SECOND)
                print(f"round {number} of {options.rounds}, {name}: {turns[0]:.2f} s, {turns[1]:.2f} s; load {os.getloadavg()[0]:.1f}",
                      file=sys.stderr, flush=True)
                for kept, seconds in zip(times[name], turns):
                    kept += [seconds] if number or not options.rounds else []
    finally:
        for program in programs.values():
            program.process.terminate()
    medians = {name: [statistics.median(kept) for kept in both] for name, both in times.items()}
    print("| | " + ", s | ".join(medians) + ", s | ratio |\n" + "| --- " * (len(medians) + 2) + "|")
    for turn, label in enumerate(("first turn, with the picture", "second turn, new text about it")):
        row = [both[turn] for both in medians.values()]
        print(f"| {label} | " + " | ".join(f"{seconds:.2f}" for seconds in row) + f" | {row[-1] / row[0]:.2f}x |")


if __name__ == "__main__":
    main()
