"""Benchmarks the server's overhead per token; see scripts/bench_wire."""

import argparse
import contextlib
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system"))
import tiny_model  # noqa: E402
from bare_socket import TEXT, frame, upgrade  # noqa: E402
from server_process import ServerProcess  # noqa: E402

ANSWER_TOKENS = 1000
EVENT = b'{"type":"response.output_text.delta"'  # the beginning of an event
DELTA, CHUNK = b'.output_text.delta"', b'"content":"'
STEP_US = 2000  # simulates a device that is slower than the server and leaves the CPU idle
SETTLE_S = 1  # from the first request to the start of counting


def post(path, body):
    data = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


class Count:
    """Counts a pattern in a byte stream that may be split anywhere."""

    def __init__(self, pattern):
        self.pattern, self.tail = pattern, b""

    def __call__(self, data):
        data = self.tail + data
        self.tail = data[-(len(self.pattern) - 1):]
        return data.count(self.pattern)


class Asking:
    """One connection that repeats its request as soon as it is answered. Over a WebSocket `end` is a pattern in an
    answer's last event, or the number of events per answer; without it an answer ends with its connection."""

    def __init__(self, port, request, event, end=None, opening=b""):
        self.port, self.request, self.event, self.end, self.opening = port, request, event, end, opening
        self.events = self.bytes = self.answers = 0
        self.open()

    def open(self):
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.opening:
            self.socket.sendall(self.opening)
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += self.socket.recv(1)
            assert b" 101 " in head, head
        self.ask()

    def ask(self):
        self.count, self.ended, self.of_answer = Count(self.event), Count(self.end) if isinstance(self.end, bytes) else None, 0
        self.begin = b""
        self.socket.sendall(self.request)

    def read(self):
        """Processes received data; returns false once the connection is closed."""
        data = self.socket.recv(1 << 16)
        if not data:
            assert self.of_answer, f"an answer without events: {self.begin!r}"
            return False
        self.begin = (self.begin + data)[:2000] if len(self.begin) < 2000 else self.begin
        found = self.count(data)
        self.events += found
        self.of_answer += found
        self.bytes += len(data)
        if self.ended(data) if self.ended else self.of_answer == self.end:
            self.answers += 1
            self.ask()
        return True


def measure(pid, make, connections, seconds):
    """Returns events per second, and the process's CPU microseconds and bytes per event."""
    selector = selectors.DefaultSelector()
    asking = [make() for _ in range(connections)]
    for one in asking:
        selector.register(one.socket, selectors.EVENT_READ, one)

    def serve(until):
        while time.perf_counter() < until:
            for key, _ in selector.select(0.1):
                if not key.data.read():
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    key.data.open()
                    selector.register(key.data.socket, selectors.EVENT_READ, key.data)

    serve(time.perf_counter() + SETTLE_S)
    before, cpu, began = [(one.events, one.bytes) for one in asking], cpu_seconds(pid), time.perf_counter()
    serve(began + seconds)
    spent, passed = cpu_seconds(pid) - cpu, time.perf_counter() - began
    events = sum(one.events - was for one, (was, _) in zip(asking, before))
    size = sum(one.bytes - was for one, (_, was) in zip(asking, before))
    for one in asking:
        one.socket.close()
    assert events, "nothing came"
    return {"events_per_s": events / passed, "cpu_us": spent / events * 1e6, "bytes": size / events}


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- servers under test ---------------------------------------------------------------------------------------------------------


def responses_socket(port):
    body = {"type": "response.create", "input": "Go on.", "max_output_tokens": ANSWER_TOKENS, "ignore_eos": True}
    return lambda: Asking(port, frame(TEXT, json.dumps(body).encode()), DELTA, b'"type":"response.incomplete"', upgrade())


def responses_events(port):
    body = {"input": "Go on.", "max_output_tokens": ANSWER_TOKENS, "ignore_eos": True, "stream": True}
    return lambda: Asking(port, post("/v1/responses", body), b'{"type":"response.output_text.delta"')


def chat_events(port):
    body = {"messages": [{"role": "user", "content": "Go on."}], "max_tokens": ANSWER_TOKENS, "ignore_eos": True, "stream": True}
    return lambda: Asking(port, post("/v1/chat/completions", body), CHUNK)


OURS = {"WebSocket, Responses": responses_socket, "SSE, Responses": responses_events, "SSE, chat/completions": chat_events}


@contextlib.contextmanager
def ours(model, folder, connections, step_us, stored):
    """Our server, with a model whose steps take `step_us` and cost no CPU; None: with the tiny model."""
    free = step_us is not None
    flags = ["--device", "cuda"] if free else ["--threads", 1]
    flags += ["--store-path", folder / f"store{time.monotonic_ns()}"] if stored else []
    binary = str(os.environ.get("RINGSIDE_FREE_SERVER") or ROOT / "build/cpu/bin/free_server") if free else None
    with ServerProcess(model, *flags, "--slots", connections + 8, "--memory-len", 512, "--max-input-tokens", 4096, folder=folder,
                       binary=binary, environment={"STEP_US": str(step_us)}) as server:
        server.wait_until_ready()
        yield server.port, server.process.pid


@contextlib.contextmanager
def beast(binary):
    with subprocess.Popen([binary], stdout=subprocess.PIPE) as process:
        try:
            yield int(process.stdout.readline()), process.pid
        finally:
            process.kill()


@contextlib.contextmanager
def llama(binary, model, folder, connections):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [binary, "--model", model, "--host", "127.0.0.1", "--port", str(port), "--parallel", str(connections), "--threads", "1",
               "--ctx-size", str(connections * 2048), "--jinja", "--offline"]
    with (folder / "llama.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health")
                    break
                except OSError:
                    assert process.poll() is None and time.monotonic() < deadline, (folder / "llama.log").read_text()[-2000:]
                    time.sleep(0.1)
            yield port, process.pid
        finally:
            process.kill()


def cases(options, model, folder):
    """Yields (server, transport, start function, client function) of each case."""
    event = EVENT.ljust(options.event_bytes, b"x")
    echo = str(os.environ.get("RINGSIDE_BEAST_ECHO") or ROOT / "build/cpu/bin/beast_echo")
    models = {"a model that costs nothing": (0, False), f"the same, a step every {STEP_US // 1000} ms": (STEP_US, False),
              "the same, every token synced to disk": (STEP_US, True), "the tiny model": (None, False)}
    for name, how in models.items():
        for way, make in OURS.items():
            yield f"Ringside, {name}", way, lambda how=how: ours(model, folder, options.connections, *how), make
    for way, pause_us in (("pushed", 0), (f"pushed every {STEP_US // 1000} ms", STEP_US)):
        request = frame(TEXT, b"%d %d " % (ANSWER_TOKENS, pause_us) + event)
        yield ("bare Beast", f"WebSocket, {way}", lambda: beast(echo),
               lambda port, request=request: lambda: Asking(port, request, DELTA, ANSWER_TOKENS, upgrade()))
    yield ("bare Beast", "WebSocket, echoed", lambda: beast(echo), lambda port: lambda: Asking(port, frame(TEXT, event), DELTA, 1, upgrade()))
    if options.llama_server:
        yield ("llama.cpp's server, the tiny model", "SSE, chat/completions",
               lambda: llama(options.llama_server, model, folder, options.connections), chat_events)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--event-bytes", type=int, default=210, help="size of the bare server's frames")
    parser.add_argument("--llama-server", help="its path")
    parser.add_argument("--only", default="", help="run only servers whose name or transport contains this")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(prefix="ringside-bench-") as folder:
        folder = Path(folder)
        model = tiny_model.make(folder / "tiny.gguf")
        for _ in range(options.rounds):
            for name, way, start, make in cases(options, model, folder):
                if options.only not in f"{name}, {way}":
                    continue
                with start() as (port, pid):
                    found.setdefault((name, way), []).append(measure(pid, make(port), options.connections, options.seconds))
    rows = [{"server": name, "way": way, "connections": options.connections}
            | {key: statistics.median(one[key] for one in values) for key in values[0]} for (name, way), values in found.items()]
    if options.output:
        options.output.write_text(json.dumps({"load": os.getloadavg(), "rows": rows}, indent=1) + "\n")
    print(f"{options.connections} connections, medians of {options.rounds}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print("| server | transport | events/s | CPU time per event, us | bytes per event |\n| --- | --- | --- | --- | --- |")
    for row in rows:
        print(f"| {row['server']} | {row['way']} | {row['events_per_s']:,.0f} | {row['cpu_us']:.1f} | {row['bytes']:.0f} |")


main()
