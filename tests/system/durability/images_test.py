"""Conversations with images on a server that is killed or stopped: what follows equals an undisturbed conversation.

    scripts/python -m pytest tests/system/durability/images_test.py
"""

import base64
import hashlib

import pytest
import tiny_vision
from conversation import Conversation, answer_text, reused
from server_process import run

GREEDY = {"temperature": 0, "ignore_eos": True, "max_output_tokens": 24, "include": ["message.output_text.logprobs"]}
PICTURES = [tiny_vision.data_url(tiny_vision.noise(48, seed)) for seed in range(3)]


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny_vision.make(tmp_path_factory.mktemp("vision") / "tiny")


def question(text, *pictures):
    parts = [{"type": "input_image", "image_url": url} for url in pictures]
    return [{"role": "user", "content": [*parts, {"type": "input_text", "text": text}]}]


def tokens_of(response):
    """The answer's tokens with their probabilities, and the length of its prompt."""
    (part,) = response["output"][0]["content"]
    return [(entry["bytes"], entry["logprob"]) for entry in part["logprobs"]], response["usage"]["input_tokens"]


async def digests(talk):
    """Of the image files in the conversation, as a client receives them."""
    status, page = await talk.http.call("GET", f"/v1/conversations/{talk.id}/items?order=asc&limit=100")
    assert status == 200, page
    return [digest_of(part["image_url"]) for item in page["data"] for part in item["content"] if part["type"] == "input_image"]


def digest_of(url):
    return hashlib.sha256(base64.b64decode(url.split(",")[1])).hexdigest()


class Story:
    """Turns with images, each on a server that `between` may have replaced."""

    def __init__(self, server, between):
        self.server, self.between, self.id, self.answers, self.reports = server, between, None, [], []

    def turn(self, text, *pictures, id=None):
        async def ask():
            async with Conversation(self.server.port, id or self.id) as talk:
                response = await talk.ask(question(text, *pictures), **GREEDY)
                self.answers.append(tokens_of(response))
                self.reports.append(reused(response))
                return talk.id

        asked = run(ask())
        self.id = self.id or asked
        self.server = self.between(self.server)

    def fork(self, at):
        async def fork():
            async with Conversation(self.server.port, self.id) as talk:
                await talk.socket.send({"type": "ringside:session.fork", "session": self.id, "at": at})
                return (await talk.socket.receive())["session"]

        child = run(fork())
        self.server = self.between(self.server)
        return child

    def rewind(self, to):
        async def rewind():
            async with Conversation(self.server.port, self.id) as talk:
                await talk.socket.send({"type": "ringside:session.rewind", "session": self.id, "to": to})
                assert (await talk.socket.receive())["type"] == "ringside:session.rewound"

        run(rewind())
        self.server = self.between(self.server)

    def digests(self, id=None):
        async def fetch():
            async with Conversation(self.server.port, id or self.id) as talk:
                return await digests(talk)

        return run(fetch())


def tell(server, between):
    """Images in the first and third turn, a fork behind the first, and a rewind that drops the second image."""
    story = Story(server, between)
    story.turn("What is this?", PICTURES[0])
    story.turn("And now?")
    child = story.fork(2)
    story.turn("And this?", PICTURES[1])
    assert story.digests() == [digest_of(PICTURES[0]), digest_of(PICTURES[1])]
    story.turn("Both?", id=child)
    story.turn("Another?", PICTURES[2], id=child)
    assert story.digests(child) == [digest_of(PICTURES[0]), digest_of(PICTURES[2])]
    story.rewind(4)
    assert story.digests() == [digest_of(PICTURES[0])]
    story.turn("Again?", PICTURES[1])
    assert story.digests() == [digest_of(PICTURES[0]), digest_of(PICTURES[1])]
    story.server.stop()
    return story


@pytest.fixture
def undisturbed(start):
    return tell(start(), lambda server: server)


def test_a_kill_after_every_turn_changes_no_token(start, store, undisturbed):
    def kill(server):
        server.kill()
        return start("--store-path", store)

    story = tell(start("--store-path", store), kill)
    assert story.answers == undisturbed.answers
    assert len({str(tokens) for tokens, _ in story.answers}) == len(story.answers)


def test_a_restart_after_every_turn_restores_the_images_tokens(start, store, undisturbed):
    def restart(server):
        server.stop()
        return start("--store-path", store)

    story = tell(start("--store-path", store), restart)
    assert story.answers == undisturbed.answers
    source, found, computed = story.reports[1]  # the turn after the first image
    assert source == "disk" and found > computed, story.reports


def test_an_answer_about_an_image_continues_after_a_kill(start, store):
    fields = {"temperature": 0, "ignore_eos": True}

    async def begin(server):
        async with Conversation(server.port) as talk:
            id, heard = await talk.begin(question("What is this?", PICTURES[0]), deltas=10, max_output_tokens=100_000, **fields)
            server.kill()
            return talk.id, id, heard

    async def go_on(server, conversation, id):
        async with Conversation(server.port, conversation) as talk:
            assert await digests(talk) == [digest_of(PICTURES[0])]
            cut = await talk.response(id)
            assert cut["incomplete_details"]["reason"] == "interrupted"
            more = await talk.ask([], max_output_tokens=24, **fields)
            return answer_text(cut), answer_text(more), cut["usage"]["output_tokens"] + more["usage"]["output_tokens"]

    async def whole(server, tokens, picture):
        async with Conversation(server.port) as talk:
            return answer_text(await talk.ask(question("What is this?", picture), max_output_tokens=tokens, **fields))

    conversation, id, heard = run(begin(start("--store-path", store, "--session-len", 1 << 20)))
    server = start("--store-path", store, "--session-len", 1 << 20)
    text, more, tokens = run(go_on(server, conversation, id))
    assert text.startswith(heard) and text + more == run(whole(server, tokens, PICTURES[0]))
    assert text + more != run(whole(server, tokens, PICTURES[1]))
    server.stop()
