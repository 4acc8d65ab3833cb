"""kill -9 of the whole server under load, many times: no acknowledged data is lost, duplicated, reordered or changed.

    RINGSIDE_KILL_CYCLES=200 scripts/python tests/system/durability/kill_test.py [--keep FOLDER]

Fifty clients work on a few hundred conversations with few slots and a small host tier, so that caches move between the
tiers all the time. They also delete, rewind, fork and resume conversations, and chain answers without a conversation.
The server is killed at random moments, and just after a delete or after a turn on a conversation whose cache is on
disk. After every restart the list of conversations, each conversation with an open request and a tenth of the others
are compared with the clients' records (I1 to I3, I17); every 20 kills and at the end, all of them. Finally a sample is
replayed on a server that never died and must produce the same text. The kills come after random numbers of finished
turns, so the load before them does not depend on the machine's speed.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tiny_model  # noqa: E402
from after_crash import settle_all, settle_position  # noqa: E402
from chain import LONGEST, Chain  # noqa: E402
from record import Record, Turn  # noqa: E402
from say_again import can_be_said_again, say_again  # noqa: E402
from server_process import PATIENCE_S, ServerProcess  # noqa: E402
from wire import LOST, Http, Socket  # noqa: E402

CLIENTS = 50
SESSIONS = 240
CHAINS = 40
LOAD_TURNS = (5, 200)  # range of the number of finished turns before a kill
SHAPE = ["--memory-len", 128, "--kv-cache-dtype", "f16", "--threads", 1]
PRESSURE = ["--slots", 20, "--host-cache-mb", 1, "--session-idle-host", 1, "--session-idle-disk", 1, "--durability", "token"]
REPLAYED = 40  # conversations replayed at the end


class Load:
    """The clients between two deaths of the server."""

    def __init__(self, record, server, rng, aim):
        self.record, self.server, self.rng = record, server, rng
        self.aim = aim  # None, "delete" or "restore": the operation that the kill should hit
        self.free = [s for s in record.sessions.values()]
        rng.shuffle(self.free)
        self.chains = [c for c in record.chains if len(c.answers) < LONGEST]
        self.dead = asyncio.Event()

    async def run(self):
        """Runs until the server is dead and every client has read its last event. Returns the seconds of load."""
        lines = await asyncio.gather(*(self.connect() for _ in range(CLIENTS)))
        began = time.monotonic()
        clients = [asyncio.create_task(self.client(*line)) for line in lines]
        loaded = asyncio.create_task(self.loaded())
        await asyncio.wait([loaded, *clients], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
        loaded.cancel()
        if self.aim is None:
            self.shoot()
        done, _ = await asyncio.wait([asyncio.create_task(self.dead.wait()), *clients], timeout=10,
                                     return_when=asyncio.FIRST_COMPLETED)
        if not self.dead.is_set():
            assert not any(task.exception() for task in done), [task.exception() for task in done]
            self.shoot()
        load_s = time.monotonic() - began
        for result in await asyncio.wait_for(asyncio.gather(*clients, return_exceptions=True), PATIENCE_S):
            if isinstance(result, BaseException):
                raise result
        return load_s

    async def loaded(self):
        """Waits for a random number of turns to finish, and then for a random part of the next one."""
        wanted = self.record.turns + self.rng.randint(*LOAD_TURNS)
        while self.record.turns < wanted:
            await asyncio.sleep(0.001)
        await asyncio.sleep(self.rng.uniform(0, 0.01))

    def shoot(self):
        if not self.dead.is_set():
            self.server.process.kill()
            self.record.note("killed", aim=self.aim)
            self.dead.set()

    def aimed_at(self, what):
        """Operation `what` starts: a kill aimed at it follows within three milliseconds, usually at once."""
        if self.aim == what:
            asyncio.get_running_loop().call_later(0.003 * self.rng.random() ** 2, self.shoot)

    async def connect(self):
        return Http(self.server.port), await Socket.open(self.server.port)

    async def client(self, http, socket):
        try:
            while True:
                await self.act(http, socket)
        except LOST:
            if not self.dead.is_set():
                raise
        finally:
            http.close()
            socket.abort()

    async def act(self, http, socket):
        if self.rng.random() < 0.08:
            return await self.go_on(socket)
        wanted = len(self.record.sessions) + len(self.record.creating)
        if not self.free or wanted < SESSIONS and self.rng.random() < 0.3:
            return await self.create(http)
        # Usually the longest idle one: its cache is in the slowest tier.
        session = self.free.pop(0 if self.rng.random() < 0.8 else self.rng.randrange(len(self.free)))
        roll = self.rng.random()
        if session.cut and roll < 0.6:
            await self.turn(socket, session, None)
        elif roll < 0.05 or len(session.items) > 16:
            return await self.delete(http, session)
        elif roll < 0.09 and session.items:
            await self.rewind(socket, session)
        elif roll < 0.13 and session.items and wanted < SESSIONS:
            await self.fork(socket, session)
        else:
            await self.turn(socket, session, f"{session.mark}: {self.rng.randrange(10**6)}")
        self.free.append(session)

    async def go_on(self, socket):
        if not self.chains:
            if len(self.record.chains) >= CHAINS:
                ended = next((c for c in self.record.chains if len(c.answers) >= LONGEST), None)
                if ended is None:
                    return  # all are in use
                self.record.chains.remove(ended)
            self.chains.append(Chain())
            self.record.chains.append(self.chains[-1])
        chain = self.chains.pop(self.rng.randrange(len(self.chains)))
        await chain.turn(self.record, self.rng, socket)
        if len(chain.answers) < LONGEST:
            self.chains.append(chain)

    async def create(self, http):
        session = self.record.new_session()
        self.record.creating[session.mark] = session
        self.record.note("create?", mark=session.mark)
        status, answer = await http.call("POST", "/v1/conversations", {"metadata": {"mark": session.mark}})
        assert status == 200, answer
        self.record.note("created", mark=session.mark, id=answer["id"])
        del self.record.creating[session.mark]
        session.id = answer["id"]
        self.record.sessions[session.id] = session
        self.free.append(session)

    async def delete(self, http, session):
        session.open = ("delete",)
        self.record.note("delete?", id=session.id)
        self.aimed_at("delete")
        status, answer = await http.call("DELETE", f"/v1/conversations/{session.id}")
        assert status == 200, answer
        self.record.note("deleted", id=session.id)
        self.record.deleted.add(session.id)
        del self.record.sessions[session.id]

    async def rewind(self, socket, session):
        to = self.rng.randrange(len(session.items))
        session.open = ("rewind", to)
        self.record.note("rewind?", id=session.id, to=to)
        await socket.send({"type": "ringside:session.rewind", "session": session.id, "to": to})
        answer = await socket.receive()
        assert answer["type"] == "ringside:session.rewound" and answer["items"] == to, answer
        self.record.note("rewound", id=session.id, to=to)
        session.open = None
        session.keep(to)

    async def fork(self, socket, session):
        at = self.rng.randrange(len(session.items)) + 1
        session.open = ("fork", at)
        self.record.note("fork?", id=session.id, at=at)
        await socket.send({"type": "ringside:session.fork", "session": session.id, "at": at})
        answer = await socket.receive()
        assert answer["type"] == "ringside:session.forked" and answer["items"] == at, answer
        self.record.note("forked", id=session.id, child=answer["session"])
        session.open = None
        child = self.record.sessions[answer["session"]] = session.child(answer["session"], at)
        self.free.append(child)

    async def turn(self, socket, session, text):
        long = self.rng.random() < 0.05
        fields = {"max_output_tokens": self.rng.randint(40, 120) if long else self.rng.randint(1, 12),
                  "temperature": self.rng.choice((0, 1)), "seed": self.rng.randrange(2**31)}
        if self.rng.random() < 0.4:
            fields["logit_bias"] = {str(tiny_model.END_OF_TURN): 3.5}  # often an empty answer
        if text is None:
            fields = session.cut.fields
        self.record.marks += 1
        turn = Turn(f"request {self.record.marks}", text, fields)
        session.open = ("turn", turn)
        self.record.note("turn?", id=session.id, request=turn.request_id, text=text, **fields)
        if len(session.items) > 0:
            self.aimed_at("restore")
        await socket.send(turn.request(session.id))
        ended = False
        while not ended:
            event = await socket.receive()
            self.record.note("heard", id=session.id, event=event)
            ended = turn.hear(event)
        session.open = None
        session.acknowledge_turn(turn, event["response"])
        self.record.turns += 1
        self.record.counts[event["response"]["ringside"]["source"]] += 1


class Campaign:
    """All cycles of a run."""

    def __init__(self, folder, cycles, seed):
        self.folder, self.cycles = Path(folder), cycles
        self.rng = random.Random(seed)
        self.record = Record(self.folder / "record.jsonl")
        self.model = tiny_model.make(self.folder / "tiny.gguf")
        self.load_s = 0.0
        self.said_again = 0

    def start(self):
        return ServerProcess(self.model, *SHAPE, *PRESSURE, "--store-path", self.folder / "store", folder=self.folder)

    async def check(self, server, sessions, chains):
        https = [Http(server.port) for _ in range(8)]
        await settle_all(self.record, server.port, sessions, https)
        for chain in chains:
            await chain.settle(self.record, https[0])
        for http in https:
            http.close()

    async def cycle(self, number):
        with self.start() as server:
            if self.rng.random() < 0.03:
                # A server that is killed during startup leaves its store intact.
                await asyncio.sleep(self.rng.uniform(0, 0.1))
                server.kill()
                return
            server.wait_until_ready()
            everything = number % 20 == 0
            sessions = [s for s in self.record.sessions.values() if s.open or everything or self.rng.random() < 0.1]
            await self.check(server, sessions, [c for c in self.record.chains if c.open or everything])
            for session in self.rng.sample(list(self.record.sessions.values()), min(4, len(self.record.sessions))):
                await settle_position(server.port, session)
            aim = self.rng.choice((None, None, "delete", "restore"))
            self.load_s += await Load(self.record, server, self.rng, aim).run()
            server.kill()
            self.record.file.flush()

    async def finish(self):
        """Checks everything once more, then replays a sample on a server that never died."""
        with self.start() as server:
            server.wait_until_ready()
            sessions = list(self.record.sessions.values())
            await self.check(server, sessions, self.record.chains)
            server.stop()
        sessions = [s for s in self.record.sessions.values() if s.crashes and can_be_said_again(s)]
        sessions.sort(key=lambda s: (s.restores > 0, s.crashes), reverse=True)
        with ServerProcess(self.model, *SHAPE, folder=self.folder) as server:
            server.wait_until_ready()
            for session in sessions[:REPLAYED]:
                await say_again(server.port, session)
            server.stop()
        self.said_again = len(sessions[:REPLAYED])

    async def run(self):
        for number in range(1, self.cycles + 1):
            await self.cycle(number)
            if number % 20 == 0:
                print(f"cycle {number}: {self.summary()}", flush=True)
        await self.finish()
        counts = self.record.counts
        for needed in ("host", "disk", "open turn", "open delete", "open chain", "interrupted"):
            assert counts[needed] >= self.cycles / 10, f"void: hardly any {needed}: {counts}"
        print(f"0 lost: {self.summary()}; {self.said_again} said again, word for word")

    def summary(self):
        return (f"{self.record.turns} turns in {self.load_s:.0f} s of load, {self.record.turns / max(self.load_s, 0.001):.0f} "
                f"a second; {len(self.record.sessions)} conversations, {len(self.record.deleted)} deleted; "
                f"{dict(self.record.counts)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", metavar="FOLDER", help="work in this folder and leave everything there")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ringside-kill-") as temporary:
        folder = options.keep or temporary
        campaign = Campaign(folder, int(os.environ.get("RINGSIDE_KILL_CYCLES", 200)), options.seed)
        try:
            asyncio.run(campaign.run())
        except BaseException:
            campaign.record.file.flush()
            if not options.keep:
                os.rename(folder, kept := f"{folder}-failed")
                print(f"left behind: {kept}", file=sys.stderr)
                Path(folder).mkdir()
            raise


if __name__ == "__main__":
    main()
