"""Servers with separate stores behind the proxy of deploy/proxy/haproxy-separate-stores.cfg: every route finds its
conversations again, also after a server is added; while a server is down its routes wait for it and new ones go
elsewhere; a rolling restart causes no client errors.

    scripts/python -m pytest tests/system/transport/proxy_test.py
"""

import asyncio
import collections
import contextlib
import csv
import io
import json
import os
import random
import re
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
import websockets
from server_process import ROOT, ServerProcess, server_path, wait_for
from wire import TERMINAL

PROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
SERVERS, KEYS, PEOPLE = 3, 6, 24

pytestmark = pytest.mark.skipif(PROXY is None, reason="haproxy is not installed")


def free_ports(n):
    """From outside the ephemeral range, so that a restarted server gets its port back."""
    sockets = []
    while len(sockets) < n:
        with contextlib.suppress(OSError):
            sockets.append(socket.create_server(("127.0.0.1", random.randrange(15_000, 32_000))))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def configuration(port, peer_port, servers, runtime=None):
    """The documented configuration with these addresses; `runtime`: path of the proxy's admin socket. Adds servers
    beyond those of the example."""
    text = (ROOT / "deploy/proxy/haproxy-separate-stores.cfg").read_text()
    text = text.replace("bind :8080", f"bind 127.0.0.1:{port}").replace("bind 127.0.0.1:10000", f"bind 127.0.0.1:{peer_port}")
    if runtime:
        text = text.replace("global\n", f"global\n  stats socket {runtime} mode 600 level admin\n")
    for i, server in enumerate(servers):
        if f"10.0.0.{i + 1}:8080" in text:
            text = text.replace(f"10.0.0.{i + 1}:8080", server)
        else:
            text += f"  server {chr(ord('a') + i)} {server}\n"
    return "\n".join(line for line in text.split("\n") if "10.0.0." not in line)


def call(port, method, path, headers, body=None):
    """Returns status and decoded body."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method, headers=headers | {"Content-Type": "application/json"},
                                     data=None if body is None else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def ask(port, headers, conversation, **fields):
    status, response = call(port, "POST", "/v1/responses", headers,
                            {"conversation": conversation, "input": "Hello.", "max_output_tokens": 3, "temperature": 0} | fields)
    return status, response.get("ringside", {}).get("source") if status == 200 else response


async def ask_over_socket(port, conversation, **how):
    async with websockets.connect(f"ws://127.0.0.1:{port}/v1/responses", compression=None, proxy=None, open_timeout=60, **how) as socket:
        await socket.send(json.dumps({"type": "response.create", "conversation": conversation, "input": "And?", "max_output_tokens": 3}))
        while (event := json.loads(await socket.recv()))["type"] not in TERMINAL:
            pass
        return event["type"]


class Proxy:
    """HAProxy with the documented configuration, in front of servers at these addresses."""

    def __init__(self, folder, addresses):
        self.folder, self.runtime = folder, folder / "runtime"
        self.port, self.peer_port = free_ports(2)
        self.process = None
        self.start(addresses)

    def start(self, addresses, *flags):
        file = self.folder / "haproxy.cfg"
        file.write_text(configuration(self.port, self.peer_port, addresses, self.runtime))
        with (self.folder / "haproxy.log").open("ab") as log:
            self.process = subprocess.Popen([PROXY, "-db", "-f", file, *map(str, flags)], stdin=subprocess.DEVNULL, stderr=log)
        wait_for(self.listens, "the proxy to listen")

    def listens(self):
        """The admin socket gets its name only after the port is open."""
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0 and self.runtime.exists()

    def reload(self, addresses):
        """Reloads as the service manager does: a new process takes over the sockets and the stick table."""
        wait_for(lambda: "resync_timeout=<PAST>" in self.tell("show peers"), "the proxy's start to be past")
        old = self.process
        self.start(addresses, "-sf", old.pid)
        assert old.wait(120) == 0

    def tell(self, command):
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(str(self.runtime))
            one.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: one.recv(1 << 16), b"")).decode()

    def up(self, number):
        """Whether the proxy considers that server up."""
        rows = csv.DictReader(io.StringIO(self.tell("show stat").removeprefix("# ")))
        return next(row["status"] for row in rows if row["pxname"] == "ringside" and row["svname"] == chr(ord("a") + number)).startswith("UP")

    def stop(self):
        self.process.kill()
        self.process.wait()


class Servers:
    """Servers with separate stores and the same keys."""

    def __init__(self, start, folder):
        self.start_server, self.folder, self.keys_file = start, folder, folder / "keys.json"
        self.keys = [subprocess.run([server_path(), "keys", "add", "--file", self.keys_file, "--owner", f"owner{i}"], capture_output=True,
                                    text=True, check=True).stdout.strip() for i in range(KEYS)]
        self.ports = free_ports(SERVERS + 1)
        self.running = [self.start(i) for i in range(SERVERS)]

    def start(self, i):
        return self.start_server("--port", self.ports[i], "--store-path", self.folder / f"store{i}", "--keys-file", self.keys_file)

    def addresses(self, count=SERVERS):
        return [f"127.0.0.1:{port}" for port in self.ports[:count]]

    def routes(self):
        """Headers that identify a route: each key, and many users of the first key."""
        routes = [{"Authorization": f"Bearer {key}"} for key in self.keys]
        return routes + [routes[0] | {"X-Affinity": f"person {i}"} for i in range(PEOPLE)]

    def home(self, headers, conversation):
        """The one server that has the conversation."""
        having = [i for i, server in enumerate(self.running)
                  if call(server.port, "GET", f"/v1/conversations/{conversation}", headers)[0] == 200]
        assert len(having) == 1
        return having[0]


@pytest.fixture
def proxied(start, tmp_path):
    servers = Servers(start, tmp_path)
    proxy = Proxy(tmp_path, servers.addresses())
    try:
        wait_for(lambda: all(map(proxy.up, range(SERVERS))), "all servers to pass their checks")
        yield proxy, servers
    finally:
        proxy.stop()


def begin(proxy, servers, headers):
    """Starts a conversation on this route; returns it with its server."""
    status, made = call(proxy.port, "POST", "/v1/conversations", headers, {})
    assert status == 200, made
    assert ask(proxy.port, headers, made["id"]) == (200, "new")
    return headers, made["id"], servers.home(headers, made["id"])


def test_routes_find_conversations_after_a_server_is_added(proxied):
    proxy, servers = proxied
    talks = [begin(proxy, servers, headers) for headers in servers.routes()]
    assert {at for *_, at in talks[KEYS:]} == set(range(SERVERS))

    for key, (headers, id, _) in zip(servers.keys[:4], talks):
        assert asyncio.run(ask_over_socket(proxy.port, id, additional_headers=headers)) in ("response.completed", "response.incomplete")
        as_a_browser = asyncio.run(ask_over_socket(proxy.port, id, subprotocols=["realtime", f"openai-insecure-api-key.{key}", "openai-beta.realtime-v1"]))
        assert as_a_browser in ("response.completed", "response.incomplete")

    servers.running.append(servers.start(SERVERS))
    proxy.reload(servers.addresses(SERVERS + 1))
    wait_for(lambda: proxy.up(SERVERS), "the new server to pass its checks")
    for headers, id, _ in talks:
        status, source = ask(proxy.port, headers, id)
        assert status == 200 and source in ("slot", "host"), (headers, status, source)
    new = [begin(proxy, servers, servers.routes()[0] | {"X-Affinity": f"newcomer {i}"})[2] for i in range(PEOPLE)]
    assert SERVERS in new, "the new server takes its share of new routes"


def test_requests_for_a_down_server_wait_and_new_ones_are_served(proxied):
    proxy, servers = proxied
    talks = [begin(proxy, servers, headers) for headers in servers.routes()]
    servers.running[1].kill()
    wait_for(lambda: not proxy.up(1), "the proxy to miss it")
    for i in range(PEOPLE):
        status, made = call(proxy.port, "POST", "/v1/conversations", servers.routes()[0] | {"X-Affinity": f"newcomer {i}"}, {})
        assert status == 200, made
    for headers, id, at in talks:
        if at != 1:
            status, source = ask(proxy.port, headers, id)
            assert status == 200 and source in ("slot", "host")
    answers = []
    waiting = [threading.Thread(target=lambda h=headers, c=id: answers.append(ask(proxy.port, h, c)[0])) for headers, id, at in talks if at == 1]
    for thread in waiting:
        thread.start()
    servers.running[1] = servers.start(1)
    for thread in waiting:
        thread.join()
    assert answers == [200] * len(waiting) and waiting
    for headers, id, _ in talks:
        assert ask(proxy.port, headers, id)[0] == 200


def test_rolling_restart_causes_no_client_error(proxied):
    """No errors, although clients repeat nothing; and no turn runs twice."""
    proxy, servers = proxied
    talks = [begin(proxy, servers, headers) for headers in servers.routes()]
    statuses, turns, stop = collections.Counter(), collections.Counter(), threading.Event()

    def client(headers, id):
        while not stop.is_set():
            status, answer = ask(proxy.port, headers, id, max_output_tokens=40, ignore_eos=True)
            statuses[status, "" if status == 200 else str(answer)] += 1
            turns[id] += status == 200

    threads = [threading.Thread(target=client, args=talk[:2]) for talk in talks]
    for thread in threads:
        thread.start()
    for i in range(SERVERS):
        before = turns.total()
        servers.running[i].stop()
        servers.running[i] = servers.start(i)
        wait_for(lambda: proxy.up(i), "the server to pass its checks")
        wait_for(lambda: turns.total() >= before + len(talks), "turns to be answered")
    stop.set()
    for thread in threads:
        thread.join()
    assert set(statuses) == {(200, "")}, statuses
    for headers, id, _ in talks:
        status, conversation = call(proxy.port, "GET", f"/v1/conversations/{id}", headers)
        assert status == 200 and conversation["ringside"]["items"] == 2 * (turns[id] + 1), (conversation, turns[id])


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True)


@pytest.fixture
def far_machine():
    """Simulates a remote machine by a network namespace; yields a command prefix, its address, and a function that cuts
    the link."""
    name, link = f"far-{os.getpid()}", f"link{os.getpid()}"
    if shutil.which("ip") is None or os.geteuid() != 0 or ip("netns", "add", name).returncode != 0:
        pytest.skip("no network namespaces here")
    try:
        for words in (["link", "add", link, "type", "veth", "peer", "name", "link0", "netns", name],
                      ["addr", "add", "10.79.0.1/24", "dev", link], ["link", "set", link, "up"],
                      ["-n", name, "addr", "add", "10.79.0.2/24", "dev", "link0"],
                      *[["-n", name, "link", "set", device, "up"] for device in ("lo", "link0")]):
            made = ip(*words)
            if made.returncode != 0:
                pytest.skip(f"no links between network namespaces here: {made.stderr}")
        yield ["ip", "netns", "exec", name], "10.79.0.2", lambda: ip("link", "set", link, "down")
    finally:
        ip("netns", "del", name)


def test_clients_of_a_vanished_node_get_errors(far_machine, model, tmp_path):
    launcher, address, cut = far_machine
    port, = free_ports(1)
    key = "k" * 32
    headers = {"Authorization": f"Bearer {key}"}
    with ServerProcess(model, "--threads", 1, "--host", address, "--port", port, "--api-key", key, folder=tmp_path, launcher=launcher) as server:
        server.wait_until_ready()
        proxy = Proxy(tmp_path, [f"{address}:{port}"])
        try:
            wait_for(lambda: proxy.up(0), "the server to pass its checks")
            id = call(proxy.port, "POST", "/v1/conversations", headers, {})[1]["id"]

            async def hear():
                async with websockets.connect(f"ws://127.0.0.1:{proxy.port}/v1/responses", compression=None, proxy=None, ping_interval=None,
                                              additional_headers=headers) as socket:
                    await socket.send(json.dumps({"type": "response.create", "conversation": id, "input": "Go on.",
                                                  "max_output_tokens": 1 << 18, "ignore_eos": True}))
                    while json.loads(await socket.recv())["type"] != "response.output_text.delta":
                        pass
                    cut()
                    with pytest.raises(websockets.ConnectionClosed):
                        while True:
                            await socket.recv()

            asyncio.run(asyncio.wait_for(hear(), 120))
        finally:
            proxy.stop()


def test_haproxy_accepts_the_configuration(tmp_path):
    text = configuration(1024, 1025, [f"127.0.0.1:{1026 + i}" for i in range(SERVERS)])
    (tmp_path / "haproxy.cfg").write_text(text)
    checked = subprocess.run([PROXY, "-c", "-f", tmp_path / "haproxy.cfg"], capture_output=True, text=True)
    assert checked.returncode == 0 and not re.search(r"WARNING|ALERT", checked.stderr), checked.stderr
