"""Keys, owners, scopes and tickets against the whole server: which requests each key permits.

    scripts/python -m pytest tests/system/transport/keys_test.py
"""

import asyncio
import http.client
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request

import pytest
import websockets
from server_process import PATIENCE_S, ServerProcess, run, server_path, wait_for
from websockets.asyncio.client import connect

# Routes that need no key and expose nothing owned without a share link; all others need one. "/", "/shared" and everything
# below /page/ is the page.
OPEN = {"/healthz", "/livez", "/v2/health/live", "/readyz", "/health", "/v2/health/ready", "/", "/shared", "/v1/shared"}
OPEN_FOLDER = "/page/"
MARK = "zzzzzzzzzz"  # appears in no route and no id


class Keys:
    """A keys file, edited by the command as an operator would."""

    def __init__(self, folder):
        self.path = folder / "keys.json"

    def run(self, verb, *args):
        return subprocess.run([server_path(), "keys", verb, "--file", self.path, *map(str, args)], capture_output=True, text=True, timeout=PATIENCE_S)

    def __call__(self, verb, *args):
        done = self.run(verb, *args)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def add(self, owner, scopes="chat", *args):
        return self("add", "--owner", owner, "--scopes", scopes, *args)


def id_of(key):
    return key.split("_")[1]


def bearer(key):
    return {"Authorization": f"Bearer {key}"} if key else {}


def call(server, key, method, path, body=None, headers=None):
    """Returns status and body of one request on its own connection."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, data, bearer(key) | kind | (headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


def retry_after(server, key, path, body):
    """Returns the Retry-After seconds of a refused request."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", json.dumps(body).encode(), bearer(key) | {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE_S)
    assert refused.value.code == 429
    return int(refused.value.headers["Retry-After"])


def socket(server, key, path="/v1/responses", **options):
    return connect(f"ws://127.0.0.1:{server.port}{path}", additional_headers=bearer(key), compression=None, proxy=None, open_timeout=60, **options)


async def ask(connection, **fields):
    """Runs a turn; returns its last event."""
    await connection.send(json.dumps({"type": "response.create", **fields}))
    while (event := json.loads(await connection.recv()))["type"] not in ("response.completed", "response.incomplete", "response.failed", "error"):
        pass
    return event


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def server(model, keys, tmp_path_factory):
    keys.add("nobody")
    folder = tmp_path_factory.mktemp("server")
    with ServerProcess(model, "--threads", 1, "--keys-file", keys.path, "--log-level", "debug", "--store-path", folder / "store", folder=folder) as process:
        yield process.wait_until_ready()


@pytest.fixture(scope="module")
def people(server, keys):
    """Adds keys by name and waits until the running server knows them."""
    made = {"expired": keys.add("alice", "chat,admin,metrics", "--expires", "1s")}  # first, so that it has expired once the others are known
    made |= {"alice": keys.add("alice"), "alice_admin": keys.add("alice", "chat,admin"), "metrics": keys.add("monitor", "metrics"),
             "admin": keys.add("root", "admin"), "bob": keys.add("bob", "chat,admin")}
    wait_for(lambda: call(server, made["bob"], "GET", "/v1/models")[0] == 200, "new keys are taken over without a restart")
    wait_for(lambda: call(server, made["expired"], "GET", "/v1/models")[0] == 401, "a key expires")
    return made


def routes(server):
    """(method, pattern, scope) of every route, from the router's log."""
    found = re.findall(r"route: ([A-Z]+) (/\S*) (\S+)", server.log.read_text())
    assert len(found) >= 20, "the log tells the routes"
    return found


def socket_paths(server):
    return re.findall(r"route: socket (/\S*)", server.log.read_text())


def without(text, *words):
    """Masks the requested names in a body, so that answers about different objects can be compared."""
    for word in words:
        text = text.replace(word, "*")
    return text


def test_routes_are_indistinguishable_without_a_valid_key(server, people):
    for method, pattern, _ in routes(server):
        if pattern in OPEN or pattern.startswith(OPEN_FOLDER):
            continue
        path = re.sub(r"\{\w+\}", "conv_" + MARK, pattern)
        for key in (None, "wrong", "rsk_" + "0" * 12 + "_" + "0" * 64, people["alice"][:-1] + "g", people["expired"]):
            answer = call(server, key, method, path, {} if method == "POST" else None)
            nothing = call(server, key, method, "/" + MARK, {} if method == "POST" else None)
            assert answer[0] == 401 and answer == nothing, (method, path, key, answer, nothing)
    for path in socket_paths(server):
        for key in (None, "wrong", people["expired"]):
            with pytest.raises(websockets.InvalidStatus) as refused:
                run(socket(server, key, path).__aenter__())
            assert refused.value.response.status_code == 401


def test_routes_outside_a_keys_scopes_are_hidden(server, people):
    checked = 0
    scopes_of = {"alice": {"chat"}, "metrics": {"metrics"}, "admin": {"admin"}}
    for method, pattern, scope in routes(server):
        if pattern in OPEN or pattern.startswith(OPEN_FOLDER):
            continue
        path, elsewhere = re.sub(r"\{\w+\}", "conv_" + MARK, pattern), "/" + MARK
        for name, scopes in scopes_of.items():
            if scope in scopes:
                continue
            body = {} if method == "POST" else None
            answer, nothing = call(server, people[name], method, path, body), call(server, people[name], method, elsewhere, body)
            assert answer[0] == nothing[0] >= 400, (name, method, path, answer, nothing)
            assert without(answer[1], path) == without(nothing[1], elsewhere), (name, method, path, answer, nothing)
            checked += 1
    assert checked >= 30
    for path in socket_paths(server):
        for name in ("metrics", "admin"):
            with pytest.raises(websockets.InvalidStatus) as refused:
                run(socket(server, people[name], path).__aenter__())
            assert refused.value.response.status_code == 404
            assert json.loads(refused.value.response.body)["error"]["message"] == f"There is no WebSocket at {path}."


def test_scope_opens_its_routes(server, people):
    assert call(server, people["metrics"], "GET", "/metrics")[0] == 200
    assert call(server, people["alice"], "GET", "/v1/models")[0] == 200
    status, made = call(server, people["alice"], "POST", "/v1/conversations", {})
    assert status == 200
    id = json.loads(made)["id"]
    status, verdict = call(server, people["alice_admin"], "POST", f"/v1/conversations/{id}/verify")
    assert status == 200 and json.loads(verdict)["ok"]
    status, _ = call(server, people["alice"], "GET", f"/v1/conversations/{id}/export")
    assert status == 200


def test_verb_outside_the_scope_is_not_read_as_an_id(server, people):
    for body in (b"sealed bytes", b"", b"{}"):
        status, answer = call(server, people["alice"], "POST", "/v1/conversations/import", body)
        assert status == 404 and "There is nothing at POST /v1/conversations/import." in answer


def test_data_of_other_owners_looks_missing(server, people):
    alice, bob = people["alice"], people["bob"]

    async def talk():
        async with socket(server, alice) as connection:
            conversation = json.loads(call(server, alice, "POST", "/v1/conversations", {})[1])["id"]
            answered = await ask(connection, conversation=conversation, input="Hello.", max_output_tokens=4)
            chained = await ask(connection, input="Hello.", max_output_tokens=4)
            return conversation, answered["response"]["id"], chained["response"]["id"]

    conversation, response, chained = run(talk())
    items = json.loads(call(server, alice, "GET", f"/v1/conversations/{conversation}/items")[1])["data"]
    ids = [conversation, response, chained, items[0]["id"]]
    unknown = {id: id.split("_")[0] + "_" + "x" * (len(id) - len(id.split("_")[0]) - 1) for id in ids}
    bodies = {"/v1/conversations/{id}": {"metadata": {"a": "b"}}, "/v1/conversations/{id}/items": {"items": [{"type": "message", "role": "user", "content": "Hi"}]}}
    before = call(server, alice, "GET", f"/v1/conversations/{conversation}"), call(server, alice, "GET", f"/v1/conversations/{conversation}/items")
    compared = 0
    for method, pattern, _ in routes(server):
        # A key with scope admin verifies the conversations of every owner.
        if "{" not in pattern or pattern.startswith("/v1/models") or pattern.endswith("/verify"):
            continue
        body = bodies.get(pattern, {}) if method == "POST" else None
        for first in ids[:3]:
            hers = re.sub(r"\{\w+\}", items[0]["id"], pattern.replace("{id}", first, 1))
            nothings = re.sub(r"\{\w+\}", unknown[items[0]["id"]], pattern.replace("{id}", unknown[first], 1))
            for query in ("", "?stream=true"):
                answer, nothing = call(server, bob, method, hers + query, body), call(server, bob, method, nothings + query, body)
                assert answer[0] >= 400, (method, hers, answer)
                assert (answer[0], without(answer[1], *ids)) == (nothing[0], without(nothing[1], *unknown.values())), (method, hers, answer, nothing)
                compared += 1
    assert compared >= 60

    async def reach():
        async with socket(server, bob) as connection:
            for field, id in (("conversation", conversation), ("previous_response_id", response), ("previous_response_id", chained)):
                hers, nothing = await ask(connection, input="Hi", **{field: id}), await ask(connection, input="Hi", **{field: unknown[id]})
                assert hers["type"] == nothing["type"] == "error"
                assert without(json.dumps(hers), *ids) == without(json.dumps(nothing), *unknown.values())
            for id in (conversation, chained):
                said = []
                for session in (id, unknown[id]):
                    await connection.send(json.dumps({"type": "ringside:session.resume", "session": session}))
                    said.append(without(await connection.recv(), *ids, *unknown.values()))
                assert said[0] == said[1] and json.loads(said[0])["session_present"] is False, said

    run(reach())
    assert json.loads(call(server, bob, "GET", "/v1/conversations")[1])["data"] == []
    assert before == (call(server, alice, "GET", f"/v1/conversations/{conversation}"), call(server, alice, "GET", f"/v1/conversations/{conversation}/items"))
    listed = json.loads(call(server, people["alice_admin"], "GET", "/v1/conversations")[1])["data"]
    assert conversation in [entry["id"] for entry in listed], "another key of the same owner sees it"


def test_revoked_or_expired_key_closes_its_sockets(server, keys):
    revoked, expiring, staying = keys.add("carol"), keys.add("carol", "chat", "--expires", "20s"), keys.add("carol")
    wait_for(lambda: call(server, staying, "GET", "/v1/models")[0] == 200, "the keys are known")

    async def talk():
        async with socket(server, revoked) as first, socket(server, expiring) as second, socket(server, staying) as third:
            assert (await ask(first, input="Hi", max_output_tokens=2))["type"] != "error"
            keys("revoke", id_of(revoked))
            for connection in (first, second):
                with pytest.raises(websockets.ConnectionClosed) as closed:
                    while True:
                        await connection.recv()
                assert closed.value.rcvd.code == 4401
            assert (await ask(third, input="Hi", max_output_tokens=2))["type"] != "error"

    run(talk())
    assert call(server, revoked, "GET", "/v1/models")[0] == 401


def test_rotation_needs_no_restart(server, keys):
    old = keys.add("dave")
    wait_for(lambda: call(server, old, "GET", "/v1/models")[0] == 200, "the key is known")
    conversation = json.loads(call(server, old, "POST", "/v1/conversations", {})[1])["id"]
    fresh = keys("rotate", id_of(old), "--overlap", "1h")
    wait_for(lambda: call(server, fresh, "GET", "/v1/models")[0] == 200, "the new key is known")
    assert call(server, old, "GET", f"/v1/conversations/{conversation}") == call(server, fresh, "GET", f"/v1/conversations/{conversation}")
    last = keys("rotate", id_of(fresh), "--overlap", "0s")
    wait_for(lambda: call(server, fresh, "GET", "/v1/models")[0] == 401, "the rotated key ends")
    assert call(server, last, "GET", f"/v1/conversations/{conversation}")[0] == 200


def test_a_broken_keys_file_changes_nothing(server, keys, people):
    good = keys.path.read_text()
    keys.path.write_text("{}")
    wait_for(lambda: "not a keys file" in server.log.read_text(), "the log says what is wrong")
    assert call(server, people["alice"], "GET", "/v1/models")[0] == 200
    keys.path.write_text(good)


def test_limits_of_an_owner(server, keys):
    keys("limit", "erin", "--sessions", 2, "--tokens-per-minute", 20)
    key = keys.add("erin")  # known together with the limits
    wait_for(lambda: call(server, key, "GET", "/v1/models")[0] == 200, "the key is known")
    assert [call(server, key, "POST", "/v1/conversations", {})[0] for _ in range(3)] == [200, 200, 429]

    async def talk():
        async with socket(server, key) as connection:
            first = await ask(connection, input="Hello. " * 20, max_output_tokens=40, ignore_eos=True)
            assert first["type"] != "error", first
            refused = await ask(connection, input="Hello.")
            assert (refused["status"], refused["error"]["code"]) == (429, "rate_limit_exceeded"), refused
            assert refused["error"]["retry_after_ms"] > 60_000, "as long as it takes to pay for the first"
            messages = [{"role": "user", "content": "Hello."}]
            for path, body in (("/v1/responses", {"input": "Hello."}), ("/v1/chat/completions", {"messages": messages}),
                               ("/api/chat", {"messages": messages})):
                assert retry_after(server, key, path, body) > 60, path
            keys("limit", "erin", "--tokens-per-minute", "default")
            while (await ask(connection, input="Hello.", max_output_tokens=2))["type"] == "error":
                await asyncio.sleep(0.2)

    run(talk())


def test_client_delegates_keys_to_the_server(keys):
    done = subprocess.run([os.environ["RINGSIDE_CLIENT"], "keys", "list", "--file", keys.path], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and done.stdout == keys.run("list").stdout, done.stderr


def test_key_in_the_anthropic_header(server, people):
    assert call(server, None, "GET", "/v1/models", headers={"x-api-key": people["alice"]})[0] == 200
    assert call(server, None, "GET", "/v1/models", headers={"x-api-key": "wrong"})[0] == 401


def test_tickets_open_one_socket(server, people, keys):
    alice = people["alice"]
    assert call(server, people["metrics"], "POST", "/v1/realtime/client_secrets", {})[0] == 404
    for body, param in (({"expires_after": {"seconds": 5}}, "expires_after.seconds"), ({"expires_after": {"anchor": "x"}}, "expires_after.anchor"),
                        ({"expires_after": 1}, "expires_after"), ({"session": {"type": "transcription"}}, "session.type"), ({"session": []}, "session"),
                        ({"session": {"type": "realtime", "model": "other"}}, "session.model"),
                        ({"session": {"output_modalities": ["audio"]}}, "session.output_modalities")):
        status, answer = call(server, alice, "POST", "/v1/realtime/client_secrets", body)
        assert status == 400 and json.loads(answer)["error"]["param"] == param, answer

    def ticket():
        status, answer = call(server, alice, "POST", "/v1/realtime/client_secrets", {"expires_after": {"anchor": "created_at", "seconds": 60}, "session": {"type": "realtime"}})
        assert status == 200, answer
        made = json.loads(answer)
        assert made["value"].startswith("ek_") and 0 < made["expires_at"] - time.time() < 120 and made["session"]["type"] == "realtime"
        return made["value"]

    async def talk():
        url = f"ws://127.0.0.1:{server.port}/v1/responses"
        first, second = ticket(), ticket()
        conversation = json.loads(call(server, alice, "POST", "/v1/conversations", {})[1])["id"]
        async with connect(f"{url}?ticket={first}", proxy=None) as by_query:
            assert (await ask(by_query, conversation=conversation, input="Hi", max_output_tokens=2))["type"] != "error"
        async with connect(url, subprotocols=["openai-insecure-api-key." + second], proxy=None) as by_subprotocol:
            assert (await ask(by_subprotocol, conversation=conversation, input="Hi", max_output_tokens=2))["type"] != "error"
        for used in (first, second, "ek_" + "0" * 64):
            with pytest.raises(websockets.InvalidStatus) as refused:
                await connect(f"{url}?ticket={used}", proxy=None)
            assert refused.value.response.status_code == 401
        return first, second

    used = run(talk())
    fresh = ticket()
    assert call(server, fresh, "GET", "/v1/models")[0] == 401, "a ticket is for a socket"
    assert call(server, None, "GET", f"/v1/models?ticket={fresh}")[0] == 401
    log = server.log.read_text()
    assert not any(secret in log for secret in (*used, fresh, alice, people["expired"])), "no secret is logged"


def test_metrics_on_a_separate_port(start, tmp_path):
    server = start("--metrics-port", 0, "--api-key", "secret", "--log-level", "info")
    port = int(re.search(r"metrics: http://127.0.0.1:(\d+)/metrics", server.log.read_text())[1])
    assert call(server, "secret", "GET", "/metrics")[0] == 404
    server.port, api = port, server.port
    for path in ("/metrics", "/healthz", "/readyz"):
        assert call(server, None, "GET", path)[0] == 200, path
    for path in ("/v1/models", "/v1/conversations", "/v1/responses"):
        assert call(server, "secret", "GET", path)[0] == 404, path
    assert call(server, None, "GET", "/metrics", headers={"Host": "evil.example"})[0] == 421
    server.port = api


def test_allowed_hosts(start):
    server = start("--allowed-hosts", "chat.example.org")
    for host, status in (("chat.example.org", 200), ("CHAT.example.org:443", 200), ("localhost:1", 200), ("evil.example", 421), ("x.chat.example.org", 421)):
        assert call(server, None, "GET", "/v1/models", headers={"Host": host})[0] == status, host
