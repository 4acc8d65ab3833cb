"""A rolling upgrade under load costs the stock SDK's clients no turn, and a server that is drained leaves every session to
the others.

    scripts/python -m pytest -s tests/cluster/rolling_test.py        (as root)

The lease is far longer than the test: a session that was not released would not continue.
"""

import asyncio
import time

import openai
import pytest
from cluster import HAPROXY, PORT, PROXY_PORT, Cluster
from server_process import run
from wire import Http

pytestmark = pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed")
LEASE_S, CLIENTS, CONVERSATIONS = 3600, 12, 30
UNTIL_TURNS = 8  # of each client before the upgrade continues with the next server


@pytest.fixture
def cluster(machines, database, model, tmp_path):
    def flags(name, _):
        return ["--store-url", database, "--server-name", name, "--lease-s", LEASE_S, "--shutdown-grace", 2, "--slots", 8]

    with Cluster(tmp_path, machines[2:], model, flags) as cluster:
        yield cluster


class Client:
    """One user of the stock SDK, with its default retries. `items` are those of its conversation."""

    def __init__(self, number):
        self.sdk = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{PROXY_PORT}/v1", api_key="none")
        self.number, self.items, self.turns, self.slowest_s = number, [], 0, 0.0

    async def run(self, stopped):
        self.id = (await self.sdk.conversations.create()).id
        while not stopped.is_set():
            await self.turn()

    async def turn(self):
        question = f"{self.number}.{self.turns}"
        asked = {"model": "tiny", "conversation": self.id, "input": question, "max_output_tokens": 20, "temperature": 0}
        began = time.monotonic()
        if self.number % 2:
            text = (await self.sdk.responses.create(**asked)).output_text
        else:
            text = ""
            async for event in await self.sdk.responses.create(stream=True, **asked):
                text += event.delta if event.type == "response.output_text.delta" else ""
                assert event.type not in ("error", "response.failed"), event
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        self.items += [("user", question), ("assistant", text)]
        self.turns += 1


async def progress(clients, tasks):
    """Waits until every client has done more turns."""
    targets = [client.turns + UNTIL_TURNS for client in clients]
    while any(client.turns < target for client, target in zip(clients, targets)):
        for task in tasks:
            if task.done():
                task.result()
        await asyncio.sleep(0.05)


async def until(condition):
    while not await asyncio.to_thread(condition):
        await asyncio.sleep(0.05)


async def upgrade(cluster):
    stopped = asyncio.Event()
    clients = [Client(number) for number in range(CLIENTS)]
    tasks = [asyncio.create_task(client.run(stopped)) for client in clients]
    for server in cluster:
        await progress(clients, tasks)
        await asyncio.to_thread(server.process.stop)
        server.start()
        await until(lambda: server.ready() and server.name in cluster.servers_up())
    await progress(clients, tasks)
    stopped.set()
    await asyncio.gather(*tasks)
    for server in cluster:
        http = Http(PORT, server.address)
        for client in clients:
            assert await http.items(client.id) == client.items, (client.number, server.name)
        http.close()
    return clients


def test_rolling_upgrade_fails_no_turn(cluster):
    clients = run(upgrade(cluster))
    print(f"{sum(client.turns for client in clients)} turns, 0 failed; the slowest took {max(client.slowest_s for client in clients):.1f} s")


async def drain(cluster):
    drained, *others = cluster
    talks = [Client(2 * number + 1) for number in range(CONVERSATIONS)]
    direct = Http(PORT, drained.address)
    for talk in talks:
        talk.id = (await talk.sdk.conversations.create()).id
        status, answer = await direct.call("POST", "/v1/responses", {"conversation": talk.id, "input": "Here.", "max_output_tokens": 4})
        assert status == 200, answer
        talk.items = await direct.items(talk.id)
    direct.close()
    drained.killed = True  # it stays down
    await asyncio.to_thread(drained.process.stop)
    for talk in talks:
        await talk.turn()
    for server in others:
        http = Http(PORT, server.address)
        for talk in talks:
            assert await http.items(talk.id) == talk.items
        http.close()


def test_drained_server_leaves_its_sessions_to_the_others(cluster):
    run(drain(cluster))
