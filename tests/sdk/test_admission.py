"""The stock OpenAI SDK against a full server: a queued client learns its position, a refused one when to retry."""

import concurrent.futures
import contextlib
import re

import openai
import pytest
from server import Server
from turns import completed, read_answer

# Ends when cancelled, whatever the speed of the machine.
LONG = {"input": "Tell me a long story.", "temperature": 0, "max_output_tokens": 30_000, "ignore_eos": True}
SHORT = {"input": "Say hello.", "temperature": 0, "max_output_tokens": 8}


@contextlib.contextmanager
def running(*flags):
    server = Server(*flags)
    try:
        yield server
    finally:
        server.stop()


def client_of(server, key="anything"):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)


def begin(connection, request):
    connection.send({"type": "response.create", **request})
    event = connection.recv()
    assert event.type == "response.created", event
    return event.response.id


def test_queued_turn_gets_its_position_and_excess_is_refused():
    with running("--slots", "1", "--queue-limit", "2") as server, client_of(server) as client:
        with client.responses.connect() as a, client.responses.connect() as b, client.responses.connect() as c:
            first = begin(a, LONG)
            while a.recv().type != "response.output_text.delta":
                pass
            for place, connection in ((1, b), (2, c)):
                begin(connection, SHORT)
                assert connection.recv().type == "response.in_progress"
                queued = connection.recv()
                assert queued.type == "ringside:response.queued" and queued.position == place, queued
            with client.responses.connect() as refused:
                refused.response.create(**SHORT)
                event = refused.recv()
                assert event.type == "error" and event.status == 429, event
                assert event.error.code == "rate_limit_exceeded" and event.error.retry_after_ms >= 250
                client.responses.cancel(first)
                place = c.recv()
                assert place.type == "ringside:response.queued" and place.position == 1
                for connection in (b, c):
                    assert completed(read_answer(connection)).status in ("completed", "incomplete")
                refused.response.create(**SHORT)
                assert completed(read_answer(refused)).usage.output_tokens > 0, "there is room again"


def test_stock_client_retries_an_overloaded_server():
    """Turns refused for their predicted wait are sent again by the SDK, at the advised time."""
    texts = [f"{i} " + " ".join(str(i * 1000 + n) for n in range(100)) for i in range(8)]
    with running("--slots", "16", "--max-wait-s", "0.01") as server:
        with openai.OpenAI(base_url=server.url + "/v1", api_key="anything", max_retries=20) as client:
            def ask(text):
                return client.responses.create(input=text, temperature=0, max_output_tokens=4, extra_body={"ignore_eos": True})

            ask("Measure the rate of " + texts[0])
            with concurrent.futures.ThreadPoolExecutor(len(texts)) as pool:
                answers = list(pool.map(ask, texts))
            assert all(answer.usage.output_tokens == 4 for answer in answers)
        refused = re.search(r'ringside_turns_refused_total\{reason="overloaded"\} (\d+)', server.get("/metrics")[1])
        assert int(refused[1]) > 0


@pytest.mark.parametrize("flag, busy", [("--max-turns-per-owner", True), ("--max-sessions-per-owner", False)])
def test_each_key_has_its_own_share(flag, busy):
    with running("--slots", "2", "--api-key", "ada", "--api-key", "bob", flag, "1") as server:
        with client_of(server, "ada") as ada, client_of(server, "bob") as bob:
            if busy:
                with ada.responses.connect() as first, ada.responses.connect() as second:
                    id = begin(first, LONG)
                    second.response.create(**SHORT)
                    event = second.recv()
                    assert event.type == "error" and event.status == 429 and event.error.retry_after_ms > 0, event
                    with bob.responses.connect() as other:
                        other.response.create(**SHORT)
                        completed(read_answer(other))
                    ada.responses.cancel(id)
                    read_answer(first)
                    second.response.create(**SHORT)
                    completed(read_answer(second))
            else:
                kept = ada.conversations.create().id
                with pytest.raises(openai.RateLimitError) as refused:
                    ada.conversations.create()
                assert refused.value.code == "rate_limit_exceeded"
                bob.conversations.create()
                ada.conversations.delete(kept)
                ada.conversations.create()
