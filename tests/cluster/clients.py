"""Clients of the cluster that append turns, read and list conversations, and record every operation in a history.

The question of a turn is a number that no other turn has. Turns go through the proxy; reads go to a server of the
reader's choice, because each must know everything.
"""

import asyncio
import random
import time
from collections import Counter

from cluster import PORT, PROXY_PORT
from history import Append, Broken, Position, Read
from wire import LOST, TERMINAL, Http, Socket, text_of

TIMEOUT_S = 10.0
RESUMES = 24  # tries to continue an answer
REFUSED = {400, 409, 429}  # the request has no effect
UNREACHABLE = (*LOST, OSError, TimeoutError, ValueError, IndexError, KeyError)
# Tokens of the tiny model's template: before and after the first question, and after an answer that ended so.
AROUND_QUESTION = 17
AFTER_ANSWER = {"completed": 1, "max_output_tokens": 2}


class Recorder:
    """The history, the conversations and the next number."""

    def __init__(self, history, seed=0):
        self.history, self.rng = history, random.Random(seed)
        self.conversations, self.next_value = [], 100_000  # all numbers have six digits
        self.counts = Counter()
        self.stopped = False

    def append(self, conversation):
        self.next_value += 1
        return self.history.add(Append(conversation, self.next_value, time.monotonic()))

    def some_conversation(self):
        return self.rng.choice(self.conversations)

    def broken(self, conversation, text):
        self.history.add(Broken(conversation, text))

    def finish(self, turn, response):
        """Records the end of a turn from its response object."""
        turn.end, turn.outcome, turn.answer = time.monotonic(), "ok", text_of(response)
        end = (response["incomplete_details"] or {}).get("reason") or response["status"]
        self.counts[end] += 1
        usage, report = response["usage"], response["ringside"]
        if end in AFTER_ANSWER:
            before = usage["input_tokens"] - AROUND_QUESTION - len(str(turn.value))
            turn.tokens = (before, usage["total_tokens"] + AFTER_ANSWER[end])
        if "chain" in report:
            self.history.add(Position(turn.conversation, report["seq"], report["chain"]))

    def refuse(self, turn, status, error):
        """Records an error; returns whether the turn certainly has no effect."""
        self.counts[f"{status} {(error.get('error') or {}).get('code')}"] += 1
        if status == 404:
            now = time.monotonic()
            self.history.add(Read(turn.conversation, turn.begin, now, None, "a turn"))
        return status in REFUSED


def request(rng, turn, repeatable):
    """A turn of a few tokens, sometimes of many."""
    body = {"conversation": turn.conversation, "input": str(turn.value), "temperature": rng.choice((0, 1)), "seed": rng.randrange(1 << 31),
            "max_output_tokens": rng.randint(100, 400) if rng.random() < 0.1 else rng.randint(1, 12)}
    return body | ({"metadata": {"client_request_id": str(turn.value)}} if repeatable else {})


class HttpClient:
    """Appends over HTTP. After an unknown outcome it repeats its request, or gives it up."""

    def __init__(self, recorder, seed):
        self.recorder, self.rng = recorder, random.Random(seed)
        self.http = Http(PROXY_PORT)

    async def run(self):
        while not self.recorder.stopped:
            await self.turn(self.recorder.some_conversation())
            await asyncio.sleep(self.rng.uniform(0, 0.1))
        self.http.close()

    async def turn(self, conversation, tries=3):
        """Returns the Append. It is `failed` only if all tries were refused."""
        turn = self.recorder.append(conversation)
        repeatable = self.rng.random() < 0.7
        body = request(self.rng, turn, repeatable)
        unknown = False
        for _ in range(tries if repeatable else 1):
            try:
                status, answer = await asyncio.wait_for(self.http.call("POST", "/v1/responses", body), TIMEOUT_S)
            except UNREACHABLE as error:
                self.recorder.counts[f"lost: {type(error).__name__}"] += 1
                self.http.close()
                unknown = True
            else:
                if status == 200 and answer["status"] in ("completed", "incomplete"):
                    self.recorder.finish(turn, answer)
                    return turn
                if status != 200 and not unknown and self.recorder.refuse(turn, status, answer if isinstance(answer, dict) else {}):
                    turn.outcome, turn.end = "failed", time.monotonic()
                    return turn
                unknown = True
            await asyncio.sleep(self.rng.uniform(0.1, 0.5))
        return turn


class Talk:
    """A socket client's place in a conversation."""

    def __init__(self):
        self.epoch, self.after = None, None


class SocketClient:
    """Appends over a WebSocket. After a lost connection it resumes its answer through the proxy."""

    def __init__(self, recorder, seed):
        self.recorder, self.rng = recorder, random.Random(seed)
        self.socket, self.talks = None, {}

    async def run(self):
        while not self.recorder.stopped:
            try:
                await self.turn(self.recorder.some_conversation())
            except UNREACHABLE as error:
                self.recorder.counts[f"lost socket: {type(error).__name__}"] += 1
                self.drop()
            await asyncio.sleep(self.rng.uniform(0, 0.1))
        self.drop()

    def drop(self):
        if self.socket:
            self.socket.abort()
        self.socket = None

    async def open(self):
        self.drop()
        self.socket = await asyncio.wait_for(Socket.open(PROXY_PORT), TIMEOUT_S)

    async def receive(self):
        return await asyncio.wait_for(self.socket.receive(), TIMEOUT_S)

    async def turn(self, conversation):
        self.talk = self.talks.setdefault(conversation, Talk())
        self.response, self.contiguous, self.talk.after = None, True, None
        turn = self.recorder.append(conversation)
        if self.socket is None or self.rng.random() < 0.05:
            await self.open()
        await self.socket.send({"type": "response.create", **request(self.rng, turn, True)})
        following, attached = True, False
        for _ in range(RESUMES):
            try:
                if following:
                    await self.follow(turn)
                    if attached:
                        self.drop()  # it would receive every turn of the conversation
                    return
                following = attached = await self.resume(turn)
                if not following:
                    break
                continue
            except UNREACHABLE as error:
                self.recorder.counts[f"lost {'answer' if following else 'resume'}: {type(error).__name__}"] += 1
            following = False
            if self.response is None:
                break  # never learned that it is stored
            await asyncio.sleep(self.rng.uniform(0.1, 0.5))
        self.drop()

    async def follow(self, turn):
        """Reads events to the end of our answer, or to the error instead."""
        while True:
            event = await self.receive()
            kind = event["type"]
            if kind == "error":
                if self.recorder.refuse(turn, event.get("status"), event) and self.response is None:
                    turn.outcome, turn.end = "failed", time.monotonic()
                return
            if "ringside" in event:
                self.count(turn, event)
            if kind == "response.created" and event["response"]["metadata"].get("client_request_id") == str(turn.value):
                self.response = event["response"]["id"]
                if event["response"]["status"] != "failed":  # it was stored
                    turn.started = turn.started or time.monotonic()
            elif kind == "ringside:session.snapshot":
                turn.received, self.contiguous = event["text"], False
            elif self.response and kind == "response.output_text.delta":
                turn.received += event["delta"]
            elif kind in TERMINAL and event["response"]["id"] == self.response:
                return self.end(turn, event["response"])

    def count(self, turn, event):
        """Every event comes once and in order, over all connections of an epoch."""
        seq = event["ringside"]["seq"]
        if self.talk.after is not None and seq <= self.talk.after and self.response:
            self.recorder.broken(turn.conversation, f"event {seq} came after event {self.talk.after} in epoch {self.talk.epoch}")
        self.talk.after = seq

    def end(self, turn, response):
        if response["status"] not in ("completed", "incomplete"):
            self.recorder.counts[response["status"]] += 1
            return
        self.recorder.finish(turn, response)
        if self.contiguous and turn.answer != turn.received:
            self.recorder.broken(turn.conversation, f"turn {turn.value} sent {turn.received!r} and ended as {turn.answer!r}")

    async def resume(self, turn):
        """Continues our answer on a new connection. Returns whether its events follow; else it has ended."""
        await self.open()
        place = {} if self.talk.epoch is None else {"epoch": self.talk.epoch, "after": self.talk.after}
        await self.socket.send({"type": "ringside:session.resume", "session": turn.conversation, **place})
        resumed = await self.receive()
        if resumed["type"] == "ringside:session.failed":
            self.recorder.counts[f"resume {resumed['error']['code']}"] += 1
            raise ConnectionError("refused here; perhaps the owner is alive")
        self.recorder.counts[f"resumed: {resumed['replay']}"] += 1
        if not resumed["session_present"]:
            self.recorder.history.add(Read(turn.conversation, turn.begin, time.monotonic(), None, "a resume"))
            return False
        self.talk.epoch = resumed["epoch"]
        if resumed["replay"] == "events":
            return True
        self.talk.after, self.contiguous = None, False
        if resumed["active_response_id"] == self.response:
            return True
        http = Http(PROXY_PORT)
        try:
            status, response = await asyncio.wait_for(http.call("GET", f"/v1/responses/{self.response}"), TIMEOUT_S)
        finally:
            http.close()
        if status == 404:
            self.recorder.broken(turn.conversation, f"response {self.response} of turn {turn.value} is gone")
        elif status == 200:
            self.end(turn, response)
        return False


class Reader:
    """Reads at a random server, which may not own the conversation."""

    def __init__(self, recorder, seed, servers):
        self.recorder, self.rng, self.servers = recorder, random.Random(seed), list(servers)

    async def run(self):
        while not self.recorder.stopped:
            server = self.rng.choice(self.servers)
            action = self.rng.choice((self.read, self.read, self.locate, self.list))
            try:
                await asyncio.wait_for(action(server, self.recorder.some_conversation()), TIMEOUT_S)
            except UNREACHABLE as error:
                self.recorder.counts[f"lost read: {type(error).__name__}"] += 1
            await asyncio.sleep(self.rng.uniform(0, 0.1))

    async def read(self, server, conversation, final=False):
        """Reads a conversation's turns."""
        http, begin, items, after = Http(PORT, server.address), time.monotonic(), [], ""
        try:
            while True:
                path = f"/v1/conversations/{conversation}/items?order=asc&limit=100{after}"
                status, page = await http.call("GET", path)
                if status == 404:
                    items = None
                    break
                if status != 200:
                    self.recorder.counts[f"read {status}"] += 1
                    return False
                items += [(item["role"], item["content"][0]["text"]) for item in page["data"]]
                if not page["has_more"]:
                    break
                after = "&after=" + page["last_id"]
        finally:
            http.close()
        read = Read(conversation, begin, time.monotonic(), None if items is None else as_turns(items), server.name, final)
        self.recorder.history.add(read)
        self.recorder.counts["reads"] += 1
        return True

    async def locate(self, server, conversation):
        """Reads a conversation's position in its journal. A running turn's is not final."""
        http = Http(PORT, server.address)
        try:
            status, found = await http.call("GET", f"/v1/conversations/{conversation}")
        finally:
            http.close()
        if status == 200 and found["ringside"]["active_response_id"] is None:
            report = found["ringside"]
            self.recorder.history.add(Position(conversation, report["seq"], report["chain"], report["epoch"], server.name))
            self.recorder.counts["positions"] += 1

    async def list(self, server, _):
        """Every conversation is in the list of every server."""
        http, begin = Http(PORT, server.address), time.monotonic()
        try:
            status, page = await http.call("GET", "/v1/conversations?limit=100")
        finally:
            http.close()
        if status == 200:
            listed = {entry["id"] for entry in page["data"]}
            for conversation in set(self.recorder.conversations) - listed:
                self.recorder.history.add(Read(conversation, begin, time.monotonic(), None, f"the list of {server.name}"))
            self.recorder.counts["lists"] += 1


def as_turns(items):
    """(role, text) of items to (value, answer) of turns."""
    turns = []
    for role, text in items:
        if role == "user":
            turns.append((int(text), ""))
        else:
            value, stem = turns.pop()
            turns.append((value, stem + text))
    return tuple(turns)
