"""What the operator caps, no request gets past: the length of input and answer, the time of a turn.

    scripts/python -m pytest tests/system/limits_test.py
"""

import asyncio

from conversation import Conversation


def test_length_and_time_of_a_turn(start):
    server = start("--max-output-tokens-limit", 1_000_000, "--max-input-tokens", 200, "--turn-timeout", 1)

    async def talk():
        async with Conversation(server.port) as talk:
            error = (await talk.refused("Hello.", max_output_tokens=1_000_001))["error"]
            assert (error["code"], error["param"]) == ("invalid_value", "max_output_tokens")
            assert error["message"] == "max_output_tokens may be at most 1000000 (--max-output-tokens-limit)."
            error = (await talk.refused("Hello. " * 200, truncation="auto"))["error"]
            assert error["code"] == "context_length_exceeded" and "a turn may have 200 (--max-input-tokens)" in error["message"]
            # More tokens than any machine writes in the turn's one second.
            answer = await talk.ask("Hello.", ignore_eos=True, max_output_tokens=1_000_000)
            assert answer["status"] == "incomplete" and answer["incomplete_details"] == {"reason": "turn_timeout"}, answer
            assert 0 < answer["usage"]["output_tokens"] < 1_000_000
            assert (await talk.ask("And now?", max_output_tokens=4))["status"] in ("completed", "incomplete")

    asyncio.run(asyncio.wait_for(talk(), 120))
