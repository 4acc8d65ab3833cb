"""A permanent device failure: turns end as interrupted, /readyz returns 503, the process exits with 76, and a restart
on the same store has all acknowledged data. Also a disk that hangs: the server still stops.

    scripts/python -m pytest tests/system/ranks/device_test.py
"""

import contextlib
import os
import threading
import urllib.request

import pytest
from conversation import Conversation
from server_process import ROOT, run, wait_for
from wire import TERMINAL, text_of

FAILED = 76
FAILING_SERVER = os.environ.get("RINGSIDE_FAILING_SERVER") or str(ROOT / "build/cpu/bin/failing_server")


def is_unready(server):
    """True if /readyz says so, or the server has ended."""
    try:
        return server.get("/readyz")[0] == 503
    except OSError:
        return not server.running()


@pytest.mark.parametrize("shared", [(), ("--tensor-parallel-size", 2, "--tensor-parallel-force")], ids=["alone", "shared"])
def test_device_failure_exits_with_76_without_loss(start, store, tmp_path, shared):
    failure = tmp_path / "failure"
    server = start("--store-path", store, "--device", "cuda", *shared, binary=FAILING_SERVER, environment={"FAIL_WHEN_THERE": str(failure)})

    async def lose():
        async with Conversation(server.port) as talk, Conversation(server.port) as beside:
            answer = await talk.ask("Hello.", max_output_tokens=8, temperature=0)
            items = await talk.items()
            assert server.get("/readyz")[0] == 200
            heard = [(await conversation.begin("Tell me.", deltas=2, max_output_tokens=1 << 18, ignore_eos=True))[1]
                     for conversation in (talk, beside)]
            failure.touch()
            ends = []
            for conversation in (talk, beside):
                event = await conversation.socket.receive()
                while event["type"] not in TERMINAL:
                    event = await conversation.socket.receive()
                ends.append(event)
            # Nothing else runs in this loop meanwhile: the server still waits for the close replies, for a limited time.
            wait_for(lambda: is_unready(server), "/readyz to tell of the failure")
            return talk.id, items, answer["id"], ends, heard

    id, items, answered, ends, heard = run(lose())
    assert server.wait() == FAILED
    for event, text in zip(ends, heard):
        assert event["type"] == "response.incomplete", event
        assert event["response"]["incomplete_details"]["reason"] == "interrupted", event
        assert event["response"]["error"]["code"] == "unavailable" and "device has failed" in event["response"]["error"]["message"], event
        assert text_of(event["response"]).startswith(text), event
    items += [("user", "Tell me."), ("assistant", text_of(ends[0]["response"]))]
    server = start("--store-path", store)

    async def again():
        async with Conversation(server.port, id) as talk:
            assert await talk.items() == items
            assert (await talk.response(answered))["status"] in ("completed", "incomplete")
            await talk.ask("Still there?", max_output_tokens=4)

    run(again())
    server.stop()


def test_device_failure_before_readiness_exits_with_76(start, tmp_path):
    (tmp_path / "failure").touch()
    environment = {"FAIL_WHEN_THERE": str(tmp_path / "failure")}
    server = start("--device", "cuda", ready=False, binary=FAILING_SERVER, environment=environment)
    assert server.wait() == FAILED


def test_stop_completes_while_the_disk_hangs(start, store, tmp_path):
    """A call on a worker and the journal thread are blocked on the disk forever."""
    hang = tmp_path / "hang"
    flags = ("--store-path", store, "--shutdown-timeout", 1)
    # The blocked threads are never joined, which ThreadSanitizer reports otherwise.
    tsan = os.environ.get("TSAN_OPTIONS", "") + " report_thread_leaks=0"
    server = start(*flags, binary=FAILING_SERVER, environment={"HANG_WHEN_THERE": str(hang), "TSAN_OPTIONS": tsan})

    async def talk():
        async with Conversation(server.port) as talk:
            await talk.ask("Hello.", max_output_tokens=4)
            return talk.id, await talk.items()

    id, items = run(talk())
    hang.touch()

    def create():
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/conversations", data=b"{}")

    asking = threading.Thread(target=create)
    asking.start()
    wait_for((tmp_path / "hang.reached").exists, "a call that hangs")
    server.terminate()
    assert server.wait() == 0
    asking.join()
    hang.unlink()
    server = start(*flags)

    async def again():
        async with Conversation(server.port, id) as talk:
            assert await talk.items() == items

    run(again())
    server.stop()
