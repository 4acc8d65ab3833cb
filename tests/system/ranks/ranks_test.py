"""A model split over several ranks answers as one rank does, and its saved caches can be restored by any other layout.

    scripts/python -m pytest tests/system/ranks/ranks_test.py
"""

import asyncio
import functools

import pytest
import tiny_model
from conversation import Conversation, answer_text
from rank_answers import GREEDY, QUESTIONS, answers_in_turn, answers_of, ask, run

LAYOUTS = [[(2, 1), (4, 1), (1, 1)], [(1, 2), (2, 1), (2, 2)]]  # (ranks per layer, pipeline stages) of successive servers


def test_answers_and_caches_match_one_rank(start, store):
    questions = QUESTIONS[:3]
    want = answers_of(start("--memory-len", 128), questions)
    for number, layouts in enumerate(LAYOUTS):
        stored = ("--memory-len", 128, "--store-path", store.with_name(f"store_{number}"))
        ways = [functools.partial(start, "--tensor-parallel-size", ranks, "--pipeline-parallel-size", stages, *stored)
                for ranks, stages in layouts]
        assert answers_in_turn(ways, questions) == want


@pytest.mark.parametrize("ranks, stages", [(2, 1), (1, 2)])
def test_concurrent_turns_and_a_kill(start, store, ranks, stages):
    shared = ("--tensor-parallel-size", ranks, "--pipeline-parallel-size", stages, "--store-path", store)
    server = start(*shared)

    async def crowd():
        async def one():
            async with Conversation(server.port) as talk:
                answer = await talk.ask("Hello.", max_output_tokens=30, **GREEDY)
                return talk.id, answer_text(answer)

        return await asyncio.gather(*[one() for _ in range(12)])

    answers = run(crowd())
    assert len({text for _, text in answers}) == 1
    server.kill()
    server = start(*shared)
    for id, _ in answers[:3]:
        _, answer = run(ask(server.port, id, "Still there?", 10))
        assert answer["usage"]["output_tokens"] == 10
    server.stop()


def test_unshardable_models_are_refused(start):
    server = start("--tensor-parallel-size", 5, ready=False)
    assert server.wait() == 78
    assert "4 heads of a layer cannot be shared by 5 ranks" in server.tail()
    server = start("--pipeline-parallel-size", 3, ready=False)
    assert server.wait() == 78
    assert "2 layers cannot be shared by 3 stages" in server.tail()


def test_dummy_model_answers(start, tmp_path):
    folder = tiny_model.make_shape(tmp_path / "shape")
    texts = []
    for ranks in (1, 2):
        server = start("--load-format", "dummy", "--tensor-parallel-size", ranks, model=folder)
        _, answer = run(ask(server.port, None, "Hello.", 20))
        texts.append(answer_text(answer))
        server.stop()
    assert texts[0] and texts[0] == texts[1]
