"""A draining server answers reads and refuses new work with a typed error and a retry time.

    scripts/python -m pytest tests/system/operating/drain_test.py
"""

import http.client
import json

from conversation import Conversation
from server_process import PATIENCE_S, run, wait_for

LONG = {"max_output_tokens": 1 << 20, "ignore_eos": True}


def call(port, method, path, body=None, headers=()):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request(method, path, None if body is None else json.dumps(body), dict(headers))
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text[:1] in (b"{", b"[") else text, answer.headers


def test_drain_answers_reads_and_cancellations(start, store):
    server = start("--store-path", store, "--shutdown-timeout", 60)

    async def drain():
        async with Conversation(server.port) as talk, Conversation(server.port) as other:
            answered = await other.ask("Hello.", max_output_tokens=4)
            running, _ = await talk.begin("Go on.", **LONG)
            server.terminate()
            wait_for(lambda: server.get("/readyz")[0] == 503, "the drain")
            for path in (f"/v1/conversations/{other.id}", f"/v1/conversations/{other.id}/items", "/v1/conversations",
                         f"/v1/conversations/{other.id}/export", f"/v1/responses/{answered['id']}",
                         f"/v1/responses/{answered['id']}/input_items", f"/v1/responses/{running}", "/v1/models", "/metrics",
                         "/livez"):
                status, answer, headers = call(server.port, "GET", path)
                assert status == 200, (path, answer)
                if path.startswith("/v1/"):
                    assert headers["Connection"] == "close", path
            assert call(server.port, "HEAD", "/v1/models")[0] == 200
            for path, body in (("/v1/conversations", {}), ("/v1/responses", {"input": "x"}),
                               (f"/v1/conversations/{other.id}/items", {"items": [{"role": "user", "content": "x"}]}),
                               ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
                               ("/v1/completions", {"prompt": "x"}), ("/v1/embeddings", {"input": "x"})):
                status, answer, headers = call(server.port, "POST", path, body)
                assert status == 503 and answer["error"]["code"] == "unavailable", (path, answer)
                assert int(headers["Retry-After"]) >= 1, path
            upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                       "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
            assert call(server.port, "GET", "/v1/responses", headers=upgrade.items())[0] == 503
            # Cancelling ends the running answer, and with it the server.
            assert call(server.port, "POST", f"/v1/responses/{running}/cancel", {})[0] == 200

    run(drain())
    assert server.wait() == 0
