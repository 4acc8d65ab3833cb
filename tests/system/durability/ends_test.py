"""One contract for every way in which a server can end: acknowledged data stays in the conversations, running turns
become `interrupted`, and a turn with empty input continues them.

    scripts/python -m pytest tests/system/durability/ends_test.py
    RINGSIDE_END_CYCLES=100 scripts/python -m pytest -s -k rank tests/system/durability/ends_test.py

RINGSIDE_END_FLAGS adds server flags ("--device cuda --tensor-parallel-force"); RINGSIDE_END_MODEL replaces the tiny
model.

Clients run turns until the fault is injected. Then the kill test's checks compare each conversation with its client's
record. The end that a client received is the end that is stored, in this server and in the next one.
"""

import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
import tiny_model

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ranks"))
from after_crash import settle_all
from rank_processes import FAILED, RankProcesses, needs_mpirun
from record import Record, Turn
from server_process import ROOT, ServerProcess, run, wait_for
from wire import LOST, Http, Socket

CYCLES = int(os.environ.get("RINGSIDE_END_CYCLES", 2))
CLIENTS = 8
LOAD_S = (0.1, 0.6)  # range of the delay before the fault
FAILING_SERVER = os.environ.get("RINGSIDE_FAILING_SERVER") or str(ROOT / "build/cpu/bin/failing_server")
FLAGS = ("--memory-len", 128, "--threads", 1, "--slots", CLIENTS, *os.environ.get("RINGSIDE_END_FLAGS", "").split())
KILLED = 128 + signal.SIGKILL
# Excludes the end-of-turn tokens: an answer cut after one that `ignore_eos` skipped is not continued.
ENDLESS = {str(tiny_model.END_OF_TURN - i): -100 for i in range(len(tiny_model.SPECIAL))}


class Server:
    """How a server is started, which fault it gets, and how it must exit."""

    def __init__(self, model, folder):
        self.model, self.folder, self.process = model, folder, None
        self.failure = folder / "failure"

    flags, ranks = (), 0
    environment = None  # for failing_server: the variable naming the file that triggers the fault
    ends = True  # whether the process exits
    exits = 0
    long = 20_000  # length in tokens of every other answer, long enough to be running at the fault

    def start(self):
        self.failure.unlink(missing_ok=True)
        flags = (*FLAGS, *self.flags, "--store-path", self.folder / "store")
        if self.ranks:
            self.process = RankProcesses(self.model, self.ranks, "--tensor-parallel-size", self.ranks, *flags, folder=self.folder)
        else:
            named = {} if self.environment is None else {"binary": FAILING_SERVER, "environment": {
                name: self.failure if value is None else value for name, value in self.environment.items()}}
            self.process = ServerProcess(self.model, *flags, folder=self.folder, **named)
        self.process.wait_until_ready()
        self.pids = self.process.pids() if self.ranks else None
        return self.process

    def harm(self):
        self.failure.touch()

    def wait(self):
        if self.ranks:
            assert self.process.ended() == self.exits, self.process.tail()
            self.process.wait()
        else:
            assert self.process.wait() == self.exits, self.process.tail()


class Killed(Server):
    exits = -signal.SIGKILL

    def harm(self):
        self.process.process.kill()


class Stopped(Server):
    flags, long = ("--shutdown-timeout", 1), 1 << 18  # two thirds are for running turns

    def harm(self):
        self.process.terminate()


class RankKilled(Server):
    ranks, victim, exits = 2, 1, [FAILED, KILLED]

    def harm(self):
        os.kill(self.pids[self.victim], signal.SIGKILL)


class FirstRankKilled(RankKilled):
    victim, exits = 0, [KILLED, FAILED]


class RankSilent(RankKilled):
    exits = [FAILED, FAILED]

    def harm(self):
        os.kill(self.pids[1], signal.SIGSTOP)

    def wait(self):
        wait_for(lambda: 0 not in self.process.pids(), "the first to end")
        os.kill(self.pids[1], signal.SIGCONT)
        super().wait()


class DeviceFailed(Server):
    flags, environment, exits = ("--device", "cuda"), {"FAIL_WHEN_THERE": None}, FAILED


class OutOfMemory(DeviceFailed):
    environment = {"THROW_WHEN_THERE": None}


class EngineFailed(DeviceFailed):
    """The other engine continues, with all conversations."""

    flags, environment = ("--device", "cuda", "--data-parallel-size", 2), {"FAIL_WHEN_THERE": None, "FAIL_DEVICE": "1"}
    ends, exits = False, 0


class NotFinite(DeviceFailed):
    """Only the turns of that step fail."""

    environment, exits = {"NAN_WHILE_THERE": None}, 0
    ends = False


KINDS = {"killed": Killed, "stopped": Stopped, "rank-killed": RankKilled, "first-rank-killed": FirstRankKilled,
         "rank-silent": RankSilent, "device-failed": DeviceFailed, "out-of-memory": OutOfMemory, "engine-failed": EngineFailed,
         "not-finite": NotFinite}


class LongTurn(Turn):
    """A turn whose reader may fall behind: several deltas are then merged into one, under the number of the last."""

    def hear(self, event):
        if not event["type"].startswith("ringside:"):
            assert event["sequence_number"] >= self.events, (self.events, event)
            self.events = event["sequence_number"]
        return super().hear(event)


class Talks:
    """The clients of a campaign, and what they received."""

    def __init__(self, folder):
        self.record = Record(folder / "record.jsonl")
        self.heard_ends = {}  # response id to the response that its client received as interrupted
        self.open = self.continued = self.heard = 0
        self.over = False  # the fault has been injected
        self.longest_s = 0  # longest time from the fault until the last client was notified

    async def load(self, server):
        """Runs the clients until the last one receives nothing more."""
        self.over = False
        http = Http(server.process.port)
        sessions = list(self.record.sessions.values())
        sessions += [await self.create(http) for _ in range(CLIENTS - len(sessions))]
        http.close()
        talks = [asyncio.create_task(self.talk(server, session)) for session in sessions]
        await asyncio.sleep(random.uniform(*LOAD_S))
        while sum(session.open is not None and session.open[1].response_id is not None for session in sessions) < CLIENTS // 2:
            await asyncio.sleep(0.001)
        server.harm()
        self.over = True
        begin = time.monotonic()
        await asyncio.gather(*talks)
        self.longest_s = max(self.longest_s, time.monotonic() - begin)

    async def create(self, http):
        session = self.record.new_session()
        status, made = await http.call("POST", "/v1/conversations", {"metadata": {"mark": session.mark}})
        assert status == 200, made
        session.id = made["id"]
        self.record.sessions[session.id] = session
        return session

    async def talk(self, server, session):
        socket = await Socket.open(server.process.port)
        try:
            while await self.turn(socket, session, server.long) and (server.ends or not self.over):
                pass
        except LOST:
            pass
        finally:
            socket.abort()

    async def turn(self, socket, session, long):
        """Runs a turn; returns True if its end was read and the server continues."""
        self.record.marks += 1
        if session.cut:
            turn = LongTurn(f"request {self.record.marks}", None, session.cut.fields)
        else:
            fields = {"max_output_tokens": random.choice((8, long)), "temperature": 0, "logit_bias": ENDLESS}
            turn = LongTurn(f"request {self.record.marks}", f"Number {self.record.marks}?", fields)
        self.continued += turn.text is None
        session.open = ("turn", turn)
        self.record.note("turn?", id=session.id, request=turn.request_id, text=turn.text, **turn.fields)
        await socket.send(turn.request(session.id))
        while True:
            event = await socket.receive()
            self.record.note("heard", id=session.id, event=event)
            if event["type"] == "error":
                assert turn.response_id is None, "refused after it was acknowledged"
                if event["error"]["code"] == "rate_limit_exceeded":  # these answers outran the disk
                    session.open = None
                    await asyncio.sleep(event["error"]["retry_after_ms"] / 1000)
                    return True
                assert event["error"]["code"] == "unavailable", event
                return False
            if turn.hear(event):
                break
        response = event["response"]
        if (response["incomplete_details"] or {}).get("reason") == "interrupted":
            self.heard_ends[response["id"]] = response
            return False
        session.open = None
        session.acknowledge_turn(turn, response)
        return True

    async def check(self, port):
        """Checks that all acknowledged data is present and that every received end is stored as received, never as
        failed."""
        https = [Http(port) for _ in range(4)]
        sessions = list(self.record.sessions.values())
        self.open += sum(session.open is not None for session in sessions)
        await settle_all(self.record, port, sessions, https)
        for id, heard in self.heard_ends.items():
            status, stored = await https[0].call("GET", f"/v1/responses/{id}")
            assert status == 200 and heard["error"]["code"] == "unavailable", (heard, stored)
            for field in ("status", "incomplete_details", "error", "output", "usage"):
                assert stored[field] == heard[field], (field, heard, stored)
        for http in https:
            http.close()

    async def delete_ended(self, port):
        """Deletes conversations that are checked and not continued, so that every cycle takes the same time."""
        self.heard += len(self.heard_ends)
        self.heard_ends.clear()
        http = Http(port)
        going_on = [session for session in self.record.sessions.values() if session.cut and session.crashes < 6][: CLIENTS // 2]
        for id in self.record.sessions.keys() - {session.id for session in going_on}:
            status, answer = await http.call("DELETE", f"/v1/conversations/{id}")
            assert status == 200, answer
            self.record.deleted.add(id)
            del self.record.sessions[id]
        http.close()


@pytest.mark.parametrize("kind", [pytest.param(name, marks=needs_mpirun if KINDS[name].ranks else ()) for name in KINDS])
def test_sent_text_survives_and_continues(kind, model, tmp_path):
    talks = Talks(tmp_path)
    server = KINDS[kind](os.environ.get("RINGSIDE_END_MODEL") or model, tmp_path)
    try:
        for cycle in range(CYCLES):
            server.start()
            run(talks.check(server.process.port))
            run(talks.delete_ended(server.process.port))
            run(talks.load(server))
            if not server.ends:
                server.failure.unlink(missing_ok=True)  # an answer from a server that survives the fault must succeed again
                run(talks.check(server.process.port))
                server.process.terminate()
            server.wait()
            talks.record.file.flush()
        server.start()
        run(talks.check(server.process.port))
        server.process.stop()
    finally:
        if server.process.running():
            server.process.kill()
    assert talks.open >= max(1, CYCLES // 4), "void: no turns were running"
    print(f"{kind}: {CYCLES} ends, {talks.record.marks} turns, {talks.open} open when it came, {talks.heard} heard of it, "
          f"{talks.continued} went on; the last client knew after {talks.longest_s:.1f} s")
