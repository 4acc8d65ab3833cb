"""Several servers behind the proxy whose configuration OPERATING.md gives: every route finds its conversations again, waits for
its server while that is down, and never hears that they do not exist.

    scripts/python -m pytest tests/system/transport/proxy_test.py
"""

import asyncio
import contextlib
import json
import random
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request

import pytest
import websockets
from server_process import ROOT, server_path, wait_for
from wire import TERMINAL

PROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
SERVERS, KEYS, PEOPLE = 3, 6, 24

pytestmark = pytest.mark.skipif(PROXY is None, reason="haproxy is not installed")


def free_ports(n):
    """Of those that no system gives to whoever asks for any: so that a server comes back to its own."""
    sockets = []
    while len(sockets) < n:
        with contextlib.suppress(OSError):
            sockets.append(socket.create_server(("127.0.0.1", random.randrange(15_000, 32_000))))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def configuration(port, servers):
    """That of OPERATING.md, with these ports of this machine."""
    text = (ROOT / "OPERATING.md").read_text().split("```haproxy\n")[1].split("```")[0]
    text = text.replace("bind :8080", f"bind 127.0.0.1:{port}")
    for i, server in enumerate(servers):
        text = text.replace(f"10.0.0.{i + 1}:8080", f"127.0.0.1:{server}")
    assert "10.0.0." not in text
    return text


def call(port, method, path, headers, body=None):
    """Status and decoded body."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method, headers=headers | {"Content-Type": "application/json"},
                                     data=None if body is None else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def ask(port, headers, conversation):
    status, response = call(port, "POST", "/v1/responses", headers,
                            {"conversation": conversation, "input": "Hello.", "max_output_tokens": 3, "temperature": 0})
    return status, response.get("ringside", {}).get("source") if status == 200 else response


async def ask_over_socket(port, conversation, **how):
    async with websockets.connect(f"ws://127.0.0.1:{port}/v1/responses", compression=None, proxy=None, open_timeout=60, **how) as socket:
        await socket.send(json.dumps({"type": "response.create", "conversation": conversation, "input": "And?", "max_output_tokens": 3}))
        while (event := json.loads(await socket.recv()))["type"] not in TERMINAL:
            pass
        return event["type"]


@pytest.fixture
def proxied(start, tmp_path):
    """The proxy's port, the servers, what starts one of them again, and a key for each owner."""
    keys_file = tmp_path / "keys.json"
    keys = [subprocess.run([server_path(), "keys", "add", "--file", keys_file, "--owner", f"owner{i}"], capture_output=True, text=True,
                           check=True).stdout.strip() for i in range(KEYS)]
    proxy_port, *ports = free_ports(1 + SERVERS)

    def server(i):
        return start("--port", ports[i], "--store-path", tmp_path / f"store{i}", "--keys-file", keys_file)

    servers = [server(i) for i in range(SERVERS)]
    (tmp_path / "haproxy.cfg").write_text(configuration(proxy_port, ports))
    proxy = subprocess.Popen([PROXY, "-db", "-f", tmp_path / "haproxy.cfg"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def listens():
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", proxy_port)) == 0

    try:
        wait_for(listens, "the proxy to listen")
        yield proxy_port, servers, server, keys
    finally:
        proxy.kill()
        proxy.wait()


def home(servers, headers, conversation):
    """The one server that has the conversation."""
    having = [i for i, server in enumerate(servers) if call(server.port, "GET", f"/v1/conversations/{conversation}", headers)[0] == 200]
    assert len(having) == 1
    return having[0]


def test_every_route_finds_its_conversations_and_waits_for_its_server(proxied):
    proxy, servers, start_again, keys = proxied
    routes = [{"Authorization": f"Bearer {key}"} for key in keys]
    routes += [routes[0] | {"X-Affinity": f"person {i}"} for i in range(PEOPLE)]  # one key for many
    talks = []
    for headers in routes:
        status, made = call(proxy, "POST", "/v1/conversations", headers, {})
        assert status == 200, made
        assert ask(proxy, headers, made["id"]) == (200, "new")
        talks.append((headers, made["id"], home(servers, headers, made["id"])))
    assert {at for *_, at in talks[KEYS:]} == set(range(SERVERS))

    for key, (headers, id, _) in zip(keys[:4], talks):
        assert asyncio.run(ask_over_socket(proxy, id, additional_headers=headers)) in ("response.completed", "response.incomplete")
        as_a_browser = asyncio.run(ask_over_socket(proxy, id, subprotocols=["realtime", f"openai-insecure-api-key.{key}", "openai-beta.realtime-v1"]))
        assert as_a_browser in ("response.completed", "response.incomplete")

    servers[1].kill()
    for headers, id, at in talks:
        if at != 1:
            status, source = ask(proxy, headers, id)
            assert status == 200 and source in ("slot", "host")
    for headers, id, _ in [talk for talk in talks if talk[2] == 1][:2]:  # the proxy tries for three seconds
        assert ask(proxy, headers, id)[0] == 503
    servers[1] = start_again(1)
    for headers, id, _ in talks:
        assert ask(proxy, headers, id)[0] == 200


def test_the_configuration_hides_nothing_from_haproxy(tmp_path):
    text = configuration(1024, range(1025, 1025 + SERVERS))
    (tmp_path / "haproxy.cfg").write_text(text)
    checked = subprocess.run([PROXY, "-c", "-f", tmp_path / "haproxy.cfg"], capture_output=True, text=True)
    assert checked.returncode == 0 and not re.search(r"WARNING|ALERT", checked.stderr), checked.stderr
