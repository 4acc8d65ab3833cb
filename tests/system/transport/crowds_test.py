"""Crowds: slow readers, mass reconnects, floods of frames, headers and connections. Well-behaved clients still receive
every event of every answer, and the server's memory stays within the bounds of
docs/operating/keys-and-tls.md.

    scripts/python -m pytest tests/system/transport/crowds_test.py
"""

import contextlib
import os
import threading
import time

import crowds
import pytest
from answer import Answer
from bare_socket import BareSocket, has_ended, serve
from crowds import MIB, Conversations, Listener
from server_process import wait_for

OUTBOX_BYTES = 4 * MIB
# Allocator slack; a sanitizer's allocator quarantines freed memory and adds red zones.
SLACK_BYTES = int(os.environ.get("RINGSIDE_ALLOCATOR_SLACK_MIB", "64")) * MIB


class Healthy:
    """Clients that run one answer after another while the block runs; a damaged answer fails the block."""

    def __init__(self, port, count=3, tokens=200):
        self.port, self.tokens, self.answers, self.ending, self.failure = port, tokens, 0, False, None
        self.conversations = Conversations(port).make(count)
        self.sockets = [BareSocket(port).open() for _ in self.conversations]
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.ending:
                heard = [Heard(self, one, id) for one, id in zip(self.sockets, self.conversations)]
                serve(heard, lambda one: one.answer.final is not None)
                self.answers += len(heard)
        except BaseException as error:  # re-raised on the main thread
            self.failure = error

    def __enter__(self):
        self.thread.start()
        wait_for(lambda: self.answers or self.failure, "a first answer")
        return self

    def __exit__(self, *failed):
        answers, self.ending = self.answers, True
        self.thread.join()
        for one in self.sockets:
            one.close()
        if not failed[0]:
            assert self.failure is None, self.failure
            assert self.answers > answers, "the last ones are answered, too"


class Heard:
    """One answer of a healthy client, which retries when asked to: a disk may fall behind for a moment."""

    def __init__(self, healthy, one, conversation):
        self.socket, self.head = one, ""
        self.question = one, conversation, healthy.tokens
        self.ask()

    def ask(self):
        self.answer = Answer()
        crowds.ask(*self.question)

    def fileno(self):
        return self.socket.fileno()

    @property
    def lost(self):
        return self.socket.lost

    def read(self):
        self.socket.read()
        for event in self.socket.events():
            if event["type"] == "error" and event["status"] == 429:
                time.sleep(event["error"]["retry_after_ms"] / 1000)
                self.ask()
            else:
                self.answer.hear(event)


def closes(server, code):
    return server.metrics().get(f'ringside_ws_close_total{{code="{code}"}}', 0)


@pytest.mark.parametrize("durability", ["none", "token"])
def test_slow_readers_are_disconnected_without_loss(start, store, durability):
    readers, lanes, tokens = 2, 16, 2200  # about 150 bytes of the outbox each
    flags = ["--store-path", store] if durability == "token" else []
    server = start("--slots", readers * lanes + 4, "--memory-len", 256, "--max-detached-tokens", 0, *flags)
    ids = Conversations(server.port).make(readers * lanes)
    with Healthy(server.port):
        before = server.resident_bytes()
        slow = crowds.slow_readers(server.port, [ids[i::readers] for i in range(readers)], tokens, logprobs=True)
        wait_for(lambda: closes(server, 1013) == readers, "slow readers are closed")
        assert server.metrics()["ringside_ws_slow_reader_total"] == readers
        # The backlog is freed; the text stays, with the log probabilities of the newest answers.
        most = readers * OUTBOX_BYTES + readers * lanes * tokens * 128 + SLACK_BYTES
        assert server.resident_bytes() - before < most, (server.resident_bytes() - before, most)
        heard = crowds.hear_all(server.port, ids)
    for one in slow:
        one.close()
    talk = Conversations(server.port)
    for one in heard:
        assert one.answer.final["usage"]["output_tokens"] == tokens and one.answer.final["status"] == "incomplete"
        assert talk.text_of_answer(one.conversation) == one.answer.text
    server.stop()


def test_lagging_readers_get_everything(start):
    readers, tokens = 4, 3000  # most of a megabyte of events each
    server = start("--slots", readers + 4, "--memory-len", 256)
    ids = Conversations(server.port).make(readers)
    with Healthy(server.port):
        before = server.resident_bytes()
        slow = crowds.slow_readers(server.port, [[id] for id in ids], tokens)
        wait_for(lambda: all(ended(server, id) for id in ids), "all answers have ended")
        assert server.resident_bytes() - before < readers * OUTBOX_BYTES + SLACK_BYTES
        answers = [Answer() for _ in slow]
        for one, answer in zip(slow, answers):
            one.widen()
            while answer.final is None:
                for event in one.events():
                    answer.hear(event)
                assert answer.final is not None or one.read(), "nobody is cut for having fallen behind"
            one.close()
    talk = Conversations(server.port)
    for id, answer in zip(ids, answers):
        assert answer.final["usage"]["output_tokens"] == tokens and answer.deltas <= tokens
        assert talk.text_of_answer(id) == answer.text
    assert closes(server, 1013) == 0
    server.stop()


def ended(server, id):
    status, body = server.get(f"/v1/conversations/{id}/items?order=desc&limit=1")
    return status == 200 and '"role":"assistant"' in body.replace(" ", "") and '"status":"in_progress"' not in body.replace(" ", "")


def test_all_clients_reconnect_at_once(start, store):
    sessions, running, tokens = 150, 20, 300
    server = start("--slots", running + 8, "--memory-len", 256, "--max-detached-tokens", 0, "--max-turns-per-owner", 0,
                   "--store-path", store)
    ids = Conversations(server.port).make(sessions)
    asking = [BareSocket(server.port).open() for _ in ids]
    for one, id in zip(asking, ids):
        crowds.ask(one, id, tokens if id in ids[:running] else 5)
    with Healthy(server.port):
        serve(asking, was_taken)
        for one in asking:
            one.close()
        for _ in range(2):
            cut = [Listener(server.port, id) for id in ids]
            serve(cut, lambda one: one.resumed is not None)
            for one in cut:
                one.socket.close()
        heard = crowds.hear_all(server.port, ids)
    talk = Conversations(server.port)
    for one in heard:
        assert one.answer.final["usage"]["output_tokens"] == (tokens if one.conversation in ids[:running] else 5)
        assert talk.text_of_answer(one.conversation) == one.answer.text
    server.stop()


def was_taken(one):
    """Whether the request was accepted, so that it is answered now or later."""
    events = one.events()
    assert not any(event["type"] == "error" for event in events), events
    return bool(events)


def test_floods_of_frames(start):
    server = start("--slots", 8, "--memory-len", 256)
    attackers = 4  # of each kind, concurrently
    with Healthy(server.port) as healthy:
        before = server.resident_bytes()
        for kind, blocks in crowds.FRAME_FLOODS.items():
            codes = at_once(attackers, lambda blocks=blocks: crowds.flood(server.port, *blocks))
            assert set(codes) <= crowds.FRAME_CODES.get(kind, crowds.FLOOD_CODES), (kind, codes)
        assert at_once(attackers, lambda: crowds.large_messages(server.port, 8)) == [8] * attackers
        assert server.resident_bytes() - before < attackers * 3 * OUTBOX_BYTES + SLACK_BYTES
        wait_for(lambda: server.metrics()["ringside_ws_connections"] == len(healthy.sockets), "the others are gone")
    server.stop()


def test_floods_of_request_heads(start):
    server = start("--slots", 8, "--memory-len", 256)
    attackers = 100
    with Healthy(server.port):
        before = server.resident_bytes()
        for kind, head in crowds.HEAD_FLOODS.items():
            connections = [crowds.connect(server.port) for _ in range(attackers)]
            for one in connections:
                with contextlib.suppress(ConnectionError):
                    one.sendall(head)
            if kind == "half a head":
                assert not any(has_ended(one) for one in connections), "they have their time"
            else:
                wait_for(lambda connections=connections: all(has_ended(one) for one in connections), kind)
            for one in connections:
                one.close()
        assert server.resident_bytes() - before < SLACK_BYTES
        assert server.get("/healthz")[0] == 200
    server.stop()


def test_a_flood_of_connections(start):
    most, refusal_room, crowd = 40, 64, 400
    server = start("--slots", 8, "--memory-len", 256, "--max-connections", most)
    with Healthy(server.port):
        before = server.resident_bytes()
        connections = [one for one in (crowds.connect(server.port) for _ in range(crowd)) if one]
        wait_for(lambda: sum(has_ended(one) for one in connections) >= crowd - most - refusal_room, "those beyond all room are cut")
        assert server.get("/v1/models")[0] == 200, "who speaks has a place before who does not"
        assert server.resident_bytes() - before < SLACK_BYTES
        for one in connections:
            one.close()
    server.stop()


def at_once(count, call):
    """Returns the results of `count` calls, each on its own thread."""
    results = []
    threads = [threading.Thread(target=lambda: results.append(call())) for _ in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(results) == count, "one has failed"
    return results
