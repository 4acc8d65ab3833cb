"""Connection limits: file descriptors, per-owner places, and the routes that are still answered.

    scripts/python -m pytest tests/system/transport/places_test.py
"""

import http.client
import json
import os
import resource
from pathlib import Path

import crowds
import pytest
from bare_socket import BareSocket
from server_process import PATIENCE_S, wait_for

KEYS = {"A": "key-of-a-0123456789", "B": "key-of-b-0123456789"}


def file_limits(server):
    """The process's soft and hard limit of file descriptors."""
    line = next(line for line in Path(f"/proc/{server.process.pid}/limits").read_text().splitlines() if line.startswith("Max open files"))
    return line.split()[3:5]


def open_files(server):
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def get(server, path, key=None):
    """Returns status, headers and body of a GET on its own connection."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {KEYS[key]}"} if key else {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def limited(soft, hard):
    """A launcher that sets these descriptor limits for the server."""
    return ["sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh"]


def test_soft_limit_is_raised_and_silent_sockets_are_evicted(start):
    server = start(launcher=limited(256, 700), ready=True)
    assert file_limits(server) == ["700", "700"]
    silent = [one for one in (crowds.connect(server.port) for _ in range(900)) if one]
    for path in ("/readyz", "/healthz", "/v1/models", "/metrics"):
        assert get(server, path)[0] == 200, path
    assert open_files(server) < 700 - 100, "descriptors are left to the store"
    for one in silent:
        one.close()
    server.stop()


def test_connection_limit_is_lowered_to_the_descriptors_with_a_warning(start):
    server = start("--max-connections", 5000, launcher=limited(300, 300))
    assert "--max-connections: 5000 do not fit" in server.log.read_text()
    server.stop()


# UBSan opens a pipe to look at an object, and reports the object when no descriptor is left.
@pytest.mark.skipif("undefined" in os.environ.get("RINGSIDE_BUILT_WITH_SANITIZERS", ""), reason="UBSan needs descriptors")
def test_accepting_survives_descriptor_exhaustion(start):
    server = start("--max-connections", 500)
    before = open_files(server)
    # Only now, because the server computed its limits from the larger number.
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (before + 20, before + 20))
    silent = [one for one in (crowds.connect(server.port) for _ in range(100)) if one]
    for _ in range(5):
        assert get(server, "/readyz")[0] == 200
    log = server.log.read_text()
    assert 1 <= log.count("accept failed") <= 10, "told, and not for each"
    for one in silent:
        one.close()
    wait_for(lambda: get(server, "/v1/models")[0] == 200, "who speaks is served")
    server.stop()


@pytest.fixture
def shared(start):
    return start("--max-connections", 60, "--api-key", KEYS["A"], "--api-key", KEYS["B"])


def test_one_key_takes_half_and_probes_are_answered(shared):
    sockets = []
    while True:
        one = BareSocket(shared.port, headers=f"Authorization: Bearer {KEYS['A']}\r\n")
        if one.status() != 101:
            break
        sockets.append(one)
        assert len(sockets) <= 30
    assert len(sockets) == 30
    status, headers, body = get(shared, "/v1/models", "A")
    assert (status, json.loads(body)["error"]["code"]) == (429, "connection_limit_exceeded")
    assert int(headers["Retry-After"]) >= 1
    for path in ("/v1/models", "/v1/conversations"):
        assert get(shared, path, "B")[0] == 200
    for path in ("/livez", "/readyz", "/healthz"):
        assert get(shared, path)[0] == 200
    assert get(shared, "/metrics", "A")[0] == 200
    sockets.pop().socket.close()
    wait_for(lambda: get(shared, "/v1/models", "A")[0] == 200, "a place that was left is taken again")
    shared.stop()


def test_hoarded_sockets_are_evicted_for_another_key(start):
    server = start("--max-connections", 60, "--max-connections-per-owner", 60, "--api-key", KEYS["A"], "--api-key", KEYS["B"])
    sockets = [BareSocket(server.port, headers=f"Authorization: Bearer {KEYS['A']}\r\n") for _ in range(60)]
    assert [one.status() for one in sockets] == [101] * 60
    wait_for(lambda: get(server, "/v1/models", "B")[0] == 200, "a socket without a turn to give way")
    kept = BareSocket(server.port, headers=f"Authorization: Bearer {KEYS['B']}\r\n")
    assert kept.status() == 101
    for _ in range(20):
        get(server, "/v1/models", "A")
    assert get(server, "/v1/models", "B")[0] == 200
    server.stop()


def test_idle_connections_are_evicted_for_their_owners_next(shared):
    kept = []
    for _ in range(100):
        one = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=PATIENCE_S)
        one.request("GET", "/v1/models", headers={"Authorization": f"Bearer {KEYS['A']}"})
        answer = one.getresponse()
        assert answer.status == 200
        answer.read()
        kept.append(one)
    assert get(shared, "/v1/models", "B")[0] == 200
    shared.stop()


def test_wrong_keys_log_one_line_without_the_keys(shared):
    for i in range(150):
        connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=PATIENCE_S)
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer wrong-secret-{i}"})
        assert connection.getresponse().status == 401
        connection.close()
    assert get(shared, "/v1/models", "A")[0] == 200
    log = shared.log.read_text()
    assert 1 <= log.count("keys: refused a wrong, expired or revoked key from 127.0.0.1") <= 5
    assert "wrong-secret" not in log and KEYS["A"] not in log
    shared.stop()
