"""The store is deleted, moved, replaced or made read-only under a running server: nothing is acknowledged any more.

    scripts/python -m pytest tests/system/durability/lost_store_test.py
"""

import json
import os
import shutil
import subprocess

import pytest
from conversation import Conversation
from server_process import run, wait_for

FAILED = 75
SHORT = {"max_output_tokens": 4}


def delete(store):
    shutil.rmtree(store)


def replace(store):
    store.rename(store.with_name("moved"))
    store.mkdir(mode=0o700)


def move(store):
    store.rename(store.with_name("moved"))


def delete_log(store):
    shutil.rmtree(store / "log")


def delete_newest_log_file(store):
    for path in (store / "log").glob("*.log"):
        path.unlink()


def not_ready(server, reason):
    """Waits until /readyz returns 503 with this reason."""
    def look():
        status, answer = server.get("/readyz")
        return status == 503 and reason in json.loads(answer)["reason"]

    wait_for(look, f"/readyz to say: {reason}")


@pytest.mark.parametrize("lose", (delete, replace, move, delete_log, delete_newest_log_file))
def test_missing_store_acknowledges_nothing(start, store, lose):
    server = start("--store-path", store)

    async def talk_on():
        async with Conversation(server.port) as talk:
            await talk.ask("Hello.", **SHORT)
            lose(store)
            events = await talk.socket.ask(conversation=talk.id, input="Lost?", **SHORT)
            # The turn's first record may have been in flight; no part of the answer is sent.
            kinds = [event["type"] for event in events]
            assert kinds[-1] in ("error", "response.failed"), kinds
            assert "response.output_text.delta" not in kinds, kinds
            assert (await talk.refused("Again?", **SHORT))["error"]["code"] == "storage_failed"
            status, answer = await talk.http.call("POST", "/v1/conversations", {})
            assert status == 503 and answer["error"]["code"] == "storage_failed", answer
            # Conversations in memory can still be read and exported, and requests that store nothing are answered.
            assert (await talk.items())[0] == ("user", "Hello.")
            assert (await talk.http.call("GET", f"/v1/conversations/{talk.id}/export"))[0] == 200
            chat = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
            assert (await talk.http.call("POST", "/v1/chat/completions", chat))[0] == 200

    run(talk_on())
    not_ready(server, "deleted, moved or replaced")
    server.terminate()
    assert server.wait() == FAILED


@pytest.mark.parametrize("lose", (delete, replace))
def test_idle_server_detects_a_missing_store(start, store, lose):
    server = start("--store-path", store)
    lose(store)
    not_ready(server, "deleted, moved or replaced")


@pytest.fixture
def read_only(store):
    """Mounts the store's folder over itself, read-only, and unmounts it: affects paths, not open files."""
    mounts = []

    def mount():
        if os.geteuid() != 0 or subprocess.run(["mount", "--bind", store, store], capture_output=True).returncode != 0:
            pytest.skip("only root may mount a folder read-only")
        mounts.append(store)
        subprocess.run(["mount", "-o", "remount,bind,ro", store], check=True)

    def unmount():
        subprocess.run(["umount", "-l", mounts.pop()], check=True)

    yield mount, unmount
    if mounts:
        unmount()


def test_unwritable_store_refuses_turns_until_writable(start, store, read_only):
    server = start("--store-path", store)

    async def talk_on():
        async with Conversation(server.port) as talk:
            await talk.ask("Hello.", **SHORT)
            read_only[0]()
            not_ready(server, "cannot be written")
            assert (await talk.refused("Now?", **SHORT))["error"]["code"] == "storage_failed"
            read_only[1]()
            wait_for(lambda: server.get("/readyz")[0] == 200, "/readyz to recover")
            await talk.ask("And now?", **SHORT)

    run(talk_on())
    server.stop()
