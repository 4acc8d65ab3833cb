"""Admission by predicted wait: a burst at a server with --max-wait-s.

    scripts/python -m pytest tests/system/transport/admission_test.py
"""

from bursts import burst, prompts
from server_process import run, wait_for

TURNS, WORDS = 40, 300
FLAGS = ("--slots", TURNS, "--max-turns-per-owner", 0)
REFUSED = 'ringside_turns_refused_total{reason="overloaded"}'


def test_burst_is_refused_early_and_retried(start):
    server = start(*FLAGS, "--max-wait-s", 0.01)

    async def main():
        alone = await burst(server.port, prompts(1, WORDS))  # from here on the engine knows its rate
        assert alone[0].admitted
        texts = prompts(TURNS, WORDS)
        asked = await burst(server.port, texts)
        admitted, refused = [one for one in asked if one.admitted], [one for one in asked if not one.admitted]
        assert admitted and refused
        for one in admitted:
            assert one.response["usage"]["output_tokens"] == 4, one.response
        for one in refused:
            [(status, headers, error)] = one.refusals
            assert (status, error["code"], error["type"]) == (429, "server_overloaded", "rate_limit_error")
            assert 1 <= int(headers["Retry-After"]) <= 60 and int(headers["retry-after-ms"]) == 1000 * int(headers["Retry-After"])
            assert "x-should-retry" not in headers
        assert server.metrics()[REFUSED] == len(refused)
        wait_for(lambda: server.metrics()["ringside_prompt_wait_seconds"] == 0, "the queue is empty")
        again = await burst(server.port, [text for text, one in zip(texts, asked) if not one.admitted], tries=1000)
        assert all(one.response["usage"]["output_tokens"] == 4 for one in again), "every turn is served in the end"

    run(main())
    server.stop()


def test_nothing_is_refused_without_a_limit(start):
    server = start(*FLAGS)
    asked = run(burst(server.port, prompts(TURNS, WORDS)))
    assert all(one.admitted for one in asked)
    assert server.metrics()[REFUSED] == 0
    server.stop()
