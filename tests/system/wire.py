"""The wire protocol for the system tests: raw events over a WebSocket, JSON over a keep-alive HTTP connection."""

import asyncio
import json

import websockets
from websockets.asyncio.client import connect

TERMINAL = {"response.completed", "response.incomplete", "response.failed", "error"}
# Exceptions raised when the peer was killed or closed the connection.
LOST = (ConnectionError, websockets.ConnectionClosed, websockets.InvalidHandshake, asyncio.IncompleteReadError, EOFError)


class Http:
    """One connection, one request at a time. Raises one of LOST if the connection breaks; the outcome
    is then unknown."""

    def __init__(self, port, host="127.0.0.1"):
        self.port, self.host = port, host
        self.reader = self.writer = None

    async def call(self, method, path, body=None):
        """Returns status and decoded body."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n"
        kind = "Content-Type: application/json\r\n" if data else ""
        self.writer.write((head + kind + "\r\n").encode() + data)
        status, headers = await self._read_head()
        answer = await self.reader.readexactly(int(headers["content-length"]))
        if headers.get("connection", "").lower() == "close":
            self.close()
        return status, json.loads(answer) if answer[:1] in b"{[" and answer else answer

    async def stream(self, path):
        """Yields the decoded server-sent events of a GET, to the end of the body."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.split()[1] == b"200", (head, await reader.read())
            async for line in reader:
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])
        finally:
            writer.close()

    async def _read_head(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value for name, value in headers.items()}

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None

    async def items(self, conversation):
        """Returns (role, text) of every item, oldest first; None if the conversation does not exist."""
        out, after = [], ""
        while True:
            status, page = await self.call("GET", f"/v1/conversations/{conversation}/items?order=asc&limit=100{after}")
            if status == 404:
                return None
            assert status == 200, (status, page)
            out += [(item["role"], item["content"][0]["text"]) for item in page["data"]]
            if not page["has_more"]:
                return out
            after = "&after=" + page["last_id"]


class Socket:
    """One WebSocket. Events are dictionaries, in order."""

    def __init__(self, connection):
        self.connection = connection

    @classmethod
    async def open(cls, port, host="127.0.0.1"):
        return cls(await connect(f"ws://{host}:{port}/v1/responses", compression=None, ping_interval=None, max_size=None,
                                 max_queue=None, proxy=None, open_timeout=60, close_timeout=10))

    async def send(self, event):
        await self.connection.send(json.dumps(event))

    async def receive(self):
        return json.loads(await self.connection.recv())

    async def ask(self, **fields):
        """Runs one turn to its end; returns all its events."""
        await self.send({"type": "response.create", **fields})
        events = [await self.receive()]
        while events[-1]["type"] not in TERMINAL:
            events.append(await self.receive())
        return events

    async def resume(self, session, **fields):
        """Sends ringside:session.resume and returns the reply; receive() then yields the missed events."""
        await self.send({"type": "ringside:session.resume", "session": session, **fields})
        while (event := await self.receive())["type"] != "ringside:session.resumed":
            pass
        return event

    async def read_to_close(self):
        """Reads to the end and returns the server's close code."""
        try:
            while True:
                await self.receive()
        except websockets.ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None

    def abort(self):
        """Drops the connection without a close."""
        self.connection.transport.abort()

    async def close(self):
        await self.connection.close()


def text_of(response):
    """The text of a response object; "" if it has no item."""
    return "".join(part["text"] for item in response["output"] for part in item["content"])


def agree(stored, received, durability):
    """Whether the stored text of an answer that lost its server is what the client received, or more; with durability
    "turn", also less. An answer that was cut within a character ends with U+FFFD."""
    return stored.startswith(received) or durability == "turn" and received.startswith(stored.removesuffix("\ufffd"))
