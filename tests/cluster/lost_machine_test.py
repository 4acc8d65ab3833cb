"""One of three servers is lost for good, with its disk: its conversations continue on the others, and nothing that was
acknowledged is missing. Prints the time from the loss to the first token.

    scripts/python -m pytest -s tests/cluster/lost_machine_test.py        (as root)
"""

import asyncio
import shutil
import statistics
import time

import pytest
from cluster import HAPROXY, PORT, PROXY_PORT, Cluster
from server_process import run
from wire import LOST, TERMINAL, Http, Socket, agree, text_of

pytestmark = pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed")
LEASE_S, CONVERSATIONS, ANSWERING = 3, 24, 4
AN_ANSWER = {"max_output_tokens": 8, "temperature": 0}
ENDLESS = {"max_output_tokens": 1 << 18, "ignore_eos": True}


class Talk:
    """A conversation that lives on one server, and the items that were acknowledged."""

    def __init__(self, server, id):
        self.server, self.id, self.items = server, id, []

    async def ask(self, text):
        """Runs a turn at its server."""
        socket = await Socket.open(PORT, self.server.address)
        events = await socket.ask(conversation=self.id, input=text, **AN_ANSWER)
        assert events[-1]["type"] in ("response.completed", "response.incomplete"), events[-1]
        self.items += [("user", text), ("assistant", text_of(events[-1]["response"]))]
        await socket.close()

    async def begin(self, text):
        """Starts an endless answer and reads some of it; returns the text of the deltas."""
        self.socket = await Socket.open(PORT, self.server.address)
        await self.socket.send({"type": "response.create", "conversation": self.id, "input": text, **ENDLESS})
        received = ""
        while len(received) < 100:
            event = await self.socket.receive()
            assert event["type"] not in TERMINAL, event
            received += event.get("delta", "")
        self.items.append(("user", text))
        return received

    async def continue_elsewhere(self, text, lost_at):
        """Asks through the proxy until it is answered; returns the seconds from the loss to the first token, and the response."""
        first = None
        while True:
            try:
                socket = await Socket.open(PROXY_PORT)
                await socket.send({"type": "response.create", "conversation": self.id, "input": text, **AN_ANSWER})
                while (event := await socket.receive())["type"] not in TERMINAL:
                    if first is None and event["type"] == "response.output_text.delta":
                        first = time.monotonic() - lost_at
                socket.abort()
                if event["type"] != "error":
                    return first, event["response"]
                assert event["status"] in (409, 503), event
            except LOST:
                pass
            await asyncio.sleep(0.1)


async def make(cluster):
    http, talks = Http(PROXY_PORT), []
    servers = list(cluster)
    for number in range(CONVERSATIONS):
        status, made = await http.call("POST", "/v1/conversations", {})
        assert status == 200, made
        talks.append(Talk(servers[number % len(servers)], made["id"]))
        for text in ("One.", "Two."):
            await talks[-1].ask(text)
    http.close()
    return talks


async def lose(cluster, durability):
    talks = await make(cluster)
    lost = next(iter(cluster))
    of_lost = [talk for talk in talks if talk.server is lost]
    received = {talk.id: await talk.begin("Go on.") for talk in of_lost[:ANSWERING]}
    lost.kill()
    shutil.rmtree(lost.folder)
    lost_at = time.monotonic()
    found = dict(zip([talk.id for talk in talks], await asyncio.gather(*(talk.continue_elsewhere("Three.", lost_at) for talk in talks))))
    for survivor in cluster:
        if survivor is lost:
            continue
        http = Http(PORT, survivor.address)
        for talk in talks:
            items = await http.items(talk.id)
            expected = [*talk.items]
            if talk.id in received:
                text = items[len(expected)][1] if items[len(expected)][0] == "assistant" else ""
                assert agree(text, received[talk.id], durability), (text, received[talk.id])
                expected += [("assistant", text)] if text else []
            expected += [("user", "Three."), ("assistant", text_of(found[talk.id][1]))]
            assert items == expected, (talk.id, survivor.name)
        http.close()
    return [found[talk.id] for talk in of_lost]


@pytest.mark.parametrize("durability", ("turn", "token"))
def test_conversations_of_a_lost_machine_continue(machines, database, model, tmp_path, durability):
    def flags(name, _):
        return ["--store-url", database, "--server-name", name, "--lease-s", LEASE_S, "--durability", durability,
                "--slots", 8]

    with Cluster(tmp_path, machines[2:], model, flags) as cluster:
        found = run(lose(cluster, durability))
        first = [seconds for seconds, _ in found if seconds is not None]
        computed = [response["ringside"]["tokens_computed"] for _, response in found]
        print(f"{durability}: {len(found)} conversations continued; first token after the loss, s: median {statistics.median(first):.2f}, "
              f"worst {max(first):.2f} (lease {LEASE_S}); {statistics.median(computed):.0f} tokens computed again")
