"""Interleaved conversations of a model with recurrent layers, each with its own secret, over slots, host memory and the
disk, with a kill -9 between: each equals the same conversation alone.

    scripts/python -m pytest tests/system/durability/needles_test.py

RINGSIDE_NEEDLES is the number of conversations; RINGSIDE_NEEDLES_FLAGS are more flags of the server, such as
"--device cuda --deterministic".
"""

import asyncio
import collections
import os
import random

import pytest
import tiny_hybrid
from conversation import Conversation, answer_text, reused

CONVERSATIONS = int(os.environ.get("RINGSIDE_NEEDLES", 100))
FLAGS = os.environ.get("RINGSIDE_NEEDLES_FLAGS", "").split()
TURNS, AT_ONCE = 4, 8
GREEDY = {"temperature": 0, "ignore_eos": True, "max_output_tokens": 12}


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny_hybrid.make(tmp_path_factory.mktemp("hybrid") / "hybrid.gguf")


def question(who, turn):
    secret = random.Random(who).randrange(10**9)
    return f"My secret is {secret}. Question {turn}: what is it?"


async def run_turns(port, turns, ids, said, sources):
    """Runs (who, turn) in this order, AT_ONCE at a time; turns of one conversation follow each other."""
    queue, busy = collections.deque(turns), set()

    async def work():
        while queue:
            at = next((i for i, (who, _) in enumerate(queue) if who not in busy), None)
            if at is None:
                await asyncio.sleep(0.001)
                continue
            who, turn = queue[at]
            del queue[at]
            busy.add(who)
            async with Conversation(port, ids.get(who)) as talk:
                answer = await talk.ask(question(who, turn), **GREEDY)
                ids[who] = talk.id
                said[who].append(answer_text(answer))
                sources[reused(answer)[0]] += 1
            busy.remove(who)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def test_each_conversation_equals_itself_alone(start, store):
    alone, said = collections.defaultdict(list), collections.defaultdict(list)
    sources = collections.Counter()
    server = start("--slots", AT_ONCE, *FLAGS)
    asyncio.run(run_turns(server.port, [(who, turn) for who in range(CONVERSATIONS) for turn in range(TURNS)], {}, alone,
                          collections.Counter()))
    server.stop()

    order = [who for who in range(CONVERSATIONS) for _ in range(TURNS)]
    random.Random(1).shuffle(order)
    seen, turns = collections.Counter(), []
    for who in order:
        turns.append((who, seen[who]))
        seen[who] += 1
    tiers = ("--slots", AT_ONCE, "--store-path", store, "--host-cache-mb", 2, *FLAGS)
    server, ids = start(*tiers), {}
    for part in (turns[:len(turns) // 2], turns[len(turns) // 2:]):
        asyncio.run(run_turns(server.port, part, ids, said, sources))
        server.kill()
        server = start(*tiers)
    assert said == alone
    assert len({tuple(texts) for texts in said.values()}) > 0.99 * CONVERSATIONS  # a secret changes the words
    assert sources["host"] > 0 and sources["disk"] > 0, sources
