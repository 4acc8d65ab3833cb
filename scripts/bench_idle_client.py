"""Holds many idle WebSockets for scripts/bench_sessions: bench_idle_client.py PORT COUNT, a JSON list of sessions on standard
input, one for each connection to attach to. Says "ready SECONDS" when all are open; ends, as an error, if one is lost, and well
when standard input ends. Bare sockets, so that the client is not what is measured."""

import json
import os
import resource
import selectors
import socket
import sys
import time

BURST = 200  # handshakes under way at once
PING, PONG, CLOSE, TEXT = 0x9, 0xA, 0x8, 0x1


def frame(kind, payload):
    """A client's frame, masked with zeros."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + size.to_bytes(2, "big")
    return bytes([0x80 | kind]) + length + bytes(4) + payload


class Connection:
    def __init__(self, port, session):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
        self.session = session
        self.pending = b""
        self.upgraded = self.ready = False

    def read(self):
        """Takes what has come; true once the connection is as idle as it shall be."""
        data = self.socket.recv(65536)
        if not data:
            sys.exit("a connection was closed")
        self.pending += data
        if not self.upgraded and b"\r\n\r\n" in self.pending:
            head, self.pending = self.pending.split(b"\r\n\r\n", 1)
            if not head.startswith(b"HTTP/1.1 101"):
                sys.exit(f"refused: {head[:200]}")
            self.upgraded = True
            if self.session is None:
                self.ready = True
            else:
                event = {"type": "ringside:session.resume", "session": self.session}
                self.socket.sendall(frame(TEXT, json.dumps(event).encode()))
        while self.upgraded and self.read_frame():
            pass
        return self.ready

    def read_frame(self):
        if len(self.pending) < 2:
            return False
        kind, size, begin = self.pending[0] & 15, self.pending[1], 2
        if size == 126:
            size, begin = int.from_bytes(self.pending[2:4], "big"), 4
        if size == 127 or len(self.pending) < begin + size:
            return False
        payload, self.pending = self.pending[begin : begin + size], self.pending[begin + size :]
        if kind == PING:
            self.socket.sendall(frame(PONG, payload))
        elif kind == CLOSE:
            sys.exit(f"closed: {payload!r}")
        elif kind == TEXT and b"session.resumed" in payload:
            if b'"session_present":true' not in payload.replace(b" ", b""):
                sys.exit(f"not resumed: {payload!r}")
            self.ready = True
        return True


def main():
    port, count = int(sys.argv[1]), int(sys.argv[2])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sessions = json.loads(sys.stdin.readline())
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    began, opened, ready = time.monotonic(), 0, 0
    while True:
        while opened < count and opened - ready < BURST:
            connection = Connection(port, sessions[opened] if sessions else None)
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            opened += 1
        for key, _ in selector.select():
            if key.data is None:
                os._exit(0)
            was_ready = key.data.ready
            if key.data.read() and not was_ready:
                ready += 1
                if ready == count:
                    print(f"ready {time.monotonic() - began:.3f}", flush=True)


main()
