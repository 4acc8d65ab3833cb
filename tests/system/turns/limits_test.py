"""The operator's limits bind every request: length of input and answer, and turn time.

    scripts/python -m pytest tests/system/turns/limits_test.py
"""

import asyncio
import json

from conversation import Conversation
from server_process import run
from wire import Http, Socket


def test_length_and_time_of_a_turn(start):
    server = start("--max-output-tokens-limit", 1_000_000, "--max-input-tokens", 200, "--turn-timeout", 1, "--strict-requests")

    async def talk():
        async with Conversation(server.port) as talk:
            error = (await talk.refused("Hello.", max_output_tokens=1_000_001))["error"]
            assert (error["code"], error["param"]) == ("invalid_value", "max_output_tokens")
            assert error["message"] == "max_output_tokens may be at most 1000000 (--max-output-tokens-limit)."
            error = (await talk.refused("Hello. " * 200, truncation="auto"))["error"]
            assert error["code"] == "context_length_exceeded" and "length is 200 tokens." in error["message"]
            assert "resulted in at least 201 tokens. See --max-input-tokens." in error["message"]
            # More tokens than any machine generates in the turn's one second.
            answer = await talk.ask("Hello.", ignore_eos=True, max_output_tokens=1_000_000)
            assert answer["status"] == "incomplete" and answer["incomplete_details"] == {"reason": "turn_timeout"}, answer
            assert 0 < answer["usage"]["output_tokens"] < 1_000_000
            assert (await talk.ask("And now?", max_output_tokens=4))["status"] in ("completed", "incomplete")

    run(talk())


def test_large_messages_leave_room_for_others(start):
    """Twenty clients repeat refused requests forever; a well-behaved client's long message and the health check still
    get through."""
    server = start("--max-input-tokens", 300_000, "--memory-len", 256)
    large = json.dumps({"type": "response.create", "input": "x" * ((4 << 20) - 100), "truncation": "auto"})

    async def attack(refused):
        socket = await Socket.open(server.port)
        try:
            while True:
                await socket.connection.send(large)
                event = await socket.receive()
                assert event["error"]["code"] == "context_length_exceeded", event
                refused.set()
        finally:
            socket.abort()

    async def main():
        refused = [asyncio.Event() for _ in range(20)]
        attackers = [asyncio.create_task(attack(event)) for event in refused]
        await asyncio.gather(*(event.wait() for event in refused))
        http = Http(server.port)
        async with Conversation(server.port) as talk:
            answer = await talk.ask("y" * (100 << 10), truncation="auto", max_output_tokens=4)
            assert answer["usage"]["input_tokens"] > 100 << 10
            assert (await http.call("GET", "/healthz"))[0] == 200
        assert not any(attacker.done() for attacker in attackers)
        for attacker in attackers:
            attacker.cancel()
        await asyncio.gather(*attackers, return_exceptions=True)
        http.close()

    run(main())
