"""Runs engine_bench, and optionally llama.cpp, alternating; writes build/bench.json and a table."""
import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path


def run(command):
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", required=True, help="the engine_bench binary")
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer", help="a Python that has llama-cpp-python")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", required=True)
    options = parser.parse_args()

    ours, peers, extra = defaultdict(list), defaultdict(list), defaultdict(list)
    for number in range(options.rounds):
        for threads in (1, 2):
            print(f"round {number + 1} of {options.rounds}, {threads} thread(s)", file=sys.stderr, flush=True)
            arguments = ["--model", options.model, "--threads", str(threads), "--repeats", "3"]
            for row in run([options.engine, *arguments, "--conversations", "1,4,16"]):
                key = (row["name"], threads, row.get("context", row.get("active", 0)))
                if row["name"] in ("decode", "prefill"):
                    ours[key].append(row["tokens_per_s"])
                if row["name"] == "decode":
                    extra[("of_bandwidth", threads, row["context"])].append(row["of_bandwidth"])
                    extra[("gb_per_s", threads, row["context"])].append(row["gb_per_s"])
                if row["name"] == "conversations":
                    extra[key].append(row["tokens_per_s"])
                if row["name"] == "read_bandwidth":
                    extra[("read_bandwidth", threads, 0)].append(row["gb_per_s"])
            if options.peer:
                for row in run([options.peer, Path(__file__).with_name("bench_peer.py"), *arguments]):
                    peers[(row["name"], threads, row["context"])].append(row["tokens_per_s"])

    rows = []
    print("| | threads | context | Ringside, tokens/s | llama.cpp, tokens/s | ratio | GB/s, share of read bandwidth |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for key in sorted(ours):
        name, threads, context = key
        rate = statistics.median(ours[key])
        peer = statistics.median(peers[key]) if key in peers else None
        rows.append({"name": name, "threads": threads, "context": context, "tokens_per_s": round(rate, 1),
                     "peer_tokens_per_s": round(peer, 1) if peer else None})
        share = ""
        if name == "decode":
            achieved = statistics.median(extra[("gb_per_s", threads, context)])
            part = statistics.median(extra[("of_bandwidth", threads, context)])
            share = f"{achieved:.1f}, {part:.0%}"
        ratio = (f"{peer:.0f}", f"{rate / peer:.1f}x") if peer else ("-", "-")
        print(f"| {name} | {threads} | {context} | {rate:.0f} | {ratio[0]} | {ratio[1]} | {share} |")
    print("\n| active conversations | threads | total tokens/s |\n| --- | --- | --- |")
    for (name, threads, active), values in sorted(extra.items()):
        if name == "conversations":
            print(f"| {active} | {threads} | {statistics.median(values):.0f} |")
    for threads in (1, 2):
        print(f"\nread bandwidth, {threads} thread(s): {statistics.median(extra[('read_bandwidth', threads, 0)]):.1f} GB/s")
    with open(options.output, "w") as file:
        json.dump(rows, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
