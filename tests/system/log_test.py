"""What the log has of a turn: one line with its cost, and not a word of what was said.

    scripts/python -m pytest tests/system/log_test.py
"""

import asyncio
import re

from conversation import Conversation

LINE = re.compile(
    r"turn: (resp_\w+) in session (conv_\w+): (\d+) tokens in, (\d+) of them cached, (\d+) out; first token \d+ ms, "
    r"[\d.]+ tokens/s; source (\w+); (\w+)")


def test_a_turn_is_one_line_without_its_words(start):
    server = start("--log-level", "info")

    async def ask():
        async with Conversation(server.port) as talk:
            responses = [await talk.ask("Secret words.", instructions="Be discreet.", max_output_tokens=5, ignore_eos=True)
                         for _ in range(2)]
            status, conversation = await talk.http.call("GET", f"/v1/conversations/{talk.id}")
            assert status == 200 and conversation["ringside"]["instructions"] == "Be discreet."
            return talk.id, responses

    id, responses = asyncio.run(asyncio.wait_for(ask(), 120))
    server.stop()
    log = server.log.read_text()
    lines = [match.groups() for match in LINE.finditer(log)]
    assert len(lines) == len(responses), log
    for line, response in zip(lines, responses):
        usage = response["usage"]
        assert line == (response["id"], id, str(usage["input_tokens"]), str(usage["input_tokens_details"]["cached_tokens"]),
                        str(usage["output_tokens"]), response["ringside"]["source"], "max_output_tokens")
    assert "Secret" not in log and "discreet" not in log
