"""A model shared by several ranks, threads or processes, answers as a single one does, until a rank is lost."""

import json
import urllib.error
from concurrent.futures import ThreadPoolExecutor

from conversation import Conversation, answer_text, reused
from server_process import run, wait_for
from wire import TERMINAL, text_of

GREEDY = {"temperature": 0, "ignore_eos": True}
QUESTIONS = [("Tell me something long about the sea and the ships that sail on it.", 60), ("And then?", 40), ("And in the end?", 40),
             ("And after that?", 30), ("Is that all?", 20)]


async def ask(port, id, question, tokens):
    async with Conversation(port, id) as talk:
        answer = await talk.ask(question, max_output_tokens=tokens, **GREEDY)
        return talk.id, answer


def answers_of(server, questions):
    """A server's answers to the questions of one conversation."""
    texts, id = [], None
    for question, tokens in questions:
        id, answer = run(ask(server.port, id, question, tokens))
        texts.append(answer_text(answer))
    server.stop()
    return texts


def answers_in_turn(starts, questions):
    """As answers_of, with one server per question: each finds the cache that the previous one stored."""
    texts, id = [], None
    for start, (question, tokens) in zip(starts, questions):
        server = start()
        id, answer = run(ask(server.port, id, question, tokens))
        texts.append(answer_text(answer))
        if len(texts) > 1:
            source, found, computed = reused(answer)
            assert source == "disk" and found > computed, "what others saved is not computed anew"
        server.stop()
    return texts


def first_failure(server):
    """Polls /readyz until it answers 503; returns the reason, or the log of a server that has ended since the last poll."""
    def reason():
        try:
            status, body = server.get("/readyz")
        except urllib.error.URLError:
            return server.tail()
        return json.loads(body)["reason"] if status == 503 else None

    return wait_for(reason, "/readyz to report the failure")


def lose_turn(server, harm):
    """Calls `harm` during a turn, which must end as interrupted; returns the conversation, its items and the error."""
    async def lose():
        async with Conversation(server.port) as talk:
            await talk.ask("Hello.", max_output_tokens=8, **GREEDY)
            items = await talk.items()
            _, heard = await talk.begin("Tell me.", deltas=2, max_output_tokens=1 << 18, ignore_eos=True)
            # Asked from the start: on a busy machine the server may end before this loop has read all events.
            with ThreadPoolExecutor(1) as pool:
                probe = pool.submit(first_failure, server)
                harm()
                while (event := await talk.socket.receive())["type"] not in TERMINAL:
                    heard += event.get("delta", "")
                reason = probe.result()
            items += [("user", "Tell me."), ("assistant", heard)]
            assert event["response"]["error"]["message"] in reason
            return talk.id, items, event

    id, items, event = run(lose())
    assert event["type"] == "response.incomplete", event
    response = event["response"]
    assert response["incomplete_details"]["reason"] == "interrupted" and response["error"]["code"] == "unavailable", response
    assert text_of(response) == items[-1][1], (response, items)
    return id, items, response["error"]


def lose_rank(server, harm):
    """As lose_turn, where `harm` silences the second process; returns the conversation and its items."""
    id, items, error = lose_turn(server, harm)
    assert "process 1 did not respond" in error["message"], error
    return id, items


def continues_answer(server, id, items):
    """The conversation has everything that was received, its answer can be continued, and it takes new turns."""
    async def again():
        async with Conversation(server.port, id) as talk:
            assert await talk.items() == items
            more = await talk.ask([], max_output_tokens=4, **GREEDY)
            assert await talk.items() == [*items[:-1], ("assistant", items[-1][1] + answer_text(more))]
            await talk.ask("Still there?", max_output_tokens=4)

    run(again())
    server.stop()
