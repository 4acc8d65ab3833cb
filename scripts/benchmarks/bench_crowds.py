"""Benchmarks the cost of crowds to well-behaved clients; see scripts/bench_crowds."""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

SYSTEM = Path(__file__).resolve().parents[2] / "tests/system"
sys.path[:0] = [str(SYSTEM), str(SYSTEM / "transport")]
import crowds  # noqa: E402
import tiny_model  # noqa: E402
from bare_socket import BareSocket, has_ended, serve  # noqa: E402
from bench_watch import beside, percentile, prepare, watch  # noqa: E402
from bursts import burst, prompts  # noqa: E402
from crowds import MIB, Conversations, Listener  # noqa: E402
from server_process import ServerProcess  # noqa: E402
from wire import TERMINAL  # noqa: E402

ENDLESS_TOKENS = 1 << 20
STORM_S = 2
SLOTS_BESIDE = 16  # for a crowd's occasional requests
# Memory bounds of docs/operating/keys-and-tls.md, excluding the conversations' caches.
CONNECTION_BYTES = 10 << 10
SOCKET_BYTES = 12 * MIB  # for a client that sends without reading: two messages and an outbox
TOKEN_BYTES = 128  # for stored text


# ---- the crowds: each a separate process until it is stopped; `begun` is set once it is ready --------------------------------------


def unheard(port, options, begun, results):
    """Endless answers whose sockets are closed."""
    for id in Conversations(port).make(options.readers):
        one = BareSocket(port).open()
        crowds.ask(one, id, ENDLESS_TOKENS)
        while not one.events():
            one.read()
        one.close()
    begun.set()
    time.sleep(1 << 20)


def slow_readers(port, options, begun, results):
    """Endless answers whose readers read a byte per second or nothing."""
    ids = Conversations(port).make(options.readers)
    slow = crowds.slow_readers(port, [[id] for id in ids], ENDLESS_TOKENS)
    begun.set()
    for one in slow:
        one.socket.setblocking(False)
    while True:
        time.sleep(1)
        for one in slow[::2]:
            with contextlib.suppress(OSError):
                one.socket.recv(1)


def returning(port, options, begun, results):
    """All clients repeatedly resume their conversations within STORM_S, read everything and leave."""
    ids = Conversations(port).make(options.returning)
    for at in range(0, len(ids), 100):  # the lanes of one socket are answered in parallel
        asking = [(BareSocket(port).open(), id) for id in ids[at : at + 100]]
        for one, id in asking:
            crowds.ask(one, id, 20)
        serve([one for one, _ in asking], lambda one: any(event["type"] in TERMINAL for event in one.events()))
        for one, _ in asking:
            one.close()
    begun.set()
    while True:
        began, listeners = time.perf_counter(), []
        for n, id in enumerate(ids):
            time.sleep(max(0, began + n * STORM_S / len(ids) - time.perf_counter()))
            listeners.append(Listener(port, id))
        connected_s = time.perf_counter() - began
        serve(listeners, Listener.done)
        results.put({"connected_s": connected_s, "answered_s": time.perf_counter() - began, "heard": len(listeners)})
        for one in listeners:
            one.socket.close()


def frame_flood(port, options, begun, results):
    begun.set()
    while True:
        for blocks in crowds.FRAME_FLOODS.values():
            with contextlib.suppress(OSError, AssertionError):
                crowds.flood(port, *blocks)
        with contextlib.suppress(OSError, AssertionError):
            crowds.large_messages(port, 4)


def head_flood(port, options, begun, results):
    begun.set()
    while True:
        connections = []
        for head in list(crowds.HEAD_FLOODS.values()) * 10:
            if one := crowds.connect(port):
                connections.append(one)
                with contextlib.suppress(OSError):
                    one.sendall(head)
        for one in connections:
            one.close()


def connection_flood(port, options, begun, results):
    """Opens silent connections up to the limit and replaces each one that is closed."""
    connections = []
    while True:
        while len(connections) < options.connections:
            connections += filter(None, [crowds.connect(port)])
        begun.set()
        ended = {one for one in connections if has_ended(one)}
        connections = [one for one in connections if one not in ended]
        for one in ended:
            one.close()
        time.sleep(0.01)


CROWDS = {"alone": None, "answers that nobody hears": (unheard, 1), "slow readers": (slow_readers, 1), "coming back": (returning, 1),
          "floods of frames": (frame_flood, 0), "floods of heads": (head_flood, 0), "a flood of connections": (connection_flood, 1)}


def sockets_and_connections(options, name):
    """Numbers of WebSockets and of connections in a crowd, for the memory bound."""
    return {"alone": (0, 0), "answers that nobody hears": (0, options.readers), "slow readers": (options.readers, options.readers),
            "coming back": (options.returning, options.returning), "floods of frames": (options.attackers, options.attackers),
            "floods of heads": (0, options.attackers * 40), "a flood of connections": (0, options.connections)}[name]


# ---- measurement ----------------------------------------------------------------------------------------------------------------


def most_resident(pid, seconds, values):
    end = time.monotonic() + seconds
    most = 0
    while time.monotonic() < end:
        status = Path(f"/proc/{pid}/status").read_text()
        most = max(most, int(status.split("VmRSS:")[1].split()[0]) * 1024)
        time.sleep(0.05)
    values.put(most)


def measure(options, folder, model, name):
    """Measures one crowd on a new server."""
    busy = options.readers if name in ("answers that nobody hears", "slow readers") else 0
    flags = ["--threads", options.threads, "--slots", options.clients + busy + SLOTS_BESIDE, "--memory-len", 512,
             "--max-connections", max(options.readers, options.returning) + options.clients + 200, "--max-detached-tokens", 0,
             "--max-turns-per-owner", 0, "--queue-limit", 1024]
    with ServerProcess(model, *flags, folder=folder, binary=options.binary) as server:
        server.wait_until_ready()
        resting = server.resident_bytes()
        begun, results, resident = multiprocessing.Event(), multiprocessing.Queue(), multiprocessing.Queue()
        target, count = CROWDS[name] or (None, 0)
        with beside(target, (server.port, options, begun, results), (count or options.attackers) if target else 0):
            assert target is None or begun.wait(600), f"{name} did not start"
            watcher = multiprocessing.Process(target=most_resident, args=(server.process.pid, options.seconds, resident))
            watcher.start()
            values = watch(server.port, options.clients, options.seconds, multiprocessing.Queue())
            most = resident.get()
            watcher.join()
            storms = [results.get(timeout=600)] if target is returning else []  # wait for at least one storm to finish
        totals = server.metrics()
        sockets, connections = sockets_and_connections(options, name)
        at_most = (resting + totals["ringside_kv_bytes"] + totals["ringside_cache_memory_bytes"]
                   + totals["ringside_generation_tokens_total"] * TOKEN_BYTES + sockets * SOCKET_BYTES
                   + (connections + options.clients) * CONNECTION_BYTES)
        closes = {key.split('"')[1]: int(value) for key, value in totals.items() if key.startswith("ringside_ws_close_total{")}
        while not results.empty():
            storms.append(results.get())
        server.kill()
    return values | {"resting": resting, "resident": most, "at_most": at_most, "closes": closes, "storms": storms}


def half_open_handshakes(options, folder, model):
    """Measures how long honest new clients need for a handshake and a request while others leave theirs half open; and
    memory."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                    "-out", certificate, "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    found = {}
    with ServerProcess(model, "--threads", options.threads, "--ssl-certfile", certificate, "--ssl-keyfile", key, folder=folder,
                       scheme="https", binary=options.binary) as server:
        server.wait_until_ready()
        for name, count in (("alone", 0), ("beside", 1)):
            begun = multiprocessing.Event()
            with beside(connection_flood, (server.port, options, begun, None), count):
                assert not count or begun.wait(600)
                times, refused, end = [], 0, time.monotonic() + options.seconds
                while time.monotonic() < end:
                    began = time.perf_counter()
                    try:
                        urllib.request.urlopen(f"https://127.0.0.1:{server.port}/healthz", context=context, timeout=30).read()
                        times.append(time.perf_counter() - began)
                    except OSError:
                        refused += 1
                found[name] = {"times": times, "refused": refused, "resident": server.resident_bytes()}
        server.kill()
    return found


def bursts(options, folder, model):
    """Measures first tokens when all ask at once: without a limit, and with a tenth of that p99 as --max-wait-s. Refused
    requests are retried as advised."""
    texts, rows = prompts(options.burst, 300), []
    for _ in range(2):
        limit_s = rows[0]["first_p99_ms"] / 10_000 if rows else 0
        flags = ["--threads", options.threads, "--slots", options.burst, "--max-turns-per-owner", 0, "--queue-limit", 1024,
                 "--max-wait-s", f"{limit_s:.3f}"]
        with ServerProcess(model, *flags, folder=folder, binary=options.binary) as server:
            server.wait_until_ready()
            for text in prompts(12, 300):  # from here on the engine knows its rate
                asyncio.run(burst(server.port, [text]))
            asked = asyncio.run(burst(server.port, texts, tries=1000))
            server.kill()
        row = {"turns": options.burst, "limit_s": limit_s, "refused": sum(len(one.refusals) for one in asked)}
        for kind, values in (("first", [one.first_s for one in asked]), ("all", [one.all_s for one in asked])):
            row |= {f"{kind}_{key}_ms": percentile(values, share) for key, share in (("p50", 0.5), ("p99", 0.99))}
        rows.append(row)
    rows[1]["first_p99_ratio"] = rows[1]["first_p99_ms"] / rows[0]["first_p99_ms"]
    return rows


def print_bursts(rows):
    print("\n| turns at once | --max-wait-s | first token of admitted turns: p50, p99, ms | p99 with refusals | refused requests | p99 / no limit |")
    print("| --- " * 6 + "|")
    for row in rows:
        print(f"| {row['turns']} | {row['limit_s']:.3f} | {row['first_p50_ms']:.0f}, {row['first_p99_ms']:.0f} | {row['all_p99_ms']:.0f} "
              f"| {row['refused']} | {row.get('first_p99_ratio', 1):.2f} |")


def row_of(name, rounds):
    """The results for one crowd, as numbers."""
    row = {"crowd": name, "resting_mib": rounds[-1]["resting"] / MIB, "resident_mib": max(one["resident"] for one in rounds) / MIB,
           "at_most_mib": min(one["at_most"] for one in rounds) / MIB,
           "closes": rounds[-1]["closes"], "storms": [storm for one in rounds for storm in one["storms"]]}
    for kind in ("gaps", "health"):
        values = [value for one in rounds for value in one[kind]]
        row[kind] = len(values)
        row |= {f"{kind}_{key}_ms": percentile(values, share) for key, share in (("p50", 0.5), ("p99", 0.99), ("longest", 1))}
    return row


def print_tables(options, rows, handshakes):
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print(f"| {options.clients} streaming clients alongside | deltas | gap p50, ms | p99 | longest | /healthz p99, ms "
          "| resident memory, MiB (at rest, at most) | closed |")
    print("| --- " * 8 + "|")
    for row in rows:
        gaps = " | ".join(f"{row[f'gaps_{key}_ms']:.1f}" for key in ("p50", "p99", "longest"))
        closes = ", ".join(f"{code}: {count}" for code, count in row["closes"].items())
        print(f"| {row['crowd']} | {row['gaps']} | {gaps} | {row['health_p99_ms']:.1f} | {row['resident_mib']:.0f} ({row['resting_mib']:.0f}, {row['at_most_mib']:,.0f}) | {closes} |")
    for storm in (storm for row in rows for storm in row["storms"]):
        print(f"\n{storm['heard']} resumed in {storm['connected_s']:.2f} s; all received every event within {storm['answered_s']:.2f} s")
    for name, one in handshakes.items():
        print(f"\nTLS handshake and request, {name}: {len(one['times'])} done, p50 {percentile(one['times'], 0.5):.1f} ms, "
              f"p99 {percentile(one['times'], 0.99):.1f}; {one['refused']} failed; {one['resident'] / MIB:.0f} MiB resident")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("clients", 50), ("readers", 1000), ("returning", 5000), ("attackers", 20), ("connections", 10000),
                          ("burst", 200), ("seconds", 10), ("rounds", 3), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--model", type=Path, help="model to use instead of the tiny one")
    parser.add_argument("--binary", help="another server")
    parser.add_argument("--only", default="", help="run only crowds whose name contains this")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    prepare()
    found = {}
    with tempfile.TemporaryDirectory(prefix="ringside-bench-") as folder:
        folder = Path(folder)
        model = options.model or tiny_model.make(folder / "tiny.gguf")
        chosen = [name for name in CROWDS if name == "alone" or options.only in name]
        for _ in range(options.rounds):  # interleaved, so that background load affects all alike
            for name in chosen:
                found.setdefault(name, []).append(measure(options, folder, model, name))
        handshakes = half_open_handshakes(options, folder, model) if options.only in "half-open TLS handshakes" else {}
        burst_rows = bursts(options, folder, model) if options.only in "bursts" else []
    rows = [row_of(name, rounds) for name, rounds in found.items()]
    print_tables(options, rows, handshakes)
    print_bursts(burst_rows)
    if options.output:
        options.output.write_text(json.dumps({"load": os.getloadavg(), "rows": rows, "handshakes": handshakes, "bursts": burst_rows}, indent=1) + "\n")


main()
