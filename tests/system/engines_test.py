"""Several engines behind one set of conversations: each keeps its own, and all outlive a kill.

    scripts/python -m pytest tests/system/engines_test.py
"""

import asyncio
import re
import urllib.request

from conversation import Conversation, answer_text, reused

GREEDY = {"temperature": 0, "ignore_eos": True}


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 300))


def slots_used(port):
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    return [int(float(value)) for _, value in sorted(re.findall(r'^ringside_slots_used\{engine="(\d)"\} (\S+)$', text, re.M))]


async def talk_of(port, id, questions):
    answers = []
    async with Conversation(port, id) as talk:
        for question in questions:
            answers.append(await talk.ask(question, max_output_tokens=12, **GREEDY))
        return talk.id, answers


async def crowd(port, ids, questions):
    return await asyncio.gather(*[talk_of(port, id, questions) for id in ids])


def test_conversations_stay_with_their_engine_and_outlive_a_kill(start, store):
    alone = start("--slots", 8)
    _, want = run(talk_of(alone.port, None, ["Hello.", "And then?", "And after that?"]))
    alone.stop()

    server = start("--cpu-engines", 2, "--slots", 8, "--store-path", store)
    told = run(crowd(server.port, [None] * 8, ["Hello.", "And then?"]))
    for _, answers in told:
        assert [answer_text(answer) for answer in answers] == [answer_text(answer) for answer in want[:2]]
        assert reused(answers[1])[0] == "slot"
    assert sum(slots_used(server.port)) == 8 and min(slots_used(server.port)) >= 2
    server.kill()

    server = start("--cpu-engines", 3, "--slots", 8, "--store-path", store)
    for _, answers in run(crowd(server.port, [id for id, _ in told], ["And after that?"])):
        assert answer_text(answers[0]) == answer_text(want[2])
    assert sum(slots_used(server.port)) == 8 and min(slots_used(server.port)) >= 1
    server.stop()


def test_one_engine_has_no_number(start):
    server = start()
    text = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics").read().decode()
    assert re.search(r"^ringside_slots \d+$", text, re.M) and 'engine="' not in text
    server.stop()
