"""Ignored fields: reported in the answer, in a header and once in the log; refused under --strict-requests.

    scripts/python -m pytest tests/system/turns/ignored_test.py
"""

import json
import urllib.error
import urllib.request

import pytest

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "verbosity": "low", "tempreature": 1,
        "b\r\nX-Evil: 1": 2}
NAMES = ["verbosity", "tempreature", "b\r\nX-Evil: 1"]


def post(server, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", json.dumps(body).encode(),
                                     {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read().decode()


def test_an_ignored_field_is_reported(start):
    server = start("--log-level", "info", "--log-format", "json", "--model-alias", "claude-*")
    for _ in range(2):
        status, headers, body = post(server, "/v1/chat/completions", CHAT)
        assert status == 200 and json.loads(body)["ringside"]["ignored"] == NAMES, body
        assert headers["X-Ringside-Ignored"] == "verbosity, tempreature, b__X-Evil:_1" and "X-Evil" not in headers
    status, headers, body = post(server, "/v1/chat/completions", {**CHAT, "stream": True})
    assert headers["X-Ringside-Ignored"].startswith("verbosity, ") and '"ignored":["verbosity"' in body
    status, headers, body = post(server, "/v1/messages", {**CHAT, "model": "claude-opus-4"})
    assert status == 200 and "tempreature" in headers["X-Ringside-Ignored"]
    assert post(server, "/v1/messages", {**CHAT, "model": "gpt-4o"})[0] == 404
    status, headers, body = post(server, "/v1/responses", {"input": "Hi", "max_output_tokens": 2, "client_metadata": {"a": 1}})
    assert headers["X-Ringside-Ignored"] == "client_metadata" and json.loads(body)["ringside"]["ignored"] == ["client_metadata"]
    server.stop()
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if '"ignored_field"' in line]
    fields = [line["field"] for line in lines]
    assert sorted(fields) == sorted(["verbosity", "tempreature", "?", "client_metadata"]), lines


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat"])
def test_strict_requests_refuse_ignored_fields(start, path):
    status, headers, body = post(start("--strict-requests"), path, CHAT)
    assert status == 400 and "X-Ringside-Ignored" not in headers, body
