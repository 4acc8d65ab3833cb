"""Responses whose `input` is the whole history, over HTTP and WebSocket: stored or not, each request computes only its
new messages, and the disk space of a stored conversation grows linearly. Insertions and deletions in the middle are
recomputed.

    scripts/python -m pytest tests/system/turns/histories_test.py
"""

import asyncio
import json
import urllib.request

import pytest
from conversation import Conversation, reused
from server_process import PATIENCE_S
from wire import Http, Socket

GREEDY = {"temperature": 0, "max_output_tokens": 12, "ignore_eos": True}
QUESTION = "Tell me more of it, and of what came before it, number {}."
TURNS = 8


class OverHttp:
    def __init__(self, server):
        self.server = server

    async def ask(self, key=None, **fields):
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}/v1/responses", json.dumps(fields).encode(), headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)


class OverSocket:
    """Sends each request on a new connection."""

    def __init__(self, server):
        self.server = server

    async def ask(self, **fields):
        socket = await Socket.open(self.server.port)
        events = await socket.ask(**fields)
        socket.abort()
        return events[-1]["response"]


@pytest.fixture(params=[OverHttp, OverSocket], ids=["HTTP", "WebSocket"])
def face(request):
    return request.param


async def talk(client, turns, history=None, **fields):
    """Runs `turns` turns, each with the whole history; returns the responses."""
    history = [] if history is None else history
    answers = []
    for turn in range(turns):
        history.append({"role": "user", "content": QUESTION.format(turn)})
        answers.append(await client.ask(input=history, **GREEDY, **fields))
        history += answers[-1]["output"]
    return answers


def check_computes_new_messages_only(answers):
    before = 0
    for answer in answers:
        source, found, computed = reused(answer)
        assert found == answer["usage"]["input_tokens_details"]["cached_tokens"]
        # Everything after the previous turn was cached; its last token may still have to be computed.
        assert found >= before - 1 and found + computed == answer["usage"]["input_tokens"], (source, found, computed, before)
        before = answer["usage"]["total_tokens"]


@pytest.mark.parametrize("stored", [False, True], ids=["not stored", "stored"])
def test_every_request_computes_only_new_messages(start, store, face, stored):
    server = start("--store-path", store, "--memory-len", 4096)

    async def main():
        check_computes_new_messages_only(await talk(face(server), TURNS, store=stored, instructions="Be brief."))

    asyncio.run(main())


def test_stored_answers_write_only_new_data(start, store):
    server = start("--store-path", store, "--memory-len", 8192, "--host-cache-mb", 64)

    async def main():
        client, history = OverHttp(server), [{"role": "developer", "content": "Some facts to keep in mind. " * 100}]
        await talk(client, 1, history)
        grown, before = [], server.metrics()["ringside_journal_bytes_total"]
        for _ in range(TURNS):
            await talk(client, 1, history)
            now = server.metrics()["ringside_journal_bytes_total"]
            grown.append(now - before)
            before = now
        assert max(grown) < 2 * min(grown), grown

    asyncio.run(main())


@pytest.mark.parametrize("face", [OverHttp])
def test_chain_is_extended_after_a_kill(start, store, face):
    server = start("--store-path", store, "--memory-len", 4096)

    async def main():
        history = []
        first = await talk(face(server), 3, history)
        server.kill()
        again = start("--store-path", store, "--memory-len", 4096)
        second = await talk(face(again), 2, history)
        items = (await Http(again.port).call("GET", f"/v1/responses/{second[0]['id']}/input_items?order=asc"))[1]["data"]
        assert [item["role"] for item in items] == ["user", "assistant"] * 3 + ["user"]
        # One chain: its item ids do not change.
        assert items[1]["id"] == first[0]["output"][0]["id"]
        check_computes_new_messages_only(second[1:])

    asyncio.run(main())


def test_owners_share_no_history(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("one\ntwo\n")
    keys.chmod(0o600)
    server = start("--api-key-file", keys, "--memory-len", 4096)

    async def main():
        client = OverHttp(server)
        for stored in (True, False):
            history = [{"role": "developer", "content": f"Facts of a conversation that is {'' if stored else 'not '}stored. " * 10}]
            await talk(client, 2, history, key="one", store=stored)
            history.append({"role": "user", "content": "And?"})
            found = {key: reused(await client.ask(key=key, input=history, store=stored, **GREEDY))[1] for key in ("two", "one")}
            assert found["two"] < 64 < found["one"], found

    asyncio.run(main())


def test_edit_in_the_middle_recomputes_the_rest(start, store):
    """The answer equals that of a conversation which had these items from the start."""
    server = start("--store-path", store, "--memory-len", 4096)
    said = [("user", "A first message, of some length."), ("assistant", "An answer."), ("user", "A second one, which goes."),
            ("assistant", "Another answer, which stays."), ("user", "A third one.")]

    async def main():
        http = Http(server.port)

        async def make(messages):
            status, made = await http.call("POST", "/v1/conversations", {"items": [{"role": role, "content": text} for role, text in messages]})
            assert status == 200, made
            return made["id"]

        async with Conversation(server.port, await make(said)) as talk, Conversation(server.port, await make(said[:2] + said[3:])) as other:
            first = await talk.ask("Go on.", **GREEDY)
            listed = (await http.call("GET", f"/v1/conversations/{talk.id}/items?order=asc"))[1]["data"]
            status, _ = await http.call("DELETE", f"/v1/conversations/{talk.id}/items/{listed[2]['id']}")
            assert status == 200
            changed = await talk.ask("And now?", **GREEDY)
            _, found, computed = reused(changed)
            before_the_place = len(listed[0]["content"][0]["text"]) // 4
            assert before_the_place < found < first["usage"]["input_tokens"] and computed > 0, (found, computed)
            await other.http.call("POST", f"/v1/conversations/{other.id}/items", {"items": [
                {"role": "user", "content": "Go on."}, {"role": "assistant", "content": first["output"][0]["content"][0]["text"]}]})
            assert [text for _, text in await talk.items()][:-2] == [text for _, text in await other.items()]
            # Inserts an item after the first message and deletes the second answer with its response.
            status, _ = await http.call("POST", f"/v1/conversations/{talk.id}/items", {
                "items": [{"role": "user", "content": "In between."}], "previous_item_id": listed[0]["id"]})
            assert status == 200
            status, _ = await http.call("DELETE", f"/v1/conversations/{talk.id}/items/{first['output'][0]['id']}")
            assert status == 200
            assert (await http.call("GET", f"/v1/responses/{first['id']}"))[0] == 404
            items = await talk.items()
        server.kill()
        again = start("--store-path", store, "--memory-len", 4096)
        async with Conversation(again.port, talk.id) as kept:
            assert await kept.items() == items
            assert (await kept.http.call("POST", f"/v1/conversations/{kept.id}/verify"))[1]["ok"]
            await kept.ask("Still there?", **GREEDY)

    asyncio.run(main())
