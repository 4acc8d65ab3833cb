"""A disk that stalls for a while delays durable writes and nothing else.

    scripts/python -m pytest tests/system/durability/hung_disk_test.py
"""

import http.client
import json
import os
import threading
from contextlib import contextmanager

import pytest
from server_process import PATIENCE_S, ROOT, wait_for

FAILING_SERVER = os.environ.get("RINGSIDE_FAILING_SERVER") or str(ROOT / "build/cpu/bin/failing_server")
CHAT = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}


def call(port, method, path, body=None):
    """Returns status, decoded body and headers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body)
    connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text[:1] in (b"{", b"[") else text, answer.headers


class Calls:
    """Concurrent requests; their answers are collected in `done`."""

    def __init__(self, port):
        self.port, self.threads, self.done = port, [], []

    def begin(self, *request):
        def run():
            self.done.append((request, *call(self.port, *request)))

        self.threads.append(threading.Thread(target=run, daemon=True))
        self.threads[-1].start()

    def join(self):
        for thread in self.threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a request was never answered"
        return self.done


class Disk:
    def __init__(self, folder):
        self.file, self.reached = folder / "hang", folder / "hang.reached"
        self.environment = {"HANG_WHEN_THERE": str(self.file)}

    @contextmanager
    def hangs(self):
        self.reached.unlink(missing_ok=True)
        self.file.touch()
        try:
            yield
        finally:
            self.file.unlink()


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path)


def made(port, items=2):
    """Creates a conversation with `items` items and one answered turn."""
    given = [{"role": "user", "content": f"Item {i}."} for i in range(items)]
    status, conversation, _ = call(port, "POST", "/v1/conversations", {"items": given})
    assert status == 200, conversation
    status, response, _ = call(port, "POST", "/v1/responses",
                               {"conversation": conversation["id"], "input": "Hello.", "max_output_tokens": 4})
    assert status == 200, response
    return conversation["id"], response["id"]


def served(port, id, response):
    """Checks that every request that needs no disk is answered."""
    for method, path, body in (("POST", "/v1/chat/completions", CHAT), ("GET", "/v1/models", None), ("GET", "/metrics", None),
                               ("GET", "/healthz", None), ("GET", f"/v1/conversations/{id}", None),
                               ("GET", f"/v1/conversations/{id}/items", None), ("GET", f"/v1/responses/{response}", None)):
        status, answer, _ = call(port, method, path, body)
        assert status == 200, (method, path, answer)


def test_durable_verbs_do_not_block_requests_without_disk(start, store, disk):
    server = start("--store-path", store, binary=FAILING_SERVER, environment=disk.environment)
    port = server.port
    id, response = made(port)
    exported = call(port, "GET", f"/v1/conversations/{id}/export")[1]
    verbs = []
    for _ in range(3):  # more than there are workers, of each kind
        other, its_response = made(port)
        last = call(port, "GET", f"/v1/conversations/{other}/items?order=desc&limit=1")[1]["data"][0]["id"]
        verbs += [("POST", "/v1/conversations", {"items": [{"role": "user", "content": "New."}]}),
                  ("POST", f"/v1/conversations/{made(port)[0]}", {"metadata": {"a": "b"}}),
                  ("POST", f"/v1/conversations/{made(port)[0]}/items", {"items": [{"role": "user", "content": "More."}]}),
                  ("DELETE", f"/v1/conversations/{made(port)[0]}"),
                  ("DELETE", f"/v1/conversations/{other}/items/{last}"),
                  ("DELETE", f"/v1/responses/{made(port)[1]}"),
                  ("POST", "/v1/conversations/import", exported),
                  ("POST", "/v1/responses", {"conversation": made(port)[0], "input": "Go on.", "max_output_tokens": 4}),
                  ("POST", "/v1/responses", {"input": "Alone.", "max_output_tokens": 4, "background": True})]
    calls = Calls(port)
    with disk.hangs():
        for verb in verbs:
            calls.begin(*verb)
        wait_for(disk.reached.exists, "a write to hang")
        for _ in range(5):
            served(port, id, response)
        status, answer = wait_for(lambda: (ready := server.get("/readyz"))[0] == 503 and ready, "/readyz to notice the disk")
        assert "has not finished a write" in json.loads(answer)["reason"], answer
        served(port, id, response)
    for request, status, answer, _ in calls.join():
        assert status == 200, (request, answer)
    wait_for(lambda: server.get("/readyz")[0] == 200, "/readyz to recover")
    server.stop()


def test_excess_disk_waits_get_a_typed_error(start, store, disk):
    server = start("--store-path", store, binary=FAILING_SERVER, environment=disk.environment)
    id, response = made(server.port)
    calls = Calls(server.port)
    with disk.hangs():
        for _ in range(120):
            calls.begin("POST", "/v1/conversations", {})
        wait_for(lambda: len(calls.done) >= 120 - 64, "those without room to be refused")
        served(server.port, id, response)
    answers = calls.join()
    assert sum(status == 200 for _, status, _, _ in answers) == 64
    for _, status, answer, headers in answers:
        if status == 200:
            continue
        assert status == 503 and answer["error"]["code"] == "unavailable", answer
        assert int(headers["Retry-After"]) >= 1
    server.stop()


def test_stop_works_while_the_disk_hangs(start, store, disk):
    server = start("--store-path", store, "--session-ttl", 1, "--shutdown-timeout", 1, binary=FAILING_SERVER,
                   environment=disk.environment)
    for _ in range(3):
        made(server.port)
    with disk.hangs():
        wait_for(lambda: server.metrics()["ringside_sessions"] == 0, "the conversations to expire")
        wait_for(disk.reached.exists, "a write to hang")
        server.terminate()
        server.wait()


def test_a_stop_answers_those_who_wait_for_the_disk(start, store, disk):
    server = start("--store-path", store, "--shutdown-timeout", 6, binary=FAILING_SERVER, environment=disk.environment)
    port = server.port
    item = {"items": [{"role": "user", "content": "More."}]}
    verbs = [("POST", "/v1/conversations", item),
             ("POST", f"/v1/conversations/{made(port)[0]}/items", item),
             ("DELETE", f"/v1/responses/{made(port)[1]}"),
             ("POST", "/v1/responses", {"conversation": made(port)[0], "input": "Go on.", "max_output_tokens": 4})]
    calls = Calls(port)
    with disk.hangs():
        for verb in verbs:
            calls.begin(*verb)
        wait_for(disk.reached.exists, "a write to hang")
        wait_for(lambda: server.metrics()["ringside_worker_disk_waits"] >= 2, "requests to wait for it")
        server.terminate()
        answers = calls.join()
        assert len(answers) == len(verbs), "a connection was cut"
        for request, status, answer, headers in answers:
            assert status == 503 and answer["error"]["code"] == "unavailable", (request, answer)
            assert int(headers["Retry-After"]) >= 1
        server.wait()
