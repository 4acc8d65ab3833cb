"""Several engines that share one set of conversations: each engine keeps its own, and all conversations survive a kill.

    scripts/python -m pytest tests/system/ranks/engines_test.py
"""

import asyncio
import json
import os
import re
import subprocess
import urllib.request

from conversation import Conversation, answer_text, reused
from server_process import PATIENCE_S, ROOT, server_path, wait_for
from wire import TERMINAL

GREEDY = {"temperature": 0, "ignore_eos": True}


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 2.5 * PATIENCE_S))


def engines(server, *arguments):
    """Runs `ringside engines ...`."""
    client = os.environ.get("RINGSIDE_CLIENT") or str(ROOT / "build/cpu/bin/ringside")
    return subprocess.run([client, "engines", *map(str, arguments), "--url", f"http://127.0.0.1:{server.port}"],
                          capture_output=True, text=True, timeout=PATIENCE_S)


def told(server, *arguments):
    done = engines(server, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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


def one_by_one(port, count, questions):
    """Creates conversations sequentially, so that each goes to the engine with the most room, however busy the machine
    is."""
    return [run(talk_of(port, None, questions)) for _ in range(count)]


def test_conversations_stay_on_their_engine_and_survive_a_kill(start, store):
    alone = start("--slots", 8)
    _, want = run(talk_of(alone.port, None, ["Hello.", "And then?", "And after that?"]))
    alone.stop()

    server = start("--cpu-engines", 2, "--slots", 8, "--store-path", store)
    heard = one_by_one(server.port, 8, ["Hello."])
    assert slots_used(server.port) == [4, 4]
    for id, (answer,) in heard:
        assert answer_text(answer) == answer_text(want[0])
        # Sequentially: engines that drift apart, as on a busy machine, would hand over idle conversations.
        _, (second,) = run(talk_of(server.port, id, ["And then?"]))
        assert answer_text(second) == answer_text(want[1])
        assert reused(second)[0] == "slot"
    assert slots_used(server.port) == [4, 4]
    server.kill()

    server = start("--cpu-engines", 3, "--slots", 8, "--store-path", store)
    for _, answers in run(crowd(server.port, [id for id, _ in heard], ["And after that?"])):
        assert answer_text(answers[0]) == answer_text(want[2])
    assert sum(slots_used(server.port)) == 8 and min(slots_used(server.port)) >= 1
    server.stop()


async def cancelled(talk):
    await talk.socket.send({"type": "response.cancel"})
    while (event := await talk.socket.receive())["type"] not in TERMINAL:
        pass
    return event


def test_drained_engine_migrates_its_conversations_under_load(start):
    questions = ["Hello.", "And then?", "And after that?", "And in the end?"]
    alone = start("--slots", 8)
    _, answers = run(talk_of(alone.port, None, questions))
    want = [answer_text(answer) for answer in answers]
    alone.stop()

    server = start("--cpu-engines", 2, "--slots", 16)
    ids = [id for id, _ in one_by_one(server.port, 10, questions[:2])]
    assert slots_used(server.port) == [5, 5]

    async def drain_under_load():
        async with Conversation(server.port) as one, Conversation(server.port) as other:
            for talk in (one, other):  # the second goes to the other engine
                await talk.begin("Tell me.", max_output_tokens=1 << 18, **GREEDY)
            asking = asyncio.create_task(crowd(server.port, ids, questions[2:3]))
            drained, = await asyncio.to_thread(told, server, "drain", 0)
            assert drained["id"] == 0 and drained["state"] == "draining" and drained["turns_running"] >= 1
            answers = [answer for _, (answer,) in await asking]
            assert [engine["state"] for engine in await asyncio.to_thread(told, server)] == ["draining", "serving"]
            for talk in (one, other):
                assert (await cancelled(talk))["response"]["status"] == "cancelled"
            await asyncio.to_thread(wait_for, lambda: told(server)[0]["state"] == "drained", "the engine to be empty")
            assert server.metrics()['ringside_engine_drains{engine="0"}'] == 1
            assert server.metrics()['ringside_engine_drains{engine="1"}'] == 0
            for talk in (one, other):
                answers.append(await talk.ask("Go on.", max_output_tokens=4, **GREEDY))
            return answers

    answers = run(drain_under_load())
    assert {answer_text(answer) for answer in answers[:10]} == {want[2]}
    assert {reused(answer)[0] for answer in answers} <= {"slot", "host"}  # nothing is recomputed
    answers = [answer for _, (answer,) in run(crowd(server.port, ids, questions[3:]))]
    assert {answer_text(answer) for answer in answers} == {want[3]}
    assert {reused(answer)[0] for answer in answers} <= {"slot", "host"}
    assert slots_used(server.port) == [0, 12]
    assert server.metrics()['ringside_cache_rebuilds_total{engine="1"}'] == 0

    refused = engines(server, "drain", 1)
    assert refused.returncode == 1 and "All other engines are drained" in refused.stderr
    assert told(server, "resume", 0)[0]["state"] == "serving"
    one_by_one(server.port, 4, questions[:1])
    assert slots_used(server.port) == [4, 12]
    server.stop()


def test_engine_control_requires_admin_and_keeps_the_last_engine(start, tmp_path):
    keys = tmp_path / "keys.json"
    add = lambda scopes: subprocess.run([server_path(), "keys", "add", "--file", keys, "--owner", "o", "--scopes", scopes],
                                        capture_output=True, text=True, check=True).stdout.strip()
    chat, admin = add("chat,metrics"), add("admin")
    server = start("--keys-file", keys, "--slots", 8)
    for arguments in ((), ("drain", 0), ("resume", 0)):
        assert "nothing at" in engines(server, *arguments, "--api-key", chat).stderr  # same error as for an unknown route
    listed = engines(server, "--api-key", admin)
    assert listed.returncode == 0 and re.search(r"^ +0  serving +0 of 8 ", listed.stdout, re.M), listed
    refused = engines(server, "drain", 0, "--api-key", admin)
    assert refused.returncode == 1 and "one engine" in refused.stderr
    refused = engines(server, "drain", 1, "--api-key", admin)
    assert refused.returncode == 1 and "no such engine" in refused.stderr
    server.stop()


def test_single_engine_has_no_number(start):
    server = start()
    text = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics").read().decode()
    assert re.search(r"^ringside_slots \d+$", text, re.M) and 'engine="' not in text
    server.stop()
