"""Images from URLs: only listed hosts are contacted, within their limits.

    scripts/python -m pytest tests/system/transport/image_urls_test.py
"""

import asyncio
import http.server
import ssl
import threading

import pytest
import tiny_vision
from authority import Authority
from server_process import run
from wire import Http

FILE = tiny_vision.noise(48)
LIMIT = 20 << 20


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny_vision.make(tmp_path_factory.mktemp("vision") / "tiny")


class Stub:
    """A web server. `asked` has the paths of its requests."""

    def __init__(self, context=None):
        self.asked, self.answers, self.ended = [], {}, threading.Event()
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                stub.asked.append(self.path)
                status, headers, body = stub.answers.get(self.path, (404, {}, b"nothing"))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    body(self) if callable(body) else self.wfile.write(body)
                except OSError:
                    pass  # the server has closed the connection

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        self.host = f"http{'s' if context else ''}://127.0.0.1:{self.port}"
        self.answers["/image.png"] = (200, {"Content-Type": "image/png", "Content-Length": str(len(FILE))}, FILE)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.ended.set()
        self.server.shutdown()


@pytest.fixture
def web():
    stub = Stub()
    yield stub
    stub.close()


@pytest.fixture
def other():
    stub = Stub()
    yield stub
    stub.close()


async def ask(server, url):
    """Status and body of a turn about the image."""
    http = Http(server.port)
    part = {"type": "input_image", "image_url": url}
    answer = await http.call("POST", "/v1/responses", {"input": [{"role": "user", "content": [part]}], "temperature": 0,
                                                       "max_output_tokens": 16, "ignore_eos": True})
    http.close()
    return answer


def text_of(answer):
    status, body = answer
    assert status == 200, body
    return body["output"][0]["content"][0]["text"]


def refusal(server, url):
    status, body = run(ask(server, url))
    assert status == 400 and body["error"]["param"] == "input[0].content[0].image_url", body
    return body["error"]["code"]


def test_a_listed_host_is_fetched_and_its_file_is_stored(start, store, web):
    server = start("--allowed-image-hosts", web.host, "--store-path", store)
    url = tiny_vision.data_url(FILE)
    answer = run(ask(server, web.host + "/image.png?size=1#part"))
    assert answer[0] == 400 and web.asked == ["/image.png?size=1"]  # the stub has nothing there
    answer = run(ask(server, web.host + "/image.png"))
    assert text_of(answer) == text_of(run(ask(server, url)))
    server.kill()
    web.close()
    server = start("--store-path", store)

    async def stored():
        http = Http(server.port)
        status, page = await http.call("GET", f"/v1/responses/{answer[1]['id']}/input_items")
        http.close()
        return page["data"][0]["content"][0]["image_url"]

    assert run(stored()) == url
    server.stop()


def test_no_other_host_is_contacted(start, web, other):
    server = start("--allowed-image-hosts", other.host)
    for url in (web.host + "/image.png", other.host.replace("http:", "https:") + "/image.png", "http://127.0.0.1/image.png",
                f"http://user@127.0.0.1:{other.port}/image.png", f"http://2130706433:{other.port}/image.png",
                "file:///etc/passwd", "ftp://127.0.0.1/image.png", "//127.0.0.1/image.png", "image.png", ""):
        assert refusal(server, url) == "image_url_not_allowed", url
    assert web.asked == other.asked == []
    server.stop()


def test_a_redirect_leads_only_to_listed_hosts(start, web, other):
    def redirect(to):
        return (302, {"Location": to, "Content-Length": "0"}, b"")

    web.answers |= {"/inside": redirect("/image.png"), "/out": redirect(other.host + "/image.png"),
                    "/metadata": redirect("http://169.254.169.254/latest"), "/file": redirect("file:///etc/passwd"),
                    "/loop": redirect("/loop"), "/nowhere": (302, {"Content-Length": "0"}, b"")}
    server = start("--allowed-image-hosts", web.host)
    assert text_of(run(ask(server, web.host + "/inside")))
    for path in ("/out", "/metadata", "/file", "/nowhere"):
        assert refusal(server, web.host + path) == "image_url_not_allowed", path
    assert other.asked == []
    web.asked.clear()
    assert refusal(server, web.host + "/loop") == "invalid_image_url"
    assert web.asked == ["/loop"] * 4
    server.stop()
    server = start("--allowed-image-hosts", web.host, "--allowed-image-hosts", other.host)
    assert text_of(run(ask(server, web.host + "/out")))
    server.stop()


def test_a_name_with_a_private_address_is_not_contacted(start, web):
    server = start("--allowed-image-hosts", f"http://localhost:{web.port}", "--allowed-image-hosts", "http://no.such.host.invalid")
    assert refusal(server, f"http://localhost:{web.port}/image.png") == "image_url_not_allowed"
    assert web.asked == []
    assert refusal(server, "http://no.such.host.invalid/image.png") == "invalid_image_url"
    server.stop()


def test_faults_of_a_host_are_typed(start, web):
    def chunks(handler):
        for _ in range((LIMIT >> 20) + 2):
            handler.wfile.write(b"100000\r\n" + bytes(1 << 20) + b"\r\n")

    web.answers |= {"/large": (200, {"Content-Length": str(LIMIT + 1)}, b""),
                    "/endless": (200, {"Transfer-Encoding": "chunked"}, chunks),
                    "/cut": (200, {"Content-Length": "1000"}, FILE[:100]),
                    "/head": (200, {"X": "x" * (1 << 15)}, FILE),
                    "/page": (200, {"Content-Type": "text/html"}, b"<html></html>")}
    server = start("--allowed-image-hosts", web.host)
    for path, code in (("/missing", "invalid_image_url"), ("/large", "invalid_image_url"), ("/endless", "invalid_image_url"),
                       ("/cut", "invalid_image_url"), ("/head", "invalid_image_url"), ("/page", "invalid_value")):
        assert refusal(server, web.host + path) == code, path
    assert refusal(server, f"http://127.0.0.1:{web.port}/image.png\r\nX: y") == "image_url_not_allowed"
    server.stop()


def test_a_slow_host_holds_up_no_other_turn(start, web):
    """One worker; the host sends a byte a second without an end."""
    def trickle(handler):
        while not web.ended.wait(1):
            handler.wfile.write(b"x")
            handler.wfile.flush()

    web.answers["/slow"] = (200, {"Content-Length": "1000000"}, trickle)
    server = start("--allowed-image-hosts", web.host, "--worker-threads", 1)

    async def main():
        slow = [asyncio.create_task(ask(server, web.host + "/slow")) for _ in range(4)]
        while not web.asked:
            await asyncio.sleep(0.01)
        text = text_of(await ask(server, tiny_vision.data_url(FILE)))
        asked = len(web.asked)
        assert text and asked <= 2, "of one owner at once"
        assert not any(task.done() for task in slow)
        return [body["error"]["code"] for _, body in await asyncio.gather(*slow)]

    assert set(run(main())) <= {"invalid_image_url", "rate_limit_exceeded"}
    server.stop()


def test_a_certificate_must_be_valid_for_the_host(start, tmp_path):
    authority = Authority(tmp_path)
    stubs = []
    for name, hosts in (("right", "IP:127.0.0.1"), ("wrong", "DNS:example.org")):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.certificate(name, hosts))
        stubs.append(Stub(context))
    hosts = [flag for stub in stubs for flag in ("--allowed-image-hosts", stub.host)]
    server = start(*hosts, environment={"SSL_CERT_FILE": str(authority.file)})
    assert text_of(run(ask(server, stubs[0].host + "/image.png")))
    assert refusal(server, stubs[1].host + "/image.png") == "invalid_image_url"
    server.stop()
    server = start(*hosts)  # which does not know the authority
    assert refusal(server, stubs[0].host + "/image.png") == "invalid_image_url"
    server.stop()
    for stub in stubs:
        stub.close()
