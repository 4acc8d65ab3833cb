"""Measures how long a conversation waits for its model: A -> B -> A on a server with memory for one model.

    scripts/bench_swap [--model PATH] [--rounds N] [--prompt-tokens N]

Two names for one file are two models to the server. Conversations of both alternate; the first turn of each computes a
long prompt, the others add a short question. Prints the time to the first token of a turn whose model was in memory, and
of one that unloads the other model, loads its own and restores its cache, with the tokens that were computed.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system"))

from server_process import ServerProcess  # noqa: E402
from wire import Http, Socket  # noqa: E402

NAMES = ("a", "b")
FIELDS = {"temperature": 0, "max_output_tokens": 16, "ignore_eos": True}


async def ask(port, conversation, model, text):
    """Seconds to the first text, seconds in all, and the report of the response."""
    socket = await Socket.open(port)
    begun, first = time.monotonic(), None
    await socket.send({"type": "response.create", "conversation": conversation, "model": model, "input": text, **FIELDS})
    while True:
        event = await socket.receive()
        if event["type"] == "response.output_text.delta" and first is None:
            first = time.monotonic() - begun
        if event["type"] in ("response.completed", "response.incomplete"):
            socket.abort()
            return first, time.monotonic() - begun, event["response"]["ringside"]
        assert event["type"] not in ("error", "response.failed"), event


async def measure(port, rounds, prompt_tokens):
    http = Http(port)
    ids = {name: (await http.call("POST", "/v1/conversations", {}))[1]["id"] for name in NAMES}
    for name in NAMES:
        first, _, report = await ask(port, ids[name], name, "The quick brown fox jumps. " * (prompt_tokens // 6))
        print(f"{name}: the prompt, {report['tokens_computed']} tokens, and the first load: {first:.3f} s to the first token")
    warm, swapped = [], []
    for turn in range(rounds):
        for name in NAMES:
            swapped.append(await ask(port, ids[name], name, f"Question {turn}?"))
            warm.append(await ask(port, ids[name], name, f"And {turn}?"))
    for what, runs in (("model in memory", warm), ("A -> B -> A", swapped)):
        seconds = [first for first, _, _ in runs]
        reports = [report for _, _, report in runs]
        print(f"{what}: {statistics.median(seconds):.3f} s to the first token (median of {len(runs)}, at most"
              f" {max(seconds):.3f}), {max(report['tokens_computed'] for report in reports)} tokens computed at most,"
              f" cache from {', '.join(sorted({report['source'] for report in reports}))}")
    http.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="GGUF file [scripts/model]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt-tokens", type=int, default=1500)
    options = parser.parse_args()
    model = options.model or subprocess.run([ROOT / "scripts/model"], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="bench-swap-") as folder:
        models = Path(folder) / "models"
        models.mkdir()
        for name in NAMES:
            (models / f"{name}.gguf").symlink_to(Path(model).resolve())
        flags = ("--models-dir", models, "--store-path", Path(folder) / "store")
        with ServerProcess(None, *flags, folder=folder).wait_until_ready() as server:
            asyncio.run(measure(server.port, options.rounds, options.prompt_tokens))
            metrics = server.metrics()
            for what in ("load", "unload"):
                count = sum(value for name, value in metrics.items() if name.startswith(f"ringside_model_{what}s_total"))
                total = sum(value for name, value in metrics.items() if name.startswith(f"ringside_model_{what}_seconds"))
                print(f"{what}: {total / count:.3f} s (mean of {count:.0f})")
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
