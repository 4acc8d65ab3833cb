"""The measured clients of scripts/bench_neighbours and scripts/bench_crowds: some stream answers without a pause, one
polls the server's health. Also runs other processes alongside them."""

import asyncio
import contextlib
import multiprocessing
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/system"))
from conversation import Conversation  # noqa: E402
from wire import Http  # noqa: E402


def prepare():
    """Call once, first: sets the fork start method and raises the file limit to the hard limit."""
    multiprocessing.set_start_method("fork")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def percentile(values, share):
    """Returns a percentile in milliseconds."""
    values = sorted(values)
    return 1000 * values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


@contextlib.contextmanager
def beside(target, arguments, count):
    """Runs `count` processes that call `target` until the block ends."""
    running = [multiprocessing.Process(target=target, args=arguments, daemon=True) for _ in range(count)]
    for process in running:
        process.start()
    time.sleep(1)
    try:
        yield
        assert all(process.is_alive() for process in running), "a neighbour has failed"
    finally:
        for process in running:
            process.kill()
            process.join()


async def stream(port, end, gaps):
    """Runs one answer after another; records the gaps between deltas."""
    async with Conversation(port) as talk:
        while time.monotonic() < end:
            await talk.socket.send({"type": "response.create", "conversation": talk.id, "input": "Go on.",
                                    "max_output_tokens": 300, "ignore_eos": True})
            last = None
            while True:
                event = await talk.socket.connection.recv()
                if event.startswith('{"type":"response.output_text.delta"'):
                    now = time.perf_counter()
                    if last is not None and time.monotonic() < end:
                        gaps.append(now - last)
                    last = now
                elif event.startswith(('{"type":"response.incomplete"', '{"type":"response.completed"')):
                    break
                elif event.startswith('{"type":"error"'):
                    raise AssertionError(event[:300])


async def health(port, end, times):
    http = Http(port)
    while time.monotonic() < end:
        began = time.perf_counter()
        status, _ = await http.call("GET", "/healthz")
        assert status == 200
        times.append(time.perf_counter() - began)
        await asyncio.sleep(0.01)


def watch(port, clients, seconds, results):
    """Streams in one process and polls health in another, so that neither delays the other."""

    def measured(coroutine, values):
        asyncio.run(coroutine)
        results.put(values)

    gaps, times = [], []
    end = time.monotonic() + seconds

    async def streams():
        await asyncio.gather(*(stream(port, end, gaps) for _ in range(clients)))

    watchers = [multiprocessing.Process(target=lambda: measured(streams(), ("gaps", gaps))),
                multiprocessing.Process(target=lambda: measured(health(port, end, times), ("health", times)))]
    for watcher in watchers:
        watcher.start()
    found = dict(results.get(timeout=seconds + 300) for _ in watchers)
    for watcher in watchers:
        watcher.join()
    return found
