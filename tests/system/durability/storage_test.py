"""How the server handles storage that is locked, damaged, of another version, full or failing, and deletion.

    scripts/python -m pytest tests/system/durability/storage_test.py
"""

import asyncio
import contextlib
import os
import resource
import subprocess
import time

import pytest
import websockets
from conversation import Conversation
from server_process import ROOT, run, wait_for

LOCKED, DAMAGED, FAILED, OTHER_VERSION = 73, 74, 75, 78
SHORT = {"max_output_tokens": 4}
SET_SCHEMA = os.environ.get("RINGSIDE_SET_SCHEMA") or ROOT / "build/cpu/bin/set_schema"
CANARY = "Xylophonquarzkanarienvogel"


async def say(port, id=None, turns=1, text="Hello."):
    """Runs turns; returns the conversation's id and items."""
    async with Conversation(port, id) as talk:
        for _ in range(turns):
            await talk.ask(text, **SHORT)
        return talk.id, await talk.items()


def log_file(store):
    """The newest write-ahead log of the journal."""
    return max((store / "log").rglob("*.log"), key=lambda path: path.stat().st_size)


def test_second_server_on_a_store_exits_with_73(start, store):
    first = start("--store-path", store)
    second = start("--store-path", store, ready=False)
    assert second.wait() == LOCKED
    run(say(first.port))
    first.stop()


def test_damaged_log_exits_with_74(start, store):
    server = start("--store-path", store)
    run(say(server.port, turns=30))
    server.kill()
    path = log_file(store)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)
    server = start("--store-path", store, ready=False)
    assert server.wait() == DAMAGED
    assert "Hello." not in server.tail(), "what was said is nobody's business"


def test_store_of_another_version_exits_with_78(start, store):
    server = start("--store-path", store)
    run(say(server.port))
    server.stop()
    subprocess.run([SET_SCHEMA, store, "ringside-log 9"], check=True)
    server = start("--store-path", store, ready=False)
    assert server.wait() == OTHER_VERSION


def test_failed_storage_exits_with_75_without_loss(start, store):
    """Every write fails from one moment on, as on a dead disk."""
    server = start("--store-path", store)
    id, items = run(say(server.port, turns=3))
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, 0))

    async def lose():
        async with Conversation(server.port, id) as talk:
            heard = []
            try:
                await talk.socket.send({"type": "response.create", "conversation": id, "input": "Heard?", **SHORT})
                while True:
                    event = await talk.socket.receive()
                    assert str(store) not in str(event), event
                    assert event["type"] != "error" or event["error"]["code"] in ("storage_failed", "unavailable"), event
                    heard.append(event["type"])
            except (websockets.ConnectionClosed, ConnectionError):
                return heard

    heard = run(lose())
    assert server.wait() == FAILED
    # The turn is refused, fails, or gets no answer; no event acknowledges the message.
    assert not {"response.output_text.delta", "response.completed", "response.incomplete"} & set(heard), heard
    assert "response.created" not in heard or "response.failed" in heard, heard
    server = start("--store-path", store)

    async def again():
        async with Conversation(server.port, id) as talk:
            assert (await talk.items())[: len(items)] == items
            await talk.ask("Still there?", **SHORT)

    run(again())
    server.stop()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 192 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode != 0 and os.geteuid() != 0:
        pytest.skip("only root may mount a tmpfs")
    assert mounted.returncode == 0, f"the test needs the right to mount a tmpfs: {mounted.stderr}"
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder, leave_mib):
    free = int(subprocess.check_output(["df", "--output=avail", "-m", folder]).split()[-1])
    with contextlib.suppress(OSError):  # less may remain at the end than was written
        with (folder / "filler").open("wb", buffering=0) as file:
            for _ in range((free - leave_mib) * 16 if leave_mib else 1 << 20):
                file.write(bytes(1 << 16))


async def ready(http, status):
    """Waits until /readyz returns this status."""
    deadline = time.monotonic() + 60
    while (await http.call("GET", "/readyz"))[0] != status:
        assert time.monotonic() < deadline, f"/readyz never said {status}"
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("leave_mib", (40, 0))
def test_full_disk_refuses_only_new_turns(start, small_disk, leave_mib):
    """With a little space left the server stops in time; with none it must still not claim success."""
    server = start("--store-path", small_disk / "store", "--disk-cache-mb", 16)
    id, items = run(say(server.port, turns=2))
    other, _ = run(say(server.port))
    fill(small_disk, leave_mib)

    async def full():
        async with Conversation(server.port, id) as talk:
            deadline = time.monotonic() + 60
            while True:  # free space is polled
                events = await talk.socket.ask(conversation=id, input="More?", **SHORT)
                if events[-1]["type"] == "error":
                    break
                assert time.monotonic() < deadline, "a full disk was not noticed"
            assert events[-1]["error"]["code"] == "storage_full" and events[-1]["status"] == 507, events
            await ready(talk.http, 503)
            had = await talk.items()
            assert had[: len(items)] == items
            resumed = await talk.socket.resume(id)
            assert resumed["session_present"]
            status, _ = await talk.http.call("DELETE", f"/v1/conversations/{other}")
            assert status == 200
            assert (await talk.http.call("GET", f"/v1/conversations/{other}"))[0] == 404
            return had

    had = run(full())
    (small_disk / "filler").unlink()

    async def room():
        async with Conversation(server.port, id) as talk:
            deadline = time.monotonic() + 60
            while (events := await talk.socket.ask(conversation=id, input="Now?", **SHORT))[-1]["type"] == "error":
                assert time.monotonic() < deadline, events
                await asyncio.sleep(0.1)
            await ready(talk.http, 200)
            return await talk.items()

    items = run(room())
    assert items[: len(had)] == had and items[len(had)] == ("user", "Now?")
    server.stop()


def holds(store, text):
    """Returns the store's files that contain the text."""
    found = []
    for path in store.rglob("*"):
        try:
            if path.is_file() and text.encode() in path.read_bytes():
                found.append(path.name)
        except FileNotFoundError:
            pass
    return found


def test_delete_is_immediate_and_purge_removes_the_bytes(start, store):
    server = start("--store-path", store, "--purge-interval", 1)
    kept, _ = run(say(server.port, text="This one stays."))
    gone, _ = run(say(server.port, text=CANARY, turns=3))
    assert holds(store, CANARY), "the test would prove nothing"

    async def delete():
        async with Conversation(server.port, kept) as talk:
            assert (await talk.http.call("DELETE", f"/v1/conversations/{gone}"))[0] == 200
            assert (await talk.http.call("GET", f"/v1/conversations/{gone}"))[0] == 404
            assert not (await talk.socket.resume(gone))["session_present"]

    run(delete())
    wait_for(lambda: not holds(store, CANARY), "the bytes of a deleted conversation to go")
    server.stop()
    server = start("--store-path", store)

    async def again():
        async with Conversation(server.port, kept) as talk:
            assert (await talk.items())[0] == ("user", "This one stays.")
            assert (await talk.http.call("GET", f"/v1/conversations/{gone}"))[0] == 404

    run(again())
    server.stop()
    assert not holds(store, CANARY)


def test_unused_conversation_expires_with_its_bytes(start, store):
    server = start("--store-path", store)
    id, _ = run(say(server.port, text=CANARY))
    assert holds(store, CANARY), "the test would prove nothing"
    server.stop()
    server = start("--store-path", store, "--purge-interval", 1, "--session-ttl", 1)
    wait_for(lambda: server.get(f"/v1/conversations/{id}")[0] == 404, "the conversation to expire")
    wait_for(lambda: not holds(store, CANARY), "its bytes to go")
    server.stop()
