"""Beam search: equal answers on every API, streamed as beams settle, and conversations that continue.

    scripts/python -m pytest tests/system/turns/beams_test.py
"""

import asyncio

from conversation import Conversation, answer_text, reused
from server_process import run, wait_for
from wire import Http, text_of

BEAMS = {"beam_width": 4, "max_output_tokens": 24, "ignore_eos": True}
GREEDY = {"max_output_tokens": 12, "ignore_eos": True, "temperature": 0}


async def call(http, path, body):
    status, answer = await http.call("POST", path, body)
    assert status == 200, answer
    return answer


async def first_turns(port):
    """Runs two beam-search turns of a conversation; returns its id and the answers."""
    async with Conversation(port) as talk:
        told = await talk.socket.ask(conversation=talk.id, input="Once upon a time", **BEAMS)
        found = told[-1]["response"]
        assert found["usage"]["output_tokens"] == 24 and found["temperature"] == 0
        assert "".join(e["delta"] for e in told if e["type"] == "response.output_text.delta") == text_of(found)
        next = await talk.ask("And then?", **BEAMS)
        assert reused(next)[0] == "slot"
        return talk.id, [text_of(found), text_of(next)]


async def last_turn(port, id, source):
    async with Conversation(port, id) as talk:
        last = await talk.ask("At last?", **GREEDY)
        assert reused(last)[0] == source
        return answer_text(last)


def test_conversation_continues_from_the_best_answer_from_any_tier(start, store):
    flags = ("--slots", 6, "--memory-len", 512)
    server = start(*flags, "--host-cache-mb", 0)
    (kept, said), (lost, again) = [run(first_turns(server.port)) for _ in range(2)]  # the second turn needs all slots
    assert said == again
    answers = [run(last_turn(server.port, lost, "slot")), run(last_turn(server.port, kept, "recomputed"))]
    server.kill()

    server = start(*flags, "--store-path", store)
    stored, said_there = run(first_turns(server.port))
    assert said_there == said
    server.terminate()
    server.wait()
    answers.append(run(last_turn(start(*flags, "--store-path", store).port, stored, "disk")))
    assert answers == [answers[0]] * 3


def test_stateless_apis_find_the_same_answers(start):
    async def ask(port):
        http = Http(port)
        messages = [{"role": "user", "content": "Once upon a time"}]
        chat = {"messages": messages, "beam_width": 4, "max_tokens": 24, "ignore_eos": True}
        ollama = {"messages": messages, "stream": False,
                  "options": {"beam_width": 4, "num_predict": 24, "ignore_eos": True}}
        answer = await call(http, "/v1/chat/completions", chat)
        return answer["choices"][0]["message"]["content"], (await call(http, "/api/chat", ollama))["message"]["content"]

    port = start("--slots", 6, "--memory-len", 512).port
    _, said = run(first_turns(port))
    assert run(ask(port)) == (said[0], said[0])


def test_refusals_name_the_field_and_change_nothing(start):
    async def ask(port):
        async with Conversation(port) as talk:
            for param, fields in [("beam_width", {"beam_width": 6}), ("temperature", {"temperature": 1}),
                                  ("max_output_tokens", {"max_output_tokens": 1025}),
                                  ("beam_width", {"text": {"format": {"type": "json_object"}}})]:
                error = await talk.refused("Hello.", **{**BEAMS, **fields})
                assert error["error"]["param"] == param, error
            assert await talk.items() == []
            assert (await talk.ask("Hello.", **BEAMS))["usage"]["output_tokens"] == 24
            text = await call(talk.http, "/v1/completions", {"prompt": "Hello", "beam_width": 2, "max_tokens": 8})
            assert len(text["choices"]) == 1

    run(ask(start("--slots", 7, "--memory-len", 2048).port))


def test_many_concurrent_searches_finish(start):
    async def one(port, number):
        async with Conversation(port) as talk:
            for turn in range(2):
                found = await talk.ask(f"{number} says {turn}.", **(BEAMS if number % 3 else GREEDY))
                assert found["usage"]["output_tokens"] == (24 if number % 3 else 12)

    async def crowd(port):
        await asyncio.gather(*(one(port, number) for number in range(9)))

    server = start("--slots", 6, "--memory-len", 256)
    run(crowd(server.port))
    # The answer is delivered before the engine updates its gauges.
    wait_for(lambda: server.metrics()["ringside_num_requests_running"] == 0, "no turn in the batch")
