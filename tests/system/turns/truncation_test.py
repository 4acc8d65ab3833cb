"""Input longer than the window: refused by default; truncated on request, with a report of the evicted tokens.

    scripts/python -m pytest tests/system/turns/truncation_test.py
"""

import re

from conversation import Conversation
from server_process import run

LONG = "A long story without an end. " * 200


def test_input_longer_than_the_window(start):
    server = start("--memory-len", 256, "--max-output-tokens", 4)

    async def talk():
        async with Conversation(server.port) as talk:
            for truncation in ({}, {"truncation": "disabled"}):
                error = (await talk.refused(LONG, **truncation))["error"]
                assert (error["code"], error["param"]) == ("context_length_exceeded", "input")
                window, input = map(int, re.search(r"length is (\d+) tokens\. However, your messages resulted in (\d+) tokens\.",
                                                   error["message"]).groups())
                assert input > window == 256 + 4
            assert await talk.items() == []
            taken = await talk.ask(LONG, truncation="auto")
            assert taken["truncation"] == "auto"
            report = taken["ringside"]
            assert report["tokens_evicted"] >= input - window, report
            for _ in range(40):  # both slide their history
                await talk.ask("And then? Say a little more of it, if you please.")

    run(talk())
