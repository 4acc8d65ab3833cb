"""Attackers for scripts/bench_attacks: each function runs with its own tenant's key until its process is killed."""

import base64
import contextlib
import http.client
import json
import os
import random
import socket
import time

CONNECTIONS = 1_100
MESSAGE = [{"role": "user", "content": "x"}]


def call(port, key, method, path, body=None, timeout_s=60):
    """Returns the status of one request on a new connection; None if the server cut it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        if response.status in (429, 503):
            time.sleep(0.1)  # ignores Retry-After, but must not occupy a whole core
        return response.status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def handshake(port, key):
    """Returns a WebSocket after the upgrade; None if it was refused."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    nonce = base64.b64encode(os.urandom(16)).decode()
    connection.sendall(f"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                       f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {nonce}\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        received = connection.recv(1 << 16)
        if not received:
            break
        head += received
    if b" 101 " in head.split(b"\r\n")[0]:
        return connection
    connection.close()
    return None


def frame(event):
    data = json.dumps(event).encode()
    length = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    if len(data) >= 1 << 16:
        length = b"\xff" + len(data).to_bytes(8, "big")
    return b"\x81" + length + bytes(4) + data  # a zero mask leaves the bytes unchanged


def schema_request(schema):
    return {"messages": MESSAGE, "max_tokens": 1,
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}


def grammar_bombs(port, key):
    """Repeated empty alternatives, on every route that compiles a grammar."""
    while True:
        bomb = "(" + "|" * random.choice((1_000, 4_000, 40_000)) + "){65536}"
        path, body = random.choice((
            ("/v1/chat/completions", schema_request({"type": "string", "pattern": bomb})),
            ("/v1/responses", {"input": "x", "max_output_tokens": 1, "text": {"format": {"type": "regex", "regex": bomb}}}),
            ("/v1/responses", {"input": "x", "text": {"format": {"type": "grammar", "grammar": f'root ::= {bomb} "a"'}}}),
            ("/v1/messages", {"max_tokens": 1, "messages": MESSAGE, "tools": [{"name": "f", "input_schema": {
                "type": "object", "properties": {"a": {"type": "string", "pattern": bomb}}}}]})))
        call(port, key, "POST", path, body)


def schema_bombs(port, key):
    """Large disjointness checks, and many automata."""
    enums = {name: {"enum": [f"{name}{i}" for i in range(1_200)]} for name in "ef"}
    unions = {name.upper(): {"anyOf": [{"$ref": f"#/$defs/{name}"}] * 36} for name in "ef"}
    one_of = {"oneOf": [{"$ref": "#/$defs/E"}, {"$ref": "#/$defs/F"}]}
    pairs = {"type": "object", "properties": {str(i): one_of for i in range(200)}, "$defs": enums | unions}
    automata = {"type": "object", "properties": {str(i): {"type": "string", "pattern": "^(.?){100}$", "maxLength": 9}
                                                 for i in range(2_000)}}
    while True:
        call(port, key, "POST", "/v1/chat/completions", schema_request(random.choice((pairs, automata))))


def durable_writes(port, key):
    """Creates, changes and deletes conversations without a pause."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def ask(method, path, body=None):
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        data = response.read()
        if response.status in (429, 503):
            time.sleep(0.1)
        return json.loads(data) if data and response.status == 200 else None

    while True:
        try:
            made = ask("POST", "/v1/conversations", {"items": [{"role": "user", "content": "word " * 2_000}]})
            if made:
                ask("POST", f"/v1/conversations/{made['id']}", {"metadata": {"title": "t" * 500}})
                ask("DELETE", f"/v1/conversations/{made['id']}")
        except (OSError, http.client.HTTPException):
            connection.close()
            time.sleep(0.05)


def endless_answers(port, key):
    """One socket with 16 streams of maximum-length answers."""
    while True:
        with contextlib.suppress(OSError):
            one = handshake(port, key)
            if one is None:
                time.sleep(0.5)
                continue
            for stream in range(16):
                one.sendall(frame({"type": "response.create", "stream_id": f"s{stream}", "input": "hi", "max_output_tokens": 32_768,
                                   "ignore_eos": True}))
            end = time.monotonic() + 10
            while time.monotonic() < end and one.recv(1 << 16):
                pass
            one.close()


def connection_hoard(port, key):
    """Opens and holds as many WebSockets as the server accepts."""
    held = []
    while True:
        with contextlib.suppress(OSError):
            one = handshake(port, key) if len(held) < CONNECTIONS else None
            if one is not None:
                held.append(one)
                continue
        time.sleep(0.2)


def silent_sockets(port, key):
    """Silent connections, and request headers sent byte by byte."""
    held = []
    while True:
        with contextlib.suppress(OSError):
            if len(held) < CONNECTIONS:
                one = socket.create_connection(("127.0.0.1", port), timeout=5)
                if len(held) % 2:
                    one.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: ")
                held.append(one)
                continue
        time.sleep(1)
        for one in held[:]:
            try:
                one.sendall(b"a")
            except OSError:
                held.remove(one)


def unread_answers(port, key):
    """Requests whole answers to long prompts and never reads them."""
    held = []
    body = json.dumps({"input": "word " * 1_500, "max_output_tokens": 500, "ignore_eos": True, "stream": True}).encode()
    head = (f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    while True:
        with contextlib.suppress(OSError):
            one = socket.create_connection(("127.0.0.1", port), timeout=5)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            one.sendall(head + body)
            held.append(one)
        time.sleep(0.05)
        if len(held) > 200:
            held.pop(0).close()


def wrong_keys(port, key):
    while True:
        call(port, f"wrong-{random.random()}", "GET", "/v1/models")


def many_branches(port, key):
    """Beam search, several choices, prompt scoring, embeddings."""
    while True:
        path, body = random.choice((
            ("/v1/completions", {"prompt": "x " * 300, "n": 8, "max_tokens": 64, "ignore_eos": True}),
            ("/v1/completions", {"prompt": "x " * 600, "echo": True, "logprobs": 5, "max_tokens": 1}),
            ("/v1/completions", {"prompt": "x " * 100, "use_beam_search": True, "n": 4, "max_tokens": 64}),
            ("/v1/embeddings", {"input": ["x " * 300] * 16})))
        call(port, key, "POST", path, body)


KINDS = {attack.__name__: attack for attack in (grammar_bombs, schema_bombs, durable_writes, endless_answers, connection_hoard,
                                                silent_sockets, unread_answers, wrong_keys, many_branches)}
