"""Faults of a cluster, one at a time, while clients work. Each is a coroutine that causes the fault and undoes it.

A fault notes how long it kept a server from renewing its lease, so that the checker can recognise a server that was fenced
without a cause.
"""

import asyncio
import itertools
import random
import time

from cluster import FENCED
from history import Disturbance, Fenced
from network import cut, restore
from server_process import PATIENCE_S

HOUR_S = 3600


class Nemesis:
    """`log` lists the faults so far, `exits` the servers that ended by themselves, with their statuses."""

    def __init__(self, cluster, postgres, history, lease_s, seed=0):
        self.cluster, self.postgres, self.history, self.lease_s = cluster, postgres, history, lease_s
        self.rng = random.Random(seed)
        self.jumps = itertools.cycle((HOUR_S, -HOUR_S))
        self.log, self.exits, self.stopped = [], [], False

    def faults(self):
        """Names of all faults."""
        return [name.removeprefix("fault_") for name in dir(self) if name.startswith("fault_")]

    async def supervise(self):
        """Restarts servers that end, as a service manager does, and notes their exit statuses."""
        while not self.stopped:
            for server in self.cluster:
                if not server.running() and not server.killed:
                    code = server.process.process.poll()
                    self.exits.append((server.name, code))
                    if code == FENCED:
                        self.history.add(Fenced(server.name, server.began, time.monotonic()))
                    server.start()
            await asyncio.sleep(0.05)

    async def cause(self, name):
        """Causes one fault and waits until the cluster has recovered."""
        self.log.append(name)
        await getattr(self, f"fault_{name}")()
        await self.recovered()

    async def recovered(self):
        """Heals everything and waits until every server is ready and the proxy knows it."""
        await asyncio.to_thread(self.heal)
        deadline = time.monotonic() + PATIENCE_S
        while not await asyncio.to_thread(self.cluster.ready):
            assert time.monotonic() < deadline, f"not every server is ready {PATIENCE_S} s after {self.log[-1:]}:\n{self.cluster.logs()}"
            await asyncio.sleep(0.1)

    def heal(self):
        for server in self.cluster:
            for machine in self.postgres.machines.values() if self.postgres else ():
                restore(server.machine, machine)
            server.resume()
            if not server.running() and server.killed:
                server.start()
        if self.postgres:
            restore(*self.postgres.machines.values())
            self.postgres.heal()

    def server(self):
        return self.rng.choice(list(self.cluster))

    def duration(self, long):
        """Seconds: longer than the lease, or well below it."""
        return self.lease_s * (self.rng.uniform(1.5, 2) if long else self.rng.uniform(0.1, 0.3))

    async def disturb(self, seconds, servers):
        """Waits while these servers cannot renew their leases."""
        begin = time.monotonic()
        await asyncio.sleep(seconds)
        return lambda: [self.history.add(Disturbance(server.name, begin, time.monotonic())) for server in servers]

    async def fault_kill_server(self):
        server = self.server()
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(self.duration(self.rng.random() < 0.7))

    async def pause(self, long):
        server = self.server()
        server.pause()
        ended = await self.disturb(self.duration(long), [server])
        server.resume()
        ended()

    async def fault_pause_server_beyond_its_lease(self):
        await self.pause(True)

    async def fault_pause_server_shortly(self):
        await self.pause(False)

    async def cut_from_database(self, action):
        """`action(server's machine, node's machine)` cuts a server off from the database."""
        server = self.server()
        for machine in self.postgres.machines.values():
            action(server.machine, machine)
        ended = await self.disturb(self.duration(self.rng.random() < 0.6), [server])
        for machine in self.postgres.machines.values():
            restore(server.machine, machine)
        ended()

    async def fault_cut_server_from_database(self):
        await self.cut_from_database(cut)

    async def fault_cut_server_to_database(self):
        await self.cut_from_database(lambda server, node: server.drop_to(node))

    async def fault_cut_database_to_server(self):
        """Commits happen, and their servers do not receive the outcome."""
        await self.cut_from_database(lambda server, node: node.drop_to(server))

    async def cut_replication(self, action):
        nodes = [self.postgres.machines[node] for node in (self.postgres.primary, self.postgres.standby)]
        action(*nodes)
        ended = await self.disturb(self.duration(self.rng.random() < 0.5), list(self.cluster))
        restore(*nodes)
        await asyncio.to_thread(self.postgres.wait_until_synchronous)
        ended()

    async def fault_cut_replication(self):
        await self.cut_replication(cut)

    async def fault_cut_replication_one_way(self):
        await self.cut_replication(self.rng.choice((lambda a, b: a.drop_to(b), lambda a, b: b.drop_to(a))))

    async def database_fault(self, action):
        """Runs a blocking fault of the database, which disturbs all servers from here to its end."""
        begin = time.monotonic()
        await asyncio.to_thread(action)
        for server in self.cluster:
            self.history.add(Disturbance(server.name, begin, time.monotonic()))

    async def fault_fail_over(self):
        def action():
            self.postgres.fail_over()
            self.postgres.rebuild()

        await self.database_fault(action)

    async def fault_fail_over_with_commits_in_flight(self):
        """Commits wait for the standby when the primary dies: their outcome is unknown."""

        def action():
            cut(*self.postgres.machines.values())
            time.sleep(0.3)
            self.postgres.primary.kill()
            restore(*self.postgres.machines.values())
            self.postgres.promote()
            self.postgres.rebuild()

        await self.database_fault(action)

    async def fault_end_connections_with_commits_in_flight(self):
        """Commits wait for the standby when their connections end. The servers can reconnect at once, so no lease ends."""

        def action():
            cut(*self.postgres.machines.values())
            time.sleep(self.duration(False))
            self.postgres.end_connections()
            self.heal()

        await self.database_fault(action)

    async def fault_pause_database(self):
        def action():
            node = self.rng.choice((self.postgres.primary, self.postgres.standby))
            node.pause()
            time.sleep(self.duration(self.rng.random() < 0.5))
            node.resume()
            self.postgres.heal()

        await self.database_fault(action)

    async def fault_fill_disk(self):
        def action():
            node = self.rng.choice((self.postgres.primary, self.postgres.standby))
            node.fill_disk()
            time.sleep(self.duration(True))
            node.free_disk()
            self.postgres.heal()

        await self.database_fault(action)

    async def fault_clock_is_off(self):
        """A server's clock jumps by an hour, first ahead, next time back; in half of the cases the server restarts with it."""
        server = self.server()
        server.set_clock(next(self.jumps))
        if self.rng.random() < 0.5:
            await asyncio.to_thread(server.kill)
            server.start()
        await asyncio.sleep(2 * self.lease_s)
        server.set_clock(0)
