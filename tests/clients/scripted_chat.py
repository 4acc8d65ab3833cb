"""A chat server with a fixed answer: HTTP for models and conversations, and a WebSocket that streams the same text in
small pieces for every turn. Runs on a separate thread, on loopback."""

import base64
import hashlib
import json
import socket
import struct
import threading

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class ScriptedChat:
    def __init__(self, answer, piece_bytes=3, reasoning=""):
        self.pieces = [answer[at:at + piece_bytes] for at in range(0, len(answer), piece_bytes)]
        self.answer = answer
        self.reasoning = reasoning
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            peer, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        stream = peer.makefile("rwb")
        line = stream.readline().split()
        headers = {}
        while (header := stream.readline().strip()):
            name, _, value = header.decode().partition(":")
            headers[name.lower()] = value.strip()
        if "upgrade" in headers.get("connection", "").lower():
            return self._talk(stream, headers["sec-websocket-key"])
        stream.read(int(headers.get("content-length", 0)))
        path = line[1].decode().split("?")[0] if len(line) > 1 else ""
        body = {"/v1/models": {"data": [{"id": "scripted"}]}}.get(path, {"id": "conv_scripted", "data": [], "has_more": False})
        data = json.dumps(body).encode()
        stream.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(data))
        stream.write(data)
        stream.flush()
        peer.close()
        return None

    def _talk(self, stream, key):
        accept = base64.b64encode(hashlib.sha1(key.encode() + MAGIC).digest()).decode()
        stream.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        stream.flush()
        while (opcode := self._read_frame(stream)) is not None:
            if opcode == 1:
                self._answer(stream)

    @staticmethod
    def _read_frame(stream):
        head = stream.read(2)
        if len(head) < 2:
            return None
        size = head[1] & 127
        if size >= 126:
            size = int.from_bytes(stream.read(2 if size == 126 else 8), "big")
        stream.read(4 + size)  # the content is ignored
        return head[0] & 15

    def _answer(self, stream):
        def send(event):
            data = json.dumps(event).encode()
            stream.write(b"\x81" + (struct.pack("!B", len(data)) if len(data) < 126 else struct.pack("!BH", 126, len(data))) + data)
            stream.flush()

        send({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}})
        for piece in self.reasoning.splitlines(keepends=True):
            send({"type": "response.reasoning_text.delta", "delta": piece})
        for piece in self.pieces:
            send({"type": "response.output_text.delta", "delta": piece})
        send({"type": "response.completed", "response": {
            "id": "resp_1", "status": "completed", "usage": {"output_tokens": len(self.pieces)},
            "output": [{"type": "message", "content": [{"type": "output_text", "text": self.answer}]}]}})
