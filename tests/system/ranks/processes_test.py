"""A server whose ranks are processes started by mpirun: it answers as a single process does, any number of ranks can
restore its caches, and when a rank dies or hangs all ranks exit, every running turn ends as interrupted, and no
acknowledged data is lost.

    scripts/python -m pytest tests/system/ranks/processes_test.py
    RINGSIDE_RANK_KILLS=50 scripts/python -m pytest -s -k killed tests/system/ranks/processes_test.py
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from conversation import Conversation, answer_text, reused
from rank_answers import GREEDY, QUESTIONS, answers_in_turn, answers_of, continues_answer, lose_rank, lose_turn, run
from rank_processes import FAILED, RankProcesses, needs_mpirun
from server_process import ROOT, wait_for
from wire import LOST, TERMINAL, text_of

pytestmark = needs_mpirun
# Longer than any test: a lost process must be noticed without this timeout.
RANK_TIMEOUT = ("--rank-timeout", 3600)
KILLS = int(os.environ.get("RINGSIDE_RANK_KILLS", 3))
TALKS = 6
FAILING_SERVER = os.environ.get("RINGSIDE_FAILING_SERVER") or str(ROOT / "build/cpu/bin/failing_server")


@pytest.fixture
def start_ranks(model, tmp_path):
    """Starts `count` processes that share the model, one rank each unless a flag changes that."""
    servers = []

    def start(count, *flags, ready=True, **named):
        flags = ("--tensor-parallel-size", count, "--threads", 1, *flags)
        servers.append(RankProcesses(model, count, *flags, folder=tmp_path, **named))
        return servers[-1].wait_until_ready() if ready else servers[-1]

    yield start
    for server in servers:
        if server.running():
            server.kill()


def test_answers_and_caches_match_one_process(start, start_ranks, store):
    want = answers_of(start("--memory-len", 128), QUESTIONS)
    stored = ("--memory-len", 128, "--store-path", store)
    ways = (lambda: start_ranks(2, *stored), lambda: start_ranks(3, *stored), lambda: start(*stored),
            lambda: start_ranks(2, "--tensor-parallel-size", 2, "--pipeline-parallel-size", 2, *stored),
            lambda: start("--tensor-parallel-size", 3, *stored))
    assert answers_in_turn(ways, QUESTIONS) == want


def test_concurrent_turns_with_evicted_caches(start, start_ranks, store):
    """More conversations than slots: all processes spill caches to the host and restore them."""

    async def one(server, number):
        """The text differs per conversation, so that no slot holds another's prefix."""
        async with Conversation(server.port) as talk:
            first = await talk.ask(f"{number}: hello.", max_output_tokens=20, **GREEDY)
            await asyncio.sleep(0)
            second = await talk.ask("And then?", max_output_tokens=20, **GREEDY)
            return answer_text(first), answer_text(second), reused(second)[0]

    async def crowd(server):
        return await asyncio.gather(*[one(server, number) for number in range(10)])

    alone = start()
    want = [run(one(alone, number))[:2] for number in range(10)]
    server = start_ranks(2, "--slots", 2, "--store-path", store, "--session-idle-host", 1)
    answers = run(crowd(server))
    assert [answer[:2] for answer in answers] == want
    assert "host" in {answer[2] for answer in answers}, answers
    server.stop()


@pytest.mark.parametrize("flags, told", [
    (("--tensor-parallel-size", 3), "--tensor-parallel-size 3 and --pipeline-parallel-size 1 cannot be shared by 2 processes"),
    (("--data-parallel-size", 2), "--data-parallel-size requires a single process"),
    (("--chat-template", "nobody-knows"), "--chat-template"),
])
def test_unservable_configuration_ends_all_processes(start_ranks, flags, told):
    server = start_ranks(2, *flags, ready=False)
    server.wait()
    assert server.ended()[0] == 78 and told in server.tail()


@pytest.fixture
def start_gpu_ranks(start_ranks):
    """As start_ranks, with a simulated GPU per process, taken from `gpus`."""
    def start(count, gpus, *flags, environment=None, **named):
        return start_ranks(count, "--device", "cuda", "--tensor-parallel-force", *flags, binary=FAILING_SERVER,
                           environment={"GPUS": gpus} | (environment or {}), **named)

    return start


@pytest.mark.parametrize("count, flags", [(2, ()), (2, ("--tensor-parallel-size", 1, "--pipeline-parallel-size", 2)),
                                          (2, ("--tensor-parallel-size", 2, "--pipeline-parallel-size", 2))])
def test_gpu_processes_answer_as_one(start, start_gpu_ranks, count, flags):
    want = answers_of(start(), QUESTIONS[:2])
    assert answers_of(start_gpu_ranks(count, "GPU-a GPU-b GPU-c GPU-d", *flags), QUESTIONS[:2]) == want


@pytest.mark.parametrize("count, gpus, told", [
    (2, "GPU-a", "processes 0 and 1 would share GPU-a"),
    (3, "GPU-a GPU-b", "process 2 needs 1 GPU from number 2 on, but sees 2"),
    (2, "", "process 0 needs 1 GPU from number 0 on, but sees 0"),
])
def test_every_rank_requires_a_gpu(start_gpu_ranks, count, gpus, told):
    server = start_gpu_ranks(count, gpus, ready=False)
    server.wait()
    assert server.ended()[0] == 78 and told in server.tail()


@pytest.mark.parametrize("rank", [0, 1])
def test_gpu_failure_in_one_process_ends_all(start_gpu_ranks, store, tmp_path, rank):
    failure = tmp_path / "failure"
    stored = ("GPU-a GPU-b", "--store-path", store, *RANK_TIMEOUT)
    server = start_gpu_ranks(2, *stored, environment={"FAIL_WHEN_THERE": str(failure), "FAIL_RANK": str(rank)})
    id, items, _ = lose_turn(server, failure.touch)
    assert server.ended() == [FAILED, FAILED], server.tail()
    server.wait()
    continues_answer(start_gpu_ranks(2, *stored), id, items)


async def spoken(talk):
    """The conversation's items without empty answers: a model may end one before any text."""
    return [item for item in await talk.items() if item != ("assistant", "")]


class Load:
    """Conversations that run turn after turn, and what their clients received."""

    def __init__(self):
        self.told = {}  # id to the acknowledged (role, text) items
        self.errors = []  # of turns that were running when a process died

    async def talk(self, port, id):
        try:
            async with Conversation(port, id) as talk:
                items = self.told.setdefault(talk.id, [])
                while True:
                    question = f"Number {random.randrange(10**6)}?"
                    await talk.socket.send({"type": "response.create", "conversation": talk.id, "input": question, "temperature": 0,
                                            "ignore_eos": True, "max_output_tokens": random.randint(1, 60)})
                    event = await talk.socket.receive()
                    while event["type"] not in TERMINAL:
                        event = await talk.socket.receive()
                    if event["type"] == "error":
                        return self.errors.append(event["error"])
                    text = text_of(event["response"])
                    items += [("user", question)] + [("assistant", text)] * (text != "")
                    if event["response"]["error"]:
                        assert event["response"]["incomplete_details"]["reason"] == "interrupted", event
                        return self.errors.append(event["response"]["error"])
        except LOST:
            pass

    async def until_lost(self, port, kill):
        """Calls `kill()` at a random moment, then waits until the last client receives nothing more."""
        ids = [*self.told, *[None] * (TALKS - len(self.told))]
        talks = [asyncio.create_task(self.talk(port, id)) for id in ids]
        await asyncio.sleep(random.uniform(0.2, 1.0))
        kill()
        await asyncio.gather(*talks)

    async def check(self, port):
        """All acknowledged items are present and in order, and the conversation continues."""
        for id, items in self.told.items():
            async with Conversation(port, id) as talk:
                there = await spoken(talk)
                assert there[: len(items)] == items, id
                assert len(there) <= len(items) + 2, "no more than the turn that nobody heard the end of"
                await talk.ask("Still there?", max_output_tokens=4, **GREEDY)
                self.told[id] = await spoken(talk)


def test_killed_process_ends_all_without_loss(start_ranks, store):
    """Kills each rank in turn."""
    load, longest = Load(), 0
    flags = ("--store-path", store, *RANK_TIMEOUT, "--slots", 4)
    for number in range(KILLS):
        count = 2 + number % 2
        victim = number // 2 % count if KILLS > 3 else (1, 2, 0)[number]
        server = start_ranks(count, *flags)
        run(load.check(server.port))
        load.errors.clear()
        pids = server.pids()
        assert sorted(pids) == list(range(count))
        at = []

        def kill():
            os.kill(pids[victim], signal.SIGKILL)
            at.append(time.monotonic())

        run(load.until_lost(server.port, kill))
        ended = server.ended()
        longest = max(longest, time.monotonic() - at[0])
        server.wait()
        want = [FAILED] * count
        want[victim] = 128 + signal.SIGKILL
        assert ended == want, server.tail()
        assert victim == 0 or load.errors, "turns were running"
        for error in load.errors:
            assert error["code"] == "unavailable", error
    server = start_ranks(2, *flags)
    run(load.check(server.port))
    server.stop()
    print(f"{KILLS} kills, {sum(map(len, load.told.values()))} items, all processes gone after {longest:.1f} s at most")


def test_hung_process_ends_all(start_ranks, store):
    server = start_ranks(2, "--store-path", store, *RANK_TIMEOUT)
    pids = server.pids()
    id, items = lose_rank(server, lambda: os.kill(pids[1], signal.SIGSTOP))
    wait_for(lambda: 0 not in server.pids(), "the first to end")
    os.kill(pids[1], signal.SIGCONT)
    assert server.ended() == [FAILED, FAILED], server.tail()
    server.wait()
    continues_answer(start_ranks(2, "--store-path", store), id, items)


def test_process_death_between_turns_is_detected(start_ranks):
    server = start_ranks(2, *RANK_TIMEOUT)
    server.send(1, signal.SIGKILL)
    assert server.ended() == [FAILED, 128 + signal.SIGKILL], server.tail()
    server.wait()


def test_busy_machine_does_not_time_out_processes(start_ranks):
    """Busy loops occupy the processors for three times the heartbeat limit; turns get the remaining time."""
    server = start_ranks(2, *RANK_TIMEOUT)
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8 * os.cpu_count())]

    async def talk():
        async with Conversation(server.port) as talk:
            end = time.monotonic() + 9
            while time.monotonic() < end:
                assert answer_text(await talk.ask("Hello.", max_output_tokens=8, **GREEDY))

    try:
        run(talk())
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    server.stop()
