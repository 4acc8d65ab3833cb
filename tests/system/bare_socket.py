"""A WebSocket without a library, for clients that misbehave in ways no library offers (slow, silent, abusive), and for
thousands of them at once."""

import json
import select
import selectors
import socket
import time

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
PATIENCE_S = 120  # a hang is a failure, slowness is not


def frame(kind, payload, final=True):
    """A client frame with a zero mask."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xff" + size.to_bytes(8, "big")
    return bytes([(0x80 if final else 0) | kind]) + length + bytes(4) + payload


def upgrade(path="/v1/responses", headers=""):
    return (f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{headers}\r\n").encode()


class BareSocket:
    """Sends the upgrade request at once. Blocking, unless it belongs to a Crowd."""

    def __init__(self, port, path="/v1/responses", receive_buffer=None, headers=""):
        """`receive_buffer`: kernel receive buffer in bytes; a slow reader is sent at least that much. `headers`: extra
        header lines."""
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE_S)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(upgrade(path, headers))
        self.pending, self.head, self.lost = b"", None, False

    def fileno(self):
        return self.socket.fileno()

    def send(self, kind, payload):
        self.socket.sendall(frame(kind, payload))

    def say(self, event):
        self.send(TEXT, json.dumps(event).encode())

    def widen(self, receive_buffer=1 << 20):
        """Lets a slow reader catch up. With a tiny buffer the kernel may not announce the freed window, and then the
        sender probes it only after its persist timer, which has backed off to minutes."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)

    def read(self, most=1 << 16):
        """Reads what is available, or waits for data; returns false once the connection is closed."""
        try:
            data = self.socket.recv(most)
        except ConnectionError:
            data = b""
        self.lost = not data
        self.pending += data
        if self.head is None and b"\r\n\r\n" in self.pending:
            self.head, self.pending = self.pending.split(b"\r\n\r\n", 1)
        return not self.lost

    def status(self):
        """Reads the answer to the upgrade and returns its status."""
        while self.head is None and self.read():
            pass
        return int(self.head.split()[1]) if self.head else None

    def open(self):
        """Checks that the upgrade succeeded; returns self."""
        self.status()
        assert self.head is not None and self.head.startswith(b"HTTP/1.1 101"), self.head or self.pending
        return self

    def frames(self):
        """Yields kind and payload of each complete frame received; answers pings."""
        at = 0
        while self.head is not None and len(self.pending) >= at + 2:
            kind, size, begin = self.pending[at] & 15, self.pending[at + 1], at + 2
            if size >= 126:
                begin += 2 if size == 126 else 8
                size = int.from_bytes(self.pending[at + 2 : begin], "big")
            if len(self.pending) < begin + size:
                break
            payload, at = self.pending[begin : begin + size], begin + size
            if kind == PING:
                self.send(PONG, payload)
            yield kind, payload
        self.pending = self.pending[at:]

    def events(self):
        """Returns the received events, decoded."""
        return [json.loads(payload) for kind, payload in self.frames() if kind == TEXT]

    def close_code(self):
        """Reads to the end and returns the server's close code; None if it cut the connection without one."""
        code = None
        while not self.lost:
            self.read()
            for kind, payload in self.frames():
                if kind == CLOSE:
                    code = int.from_bytes(payload[:2], "big")
        return code

    def close(self):
        self.socket.close()


def serve(sockets, handle, timeout_s=PATIENCE_S):
    """Reads from all `sockets`, calling `handle(socket)` after each read, until it has returned True for every one."""
    with selectors.DefaultSelector() as selector:
        for one in sockets:
            selector.register(one, selectors.EVENT_READ)
        left, deadline = len(sockets), time.monotonic() + timeout_s
        while left:
            assert time.monotonic() < deadline, f"{left} of {len(sockets)} sockets wait for ever"
            for key, _ in selector.select(1):
                one = key.fileobj
                one.read()
                if handle(one):
                    selector.unregister(one)
                    left -= 1
                else:
                    assert not one.lost, one.head


def has_ended(connection):
    """Returns whether the peer has closed a plain socket; discards received data."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    while poll.poll(0):
        try:
            if not connection.recv(1 << 16):
                return True
        except ConnectionError:
            return True
    return False
