"""Benchmarks the shared journal against the local one; see scripts/bench_store."""

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/system"), str(ROOT / "tests/cluster")]
import tiny_model  # noqa: E402
from conversation import Conversation  # noqa: E402
from postgres_cluster import PostgresCluster  # noqa: E402
from server_process import ServerProcess, server_path  # noqa: E402
from wire import Http, Socket  # noqa: E402

MIB = 1 << 20
STORES, DURABILITIES = ("RocksDB", "PostgreSQL"), ("turn", "token")
WITH_FOLDER = "PostgreSQL with a folder"  # which keeps the text of running answers, with durability "turn"


def say(line):
    print(line, flush=True)


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


class Stores:
    """Fresh stores of both kinds, and servers on them."""

    def __init__(self, folder, postgres, model):
        self.folder, self.postgres = folder, postgres
        self.model = model or tiny_model.make(folder / "tiny.gguf")
        self.made = 0

    def fresh(self, kind):
        """Returns the flags of an empty store."""
        self.made += 1
        if kind == "RocksDB":
            return ["--store-path", self.folder / f"store{self.made}"]
        shared = ["--store-url", self.postgres.new_database(), "--server-name", "bench"]
        return [*shared, "--store-path", self.folder / f"store{self.made}"] if kind == WITH_FOLDER else shared

    @contextlib.contextmanager
    def server(self, flags, *more):
        with ServerProcess(self.model, "--threads", 1, "--slots", 64, "--memory-len", 2048, "--max-turns-per-owner", 0,
                           "--max-sessions-per-owner", 0, *flags, *more, folder=self.folder) as server:
            server.wait_until_ready()
            yield server
            server.stop()


# ---- cost -------------------------------------------------------------------------------------------------------------------


async def first_token(port, turns):
    """Milliseconds to the first delta and to the end of sequential short turns."""
    first, whole = [], []
    async with Conversation(port) as talk:
        for _ in range(turns):
            began = time.perf_counter()
            await talk.begin("Go on.", max_output_tokens=4, ignore_eos=True)
            first.append(1000 * (time.perf_counter() - began))
            while (await talk.socket.receive())["type"] not in ("response.completed", "response.incomplete"):
                pass
            whole.append(1000 * (time.perf_counter() - began))
    return statistics.median(first), statistics.median(whole)


async def streaming(port, clients, tokens):
    """Tokens per second while all clients stream one answer."""
    talks = [await Conversation(port).__aenter__() for _ in range(clients)]
    await asyncio.gather(*(talk.ask("Hello.", max_output_tokens=1) for talk in talks))
    began = time.perf_counter()
    await asyncio.gather(*(talk.ask("Go on.", max_output_tokens=tokens, ignore_eos=True) for talk in talks))
    rate = clients * tokens / (time.perf_counter() - began)
    for talk in talks:
        await talk.__aexit__()
    return rate


async def writing(port, writers, turns):
    """Turns per second of clients that write one short turn after another."""

    async def writer():
        async with Conversation(port) as talk:
            for _ in range(turns):
                await talk.ask("Note this down, please.", max_output_tokens=1)

    began = time.perf_counter()
    await asyncio.gather(*(writer() for _ in range(writers)))
    return writers * turns / (time.perf_counter() - began)


def commits(server):
    metrics = server.metrics()
    return metrics["ringside_journal_commits_total"], metrics["ringside_journal_sync_seconds_total"]


def measure(server, options, note):
    first, whole = asyncio.run(first_token(server.port, options.turns))
    note("time to first token, ms", first)
    note("short turn, ms", whole)
    count, seconds = commits(server)
    note(f"{options.streams} streams, tokens/s", asyncio.run(streaming(server.port, options.streams, options.tokens)))
    again, more = commits(server)
    if again > count:
        note(f"a batch of {options.streams} streams, ms", 1000 * (more - seconds) / (again - count))
    note(f"{options.writers} writers, turns/s", asyncio.run(writing(server.port, options.writers, options.turns // 4)))


def bench_cost(options, stores):
    found = {}
    cases = [(kind, durability) for durability in DURABILITIES for kind in (*STORES, WITH_FOLDER) if kind.split()[0] in options.stores]
    for number in range(options.rounds):
        for kind, durability in [("none", "none"), *cases]:
            flags = [] if kind == "none" else [*stores.fresh(kind), "--durability", durability]
            with stores.server(flags) as server:
                measure(server, options, lambda name, value: found.setdefault(name, {}).setdefault((kind, durability), []).append(value))
        say(f"round {number + 1} of {options.rounds}")
    for durability in DURABILITIES:
        say(f"\n--durability {durability}, medians of {options.rounds}\n")
        say("| | no store | RocksDB | PostgreSQL, synchronous standby | with a folder | against RocksDB |\n| --- | --- | --- | --- | --- | --- |")
        for name, values in found.items():
            middle = {case: statistics.median(row) for case, row in values.items()}
            none = middle.get(("none", "none"))
            local, shared, folder = (middle.get((kind, durability)) for kind in (*STORES, WITH_FOLDER))
            say(f"| {name} | {number_of(none)} | {number_of(local)} | {number_of(shared)} | {number_of(folder)} | {f'{shared / local:.2f}x' if shared and local else ''} |")


def number_of(value):
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.2f}"


# ---- many stored conversations ----------------------------------------------------------------------------------------------


async def fill(port, wanted, clients=16):
    """Creates `wanted` conversations of one short turn."""
    left = iter(range(wanted))

    async def client(seed):
        http, socket = Http(port), await Socket.open(port)
        for _ in left:
            status, made = await http.call("POST", "/v1/conversations", {"metadata": {"topic": f"topic {seed}"}})
            assert status == 200, made
            events = await socket.ask(conversation=made["id"], input="Hello there.", max_output_tokens=2)
            assert events[-1]["type"] != "error", events[-1]
        http.close()
        await socket.close()

    began = time.monotonic()
    await asyncio.gather(*map(client, range(clients)))
    return wanted / (time.monotonic() - began)


async def list_pages(port, count=50):
    """Milliseconds for a first page of 100 conversations, and for a page from the middle of the list."""
    http, first, later, rng = Http(port), [], [], random.Random(1)
    after = ""
    for number in range(count):
        began = time.perf_counter()
        status, page = await http.call("GET", "/v1/conversations?limit=100")
        first.append(1000 * (time.perf_counter() - began))
        assert status == 200, page
        after = after or page["last_id"]
        began = time.perf_counter()
        status, page = await http.call("GET", f"/v1/conversations?limit=100&after={after}")
        later.append(1000 * (time.perf_counter() - began))
        assert status == 200, page
        if page["has_more"] and rng.random() < 0.9:
            after = page["last_id"]
    http.close()
    return statistics.median(first), statistics.median(later)


def bench_stored(options, stores):
    say("| store | conversations | created, 1/s | ready, s | first page, ms | later page, ms | RSS just started, MiB | after the lists, MiB |")
    say("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for kind in options.stores:
        flags = stores.fresh(kind)
        for sessions in (0, options.sessions):
            with stores.server(flags, "--host-cache-mb", 64, "--slots", 8) as server:
                rate = asyncio.run(fill(server.port, sessions))
            began = time.monotonic()
            with stores.server(flags, "--host-cache-mb", 64, "--slots", 8) as server:
                ready_s, started = time.monotonic() - began, server.resident_bytes()
                pages = asyncio.run(list_pages(server.port)) if sessions else (0, 0)
                listed = json.loads(server.get("/v1/conversations?limit=1")[1])
                assert bool(listed["data"]) == bool(sessions)
                say(f"| {kind} | {sessions} | {rate:.0f} | {ready_s:.2f} | {pages[0]:.1f} | {pages[1]:.1f} | {started / MIB:.0f} "
                    f"| {server.resident_bytes() / MIB:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("cost", "stored"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=256, help="of a streamed answer")
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--stores", nargs="+", choices=STORES, default=STORES)
    parser.add_argument("--folder", type=Path, help="folder of both stores")
    parser.add_argument("--model", type=Path, help="default: a tiny one with random weights")
    options = parser.parse_args()
    assert os.access(server_path(), os.X_OK), server_path()
    with tempfile.TemporaryDirectory(prefix="ringside-bench-", dir=options.folder) as folder, contextlib.ExitStack() as stack:
        postgres = None
        if "PostgreSQL" in options.stores:
            postgres = stack.enter_context(PostgresCluster(ports=free_ports(2), in_memory=False, parent=options.folder))
        globals()[f"bench_{options.what}"](options, Stores(Path(folder), postgres, options.model))


main()
