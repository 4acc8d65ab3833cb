"""The server is stopped, killed and restarted: conversations continue from disk, bit for bit.

    scripts/python -m pytest tests/system/durability/restart_test.py
"""

import asyncio
import stat
import time

import pytest
import websockets
from conversation import Conversation, answer_text, reused
from server_process import PATIENCE_S, run

# More than any machine generates during a test.
LONG = {"max_output_tokens": 1 << 24, "ignore_eos": True}
LONG_FLAGS = ("--session-len", 1 << 25)
SAMPLINGS = {"greedy": {"temperature": 0}, "seeded": {"temperature": 1, "seed": 7}}
SERVICE_RESTART = 1012


async def read_to_close(socket):
    """Returns all remaining events and the close code."""
    events = []
    try:
        while True:
            events.append(await socket.receive())
    except websockets.ConnectionClosed as closed:
        assert closed.rcvd is not None, "the socket broke without a close"
        return events, closed.rcvd.code


def test_drain_is_announced_and_answers_finish(start, store):
    server = start("--store-path", store, "--shutdown-timeout", PATIENCE_S)

    async def main():
        async with Conversation(server.port) as talk, Conversation(server.port) as idle:
            id, heard = await talk.begin("Tell me.", max_output_tokens=10_000, ignore_eos=True, temperature=0)
            server.terminate()
            events, code = await read_to_close(talk.socket)
            told, idle_code = await read_to_close(idle.socket)
            return talk.id, events, heard, code, told, idle_code

    conversation, events, heard, code, told, idle_code = run(main())
    assert server.wait() == 0
    assert code == idle_code == SERVICE_RESTART
    for heard_events in (events, told):
        draining = [event for event in heard_events if event["type"] == "ringside:server.draining"]
        assert len(draining) == 1 and draining[0]["deadline_ms"] > 0
    (answer,) = [event["response"] for event in events if event["type"] == "response.incomplete"]
    assert answer["usage"]["output_tokens"] == 10_000
    text = answer_text(answer)
    assert text.startswith(heard)

    server = start("--store-path", store)

    async def again():
        async with Conversation(server.port, conversation) as talk:
            assert await talk.items() == [("user", "Tell me."), ("assistant", text)]

    run(again())
    server.stop()


def test_answer_exceeding_the_grace_is_kept_partially(start, store):
    server = start("--store-path", store, "--shutdown-timeout", 6, *LONG_FLAGS)  # of these, two seconds to report the end, which a slow machine needs

    async def main():
        async with Conversation(server.port) as talk:
            id, heard = await talk.begin("Tell me.", deltas=20, temperature=0, **LONG)
            server.terminate()
            events, code = await read_to_close(talk.socket)
            assert code == SERVICE_RESTART
            heard += "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
            return talk.id, id, heard

    conversation, id, heard = run(main())
    assert server.wait() == 0
    server = start("--store-path", store)

    async def again():
        async with Conversation(server.port, conversation) as talk:
            items = await talk.items()
            assert [role for role, _ in items] == ["user", "assistant"]
            assert items[1][1].startswith(heard)
            response = await talk.response(id)
            assert response["incomplete_details"]["reason"] == "interrupted" and answer_text(response) == items[1][1]
            # A drain also saves the cache of a cut answer.
            source, found, computed = reused(await talk.ask("Well?", max_output_tokens=4))
            assert source == "disk" and found > computed

    run(again())
    server.stop()


def test_stop_respects_its_grace_period(start, store):
    grace_s = 9
    server = start("--store-path", store, "--shutdown-timeout", grace_s, *LONG_FLAGS)

    async def main():
        # A client that never reads again and never answers a close.
        deaf, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                     b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        assert b" 101 " in await deaf.readuntil(b"\r\n\r\n")
        async with Conversation(server.port) as talk:
            await talk.begin("Tell me.", **LONG)
            server.terminate()
            end = time.monotonic() + grace_s
            events, code = await read_to_close(talk.socket)
            ends = [event["response"]["incomplete_details"]["reason"] for event in events if event["type"] == "response.incomplete"]
            assert ends == ["interrupted"] and code == SERVICE_RESTART
            assert await asyncio.to_thread(server.wait, end + 2 - time.monotonic()) == 0
        writer.close()

    run(main())


def test_second_signal_stops_immediately_without_loss(start, store):
    server = start("--store-path", store, "--shutdown-timeout", 3600, *LONG_FLAGS)

    async def main():
        async with Conversation(server.port) as talk:
            id, heard = await talk.begin("Tell me.", deltas=50, **LONG)
            server.terminate()
            event = await talk.socket.receive()
            while event["type"] != "ringside:server.draining":
                heard += event.get("delta", "")
                event = await talk.socket.receive()
            server.terminate()
            try:
                while True:
                    heard += (await talk.socket.receive()).get("delta", "")
            except (websockets.ConnectionClosed, ConnectionError):
                return talk.id, id, heard

    conversation, id, heard = run(main())
    server.wait()  # the timeout is an hour
    server = start("--store-path", store)

    async def again():
        async with Conversation(server.port, conversation) as talk:
            items = await talk.items()
            assert items[0] == ("user", "Tell me.") and items[1][1].startswith(heard)
            assert answer_text(await talk.response(id)) == items[1][1]

    run(again())
    server.stop()


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("window", (1024, 64))
def test_restart_after_every_turn_changes_no_word(start, store, sampling, window):
    """The smaller window has wrapped several times: its rows are saved in rotated order."""
    flags = ["--memory-len", window, "--kv-cache-dtype", "f16"]
    questions = [f"Question {n}: what is {n} times {n}?" for n in range(6)]
    fields = {"max_output_tokens": 24, "ignore_eos": True, **SAMPLINGS[sampling]}

    async def talk(server, texts, id=None):
        async with Conversation(server.port, id) as talk:
            return talk.id, [await talk.ask(text, **fields) for text in texts]

    server = start(*flags)
    _, uninterrupted = run(talk(server, questions))
    server.stop()

    id, position = None, 0
    for question, expected in zip(questions, uninterrupted):
        server = start(*flags, "--store-path", store)
        id, (answer,) = run(talk(server, [question], id))
        server.stop()
        assert answer_text(answer) == answer_text(expected)
        source, found, computed = reused(answer)
        if position == 0:
            assert source == "new"
        else:
            assert source == "disk", answer["ringside"]
            assert found >= position - 1 and found + computed == answer["usage"]["input_tokens"], answer["ringside"]
        position = answer["ringside"]["position"]
    assert (answer["ringside"]["tokens_evicted"] > 0) == (window == 64)


def test_every_conversation_is_restored_from_disk(start, store):
    flags = ["--slots", 2, "--store-path", store]
    server = start(*flags)

    async def first():
        ids = []
        for n in range(12):
            async with Conversation(server.port) as talk:
                await talk.ask(f"I am number {n}.", max_output_tokens=8)
                ids.append(talk.id)
        return ids

    ids = run(first())
    server.stop()
    server = start(*flags)

    async def second():
        sources = []
        for id in ids:
            async with Conversation(server.port, id) as talk:
                sources.append(reused(await talk.ask("Who am I?", max_output_tokens=8))[0])
        return sources

    sources, metrics = run(second()), server.metrics()
    # On a busy machine recomputing a short history may be faster than loading its cache from disk.
    instead = sum(metrics[f'ringside_cache_recomputed_instead_total{{reason="{why}"}}'] for why in ("faster", "late"))
    assert sources.count("disk") == len(ids) - instead and sources.count("recomputed") == instead, (sources, metrics)
    assert "disk" in sources
    server.stop()


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_answer_cut_by_a_crash_continues_with_the_same_words(start, store, sampling):
    # ASCII only: a crash in the middle of a character would leave an invalid one.
    fields = {"ignore_eos": True, "logit_bias": {str(byte): -100 for byte in range(128, 256)}, **SAMPLINGS[sampling]}
    rest_tokens = 1000
    server = start("--store-path", store, *LONG_FLAGS)

    async def cut():
        async with Conversation(server.port) as talk:
            id, heard = await talk.begin("Tell me a story.", deltas=40, **LONG | fields)
            server.kill()
            try:
                while True:
                    heard += (await talk.socket.receive()).get("delta", "")
            except (websockets.ConnectionClosed, ConnectionError):
                return talk.id, id, heard

    conversation, id, heard = run(cut())
    server = start("--store-path", store, *LONG_FLAGS)

    async def again():
        async with Conversation(server.port, conversation) as talk:
            response = await talk.response(id)
            assert response["status"] == "incomplete"
            assert response["incomplete_details"]["reason"] == "interrupted", response
            said = answer_text(response)
            assert said.startswith(heard)
            rest = await talk.ask([], max_output_tokens=rest_tokens, **fields)
            (role, _), (_, answer) = await talk.items()
            assert role == "user" and answer == said + answer_text(rest)
            return response["usage"]["output_tokens"] + rest_tokens, answer

    tokens, together = run(again())
    server.stop()
    server = start(*LONG_FLAGS)

    async def whole():
        async with Conversation(server.port) as talk:
            return answer_text(await talk.ask("Tell me a story.", max_output_tokens=tokens, **fields))

    assert run(whole()) == together
    server.stop()


def test_files_are_private_to_the_server(start, store):
    server = start("--store-path", store)

    async def main():
        async with Conversation(server.port) as talk:
            await talk.ask("Hello.", max_output_tokens=4)

    run(main())
    server.stop()
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    for path in store.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
