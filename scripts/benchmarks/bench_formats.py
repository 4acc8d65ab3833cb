"""Runs engine_bench and llama.cpp in turn on files of random weights in several formats, and prints a table of both.

Needs a Python with llama-cpp-python and numpy.
"""
import argparse
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from bench import run

HERE = Path(__file__).resolve().parent
FORMATS = "Q4_K_M,Q8_0,Q6_K,IQ4_NL,F16"


def file_of(folder, shape, name):
    path = folder / f"{shape}-{name}.gguf"
    if not path.exists():
        part = path.with_suffix(".part")
        print(f"making {path}", file=sys.stderr, flush=True)
        maker = HERE.parents[1] / "tools" / "bench" / "make_random_gguf.py"
        subprocess.run([sys.executable, maker, shape, name, part], check=True)
        part.rename(path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", required=True, help="the engine_bench binary")
    parser.add_argument("--folder", type=Path, required=True, help="folder of the model files")
    parser.add_argument("--shape", default="llama-1b", help="of tools/bench/random_shapes.py")
    parser.add_argument("--formats", default=FORMATS)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--contexts", default="16,1024")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    rates, memory = defaultdict(lambda: ([], [])), []
    names = options.formats.split(",")
    for number in range(options.rounds):
        for name in names:
            print(f"round {number + 1} of {options.rounds}, {name}", file=sys.stderr, flush=True)
            arguments = ["--model", str(file_of(options.folder, options.shape, name)), "--threads", options.threads, "--contexts",
                         options.contexts, "--decode", "32", "--repeats", "2"]
            for row in run([options.engine, *arguments]):
                if row["name"] == "read_bandwidth":
                    memory.append(row["gb_per_s"])
                else:
                    rates[name, row["name"], row["context"]][0].append(row["tokens_per_s"])
            for row in run([sys.executable, HERE / "bench_peer.py", *arguments]):
                rates[name, row["name"], row["context"]][1].append(row["tokens_per_s"])

    columns = sorted({key[1:] for key in rates})
    print("| tokens/s, Ringside / llama.cpp | GB | " + " | ".join(f"{kind}, {size}" for kind, size in columns) + " |")
    print("| --- |" + " --- |" * (len(columns) + 1))
    for name in names:
        cells = [f"{file_of(options.folder, options.shape, name).stat().st_size / 1e9:.2f}"]
        for column in columns:
            ours, peers = (statistics.median(side) for side in rates[name, *column])
            cells.append(f"{ours:.1f} / {peers:.1f}: {ours / peers:.2f}x")
        print(f"| {name} | " + " | ".join(cells) + " |")
    print(f"\nread bandwidth: {statistics.median(memory):.1f} GB/s")


main()
