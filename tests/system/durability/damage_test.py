"""One flipped byte in stored data: which error is reported, which conversations are affected, and that the others
continue.

    scripts/python -m pytest tests/system/durability/damage_test.py
"""

import json
import os
import subprocess
import urllib.error
import urllib.request

import pytest
from server_process import ROOT, wait_for

DAMAGED = 74
CLIENT = os.environ.get("RINGSIDE_CLIENT") or str(ROOT / "build/cpu/bin/ringside")
CONVERSATIONS = 8
TEXT = "All work and no play makes Jack a dull boy. " * 400


def sessions(server, *arguments):
    """Returns exit status and output of `ringside sessions ...`."""
    done = subprocess.run([CLIENT, "sessions", "--url", f"http://127.0.0.1:{server.port}", *arguments],
                          capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def call(server, method, path, body=None):
    """Returns status and decoded body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", data=data, method=method,
                                     headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def stored(server):
    return json.loads(server.get("/readyz")[1])["stored"]


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0x10
    path.write_bytes(data)


def largest(store):
    return max((path for path in (store / "log").iterdir()), key=lambda path: path.stat().st_size)


@pytest.fixture
def filled(start, store):
    """A store with a few conversations and an empty write-ahead log: all data is in the database's tables."""
    server = start("--store-path", store)
    ids = []
    for number in range(CONVERSATIONS):
        status, made = call(server, "POST", "/v1/conversations",
                            {"items": [{"role": "user", "content": f"{number} {TEXT}"}]})
        assert status == 200, made
        ids.append(made["id"])
    server.stop()
    start("--store-path", store).stop()
    assert largest(store).suffix == ".sst"
    return ids


@pytest.mark.parametrize("flags", [(), ("--verify",)])
def test_flipped_byte_is_reported_everywhere(start, store, filled, flags):
    flip(largest(store), 0.5)
    server = start("--store-path", store, *flags)
    if not flags:
        wait_for(lambda: stored(server)["checked"], "the check of what is stored")
    status, body = server.get("/readyz")
    assert status == 200
    counts = json.loads(body)
    assert counts["status"] == "ok"
    damaged = counts["stored"]["damaged"]
    assert counts["stored"] == {"conversations": CONVERSATIONS, "chains": 0, "damaged": damaged, "checked": True}
    assert 1 <= damaged < CONVERSATIONS

    code, listed = sessions(server, "list")
    assert code == DAMAGED, listed
    assert all(id in listed for id in filled)
    named = [line.split()[1] for line in listed.splitlines() if "damaged: " in line]
    assert len(named) == damaged and set(named) <= set(filled)
    assert f"{damaged} of {CONVERSATIONS} listed are damaged." in listed

    code, verdicts = sessions(server, "verify")
    assert code == DAMAGED, verdicts
    assert f"{CONVERSATIONS - damaged} sound, {damaged} damaged" in verdicts
    for id in filled:
        assert f"{id}  {'damaged: ' if id in named else 'sound, '}" in verdicts
    assert str(store) not in listed + verdicts

    log = server.log.read_text()
    assert f"store: {CONVERSATIONS} conversations and 0 chains, {damaged} of them damaged" in log
    assert all(f"session {id} is damaged: " in log for id in named)

    for id in filled:
        status, answer = call(server, "GET", f"/v1/conversations/{id}/items")
        assert status == (500 if id in named else 200)
        if id in named:
            assert answer["error"]["code"] == "session_damaged"
            assert call(server, "GET", f"/v1/conversations/{id}")[1]["error"]["code"] == "session_damaged"
            assert call(server, "DELETE", f"/v1/conversations/{id}")[0] == 200
    assert sessions(server, "list")[0] == 0
    assert sessions(server, "verify")[0] == 0
    assert server.metrics()["ringside_journal_damaged_sessions"] == 0
    server.stop()


def test_intact_store_is_reported_intact(start, store, filled):
    server = start("--store-path", store)
    wait_for(lambda: stored(server)["checked"], "the check of what is stored")
    assert stored(server)["damaged"] == 0
    assert sessions(server, "list")[0] == 0
    code, verdicts = sessions(server, "verify")
    assert code == 0 and f"{CONVERSATIONS} sound, 0 damaged" in verdicts
    assert "damaged" not in server.log.read_text()
    server.stop()


@pytest.mark.parametrize("at", (0.5, 0.999))
def test_unreadable_log_exits_with_74_and_a_message(start, store, filled, at):
    """Damages the write-ahead log, whose records are in no table yet, or metadata that the database needs to read any
    table."""
    if at == 0.5:
        server = start("--store-path", store)
        call(server, "POST", "/v1/conversations", {"items": [{"role": "user", "content": TEXT}]})
        call(server, "POST", "/v1/conversations", {"items": [{"role": "user", "content": TEXT}]})
        server.kill()
        flip(max((store / "log").glob("*.log"), key=lambda path: path.stat().st_size), at)
    else:
        flip(largest(store), at)
    server = start("--store-path", store, ready=False)
    assert server.wait() == DAMAGED
    assert f"the data stored in {store} is damaged and is not served: " in server.tail()
