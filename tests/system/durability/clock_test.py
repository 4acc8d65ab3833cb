"""The wall clock is set forward and back, before a start and under a running server: no data is deleted.

    scripts/python -m pytest tests/system/durability/clock_test.py
"""

import os

import pytest
from conversation import Conversation
from server_process import ROOT, run, wait_for

FAILING_SERVER = os.environ.get("RINGSIDE_FAILING_SERVER") or str(ROOT / "build/cpu/bin/failing_server")
YEAR_S = 365 * 86400
SHORT = {"max_output_tokens": 4}


@pytest.mark.parametrize("years", (10, -10))
def test_conversations_and_caches_survive_clock_changes(start, store, tmp_path, years):
    offset = tmp_path / "offset"
    flags = ("--store-path", store, "--session-ttl", 3600)
    environment = {"WALL_CLOCK_OFFSET": str(offset)}
    server = start(*flags, binary=FAILING_SERVER, environment=environment)

    async def make():
        async with Conversation(server.port) as talk:
            return talk.id, (await talk.ask("Hello.", **SHORT))["created_at"]

    id, before = run(make())
    offset.write_text(str(years * YEAR_S))
    _, after = run(make())
    assert abs(after - before - years * YEAR_S) < 86400, "the test would prove nothing"
    server.stop()
    for jump in (years, 0, -years):
        offset.write_text(str(jump * YEAR_S))
        server = start(*flags, binary=FAILING_SERVER, environment=environment)

        async def go_on():
            async with Conversation(server.port, id) as talk:
                assert (await talk.items())[0] == ("user", "Hello.")
                response = await talk.ask("And now?", **SHORT)
                assert response["ringside"]["source"] == "disk", response["ringside"]

        wait_for(lambda: server.metrics()["ringside_sessions"] == 2, "both conversations")
        run(go_on())
        assert server.metrics().get("ringside_session_expired_total", 0) == 0
        server.stop()
