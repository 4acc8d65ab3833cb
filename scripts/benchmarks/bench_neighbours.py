"""Benchmarks the cost of noisy neighbours to other clients; see scripts/bench_neighbours."""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import socket
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/system"))
import tiny_model  # noqa: E402
from bench_watch import beside, percentile, prepare, watch  # noqa: E402
from conversation import Conversation  # noqa: E402
from server_process import ServerProcess  # noqa: E402
from websockets.asyncio.client import connect  # noqa: E402
from wire import TERMINAL, Http  # noqa: E402

ATTACK_BYTES = 4_000_000
LARGE_ITEMS, LARGE_ITEM_BYTES = 20, 50_000
MISSED_EVENTS = 60_000


# ---- the neighbours: separate processes, until they are stopped -----------------------------------------------------------------


async def keep_house(port):
    """Lists, exports, imports and deletes large sessions without pause."""
    http = Http(port)
    items = [{"type": "message", "role": "user", "content": "word " * (LARGE_ITEM_BYTES // 5)} for _ in range(LARGE_ITEMS)]
    status, made = await http.call("POST", "/v1/conversations", {})
    assert status == 200, made
    for item in items:
        status, added = await http.call("POST", f"/v1/conversations/{made['id']}/items", {"items": [item]})
        assert status == 200, added
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def call(method, path, body=b""):
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        return int(head.split()[1]), await reader.readexactly(int(head.split("content-length: ")[1].split()[0]))

    while True:
        await call("GET", "/v1/conversations?limit=100")
        status, exported = await call("GET", f"/v1/conversations/{made['id']}/export")
        if status != 200:
            continue
        status, imported = await call("POST", "/v1/conversations/import", exported)
        if status == 200:
            await call("DELETE", f"/v1/conversations/{json.loads(imported)['id']}")


def neighbour(port):
    asyncio.run(keep_house(port))


def attacker(port):
    """Sends turns with 4 MB of input without a space, each as soon as the last is answered."""
    message = json.dumps({"type": "response.create", "input": "x" * ATTACK_BYTES}).encode()
    # A zero mask leaves the bytes unchanged.
    frame = b"\x81\xff" + len(message).to_bytes(8, "big") + bytes(4) + message
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                               b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
            while connection.recv(1 << 16):
                connection.sendall(frame)


async def say_much(port):
    """Creates a conversation with MISSED_EVENTS events."""
    async with Conversation(port) as talk:
        seq = 0
        while seq < MISSED_EVENTS:
            await talk.socket.send({"type": "response.create", "conversation": talk.id, "input": "Go on.",
                                    "max_output_tokens": 2_000, "ignore_eos": True})
            event = {"type": ""}
            while event["type"] not in TERMINAL:
                event = await talk.socket.receive()
            assert event["type"] == "response.incomplete", event
            seq = event["ringside"]["seq"]
        return talk.id


async def come_back(port, session):
    """Resumes the conversation from its first event, reads everything, and repeats."""
    while True:
        async with connect(f"ws://127.0.0.1:{port}/v1/responses?session={session}&after=0", max_size=None) as socket:
            resumed = json.loads(await socket.recv())
            assert resumed["replay"] == "events", resumed
            last = f'"ringside":{{"seq":{resumed["next_seq"] - 1}}}}}'
            while not (await socket.recv()).endswith(last):
                pass


def returner(port, session):
    asyncio.run(come_back(port, session))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--attackers", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--binary", help="another server")
    parser.add_argument("--folder", type=Path, help="folder of the store")
    parser.add_argument("--model", type=Path, help="model to use instead of the tiny one")
    parser.add_argument("--threads", type=int, default=1, help="threads of the engine")
    options = parser.parse_args()
    prepare()
    with tempfile.TemporaryDirectory(prefix="ringside-bench-", dir=options.folder) as folder:
        folder = Path(folder)
        model = options.model or tiny_model.make(folder / "tiny.gguf")
        with ServerProcess(model, "--threads", options.threads, "--slots", options.clients, "--memory-len", 512, "--store-path",
                           folder / "store", folder=folder, binary=options.binary) as server:
            server.wait_until_ready()
            session = asyncio.run(say_much(server.port))
            cases = {"alone": (neighbour, (server.port,), 0), "housekeeping": (neighbour, (server.port,), 1),
                     "resumes": (returner, (server.port, session), 1),
                     "attackers": (attacker, (server.port,), options.attackers)}
            found = {name: {"gaps": [], "health": []} for name in cases}
            results = multiprocessing.Queue()
            for _ in range(options.rounds):  # interleaved, so that background load affects all alike
                for name, (target, arguments, count) in cases.items():
                    with beside(target, arguments, count):
                        values = watch(server.port, options.clients, options.seconds, results)
                    for kind in values:
                        found[name][kind] += values[kind]
            server.kill()
    print(f"{options.clients} streaming clients | deltas | gap p50, ms | p99 | longest | /healthz p50, ms | p99 | longest")
    print("--- | --- | --- | --- | --- | --- | --- | ---")
    for name, kinds in found.items():
        columns = [f"{percentile(kinds[kind], share):.1f}" for kind in ("gaps", "health") for share in (0.5, 0.99, 1)]
        print(" | ".join([name, str(len(kinds["gaps"])), *columns]))


main()
