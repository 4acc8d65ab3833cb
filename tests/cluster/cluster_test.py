"""Three servers with one journal lose, double and fork no turn, whatever fails: servers, links, disks, clocks, the database.

    RINGSIDE_CLUSTER_ROUNDS=500 scripts/python -m pytest -s tests/cluster/cluster_test.py        (as root)

Clients append turns to thirty conversations and read them, one fault follows another, and the history is checked as
history.py describes.
"""

import asyncio
import itertools
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from clients import HttpClient, Reader, Recorder, SocketClient
from cluster import FENCED, HAPROXY, PROXY_PORT, Cluster
from history import Append, History, check
from nemesis import Nemesis
from server_process import PATIENCE_S
from wire import Http, Socket

ROUNDS = int(os.environ.get("RINGSIDE_CLUSTER_ROUNDS", 20))
SEED = int(os.environ.get("RINGSIDE_CLUSTER_SEED", random.randrange(1 << 32)))
CONVERSATIONS, HTTP_CLIENTS, SOCKET_CLIENTS, READERS = 30, 6, 4, 3
LEASE_S = 3
ROUND_S = 1.0  # of load after a recovery
EXPECTED_EXITS = {FENCED}
DEFECTIVE = os.environ.get("RINGSIDE_DEFECTIVE_SERVER")

pytestmark = pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed")


class Campaign:
    """Clients and faults on one cluster, and their history."""

    def __init__(self, cluster, postgres, lease_s=LEASE_S, seed=SEED, durability="turn"):
        self.cluster = cluster
        # A heartbeat may be due just when a fault begins, and the server needs a while to reconnect after it.
        self.history = History(lease_s=lease_s / 2, notice_s=10 * lease_s, deltas_durable=durability == "token")
        self.recorder = Recorder(self.history, seed)
        self.nemesis = Nemesis(cluster, postgres, self.history, lease_s, seed)

    async def run(self, faults, rule=None):
        """Causes these faults one after another under load; returns the violations. With `rule`, which needs no final reads,
        it ends at the first violation of that rule."""
        supervisor = asyncio.create_task(self.nemesis.supervise())
        await self.create()
        readers = [Reader(self.recorder, 200 + n, self.cluster) for n in range(READERS)]
        clients = [HttpClient(self.recorder, n) for n in range(HTTP_CLIENTS)] + [SocketClient(self.recorder, 100 + n) for n in range(SOCKET_CLIENTS)]
        load = [asyncio.create_task(client.run()) for client in [*clients, *readers]]
        await asyncio.sleep(ROUND_S)
        for fault in faults:
            began = time.monotonic()
            await self.nemesis.cause(fault)
            print(f"{time.monotonic() - began:5.1f} s {fault}: {self.turns()} turns", flush=True)
            await asyncio.sleep(ROUND_S)
            for task in (*load, supervisor):
                if task.done():
                    task.result()  # raises its error
            if rule and rule in rules_of(check(self.history)):
                break
        self.recorder.stopped = True
        await asyncio.gather(*load)
        await self.nemesis.recovered()
        if rule is None:
            await self.finish(readers[0])
        self.nemesis.stopped = True
        await supervisor
        return check(self.history)

    async def create(self):
        http = Http(PROXY_PORT)
        for _ in range(CONVERSATIONS):
            status, made = await http.call("POST", "/v1/conversations", {})
            assert status == 200, made
            self.recorder.conversations.append(made["id"])
        http.close()

    async def finish(self, reader):
        """Every conversation takes a turn; then every server shows the same, and accepts every position that a client knows."""
        deadline = time.monotonic() + PATIENCE_S
        await self.for_each_conversation(lambda conversation: self.last_turn(conversation, deadline))
        await self.for_each_conversation(lambda conversation: self.last_reads(conversation, reader))
        await self.for_each_conversation(self.check_positions)

    async def for_each_conversation(self, action):
        """Runs the coroutines, as many at once as there are clients."""
        clients = asyncio.Semaphore(HTTP_CLIENTS + SOCKET_CLIENTS)

        async def act(conversation):
            async with clients:
                await action(conversation)

        await asyncio.gather(*map(act, self.recorder.conversations))

    async def last_turn(self, conversation, deadline):
        client = HttpClient(self.recorder, 1)
        while (await client.turn(conversation)).outcome != "ok":
            if time.monotonic() > deadline:
                self.recorder.broken(conversation, f"it took no turn {PATIENCE_S} s after the last fault")
                break
            await asyncio.sleep(0.1)
        client.http.close()

    async def last_reads(self, conversation, reader):
        for server in self.cluster:
            if not await reader.read(server, conversation, final=True):
                self.recorder.broken(conversation, f"{server.name} cannot read it")

    async def check_positions(self, conversation):
        """The journal contains the positions of all acknowledged turns."""
        known = [p for p in self.history.operations if getattr(p, "chain", None) and p.conversation == conversation]
        for position in known[:: max(1, len(known) // 5)] + known[-1:]:
            socket = await Socket.open(PROXY_PORT)
            try:
                await socket.send({"type": "ringside:session.resume", "session": conversation,
                                   "known": {"seq": position.seq, "chain": position.chain}})
                answer = await socket.receive()
                if answer["type"] == "ringside:session.failed":
                    self.recorder.broken(conversation, f"position {position} is not in the journal: {answer['error']}")
            finally:
                socket.abort()

    def turns(self):
        return sum(append.outcome == "ok" for append in self.history.of(Append))

    def summary(self):
        return f"{self.turns()} turns, {dict(self.recorder.counts.most_common())}, exits {self.nemesis.exits}"


def flags_of(database, durability="turn"):
    """Flags of a server that shares the journal in this database. One server has no folder of its own."""
    return lambda name, folder: ["--store-url", database, "--server-name", name, "--lease-s", LEASE_S, "--durability", durability, "--slots", 8,
                                 *(["--store-path", folder / "store"] if name != "s0" else [])]


def campaign(cluster, postgres, faults, **options):
    """Runs a campaign; returns it and its violations. Keeps the history of a failed one."""
    campaign = Campaign(cluster, postgres, **options)
    violations = asyncio.run(campaign.run(faults))
    print(campaign.summary())
    if violations:
        kept = Path(tempfile.mkdtemp(prefix="ringside-cluster-")) / "history.jsonl"
        campaign.history.save(kept)
        print(f"the history is kept in {kept}")
    return campaign, violations


def rules_of(violations):
    """Rule to the number of its violations."""
    return Counter(violation.rule for violation in violations)


def report(violations, cluster):
    return "\n".join(map(str, violations[:20])) + f"\n{len(violations)} violations\n{cluster.logs()}"


@pytest.mark.parametrize("durability, rounds", [("turn", ROUNDS - ROUNDS // 4), ("token", ROUNDS // 4)])
def test_histories_are_linear_under_faults(machines, postgres, database, model, tmp_path, durability, rounds):
    print(f"seed {SEED}")
    with Cluster(tmp_path, machines[2:], model, flags_of(database, durability)) as cluster:
        names = Nemesis(cluster, postgres, History(), LEASE_S).faults()
        random.Random(f"{SEED} {durability}").shuffle(names)
        ran, violations = campaign(cluster, postgres, itertools.islice(itertools.cycle(names), rounds), durability=durability)
        assert not violations, report(violations, cluster)
        unexpected = [exit for exit in ran.nemesis.exits if exit[1] not in EXPECTED_EXITS]
        assert not unexpected, f"{unexpected}\n{cluster.logs()}"
        assert ran.turns() >= 10 * rounds, f"void: {ran.summary()}"
        if "pause_server_beyond_its_lease" in ran.nemesis.log:
            assert FENCED in dict(ran.nemesis.exits).values(), "a paused server was not fenced although others were asked for its sessions"


# defect (base/defect.h): the fault that brings it out, and the rule of history.py that it breaks
DEFECTS = {
    "fence_skipped": ("pause_server_beyond_its_lease", "stale"),
    "lease_by_own_clock": ("clock_is_off", "fence"),
    "retry_without_batch": ("end_connections_with_commits_in_flight", "fence"),
}
TRIES = 5  # to meet a turn at the moment of the fault


@pytest.mark.skipif(DEFECTIVE is None, reason="needs a server with built-in defects")
@pytest.mark.parametrize("defect", DEFECTS)
def test_checker_finds_planted_defects(machines, postgres, database, model, tmp_path, defect):
    with Cluster(tmp_path, machines[2:], model, flags_of(database), binary=DEFECTIVE, environment={"RINGSIDE_TEST_DEFECT": defect}) as cluster:
        fault, rule = DEFECTS[defect]
        ran = Campaign(cluster, postgres)
        violations = asyncio.run(ran.run([fault] * TRIES, rule))
        assert rule in rules_of(violations), f"{ran.summary()}: {rules_of(violations)}\n{cluster.logs()}"


def test_one_server_with_its_own_store(machines, model, tmp_path):
    """The clients and the checker agree with a server that needs no database: faults of the harness show here."""
    with Cluster(tmp_path, machines[2:3], model, lambda name, folder: ["--store-path", folder / "store", "--slots", 8]) as cluster:
        ran, violations = campaign(cluster, None, ["kill_server", "pause_server_shortly", "kill_server"], durability="token")
        assert not violations, report(violations, cluster)
        assert not ran.nemesis.exits and ran.turns() > 100, ran.summary()
