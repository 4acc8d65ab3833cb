"""Benchmarks a healthy tenant while other tenants attack; see scripts/bench_attacks."""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import shlex
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/system"))
import tiny_model  # noqa: E402
from attackers import KINDS  # noqa: E402
from bench_watch import percentile, prepare  # noqa: E402
from server_process import ServerProcess  # noqa: E402
from websockets.asyncio.client import connect  # noqa: E402
from wire import TERMINAL, Http  # noqa: E402

HEALTHY = "healthy-key"
TURN_TOKENS = 32
LONGEST_PROBE_S = 30
MIB = 1 << 20


# ---- the healthy tenant and the probe: one process each -------------------------------------------------------------------------------


async def talk(port, end, found):
    """Short turns of one conversation, two per second: time to first delta, gaps, refusals and lost sockets."""
    while time.monotonic() < end:
        try:
            async with connect(f"ws://127.0.0.1:{port}/v1/responses", compression=None, max_size=None, proxy=None, open_timeout=60,
                               additional_headers={"Authorization": f"Bearer {HEALTHY}"}) as socket:
                previous = None
                while time.monotonic() < end:
                    previous = await turn(socket, previous, found)
                    await asyncio.sleep(0.5)
        except Exception as error:  # any failure of the healthy client is counted
            found["lost"].append(repr(error)[:200])
            await asyncio.sleep(0.2)


async def turn(socket, previous, found):
    """Runs a turn; returns the response id for the next one."""
    start = last = time.perf_counter()
    await socket.send(json.dumps({"type": "response.create", "input": "Go on.", "max_output_tokens": TURN_TOKENS, "ignore_eos": True,
                                  **({"previous_response_id": previous} if previous else {})}))
    first = True
    while True:
        event = await asyncio.wait_for(socket.recv(), 120)
        if event.startswith('{"type":"response.output_text.delta"'):
            now = time.perf_counter()
            found["first" if first else "gaps"].append(now - (start if first else last))
            first, last = False, now
            continue
        event = json.loads(event)
        if event["type"] == "error" or event["type"] == "response.failed":
            found["refused"].append(json.dumps(event)[:200])
            return None
        if event["type"] in TERMINAL:
            return event["response"]["id"]


async def probe(port, end, found):
    """Polls /readyz like a load balancer, on a new connection each time."""
    while time.monotonic() < end:
        start = time.perf_counter()
        http = Http(port)
        try:
            status, _ = await asyncio.wait_for(http.call("GET", "/readyz"), LONGEST_PROBE_S)
        except Exception as error:  # counted as a separate kind of answer
            status = type(error).__name__
        http.close()
        found["ready"].append(time.perf_counter() - start)
        found["ready_status"].append(status)
        await asyncio.sleep(0.1)


def measured(coroutine, port, end, kinds, results):
    found = {kind: [] for kind in kinds}
    asyncio.run(coroutine(port, end, found))
    results.put(found)


def observe(server, seconds):
    """Runs one block; `resident` is the server's maximum resident set during it."""
    end = time.monotonic() + seconds
    results = multiprocessing.Queue()
    watchers = [multiprocessing.Process(target=measured, args=(coroutine, server.port, end, kinds, results))
                for coroutine, kinds in ((talk, ("first", "gaps", "refused", "lost")), (probe, ("ready", "ready_status")))]
    for watcher in watchers:
        watcher.start()
    resident = 0
    while time.monotonic() < end and server.running():
        resident = max(resident, server.resident_bytes())
        time.sleep(0.2)
    found = {"resident": [resident]}
    for _ in watchers:
        found |= results.get(timeout=300)
    for watcher in watchers:
        watcher.join()
    return found


# ---- the attackers ---------------------------------------------------------------------------------------------------------------------


def attack(kind, port, key):
    os.nice(19)  # a remote machine would do this work
    random.seed()
    KINDS[kind](port, key)


@contextlib.contextmanager
def attackers(port, kinds):
    running = [multiprocessing.Process(target=attack, args=(kind, port, f"attacker-{number}"), daemon=True)
               for number, kind in enumerate(kinds)]
    for process in running:
        process.start()
    time.sleep(2)
    try:
        yield
        assert all(process.is_alive() for process in running), "an attacker failed"
    finally:
        for process in running:
            process.kill()
            process.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attackers", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=60, help="duration of a block with attackers")
    parser.add_argument("--alone-seconds", type=int, help="duration of a block without attackers; default: the same")
    parser.add_argument("--rounds", type=int, default=5, help="number of block pairs")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1, help="threads of the engine")
    parser.add_argument("--only", help="attack kinds, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", type=Path, help="model to use instead of the tiny one")
    parser.add_argument("--binary", help="another server")
    parser.add_argument("--server-flags", default="", help="more flags of the server, as one argument")
    options = parser.parse_args()
    prepare()
    chance = random.Random(options.seed)
    kinds = options.only.split(",") if options.only else list(KINDS)
    blocks = {"alone": [], "attacked": []}
    with tempfile.TemporaryDirectory(prefix="ringside-bench-") as folder:
        folder = Path(folder)
        keys = folder / "keys"
        keys.write_text("\n".join([HEALTHY, *(f"attacker-{number}" for number in range(options.attackers))]) + "\n")
        keys.chmod(0o600)
        model = options.model or tiny_model.make(folder / "tiny.gguf", endless=True)
        with ServerProcess(model, "--threads", options.threads, "--slots", options.slots, "--store-path", folder / "store",
                           "--api-key-file", keys, *shlex.split(options.server_flags), folder=folder, binary=options.binary) as server:
            server.wait_until_ready()
            observe(server, 3)
            for round in range(options.rounds):
                blocks["alone"].append(observe(server, options.alone_seconds or options.seconds))
                drawn = [chance.choice(kinds) for _ in range(options.attackers)]
                with attackers(server.port, drawn):
                    blocks["attacked"].append(observe(server, options.seconds))
                print(f"round {round + 1}: {', '.join(f'{drawn.count(kind)} {kind}' for kind in kinds if kind in drawn)}", flush=True)
                assert server.running(), server.tail()
                time.sleep(5)  # running answers of the attackers end
    report(blocks)


def report(blocks):
    def all_of(name, kind):
        return [value for block in blocks[name] for value in block[kind]]

    print("healthy tenant | turns | first token p50, ms | p99 | gap p50, ms | p99 | refused | lost | /readyz p99, ms | longest | other than 200 | MiB")
    print("--- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | ---")
    for name in blocks:
        times = [f"{percentile(all_of(name, kind), share):.1f}" for kind, share in (("first", 0.5), ("first", 0.99), ("gaps", 0.5),
                                                                                  ("gaps", 0.99))]
        other = [status for status in all_of(name, "ready_status") if status != 200]
        print(" | ".join([name, str(len(all_of(name, "first"))), *times, str(len(all_of(name, "refused"))), str(len(all_of(name, "lost"))),
                          *(f"{percentile(all_of(name, 'ready'), share):.1f}" for share in (0.99, 1)), str(len(other)),
                          str(max(all_of(name, "resident")) // MIB)]))
    for kind in ("first", "gaps"):
        ratio = percentile(all_of("attacked", kind), 0.99) / percentile(all_of("alone", kind), 0.99)
        print(f"p99 of {'first tokens' if kind == 'first' else 'gaps'}, attacked / alone: {ratio:.2f}")
    for kind in ("refused", "lost"):
        for text in sorted(set(all_of("attacked", kind)))[:5]:
            print(f"{kind}: {text}")


main()
