"""Benchmarks the cost of stored and idle sessions; see scripts/bench_sessions."""

import argparse
import asyncio
import contextlib
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/system"))
import tiny_model  # noqa: E402
from conversation import Conversation  # noqa: E402
from server_process import ServerProcess  # noqa: E402
from wire import Http, Socket  # noqa: E402

MIB = 1 << 20
MARKUP_TOKENS = 8  # template overhead per turn
WORDS = ("the river a small house by garden with old tree and stone people walk under morning light they talk about weather "
         "bread water time while children play near bridge one day letter came from city it told of ship that sailed").split()


def words(rng, count):
    return " ".join(rng.choice(WORDS) for _ in range(count)) + "."


def say(line):
    print(line, flush=True)


# ---- many connections -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def idle_connections(port, count, sessions=None):
    """A separate process that holds `count` WebSockets, each attached to one of `sessions`, and answers their pings."""
    command = [sys.executable, str(Path(__file__).with_name("bench_idle_client.py")), str(port), str(count)]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    client.stdin.write(json.dumps(sessions or []) + "\n")
    client.stdin.flush()
    line = client.stdout.readline()
    assert line.startswith("ready "), line
    try:
        yield float(line.split()[1])
        assert client.poll() is None, "the client lost connections"
    finally:
        client.stdin.close()
        client.wait(60)


def measure_idle(server, seconds):
    """Returns resident bytes and the share of one core while idle."""
    time.sleep(5)  # connection setup memory is released
    before, began = server.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    return server.resident_bytes(), (server.cpu_seconds() - before) / (time.monotonic() - began)


def bench_idle(options, folder):
    model = tiny_model.make(folder / "tiny.gguf")
    with ServerProcess(model, "--max-connections", 16384, "--slots", 8, folder=folder) as server:
        server.wait_until_ready()
        with idle_connections(server.port, 100):
            empty, _ = measure_idle(server, 1)  # the first connections warm up the allocators
        with idle_connections(server.port, options.connections) as connect_s:
            full, share = measure_idle(server, options.seconds)
        server.stop()
    say(f"| idle connections | connected in, s | KiB each | RSS, MiB (without: {empty / MIB:.0f}) | of one core |")
    say("| --- | --- | --- | --- | --- |")
    say(f"| {options.connections} | {connect_s:.1f} | {(full - empty) / options.connections / 1024:.1f} | {full / MIB:.0f} "
        f"| {share:.1%} |")


# ---- many stored sessions ---------------------------------------------------------------------------------------------------


async def fill(port, wanted, clients=32):
    """Creates `wanted` conversations with one exchange each; returns their ids."""
    ids = []

    async def client(seed):
        rng = random.Random(seed)
        http, socket = Http(port), await Socket.open(port)
        while len(ids) < wanted:
            status, made = await http.call("POST", "/v1/conversations", {"metadata": {"topic": words(rng, 3)}})
            assert status == 200, made
            ids.append(made["id"])
            events = await socket.ask(conversation=made["id"], input=words(rng, 10), max_output_tokens=8)
            assert events[-1]["type"] != "error", events[-1]
        http.close()
        await socket.close()

    began = time.monotonic()
    await asyncio.gather(*map(client, range(clients)))
    say(f"{len(ids)} sessions created, {len(ids) / (time.monotonic() - began):.0f} per second")
    return ids


def bench_stored(options, folder):
    model = tiny_model.make(folder / "tiny.gguf")
    flags = ["--store-path", folder / "store", "--max-connections", 16384, "--slots", 8, "--memory-len", 512,
             "--host-cache-mb", 64, "--shutdown-timeout", 5, "--max-sessions-per-owner", 0]
    with ServerProcess(model, *flags, folder=folder) as server:
        server.wait_until_ready()
        empty = server.resident_bytes()
        ids = asyncio.run(fill(server.port, options.sessions))
        filled = server.resident_bytes()
        server.stop()
    rows = []
    began = time.monotonic()
    with ServerProcess(model, *flags, folder=folder) as server:
        server.wait_until_ready()
        ready_s = time.monotonic() - began
        rows.append(("a server without sessions", empty))
        rows.append((f"just after {len(ids)} sessions were created", filled))
        rows.append((f"{len(ids)} stored sessions, just started", server.resident_bytes()))
        with idle_connections(server.port, options.connections) as _:
            resident, share = measure_idle(server, options.seconds)
            rows.append((f"and {options.connections} idle connections ({share:.1%} of one core)", resident))
        with idle_connections(server.port, options.connections, random.Random(1).sample(ids, options.connections)) as _:
            resident, share = measure_idle(server, options.seconds)
            rows.append((f"each attached to a different session ({share:.1%} of one core)", resident))
        server.stop()
    disk = sum(path.stat().st_size for path in (folder / "store").rglob("*") if path.is_file())
    say(f"ready {ready_s:.2f} s after the start of the process; {disk / MIB:.0f} MiB on disk")
    say("| | RSS, MiB |\n| --- | --- |")
    for name, resident in rows:
        say(f"| {name} | {resident / MIB:.0f} |")


# ---- time to first token ----------------------------------------------------------------------------------------------------


class Bench:
    """A short turn on a long conversation, timed from sending the request to the first text."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.store = folder / "store"
        self.rng = random.Random(1)
        self.id = None

    def start(self, *flags):
        return ServerProcess(os.environ["RINGSIDE_TEST_MODEL"], "--store-path", self.store, "--slots", 2, "--memory-len", 4096,
                             *flags, folder=self.folder).wait_until_ready()

    async def make(self, server):
        counted = []
        for count in (100, 300):
            async with Conversation(server.port) as talk:
                probe = await talk.ask(words(self.rng, count), max_output_tokens=1, temperature=0)
                counted.append(probe["usage"]["input_tokens"])
        per_word = (counted[1] - counted[0]) / 200
        around = counted[0] - 100 * per_word  # template overhead
        async with Conversation(server.port) as talk:
            self.id = talk.id
            text = words(self.rng, int((self.options.history - around - 16) / per_word))
            answer = await talk.ask(text, max_output_tokens=16, temperature=0, ignore_eos=True)
            self.turn_words = max(1, round((self.options.turn - MARKUP_TOKENS) / per_word))
            return answer["ringside"]["position"]

    async def turn(self, server):
        """Returns milliseconds to the first text, and the report. Restores the conversation afterwards."""
        async with Conversation(server.port, self.id) as talk:
            request = {"type": "response.create", "conversation": self.id, "input": words(self.rng, self.turn_words),
                       "max_output_tokens": 4, "temperature": 0, "ignore_eos": True}
            began = time.perf_counter()
            await talk.socket.send(request)
            first = None
            while (event := await talk.socket.receive())["type"] not in ("response.completed", "response.incomplete"):
                assert event["type"] != "error", event
                if first is None and event["type"] == "response.output_text.delta":
                    first = time.perf_counter()
            await talk.socket.send({"type": "ringside:session.rewind", "session": self.id, "to": 2})
            while (await talk.socket.receive())["type"] != "ringside:session.rewound":
                pass
        return 1000 * (first - began), event["response"]["ringside"]

    def wait_until_in(self, server, tier):
        deadline = time.monotonic() + 120
        while (found := json.loads(server.get(f"/v1/conversations/{self.id}")[1])["ringside"]["cache"]) != tier:
            assert time.monotonic() < deadline, f"the cache is in {found}, not in {tier}"
            time.sleep(0.05)


def forget_page_cache(folder):
    """Drops the page cache and returns true; without permission, drops only these files' pages, as far as the kernel
    complies."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
        return True
    except OSError:
        for path in folder.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return False


def bench_ttft(options, folder):
    bench = Bench(options, folder)
    server = bench.start("--session-idle-host", 3600)
    position = asyncio.run(bench.make(server))
    found = {}

    def measure(name, source, server):
        ms, report = asyncio.run(bench.turn(server))
        assert report["source"] == source, (name, report)
        found.setdefault(name, []).append((ms, report))

    for _ in range(options.rounds + 1):
        measure("slot", "slot", server)
    server.stop()
    server = bench.start("--session-idle-host", 1, "--session-idle-disk", 3600)
    asyncio.run(bench.turn(server))
    for _ in range(options.rounds + 1):
        bench.wait_until_in(server, "host")
        measure("host", "host", server)
    server.stop()
    server = bench.start("--session-idle-host", 1, "--session-idle-disk", 1)
    asyncio.run(bench.turn(server))
    for _ in range(options.rounds + 1):
        bench.wait_until_in(server, "disk")
        measure("disk, pages cached", "disk", server)
    server.stop()
    dropped = True
    for _ in range(options.rounds + 1):
        server = bench.start("--session-idle-host", 3600)
        dropped = forget_page_cache(bench.store) and dropped
        measure("disk, pages not cached", "disk", server)
        server.stop()
    for _ in range(options.rounds + 1):
        shutil.rmtree(bench.store / "kv")
        server = bench.start("--session-idle-host", 3600)
        measure("recomputed", "recomputed", server)
        server.stop()
    say(f"a turn on {position} tokens, medians of {options.rounds}" + ("" if dropped else "; drop_caches was not allowed"))
    say("| cache from | time to first token, ms | found, tokens | computed, tokens | restore, ms | against recompute |")
    say("| --- | --- | --- | --- | --- | --- |")
    medians = {name: statistics.median(ms for ms, _ in rows[1:]) for name, rows in found.items()}
    for name, rows in found.items():
        report = rows[-1][1]
        restore = statistics.median(report["restore_ms"] for _, report in rows[1:])
        say(f"| {name} | {medians[name]:.1f} | {report['tokens_reused']} | {report['tokens_computed']} | {restore:.1f} | "
            f"{medians['recomputed'] / medians[name]:.1f}x |")


# ---- the journal ------------------------------------------------------------------------------------------------------------


async def talk_at_once(server, conversations, tokens):
    """Returns total tokens per second while `conversations` answer concurrently."""

    async def one():
        async with Conversation(server.port) as talk:
            await talk.ask("Tell me a story.", max_output_tokens=4, ignore_eos=True)
            began = time.perf_counter()
            await talk.ask("Go on.", max_output_tokens=tokens, ignore_eos=True)
            return time.perf_counter() - began

    times = await asyncio.gather(*(one() for _ in range(conversations)))
    return 1000 * statistics.median(times) / tokens


def bench_journal(options, folder):
    tiny = tiny_model.make(folder / "tiny.gguf")
    cases = [("SmolLM2", os.environ["RINGSIDE_TEST_MODEL"], count, 128) for count in (1, 8)]
    cases += [("tiny", tiny, count, 512) for count in (1, 32)]
    say("| model | conversations | ms per token, none | turn | token | added by token | syncs/s | ms per sync |")
    say("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, model, count, tokens in cases:
        ms, rates, syncs = {}, [], []
        for _ in range(options.rounds):
            for durability in ("none", "turn", "token"):
                store = folder / f"store-{durability}"
                with ServerProcess(model, "--slots", 32, "--memory-len", 1024, "--store-path", store, "--durability", durability,
                                   folder=folder) as server:
                    server.wait_until_ready()
                    asyncio.run(talk_at_once(server, count, 16))
                    before, began = server.metrics(), time.monotonic()
                    ms.setdefault(durability, []).append(asyncio.run(talk_at_once(server, count, tokens)))
                    after, wall = server.metrics(), time.monotonic() - began
                    if durability == "token":
                        commits = after["ringside_journal_commits_total"] - before["ringside_journal_commits_total"]
                        seconds = after["ringside_journal_sync_seconds_total"] - before["ringside_journal_sync_seconds_total"]
                        rates.append(commits / wall)
                        syncs.append(1000 * seconds / max(1, commits))
                    server.stop()
        none, turn, token = (statistics.median(ms[d]) for d in ("none", "turn", "token"))
        say(f"| {name} | {count} | {none:.3f} | {turn:.3f} | {token:.3f} | {token - none:+.3f} ms | "
            f"{statistics.median(rates):.0f} | {statistics.median(syncs):.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("idle", "stored", "ttft", "journal"))
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--history", type=int, default=2000)
    parser.add_argument("--turn", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="folder of the store")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # inherited by the server
    with tempfile.TemporaryDirectory(prefix="ringside-bench-", dir=options.folder) as folder:
        globals()[f"bench_{options.what}"](options, Path(folder))


main()
