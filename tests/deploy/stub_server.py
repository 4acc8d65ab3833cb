"""A small HTTP server in the place of ringside-server, for tests of proxies: health check, requests that it counts, an
answer as SSE in two parts, and a WebSocket that echoes bytes. While it stops, it answers 503 after a second, as
ringside-server does."""

import base64
import contextlib
import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Listener(ThreadingHTTPServer):
    request_queue_size = 128  # with the default of 5, connections at once wait a second and more for a repeated SYN


class StubServer:
    """Listens on this port of loopback until it is closed. `executed` has the ids of the POSTs that did work."""

    def __init__(self, name, port=0):
        self.name, self.stopping, self.executed = name, False, []
        self.second_part = threading.Event()  # lets the SSE answer continue
        self.http = Listener(("127.0.0.1", port), handler_of(self))
        self.port = self.http.server_address[1]
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def handler_of(stub):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def handle(self):
            with contextlib.suppress(ConnectionError):  # a proxy closes its checks early
                super().handle()

        def answer(self, status, value, **headers):
            body = json.dumps(value).encode()
            self.send_response(status)
            for name, text in ({"Content-Length": len(body), "Content-Type": "application/json"} | headers).items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)

        def refuse(self):
            time.sleep(1)
            self.answer(503, {"error": "unavailable"}, **{"Retry-After": "1"})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if stub.stopping:
                return self.refuse()
            stub.executed.append(body["id"])
            self.answer(200, {"server": stub.name, "host": self.headers["Host"]})

        def do_GET(self):
            if stub.stopping:
                return self.refuse()
            if self.headers.get("Upgrade", "").lower() == "websocket":
                return self.echo()
            if self.path == "/stream":
                return self.stream()
            self.answer(200, {"server": stub.name})

        def stream(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (b"data: one\n\n", b"data: two\n\n"):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.flush()
                stub.second_part.wait(60)
            self.wfile.write(b"0\r\n\r\n")

        def echo(self):
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
            self.send_header("X-Server", stub.name)
            self.end_headers()
            self.wfile.flush()
            while data := self.rfile.read1(4096):
                self.wfile.write(data)
                self.wfile.flush()
            self.close_connection = True

    return Handler
