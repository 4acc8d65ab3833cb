"""Stored conversations under another model or smaller limits: they continue, and every affected turn reports the
change.

    scripts/python -m pytest tests/system/durability/changed_model_test.py
"""

import json
import urllib.request

import pytest
import tiny_model
from conversation import Conversation, answer_text
from server_process import run

SYSTEM = "Be kind, be brief, and be quick about it."
GREEDY = {"temperature": 0, "max_output_tokens": 24}


def vocabulary(merges, spare=0):
    """GGUF metadata of the tiny model with these merges, and with `spare` unused tokens at the end of
    the vocabulary."""
    tokens = tiny_model.byte_tokens() + [merge.replace(" ", "") for merge in merges] + tiny_model.SPECIAL
    end = len(tokens) - 1
    tokens += [f"<|spare {i}|>" for i in range(spare)]
    controls = set(tokens[end - 2:])
    return {
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges, "tokenizer.ggml.bos_token_id": end - 2,
        "tokenizer.ggml.eos_token_id": end,
        "tokenizer.ggml.token_type": [tiny_model.CONTROL if token in controls else tiny_model.NORMAL for token in tokens],
    }


CHANGES = {
    "smaller vocabulary": vocabulary(tiny_model.MERGES[:1]),
    "larger vocabulary": vocabulary([*tiny_model.MERGES, "o n", "e n", "y o", "yo u", "q u"], spare=200),
    "another template": {"tokenizer.chat_template": tiny_model.TEMPLATE.replace(" + '\\n'}}{% endfor", "}}{% endfor")},
}


@pytest.fixture(params=CHANGES)
def other_model(request, tmp_path):
    assert tiny_model.TEMPLATE not in CHANGES["another template"].values()
    return tiny_model.make(tmp_path / "other.gguf", more=CHANGES[request.param])


def export(server, conversation):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/conversations/{conversation}/export") as answer:
        return answer.read()


def bring_in(server, data):
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/v1/conversations/import", data=data, method="POST")
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


async def answer_to_a_copy(server, items, question):
    """Returns the answer of a fresh conversation with the same items under the current model."""
    async with Conversation(server.port) as copy:
        said = [{"role": role, "content": text} for role, text in items]
        status, body = await copy.http.call("POST", f"/v1/conversations/{copy.id}/items", {"items": said})
        assert status == 200, body
        return answer_text(await copy.ask(question, instructions=SYSTEM, **GREEDY))


def test_conversations_continue_with_another_model(start, store, other_model):
    server = start("--store-path", store)

    async def before():
        async with Conversation(server.port) as talk, Conversation(server.port) as cut:
            first = await talk.ask("Hello there, you.", instructions=SYSTEM, top_logprobs=1, **GREEDY)
            await talk.ask("And then?", **GREEDY)
            _, heard = await cut.begin("Tell me.", deltas=8, temperature=0, max_output_tokens=1 << 18, ignore_eos=True)
            return talk.id, await talk.items(), first, cut.id, heard

    conversation, items, first, cut, heard = run(before())
    server.kill()

    async def after(server):
        async with Conversation(server.port, conversation) as talk, Conversation(server.port, cut) as broken:
            assert await talk.items() == items
            assert answer_text(await talk.response(first["id"])) == answer_text(first)
            answer = await talk.ask("What now?", **GREEDY)
            assert answer["ringside"]["retokenised"] is True
            assert answer["ringside"]["source"] == "recomputed"
            assert answer_text(answer) == await answer_to_a_copy(server, items, "What now?")
            again = await talk.ask("And then?", **GREEDY)
            assert "retokenised" not in again["ringside"] and again["ringside"]["source"] == "slot"

            (asked, told), = [await broken.items()]
            assert asked == ("user", "Tell me.") and told[1].startswith(heard)
            assert (await broken.ask("Go on.", **GREEDY))["ringside"]["retokenised"] is True
            return answer["id"], await talk.items()

    server = start("--store-path", store, model=other_model)
    answer, now = run(after(server))
    assert now[: len(items)] == items and len(now) == len(items) + 4
    server.stop()

    server = start("--store-path", store, model=other_model)

    async def later():
        async with Conversation(server.port, conversation) as talk:
            assert (await talk.response(answer))["ringside"]["retokenised"] is True
            report = (await talk.ask("Still there?", **GREEDY))["ringside"]
            assert "retokenised" not in report and report["source"] == "disk"

    run(later())
    server.stop()


def test_former_model_reuses_its_ids(start, store, other_model):
    """Starting the wrong model by mistake, and only reading the conversation, loses nothing."""
    server = start("--store-path", store)

    async def ask(question):
        async with Conversation(server.port, conversation) as talk:
            return talk.id, await talk.ask(question, **GREEDY), await talk.items()

    conversation = None
    conversation, _, items = run(ask("Hello there, you."))
    server.stop()
    server = start("--store-path", store, model=other_model)

    async def look():
        async with Conversation(server.port, conversation) as talk:
            assert await talk.items() == items

    run(look())
    server.stop()
    server = start("--store-path", store)
    report = run(ask("And then?"))[1]["ringside"]
    assert "retokenised" not in report and report["source"] == "disk" and report["tokens_reused"] > 0
    server.stop()


LARGE = ("--memory-len", 512, "--pinned-max", 64, "--session-len", 4096)
SMALL = ("--memory-len", 128, "--pinned-max", 16, "--session-len", 2048)
CLAMPED = {"memory_len": 128, "session_len": 2048, "pinned": 16}
OWN = {"memory_len": 400, "session_len": 4000}


async def begin_with_own_window(server):
    """Creates a conversation with its own limits and a history longer than the smaller window."""
    async with Conversation(server.port) as some:
        status, made = await some.http.call("POST", "/v1/conversations", {"ringside": OWN})
        assert status == 200, made
    async with Conversation(server.port, made["id"]) as talk:
        response = await talk.ask("A story, please. " * 12, instructions=SYSTEM, **GREEDY)
        assert "clamped" not in response["ringside"]
    return made["id"]


async def limits_of(server, conversation):
    async with Conversation(server.port, conversation) as talk:
        _, found = await talk.http.call("GET", f"/v1/conversations/{conversation}")
        return {name: found["ringside"][name] for name in ("memory_len", "session_len", "pinned")}


async def turn(server, conversation):
    """Returns the report of one turn."""
    async with Conversation(server.port, conversation) as talk:
        return (await talk.ask("And then? Say a little more.", **GREEDY))["ringside"]


def test_smaller_limits_apply_and_the_original_return(start, store):
    server = start("--store-path", store, *LARGE)
    conversation = run(begin_with_own_window(server))
    before = run(limits_of(server, conversation))
    assert before == OWN | {"pinned": before["pinned"]} and before["pinned"] > 16
    server.stop()

    server = start("--store-path", store, *SMALL)
    for _ in range(12):
        assert run(turn(server, conversation))["clamped"] == CLAMPED
    assert run(limits_of(server, conversation)) == CLAMPED
    server.stop()

    server = start("--store-path", store, *LARGE)
    assert "clamped" not in run(turn(server, conversation))
    assert run(limits_of(server, conversation)) == before
    server.stop()


def test_conversations_move_between_models_and_limits(start, store, other_model, tmp_path):
    key = ("--export-key-file", tmp_path / "shared.key")
    large = start("--store-path", store / "large", *LARGE, *key)
    small = start("--store-path", store / "small", *SMALL, *key, model=other_model)
    conversation = run(begin_with_own_window(large))
    there = bring_in(small, export(large, conversation))
    assert there["ringside"]["memory_len"] == CLAMPED["memory_len"]
    report = run(turn(small, there["id"]))
    assert report["retokenised"] is True and report["clamped"].items() <= CLAMPED.items()
    assert "retokenised" not in run(turn(small, there["id"]))

    back = bring_in(large, export(small, there["id"]))
    assert run(limits_of(large, back["id"])).items() >= OWN.items()
    report = run(turn(large, back["id"]))
    assert report["retokenised"] is True and "clamped" not in report
    small.stop()
    large.stop()
