"""Hostile and broken clients on raw sockets: errors are typed, the server survives, other
conversations are unaffected."""

import json
import socket
import struct
import threading
import time

import pytest
import websockets
from server import PATIENCE_S, Server
from websockets.sync.client import connect

TERMINAL = {"response.completed", "response.incomplete", "response.failed", "error"}


class Socket:
    """A raw WebSocket to /v1/responses."""

    def __init__(self, server, **options):
        self.ws = connect(f"ws://127.0.0.1:{server.port}/v1/responses", max_size=None, open_timeout=PATIENCE_S, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ws.close()

    def send(self, value):
        self.ws.send(value if isinstance(value, (str, bytes)) else json.dumps(value))

    def recv(self):
        return json.loads(self.ws.recv(timeout=PATIENCE_S))

    def read_answer(self):
        events = []
        while not events or events[-1]["type"] not in TERMINAL:
            events.append(self.recv())
        return events

    def ask(self, text, **fields):
        self.send({"type": "response.create", "input": text, "temperature": 0, "max_output_tokens": 8, **fields})
        return self.read_answer()[-1]

    def check_usable(self):
        assert self.ask("Hello.")["type"] in {"response.completed", "response.incomplete"}


@pytest.fixture
def raw(server):
    with Socket(server) as raw:
        yield raw
    assert server.alive()


def text_of(event):
    return "".join(part["text"] for item in event["response"]["output"] for part in item["content"])


BAD_MESSAGES = [
    ("", None), ("{", None), ("null", None), ("[]", None), ("5", None), ('"x"', None), ("{}", None),
    ('{"type":5}', None), ('{"type":null}', None), ('{"type":"no.such.event"}', "unsupported_event_type"),
    ('{"type":"response.create","input":"x"} trailing', "invalid_json"), ("{'type':'response.create'}", "invalid_json"),
    ('{"type":"response.create","input":"\\ud800"}', None), ('{"type":"response.create","temperature":NaN}', "invalid_json"),
    ('{"type":"response.create","temperature":1e400}', None), ('{"type":"response.create","input":"a\u0000b"', "invalid_json"),
    ("\ufeff" * 10, None), ("[" * 100_000, None), ('{"a":' * 100_000, None),
    ("[" * 100_000 + "]" * 100_000, None), ('{"type":"response.create","input":' + "[" * 100_000 + "]" * 100_000 + "}", None),
    ('{"type":"response.create","metadata":' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}", None),
]


@pytest.mark.parametrize("message, code", BAD_MESSAGES, ids=[repr(m[:40]) + str(len(m)) for m, _ in BAD_MESSAGES])
def test_malformed_message_is_a_typed_error(raw, message, code):
    raw.send(message)
    event = raw.recv()
    assert event["type"] == "error", event
    assert event["error"]["type"] == "invalid_request_error" and event["error"]["message"]
    assert event["status"] == 400
    if code:
        assert event["error"]["code"] == code
    raw.check_usable()


def test_invalid_utf8_in_a_text_frame_ends_that_socket_only(server, raw):
    with Socket(server) as bad:
        bad.ws.send(b'{"type":"response.create","input":"\xff\xfe"}', text=True)
        with pytest.raises(websockets.ConnectionClosed) as closed:
            bad.ws.recv(timeout=30)
        assert closed.value.rcvd.code == 1007
    raw.check_usable()


def test_invalid_utf8_in_a_binary_frame_is_a_typed_error(raw):
    raw.send(b'{"type":"response.create","input":"\xff\xfe"}')
    event = raw.recv()
    assert event["type"] == "error" and event["status"] == 400
    raw.check_usable()


@pytest.mark.parametrize("value", [-1, -(2**63), 2**63, 2**64, 10**400, 1.5, -0.5, True, "8", [], {}],
                         ids=lambda value: str(value)[:24])
@pytest.mark.parametrize("field", ["max_output_tokens", "top_k", "min_tokens", "top_logprobs"], ids=str)
def test_numbers_out_of_range_are_typed_errors(raw, field, value):
    raw.send({"type": "response.create", "input": "Hi", "temperature": 0, "stop": ["."], field: value})
    last = raw.read_answer()[-1]
    if last["type"] == "error":
        # A number that does not fit 64 bits is rejected by the JSON parser, before field validation.
        assert last["error"]["param"] == field or value == 10**400 and last["error"]["code"] == "invalid_json", last
    else:
        # For these two, -1 and absurdly large values mean "no limit".
        assert type(value) is int and field in {"top_k", "max_output_tokens"} and (value > 0 or value == -1)
    raw.check_usable()


def test_a_message_over_the_limit_closes_with_1009(server, raw):
    with Socket(server) as big:
        big.send({"type": "response.create", "input": "x" * (5 << 20)})
        event = big.recv()
        assert event["type"] == "error" and event["status"] == 413
        with pytest.raises(websockets.ConnectionClosed) as closed:
            big.recv()
        assert closed.value.rcvd.code == 1009
    raw.check_usable()


def test_unknown_fields_inside_items_do_not_crash(raw):
    raw.send({"type": "response.create", "max_output_tokens": 2, "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi", "colour": "red"}]}]})
    raw.read_answer()
    raw.check_usable()


def test_users_cannot_inject_special_tokens(raw):
    plain = raw.ask("x")["response"]["usage"]["input_tokens"]
    marked = raw.ask("<|im_end|>")["response"]["usage"]["input_tokens"]
    assert marked > plain + 1, "the marker must be ordinary text of several tokens"


@pytest.mark.parametrize("request_text", [
    b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n", b"POST /v1/conversations HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/conversations HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
    b"POST /v1/conversations HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n",
    b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"GET /v1/none HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
], ids=range(10))
def test_broken_http_gets_an_error_status_or_a_closed_socket(server, raw, request_text):
    with socket.create_connection(("127.0.0.1", server.port), timeout=40) as plain:
        try:
            plain.sendall(request_text)
            plain.shutdown(socket.SHUT_WR)
            answer = plain.recv(4096)
        except ConnectionError:
            answer = b""
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 5")), answer
    raw.check_usable()


@pytest.mark.parametrize("when", ["at once", "at the first delta"])
def test_vanished_client_does_not_affect_others(server, raw, when):
    prompt, fields = "Tell me about the sea.", {"max_output_tokens": 60}
    alone = text_of(raw.ask(prompt, **fields))
    result = {}

    def other():
        with Socket(server) as steady:
            result["text"] = text_of(steady.ask(prompt, **fields))

    thread = threading.Thread(target=other)
    for _ in range(4):
        gone = Socket(server)
        gone.send({"type": "response.create", "input": "A long story, please.", "temperature": 0,
                   "max_output_tokens": 500, "ignore_eos": True})
        if when != "at once":
            while gone.recv()["type"] != "response.output_text.delta":
                pass
        if not thread.is_alive() and not result:
            thread.start()
        # A reset without a close frame, as when the cable is pulled.
        gone.ws.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.ws.socket.close()
    thread.join(PATIENCE_S)
    assert result["text"] == alone
    assert text_of(raw.ask(prompt, **fields)) == alone


def test_answer_continues_without_its_client(server, raw):
    with Socket(server) as gone:
        gone.send({"type": "response.create", "input": "Count to twenty.", "temperature": 0, "max_output_tokens": 40})
        first = gone.recv()["response"]["id"]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        status, body = server.get(f"/v1/responses/{first}")
        assert status == 200, body
        if json.loads(body)["status"] != "in_progress":
            break
        time.sleep(0.05)
    assert json.loads(body)["status"] in {"completed", "incomplete"}
    assert raw.ask("Go on.", previous_response_id=first)["type"] != "error"


def test_slow_reader_does_not_block_others(server, raw):
    with Socket(server, max_queue=1) as slow:
        slow.send({"type": "response.create", "input": "A long story.", "temperature": 0, "max_output_tokens": 300,
                   "ignore_eos": True})
        for _ in range(3):
            raw.check_usable()
        assert slow.read_answer()[-1]["type"] == "response.incomplete"


# ---- the exact session length ----

SESSION_LEN = 160


@pytest.fixture(scope="module")
def small_server():
    server = Server("--session-len", str(SESSION_LEN), "--memory-len", "96", "--pinned-max", "16", "--slots", "2")
    yield server
    server.stop()


def words(count):
    return " ".join(["a"] * count)


@pytest.fixture
def overhead(small_server):
    """Tokens that the template adds to a prompt, measured."""
    with Socket(small_server) as raw:
        counts = [raw.ask(words(n), max_output_tokens=1)["response"]["usage"]["input_tokens"] for n in (20, 21)]
    assert counts[1] == counts[0] + 1, "one word is one token"
    return counts[0] - 20


@pytest.mark.parametrize("spare", [2, 1])
def test_generation_stops_exactly_at_session_len(small_server, overhead, spare):
    with Socket(small_server) as raw:
        last = raw.ask(words(SESSION_LEN - spare - overhead), max_output_tokens=100, ignore_eos=True, truncation="auto")
        assert last["type"] == "response.incomplete", last
        assert last["response"]["incomplete_details"]["reason"] == "session_full"
        usage = last["response"]["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (SESSION_LEN - spare, spare)


def test_an_input_that_fills_the_session_is_accepted(small_server, overhead):
    with Socket(small_server) as raw:
        last = raw.ask(words(SESSION_LEN - overhead), max_output_tokens=100, truncation="auto")
        assert last["type"] == "response.incomplete", last
        assert last["response"]["usage"]["input_tokens"] == SESSION_LEN
        assert last["response"]["usage"]["output_tokens"] == 0


@pytest.mark.parametrize("over", [1, 2, 1000, 100_000])
def test_an_input_over_session_len_is_a_typed_error(small_server, overhead, over):
    with Socket(small_server) as raw:
        last = raw.ask(words(SESSION_LEN - overhead + over))
        assert last["type"] == "error" and last["status"] == 400, last
        assert last["error"]["code"] == "context_length_exceeded"
        raw.check_usable()


def test_history_counts_once(small_server, overhead):
    """FasterTransformer counted the history twice: a session ended at half its length."""
    with Socket(small_server) as raw:
        previous, position = None, 0
        while True:
            last = raw.ask(words(10), max_output_tokens=4, ignore_eos=True, previous_response_id=previous)
            if last["type"] == "error":
                assert last["error"]["code"] == "context_length_exceeded"
                break
            usage = last["response"]["usage"]
            assert usage["input_tokens"] > position
            position = usage["total_tokens"]
            assert position <= SESSION_LEN
            previous = last["response"]["id"]
        assert position > SESSION_LEN - 10 - overhead - 4
