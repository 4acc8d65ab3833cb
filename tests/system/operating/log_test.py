"""A turn's log: one line with its cost and trace, and none of its text.

    scripts/python -m pytest tests/system/operating/log_test.py
"""

import http.client
import json
import re

import pytest
from conversation import Conversation
from server_process import PATIENCE_S, run, wait_for
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

LINE = re.compile(
    r"turn: (resp_\w+) in session (conv_\w+): (\d+) tokens in, (\d+) of them cached, (\d+) out; first token \d+ ms, "
    r"[\d.]+ tokens/s; source (\w+); (\w+)")


def test_turn_is_one_log_line_without_content(start):
    server = start("--log-level", "info")

    async def ask():
        async with Conversation(server.port) as talk:
            responses = [await talk.ask("Secret words.", instructions="Be discreet.", max_output_tokens=5, ignore_eos=True)
                         for _ in range(2)]
            status, conversation = await talk.http.call("GET", f"/v1/conversations/{talk.id}")
            assert status == 200 and conversation["ringside"]["instructions"] == "Be discreet."
            return talk.id, responses

    id, responses = run(ask())
    server.stop()
    log = server.log.read_text()
    lines = [match.groups() for match in LINE.finditer(log)]
    assert len(lines) == len(responses), log
    for line, response in zip(lines, responses):
        usage = response["usage"]
        assert line == (response["id"], id, str(usage["input_tokens"]), str(usage["input_tokens_details"]["cached_tokens"]),
                        str(usage["output_tokens"]), response["ringside"]["source"], "max_output_tokens")
    assert "Secret" not in log and "discreet" not in log


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
KEY = "sk-hidden-key-of-this-test"
SECRET = "Albatross"  # occurs in every text
TURN_FIELDS = {"ts", "level", "msg", "event", "response_id", "session_id", "owner", "tokens_in", "tokens_cached", "tokens_computed", "tokens_out",
               "queue_ms", "slot_ms", "restore_ms", "prefill_ms",
               "others_ms", "decode_ms", "source", "end", "trace_id", "span_id"}


def post(server, path, body, **headers):
    """Returns status, headers and body of a POST with the key."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"} | headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def texts_of(value):
    """Yields every text string of a decoded body, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("text", "content", "response", "delta") and isinstance(inner, str):
                yield inner
            else:
                yield from texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner)


def test_json_log_line_has_facts_and_trace(start, store):
    server = start("--log-level", "info", "--log-format", "json", "--store-path", store, "--api-key", KEY)
    status, headers, body = post(server, "/v1/responses", {"input": "Hello.", "max_output_tokens": 4, "ignore_eos": True}, traceparent=TRACEPARENT)
    first = json.loads(body)
    assert status == 200 and headers["traceparent"].startswith(f"00-{TRACE}-") and headers["x-request-id"].startswith("req_")

    async def over_a_socket():
        async with connect(f"ws://127.0.0.1:{server.port}/v1/responses", proxy=None, compression=None,
                           additional_headers={"Authorization": f"Bearer {KEY}", "traceparent": TRACEPARENT}) as socket:
            told = socket.response.headers["traceparent"]
            await socket.send(json.dumps({"type": "response.create", "previous_response_id": first["id"], "input": "Again.", "max_output_tokens": 4, "ignore_eos": True}))
            while (event := json.loads(await socket.recv()))["type"] != "response.incomplete":
                assert event["type"] != "error", event
            return told, event["response"]

    told, second = run(over_a_socket())
    status, third_headers, _ = post(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi."}], "max_tokens": 2}, traceparent="00-bad")
    assert status == 200 and TRACE not in third_headers["traceparent"]
    server.stop()
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    turns = [line for line in lines if line.get("event") == "turn"]
    assert len(turns) == 3 and all(set(turn) == TURN_FIELDS for turn in turns), turns
    for turn, response, parent in ((turns[0], first, headers["traceparent"]), (turns[1], second, told)):
        usage = response["usage"]
        assert turn["response_id"] == response["id"] and turn["source"] == response["ringside"]["source"]
        assert turn["tokens_in"] == usage["input_tokens"] and turn["tokens_out"] == usage["output_tokens"] == 4
        assert turn["tokens_cached"] == usage["input_tokens_details"]["cached_tokens"] and turn["end"] == "max_output_tokens"
        assert turn["tokens_cached"] + turn["tokens_computed"] == turn["tokens_in"]
        assert turn["trace_id"] == TRACE and turn["span_id"] == parent.split("-")[2]
        assert all(turn[stage] >= 0 for stage in
                   ("queue_ms", "slot_ms", "restore_ms", "prefill_ms", "others_ms", "decode_ms"))
    assert turns[0]["session_id"] == turns[1]["session_id"] and len({turn["owner"] for turn in turns}) == 1
    assert turns[1]["tokens_cached"] > 0 and turns[2]["trace_id"] == third_headers["traceparent"].split("-")[1] != TRACE


def say_everything(server):
    """Sends the secret on every route, in valid and invalid requests; returns the answers."""
    user = [{"role": "user", "content": f"{SECRET} says one."}]
    said = []
    for path, body in (
            ("/v1/responses", {"input": f"{SECRET} says two.", "instructions": f"{SECRET}!", "metadata": {"who": SECRET}, "top_logprobs": 2}),
            ("/v1/responses", {"input": f"{SECRET} says three.", "text": {"format": {"type": "json_schema", "name": SECRET, "schema": {"enum": [f"{SECRET} four"]}}}}),
            ("/v1/chat/completions", {"messages": user, "stop": [f"{SECRET}."], "user": SECRET}),
            ("/v1/chat/completions", {"messages": user, "stream": True}),
            ("/v1/completions", {"prompt": f"{SECRET} says five."}),
            ("/v1/messages", {"messages": user, "max_tokens": 8}),
            ("/api/chat", {"messages": user, "stream": False}),
            ("/api/generate", {"prompt": f"{SECRET} says six.", "stream": False}),
            ("/v1/conversations", {"items": [{"type": "message", "role": "user", "content": f"{SECRET} says seven."}], "metadata": {SECRET: SECRET}}),
            # Refused: an error may quote the request, the log may not.
            ("/v1/responses", {"input": f"{SECRET}", SECRET: SECRET}),
            ("/v1/responses", {"input": [{"type": SECRET}]}),
            ("/v1/responses", {"input": f"{SECRET}", "previous_response_id": f"resp_{SECRET}"}),
            ("/v1/responses", {"input": f"{SECRET} " * 300_000}),
            ("/v1/responses", f'{{"input": "{SECRET}'.encode()),
            ("/v1/responses", b"\xff" + SECRET.encode()),
            ("/v1/chat/completions", {"messages": user, "response_format": {"type": "json_schema", "json_schema": {"name": SECRET, "schema": {"pattern": f"({SECRET}"}}}}),
            ("/v1/conversations/import", f"no export: {SECRET}".encode()),
            (f"/v1/conversations/{SECRET}/items", {"items": user}),
            (f"/{SECRET}?key={SECRET}", {}),
    ):
        body = body | {"max_output_tokens": 8} if isinstance(body, dict) and path == "/v1/responses" else body
        answer = post(server, path, body)
        said.append(answer[2])
        # Again with invalid keys, and with a key in the URL.
        post(server, path, body, Authorization=f"Bearer {SECRET}")
    post(server, f"/v1/models?api_key={KEY}&ticket=ek_{SECRET}", {})
    post(server, "/v1/responses", {"input": SECRET}, traceparent=SECRET, tracestate=f"{SECRET}=1", Cookie=SECRET, Origin=f"http://{SECRET}.example")
    return said


async def say_it_over_sockets(server):
    said = []
    for path, events in (("/v1/responses", [{"type": "response.create", "input": f"{SECRET} says eight.", "max_output_tokens": 8}, {"type": SECRET}]),
                         ("/v1/realtime", [{"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": SECRET}]}},
                                           {"type": "response.create"}, {"type": SECRET}])):
        async with connect(f"ws://127.0.0.1:{server.port}{path}?q={SECRET}", proxy=None, compression=None,
                           subprotocols=["realtime", f"openai-insecure-api-key.{KEY}"]) as socket:
            for event in events:
                await socket.send(json.dumps(event))
            try:
                while (event := json.loads(await socket.recv()))["type"] not in ("error", "response.completed", "response.incomplete", "response.done"):
                    said.append(json.dumps(event))
                await socket.send(f"{{{SECRET}")
                await socket.recv()
            except ConnectionClosed:
                pass
    return said


@pytest.mark.parametrize("form", ["text", "json"])
def test_logs_have_no_content_and_no_key(start, store, form):
    flags = ["--log-level", "debug", "--log-format", form, "--store-path", store, "--api-key", KEY, "--encryption-key-file", key_file(store)]
    # Greedy: when sampling, the model might end most answers at once.
    server = start(*flags, "--temperature", 0)
    said = say_everything(server)
    said += run(say_it_over_sockets(server))
    wait_for(lambda: server.log.read_text(errors="replace").count("turn: resp_") >= 10, "every turn has its line")
    server.kill()  # so that recovery has work at the next start
    server = start(*flags)
    server.stop()
    log = server.log.read_text(errors="replace")
    assert SECRET.lower() not in log.lower() and KEY not in log and KEY[3:] not in log
    answers = {text for body in said if body.startswith("{") for text in texts_of(json.loads(body))}
    answers = {text for text in answers if len(text) >= 8}
    assert len(answers) >= 5, said
    for text in answers:
        assert text not in log and json.dumps(text)[1:-1] not in log and repr(text)[1:-1] not in log


def key_file(store):
    """Returns an encryption key file next to the store; every call returns the same one."""
    path = store.parent / "encryption.key"
    if not path.exists():
        path.write_bytes(b"0123456789abcdef0123456789abcdef")
        path.chmod(0o400)
    return path
