"""HTTPS and WSS: every client, a replaced certificate, and peers that never finish the handshake.

    scripts/python -m pytest tests/system/transport/tls_test.py
"""

import asyncio
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import warnings

import openai
import pytest
from authority import Authority
from server_process import PATIENCE_S, run, wait_for
from websockets.asyncio.client import connect


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def secure(start, authority, tmp_path):
    """A server, and the files from which it reads its certificate."""
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    for source, target in zip(authority.certificate("first"), (certificate, key)):
        shutil.copy(source, target)
    server = start("--ssl-certfile", certificate, "--ssl-keyfile", key, "--log-level", "info", scheme="https")

    def renew(*sources):
        for source, target in zip(sources, (certificate, key)):
            shutil.copy(source, target)
        server.process.send_signal(signal.SIGHUP)

    server.key, server.renew = key, renew
    return server


def subject(server, authority, **options):
    """The common name in the certificate that the server presents now."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as plain:
        with authority.context().wrap_socket(plain, server_hostname="localhost", **options) as connection:
            return dict(part[0] for part in connection.getpeercert()["subject"])["commonName"]


def get(server, context, path):
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=PATIENCE_S)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_stock_clients_over_tls(secure, authority):
    context = authority.context()
    assert get(secure, context, "/readyz")[0] == 200
    client = openai.OpenAI(base_url=f"https://127.0.0.1:{secure.port}/v1", api_key="none", http_client=openai.DefaultHttpxClient(verify=context))
    assert [model.id for model in client.models.list()] == ["tiny"]
    conversation = client.conversations.create()
    with client.responses.connect(websocket_connection_options={"ssl": context}) as connection:
        connection.response.create(conversation=conversation.id, input="Hello.", max_output_tokens=8, temperature=0)
        kinds = []
        for event in connection:
            kinds.append(event.type)
            if event.type in ("response.completed", "response.incomplete"):
                break
    assert kinds[0] == "response.created" and "response.output_text.delta" in kinds
    response = event.response.id

    async def talk():
        async with connect(f"wss://localhost:{secure.port}/v1/responses", ssl=context, proxy=None) as connection:
            large = "Hello. " * 50_000  # spans many records
            await connection.send(json.dumps({"type": "response.create", "input": large, "max_output_tokens": 4, "truncation": "auto"}))
            while (last := json.loads(await connection.recv()))["type"] not in ("response.completed", "response.incomplete", "error"):
                pass
        return last["type"]

    assert run(talk()) in ("response.completed", "response.incomplete", "error")
    status, events = get(secure, context, f"/v1/responses/{response}?stream=true")
    assert status == 200 and events.endswith(b"data: [DONE]\n\n"), "server-sent events, to their end"


def test_own_client_over_tls(secure, authority):
    def ringside(*args, scheme="https", host="127.0.0.1"):
        verbs = args[:2] if args[0] == "bench" else args[:1]
        command = [os.environ["RINGSIDE_CLIENT"], *verbs, "--url", f"{scheme}://{host}:{secure.port}", *args[len(verbs):]]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RINGSIDE_") and not name.startswith("SSL_CERT")}
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, env=environment)

    for scheme in ("https", "wss"):
        done = ringside("chat", "--cacert", authority.file, "--temperature", "0", "--max-tokens", "8", "Hello", scheme=scheme)
        assert done.returncode == 0 and done.stdout.strip(), done.stderr
    assert ringside("sessions", "--cacert", authority.file, host="localhost").returncode == 0
    for protocol in ("chat", "responses-ws"):
        done = ringside("bench", "load", "--cacert", authority.file, "--protocol", protocol, "-n", "1", "--turns", "1", "--think", "0", "--max-tokens", "4")
        assert done.returncode == 0, done.stderr
    assert ringside("sessions", "--insecure").returncode == 0
    refused = ringside("sessions")
    assert refused.returncode == 1 and "certificate is not trusted" in refused.stderr and "--cacert" in refused.stderr, refused.stderr
    refused = ringside("chat", "Hello")
    assert refused.returncode == 1 and "certificate is not trusted" in refused.stderr, refused.stderr
    refused = ringside("sessions", "--cacert", "/nowhere.pem")
    assert refused.returncode == 1 and "cannot read the CA certificates" in refused.stderr, refused.stderr
    assert ringside("sessions", scheme="http").returncode == 1
    secure.renew(*authority.certificate("elsewhere", "DNS:elsewhere.example,IP:127.0.0.2"))
    wait_for(lambda: "reloaded" in secure.log.read_text(), "the server has another host's certificate")
    refused = ringside("sessions", "--cacert", authority.file)
    assert refused.returncode == 1 and "certificate is not trusted" in refused.stderr, refused.stderr


def test_refuses_old_tls_versions(secure, authority):
    context = authority.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_connection(("127.0.0.1", secure.port)) as plain, context.wrap_socket(plain, server_hostname="localhost") as connection:
        assert connection.selected_alpn_protocol() == "http/1.1" and connection.version() == "TLSv1.3"
    context = authority.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", secure.port)) as plain, context.wrap_socket(plain, server_hostname="localhost") as connection:
        assert "ECDHE" in connection.cipher()[0] and connection.selected_alpn_protocol() is None
    refusals = []
    only_h2 = authority.context()
    only_h2.set_alpn_protocols(["h2"])
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    weak = authority.context()
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers("AES128-SHA:AES256-SHA:@SECLEVEL=0")
    for context in (only_h2, old, weak):
        with socket.create_connection(("127.0.0.1", secure.port)) as plain:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(plain, server_hostname="localhost")
            refusals.append(context)
    assert len(refusals) == 3 and get(secure, authority.context(), "/healthz")[0] == 200


def test_new_certificate_applies_to_new_connections(secure, authority):
    context = authority.context()

    async def talk():
        async with connect(f"wss://localhost:{secure.port}/v1/responses", ssl=context, proxy=None) as connection:
            async def ask():
                await connection.send(json.dumps({"type": "response.create", "input": "Hi", "max_output_tokens": 2}))
                while (event := json.loads(await connection.recv()))["type"] not in ("response.completed", "response.incomplete"):
                    assert event["type"] != "error", event

            await ask()
            assert subject(secure, authority) == "first"
            secure.renew(*authority.certificate("second"))
            await asyncio.to_thread(wait_for, lambda: subject(secure, authority) == "second", "new connections see the new certificate")
            await ask()
            secure.key.write_text("no key at all")
            secure.process.send_signal(signal.SIGHUP)
            await asyncio.to_thread(wait_for, lambda: "the previous certificate stays in use" in secure.log.read_text(), "the log tells of the bad file")
            assert subject(secure, authority) == "second"
            await ask()

    run(talk())


def test_unfinished_and_invalid_handshakes(secure, authority):
    idle = [socket.create_connection(("127.0.0.1", secure.port)) for _ in range(300)]  # more than the limit of concurrent handshakes
    try:
        assert subject(secure, authority), "a newcomer takes the place of the one that has been at it for longest"
        for data in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\x00" * 100, b"\x00" * 50):
            with socket.create_connection(("127.0.0.1", secure.port), timeout=PATIENCE_S) as connection:
                connection.sendall(data)
                try:
                    while connection.recv(4096):  # possibly an alert
                        pass
                except ConnectionError:
                    pass
        for connection in idle:  # finally all of these are closed
            connection.settimeout(PATIENCE_S)
            try:
                assert connection.recv(1) == b""
            except ConnectionError:
                pass
    finally:
        for connection in idle:
            connection.close()
    assert get(secure, authority.context(), "/healthz")[0] == 200


def test_invalid_certificate_files(start, authority, tmp_path):
    first, second = authority.certificate("first"), authority.certificate("second")
    for certificate, key in ((first[0], second[1]), (first[1], first[1]), (tmp_path / "nothing.pem", first[1]), (first[0], tmp_path / "nothing.pem")):
        server = start("--ssl-certfile", certificate, "--ssl-keyfile", key, ready=False)
        assert server.wait() == 78
        assert "--ssl-certfile, --ssl-keyfile: cannot use" in server.tail()
        server.log.unlink()
