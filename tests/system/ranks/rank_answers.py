"""What a model answers that several ranks share, threads or processes: the same as one does, until a rank is lost."""

from conversation import Conversation, answer_text, reused
from server_process import run, wait_for
from wire import TERMINAL

GREEDY = {"temperature": 0, "ignore_eos": True}
QUESTIONS = [("Tell me something long about the sea and the ships that sail on it.", 60), ("And then?", 40), ("And in the end?", 40),
             ("And after that?", 30), ("Is that all?", 20)]


async def ask(port, id, question, tokens):
    async with Conversation(port, id) as talk:
        answer = await talk.ask(question, max_output_tokens=tokens, **GREEDY)
        return talk.id, answer


def answers_of(server, questions):
    """The answers of a server to the questions of one conversation."""
    texts, id = [], None
    for question, tokens in questions:
        id, answer = run(ask(server.port, id, question, tokens))
        texts.append(answer_text(answer))
    server.stop()
    return texts


def answers_in_turn(starts, questions):
    """The same where each question goes to a server of its own, which finds the cache that the one before has stored."""
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


def lose_turn(server, harm):
    """Does `harm` while a turn runs, which must end with an error: the conversation, its items before, and the error."""
    async def lose():
        async with Conversation(server.port) as talk:
            await talk.ask("Hello.", max_output_tokens=8, **GREEDY)
            items = await talk.items()
            await talk.begin("Tell me.", deltas=2, max_output_tokens=1 << 18, ignore_eos=True)
            harm()
            event = await talk.socket.receive()
            while event["type"] not in TERMINAL:
                event = await talk.socket.receive()
            # Nothing else runs in here meanwhile: the server waits for the answer to its close, so it is still there.
            wait_for(lambda: server.get("/readyz")[0] == 503, "/readyz to tell of the failure")
            return talk.id, items, event

    id, items, event = run(lose())
    assert event["type"] == "response.failed", event
    return id, items, event["response"]["error"]


def lose_rank(server, harm):
    """The same where `harm` silences the second process: the conversation and its items before."""
    id, items, error = lose_turn(server, harm)
    assert "rank 1 did not answer" in str(error), error
    return id, items


def goes_on(server, id, items):
    """The conversation has what it had, and is answered."""
    async def again():
        async with Conversation(server.port, id) as talk:
            assert (await talk.items())[: len(items)] == items
            await talk.ask("Still there?", max_output_tokens=4)

    run(again())
    server.stop()
