"""Share links, the search and the list of owners against the whole server.

    scripts/python -m pytest tests/system/transport/shares_test.py
"""

import http.client
import json
import os
import subprocess

import pytest
from server_process import PATIENCE_S, ROOT

ALICE, BOB = {"Authorization": "Bearer alice"}, {"Authorization": "Bearer bob"}
SYSTEM = "A secret instruction."


def call(server, method, path, body=None, headers=None):
    """Returns status, headers and JSON of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, ({"Content-Type": "application/json"} if data else {}) | (headers or {}))
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer.status, answer.headers, json.loads(text) if text.startswith("{") else text
    finally:
        connection.close()


def ok(server, *args, **options):
    status, _, answer = call(server, *args, **options)
    assert status == 200, answer
    return answer


def make(server, *texts, headers=ALICE, **metadata):
    items = [{"role": role, "content": text} for role, text in texts]
    return ok(server, "POST", "/v1/conversations", {"items": items, "metadata": metadata}, headers)["id"]


def read(server, token, query=""):
    return call(server, "GET", f"/v1/shared{query}", headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
def shared(start, store):
    return start("--store-path", store, "--api-key", "alice", "--api-key", "bob")


def test_link_shows_one_conversation_and_nothing_else(shared, start, store):
    id = make(shared, ("system", SYSTEM), ("user", "Hi"), ("assistant", "Yo"), title="Greeting", folder="Private")
    made = ok(shared, "POST", f"/v1/conversations/{id}/shares", {"expires_in": 3600}, ALICE)
    assert made["path"] == f"/shared#{made['token']}" and made["expires_at"] > made["created_at"]
    for server in (shared, "restarted"):
        if server == "restarted":
            shared.stop()
            server = start("--store-path", store, "--api-key", "alice", "--api-key", "bob")
        status, headers, answer = read(server, made["token"], "?order=asc")
        assert status == 200 and answer["title"] == "Greeting"
        assert [item["content"][0]["text"] for item in answer["items"]["data"]] == ["Hi", "Yo"]
        text = json.dumps(answer)
        assert SYSTEM not in text and "Private" not in text and "alice" not in text
        assert headers["X-Robots-Tag"] == "noindex, nofollow" and headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        # The link is no key.
        for path in ("/v1/conversations", f"/v1/conversations/{id}", f"/v1/conversations/{id}/shares"):
            assert call(server, "GET", path, headers={"Authorization": f"Bearer {made['token']}"})[0] == 401
        listed = ok(server, "GET", f"/v1/conversations/{id}/shares", headers=ALICE)["data"]
        assert [share["id"] for share in listed] == [made["id"]] and made["token"] not in json.dumps(listed)
        assert call(server, "GET", f"/v1/conversations/{id}/shares", headers=BOB)[0] == 404
    assert call(server, "DELETE", f"/v1/conversations/{id}/shares/{made['id']}", headers=BOB)[0] == 404
    ok(server, "DELETE", f"/v1/conversations/{id}/shares/{made['id']}", headers=ALICE)
    status, headers, answer = read(server, made["token"])
    assert status == 404 and answer["error"]["code"] == "share_not_found" and headers["X-Robots-Tag"] == "noindex, nofollow"


def test_links_of_deleted_conversations_and_guesses_open_nothing(shared):
    id = make(shared, ("user", "Hi"))
    token = ok(shared, "POST", f"/v1/conversations/{id}/shares", {}, ALICE)["token"]
    assert read(shared, token)[0] == 200
    guesses = [token[:-1] + ("0" if token[-1] != "0" else "1"), id, "", "conv_" + "0" * 22 + "." + "0" * 64, "x" * 5000]
    answers = [read(shared, guess) for guess in guesses]
    ok(shared, "DELETE", f"/v1/conversations/{id}", headers=ALICE)
    answers.append(read(shared, token))
    assert {(status, json.dumps(answer)) for status, _, answer in answers} == {(404, json.dumps(answers[-1][2]))}
    assert token.split(".")[1] not in shared.log.read_text()


def test_bad_requests_for_links_are_refused(shared):
    id = make(shared, ("user", "Hi"))
    for seconds in (0, 59, -1, 1e9, "60", 10**12):
        status, _, answer = call(shared, "POST", f"/v1/conversations/{id}/shares", {"expires_in": seconds}, ALICE)
        assert status == 400 and answer["error"]["param"] == "expires_in", (seconds, answer)
    for _ in range(16):
        ok(shared, "POST", f"/v1/conversations/{id}/shares", {}, ALICE)
    status, _, answer = call(shared, "POST", f"/v1/conversations/{id}/shares", {}, ALICE)
    assert status == 429 and answer["error"]["code"] == "rate_limit_exceeded"


def test_reading_links_is_limited_per_address(shared):
    statuses = [read(shared, "conv_x.y")[0] for _ in range(200)]
    assert statuses[0] == 404 and 429 in statuses


def test_page_of_a_link_is_not_indexed(shared):
    status, headers, page = call(shared, "GET", "/shared")
    assert status == 200 and "shared.js" in page
    assert headers["X-Robots-Tag"] == "noindex, nofollow" and headers["Referrer-Policy"] == "no-referrer"
    assert "script-src 'self'" in headers["Content-Security-Policy"]


def test_search_is_the_owners_own(shared):
    ids = [make(shared, ("user", f"The Needle {i}"), ("assistant", "Found.")) for i in range(3)]
    make(shared, ("user", "needle of bob"), headers=BOB)
    make(shared, ("user", "hay"))
    found = ok(shared, "GET", "/v1/conversations/search?query=nEEDLE&limit=2", headers=ALICE)
    assert [match["id"] for match in found["data"]] == ids[:0:-1] and found["has_more"]
    assert found["data"][0]["excerpt"] == {"before": "The ", "match": "Needle", "after": " 2"}
    rest = ok(shared, "GET", f"/v1/conversations/search?query=needle&after={found['last_id']}", headers=ALICE)
    assert [match["id"] for match in rest["data"]] == ids[:1] and not rest["has_more"]
    assert not ok(shared, "GET", "/v1/conversations/search?query=instruction", headers=ALICE)["data"]
    for query, param in (("", "query"), ("query=", "query"), ("query=%20", "query"), ("query=" + "x" * 300, "query"), ("query=x&limit=0", "limit"),
                         ("query=x&limit=51", "limit")):
        status, _, answer = call(shared, "GET", f"/v1/conversations/search?{query}", headers=ALICE)
        assert status == 400 and answer["error"]["param"] == param, (query, answer)
    assert call(shared, "GET", "/v1/conversations/search?query=x&after=conv_none", headers=ALICE)[0] == 404


def ringside(server, *words, key="alice"):
    client = os.environ.get("RINGSIDE_CLIENT") or str(ROOT / "build/cpu/bin/ringside")
    return subprocess.run([client, *words, "--url", f"http://127.0.0.1:{server.port}", "--api-key", key], capture_output=True, text=True,
                          timeout=PATIENCE_S)


def test_admin_sees_owners_and_verifies_all(shared, start):
    mine = [make(shared, ("user", "Hi")) for _ in range(2)]
    theirs = make(shared, ("user", "Hi"), headers=BOB)
    listed = ok(shared, "GET", "/v1/owners", headers=ALICE)
    assert sorted(owner["conversations"] for owner in listed["data"]) == [1, 2]
    assert listed["totals"]["owners"] == 2 and listed["totals"]["conversations"] == 3
    assert listed["totals"]["stored_bytes"] == sum(owner["stored_bytes"] for owner in listed["data"]) > 0
    table = ringside(shared, "owners")
    assert table.returncode == 0 and table.stdout.splitlines()[-1].split()[:2] == ["all", "3"] and not table.stderr
    assert json.loads(ringside(shared, "owners", "--json").stdout)["totals"]["owners"] == 2
    verified = ringside(shared, "sessions", "verify", "--json")
    verdicts = json.loads(verified.stdout)
    assert verified.returncode == 0 and not verified.stderr and verdicts["sound"] == 3
    assert {verdict["id"] for verdict in verdicts["data"]} == {*mine, theirs}
    assert "3 sound, 0 damaged" in ringside(shared, "sessions", "verify").stdout


@pytest.mark.parametrize("words", [["sessions", "list", "--json"], ["sessions", "show", "--json", "conv_none"], ["sessions", "verify", "--json", "conv_none"],
                                   ["owners", "--json"], ["engines", "--json"], ["models", "--json"]], ids=lambda words: " ".join(words))
def test_json_mode_prints_json_alone_on_standard_output(shared, words):
    make(shared, ("user", "Hi"))
    done = ringside(shared, *words) if words[0] != "models" else subprocess.run(
        [os.environ.get("RINGSIDE_CLIENT") or str(ROOT / "build/cpu/bin/ringside"), *words], capture_output=True, text=True, timeout=PATIENCE_S)
    json.loads(done.stdout)
    assert ("conv_none" in done.stderr) == ("conv_none" in words)
    refused = ringside(shared, *words, key="wrong") if words[0] != "models" else None
    if refused is not None and "conv_none" not in words:
        assert refused.returncode == 1 and not refused.stdout and "key" in refused.stderr
