"""Crowds of slow, returning and hostile clients for crowds_test.py and scripts/bench_crowds.py. All calls block, on one
thread."""

import contextlib
import http.client
import json
import socket
import time

from answer import Answer
from bare_socket import BINARY, CONTINUATION, PING, TEXT, BareSocket, frame, serve

SMALL_BUFFER = 4096  # receive buffer of a client that does not read; the kernel's minimum is slightly larger
MIB = 1 << 20


class Conversations:
    """Creates conversations over one keep-alive connection."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def call(self, method, path, body=None):
        self.connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        data = answer.read()
        assert answer.status == 200, (path, answer.status, data)
        return json.loads(data)

    def make(self, count):
        return [self.call("POST", "/v1/conversations", {})["id"] for _ in range(count)]

    def text_of_answer(self, id):
        """Returns the text of the newest message, which must be the assistant's."""
        item = self.call("GET", f"/v1/conversations/{id}/items?order=desc&limit=1")["data"][0]
        assert item["role"] == "assistant", item
        return "".join(part["text"] for part in item["content"])


def ask(one, conversation, tokens, lane=None, logprobs=False):
    event = {"type": "response.create", "conversation": conversation, "input": "Go on.", "max_output_tokens": tokens, "ignore_eos": True}
    if lane is not None:
        event["stream_id"] = lane
    if logprobs:  # events with log probabilities are never merged, so the backlog grows with the text
        event["include"] = ["message.output_text.logprobs"]
    one.say(event)


def slow_readers(port, lanes_of_each, tokens, logprobs=False):
    """Opens one socket per list of conversations, starts an answer in each and reads nothing from then on."""
    slow = []
    for conversations in lanes_of_each:
        one = BareSocket(port, receive_buffer=SMALL_BUFFER).open()
        for lane, conversation in enumerate(conversations):
            ask(one, conversation, tokens, f"lane{lane}", logprobs)
        slow.append(one)
    return slow


class Listener:
    """Resumes a conversation with one answer and receives everything after the first event, which the original reader
    has seen."""

    def __init__(self, port, conversation):
        self.began, self.heard_s = time.perf_counter(), None  # until the first event
        self.conversation, self.answer, self.resumed = conversation, Answer(), None
        self.answer.number = 0
        self.socket = BareSocket(port, f"/v1/responses?session={conversation}&after=0")

    def fileno(self):
        return self.socket.fileno()

    @property
    def head(self):
        return self.socket.head

    @property
    def lost(self):
        return self.socket.lost

    def read(self):
        self.socket.read()
        for event in self.socket.events():
            if self.resumed is None:
                assert event["type"] == "ringside:session.resumed" and event["session_present"], event
                self.heard_s = time.perf_counter() - self.began
                self.resumed = event
            else:
                self.answer.hear(event)

    def done(self):
        return self.answer.final is not None


def hear_all(port, conversations):
    """Resumes all conversations at once and receives every answer to its end; returns the listeners."""
    listeners = [Listener(port, id) for id in conversations]
    serve(listeners, Listener.done)
    for one in listeners:
        one.socket.close()
    return listeners


# ---- floods: each takes a port, attacks until it is cut, and returns the close code -----------------------------------------------


def send_until_cut(one, block, most_bytes=64 * MIB):
    """Sends `block` repeatedly without reading, until the server closes the connection or has received `most_bytes`."""
    with contextlib.suppress(ConnectionError):
        for _ in range(most_bytes // len(block) + 1):
            one.socket.sendall(block)


def flood(port, first, block):
    one = BareSocket(port).open()
    with contextlib.suppress(ConnectionError):
        one.socket.sendall(first)
    send_until_cut(one, block * (1 + (64 << 10) // len(block)))
    code = one.close_code()  # the server has closed even if it still reads and discards for a while
    one.close()
    return code


FRAME_FLOODS = {
    "tiny messages": (b"", frame(TEXT, b"x")),
    "pings": (b"", frame(PING, b"")),
    "large pings": (b"", frame(PING, b"p" * 125)),
    "empty frames": (frame(TEXT, b"x", final=False), frame(CONTINUATION, b"", final=False)),
    "fragments of one byte": (frame(TEXT, b"x", final=False), frame(CONTINUATION, b"x", final=False)),
    "a message without an end": (frame(BINARY, b"x", final=False), frame(CONTINUATION, b"x" * MIB, final=False)),
    "frames without a mask": (b"", b"\x81\x01x"),
}
# Permitted close codes: a close frame, or none if the server was still receiving data when it closed.
FRAME_CODES = {"a message without an end": {1009, None}, "frames without a mask": {1002, None}}
FLOOD_CODES = {1008, 1013, None}


def large_messages(port, count):
    """Sends messages of 1 MiB under a real mask, none of them a request; returns the errors."""
    one = BareSocket(port).open()
    key = b"\xa5\x5a\x0f\xf0"
    message = b"\x81\xff" + MIB.to_bytes(8, "big") + key + bytes(ord("x") ^ key[i % 4] for i in range(4)) * (MIB // 4)
    errors = 0
    for _ in range(count):
        one.socket.sendall(message)
        found = []
        while not found and one.read():
            found = one.events()
        errors += sum(event["type"] == "error" for event in found)
    one.close()
    return errors


def connect(port):
    """A bare TCP connection; None if it is refused."""
    try:
        return socket.create_connection(("127.0.0.1", port), timeout=120)
    except OSError:
        return None


HEAD_FLOODS = {
    "a header without an end": b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * (64 << 10),
    "headers without an end": b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 10_000,
    "a target without an end": b"GET /" + b"a" * (64 << 10),
    "half a head": b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: y",
}
