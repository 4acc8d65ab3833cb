"""The example configurations of deploy/proxy for servers with a shared store, each in front of three small servers: routes
keep their server, which is only a preference; a server that is down or stops costs no request; answers stream.

    scripts/python -m pytest tests/deploy/proxies_test.py
"""

import concurrent.futures
import http.client
import json
import re
import shutil
import socket
import subprocess

import pytest
from conftest import DEPLOY, PROGRAMS, ROOT, run
from server_process import wait_for
from stub_server import StubServer

FOLDER = DEPLOY / "proxy"
ROUTES = 30
PATIENCE_S = 60


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def haproxy():
    program = shutil.which("haproxy", path="/usr/sbin:/usr/bin")
    return program or pytest.skip("haproxy is not installed")


def nginx():
    return run(ROOT / "scripts/extract", "nginx").strip()


# File, command that runs it in the foreground, further arguments that only check it.
KINDS = {
    "haproxy": ("haproxy.cfg", lambda file, folder: [haproxy(), "-db", "-f", file], ["-c"]),
    "nginx": ("nginx.conf", lambda file, folder: [nginx(), "-p", folder, "-e", "stderr", "-c", file, "-g", f"daemon off; pid {folder}/pid; user root;"],
              ["-t"]),
    "envoy": ("envoy.yaml", lambda file, folder: [PROGRAMS / "envoy", "-c", file, "--disable-hot-restart", "--log-level", "error"],
              ["--mode", "validate"]),
}


def configuration(kind, port, servers, folder):
    """The example with these ports instead of its addresses."""
    text = (FOLDER / KINDS[kind][0]).read_text()
    for i, server in enumerate(servers):
        text, count = re.subn(rf"10\.0\.0\.{i + 1}(:|, port_value: )8080", rf"127.0.0.1\g<1>{server}", text)
        assert count == 1
    text, count = re.subn(r"(bind :|listen |0\.0\.0\.0, port_value: )8080", lambda found: found[1].replace("bind :", "bind 127.0.0.1:") + str(port), text)
    assert count == 1 and "8080" not in text
    if kind == "nginx":
        places = "".join(f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        text = text.replace("http {", f"http {{ access_log off; {places}")
    file = folder / KINDS[kind][0]
    file.write_text(text)
    return file


@pytest.mark.parametrize("kind", KINDS)
def test_proxy_accepts_its_configuration(kind, tmp_path):
    command, check = KINDS[kind][1](configuration(kind, free_port(), [1025, 1026, 1027], tmp_path), tmp_path), KINDS[kind][2]
    checked = subprocess.run([*map(str, command), *check], capture_output=True, text=True)
    assert checked.returncode == 0 and not re.search(r"warn|deprecat|alert|emerg", checked.stderr, re.IGNORECASE), checked.stderr


def test_haproxy_accepts_the_one_for_separate_stores():
    checked = subprocess.run([haproxy(), "-c", "-f", FOLDER / "haproxy-separate-stores.cfg"], capture_output=True, text=True)
    assert checked.returncode == 0 and not re.search(r"WARNING|ALERT", checked.stderr), checked.stderr


class Site:
    """A proxy with three servers."""

    def __init__(self, kind, folder):
        self.kind, self.servers = kind, [StubServer(name) for name in "abc"]
        self.port, self.count = free_port(), 0
        file = configuration(kind, self.port, [server.port for server in self.servers], folder)
        with (folder / "proxy.log").open("wb") as log:
            self.process = subprocess.Popen(list(map(str, KINDS[kind][1](file, folder))), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(self.settled, "the proxy to use all servers")
        except BaseException:
            self.close()
            raise

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        for server in self.servers:
            server.second_part.set()
            server.close()

    def send(self, method, path, headers, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body, headers | {"Host": "chat.example.com"})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b"{") else {}
        except OSError:
            return 0, {}
        finally:
            connection.close()

    def post(self, headers):
        """Sends a POST with a new id; returns status and answer."""
        self.count += 1
        return self.send("POST", "/v1/responses", headers | {"Content-Type": "application/json"}, json.dumps({"id": self.count}))

    def home(self, headers):
        """The server that answers a route, None = none."""
        return self.send("GET", "/v1/conversations", headers)[1].get("server")

    def homes(self):
        return [self.home(route(i)) for i in range(ROUTES)]

    def settled(self):
        """Whether the proxy uses all servers: routes are where they were before."""
        first = self.homes()
        return first == self.homes() and set(first) == {"a", "b", "c"}

    def socket(self, **headers):
        """Opens a WebSocket; returns its connection and the server's name."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        lines = ["GET /v1/responses HTTP/1.1", "Host: chat.example.com", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *[f"{name.replace('_', '-')}: {value}" for name, value in headers.items()], "", ""]
        connection.sendall("\r\n".join(lines).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1)
        assert head.split()[1] == b"101", head
        return connection, re.search(rb"(?i)x-server: (\w)", head)[1].decode()

    def executed(self):
        return sorted(id for server in self.servers for id in server.executed)


def route(i):
    return {"X-Affinity": f"person {i}", "Authorization": "Bearer one-key-for-all"}


@pytest.fixture(params=KINDS)
def site(request, tmp_path):
    started = Site(request.param, tmp_path)
    yield started
    started.close()


def test_routes_keep_their_server(site):
    homes = site.homes()
    assert [site.post(route(i))[1]["server"] for i in range(ROUTES)] == homes
    for i in range(3):
        connection, name = site.socket(X_Affinity=f"person {i}")
        connection.close()
        assert name == homes[i]


def test_a_key_is_a_route_however_it_is_sent(site):
    keys = [f"rk-{i:032x}" for i in range(40)]  # enough for every server, whichever addresses the ring has
    homes = [site.home({"Authorization": f"Bearer {key}"}) for key in keys]
    assert set(homes) == {"a", "b", "c"}
    assert [site.home({"x-api-key": key}) for key in keys] == homes
    for key, home in list(zip(keys, homes))[:12]:
        connection, name = site.socket(Sec_WebSocket_Protocol=f"realtime, openai-insecure-api-key.{key}, openai-beta.realtime-v1")
        connection.close()
        assert name == home


def test_requests_of_a_server_that_is_down_go_elsewhere(site):
    homes = site.homes()
    site.servers[0].close()
    answers = [site.post(route(i)) for i in range(ROUTES)]
    assert [status for status, _ in answers] == [200] * ROUTES
    assert all(answer["server"] == home for (_, answer), home in zip(answers, homes) if home != "a")
    assert {answer["server"] for (_, answer), home in zip(answers, homes) if home == "a"} <= {"b", "c"}
    assert site.executed() == list(range(1, ROUTES + 1)), "no request is lost, and none is executed twice"
    moved = site.homes()
    site.servers[0] = StubServer("a", site.servers[0].port)
    wait_for(lambda: "a" in {site.home(route(f"new {i}")) for i in range(ROUTES)}, "the server to get new routes")
    if site.kind == "haproxy":
        assert site.homes() == moved, "the routes stay, because the caches are elsewhere now"
    else:
        wait_for(lambda: site.homes() == homes, "the routes to return")


def test_requests_of_a_stopping_server_go_elsewhere(site):
    """nginx does not repeat a POST that it has sent: the client gets the 503, and repeats it."""
    site.servers[0].stopping = True
    statuses = [site.post(route(i))[0] for i in range(ROUTES)]
    assert set(statuses) <= ({200, 503} if site.kind == "nginx" else {200})
    assert [site.send("GET", "/v1/conversations", route(i))[0] for i in range(ROUTES)] == [200] * ROUTES
    assert len(site.executed()) == len(set(site.executed())) == statuses.count(200)


def test_requests_at_once_are_all_answered(site):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda i: site.send("POST", "/v1/responses", route(i % 3), json.dumps({"id": i})), range(200)))
    assert {status for status, _ in answers} == {200} and site.executed() == list(range(200))
    assert {answer["host"] for _, answer in answers} == {"chat.example.com"}, "the server checks the Host that clients send"


def test_answers_stream(site):
    """The first part of an SSE answer arrives before the server has the second."""
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE_S)
    connection.request("GET", "/stream", headers=route(0))
    answer = connection.getresponse()
    assert answer.read1() == b"data: one\n\n"
    for server in site.servers:
        server.second_part.set()
    assert answer.read() == b"data: two\n\n"
    connection.close()


def test_sockets_pass_both_ways(site):
    connection, _ = site.socket(X_Affinity="person 0")
    with connection:
        for message in (b"hello", b"world" * 100):
            connection.sendall(message)
            got = b""
            while len(got) < len(message):
                got += connection.recv(4096)
            assert got == message
