"""A model with recurrent layers: stops, kills and restarts change no word, nor do other conversations.

    scripts/python -m pytest tests/system/durability/hybrid_test.py
"""

import pytest
import tiny_hybrid
from conversation import Conversation, answer_text
from restart_test import (  # noqa: F401: run with this file's model
    test_answer_cut_by_a_crash_continues_with_the_same_words,
    test_every_conversation_is_restored_from_disk,
    test_restart_after_every_turn_changes_no_word,
)
from server_process import run
from wire import Http

GREEDY = {"temperature": 0, "ignore_eos": True, "max_output_tokens": 24}


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny_hybrid.make(tmp_path_factory.mktemp("hybrid") / "hybrid.gguf")


def questions(who):
    return [f"I am {who}. Remember {who * 3}, question {n}." for n in range(5)]


async def say(server, texts, id=None):
    async with Conversation(server.port, id) as talk:
        return talk.id, [answer_text(await talk.ask(text, **GREEDY)) for text in texts]


def test_conversations_that_take_each_others_slots_equal_those_alone(start, store):
    """Twelve conversations over two slots, a small host cache and the disk: every turn restores a state."""
    people = [f"P{n}" for n in range(12)]
    server = start("--slots", 2)
    alone = {who: run(say(server, questions(who)))[1] for who in people}
    server.stop()
    server = start("--slots", 2, "--store-path", store, "--host-cache-mb", 1)
    ids, said = dict.fromkeys(people), {who: [] for who in people}
    for turn in range(5):
        for who in people:
            ids[who], texts = run(say(server, [questions(who)[turn]], ids[who]))
            said[who] += texts
        if turn == 2:
            server.kill()
            server = start("--slots", 2, "--store-path", store, "--host-cache-mb", 1)
    assert said == alone
    server.stop()


def test_an_edited_history_equals_a_fresh_one_and_recomputes_little(start):
    """Full histories whose answers are not those that were sampled: turn by turn, the last question again, another one,
    and one in place of the second."""

    async def complete(server, messages):
        http = Http(server.port)
        status, answer = await http.call("POST", "/v1/chat/completions", {
            "messages": messages, "temperature": 0, "ignore_eos": True, "max_tokens": 24, "logprobs": True})
        http.close()
        assert status == 200, answer
        usage = answer["usage"]
        computed = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
        return answer["choices"][0]["logprobs"], computed

    def user(text):
        return {"role": "user", "content": text}

    history, asked = [], []
    for question in questions("long " * 40):
        history.append(user(question))
        asked.append(list(history))
        history.append({"role": "assistant", "content": f"About {question[-11:]}: yes."})
    asked.append(history[:-1])
    asked.append(history[:-2] + [user("Something else.")])
    asked.append(history[:2] + [user("Another second question.")])
    server = start()
    told = [run(complete(server, messages)) for messages in asked]
    server.stop()
    new = [900] * 5 + [1, 70, 70]  # at most so many tokens, and a chunk before them
    for messages, (logprobs, computed), most in zip(asked, told, new):
        fresh = start()
        assert run(complete(fresh, messages))[0] == logprobs
        fresh.stop()
        assert computed <= most + 64
