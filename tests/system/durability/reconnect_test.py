"""A client that repeatedly loses its connection in mid-answer ends up with the server's text: every event once.

    RINGSIDE_RECONNECTS=1000 scripts/python tests/system/durability/reconnect_test.py

Each talker receives long answers over connections that end at random points: cut without a close, taken over by another
socket, or replaced by a GET of the response's stream, by a snapshot, or by a repetition of the request. Only switches
that found the answer still running are counted.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tiny_model  # noqa: E402
from answer import Answer  # noqa: E402
from server_process import ServerProcess  # noqa: E402
from wire import TERMINAL, Http, Socket  # noqa: E402

TALKERS = 6
ANSWER_TOKENS = 3000
MOST_EVENTS = 100  # received before the next switch
SUPERSEDED = 4409
FLAGS = ["--slots", 8, "--memory-len", 256, "--threads", 1, "--durability", "token"]


class Talker:
    def __init__(self, port, seed, tally):
        self.port, self.tally = port, tally
        self.rng = random.Random(seed)
        self.http = Http(port)
        self.socket, self.resumed, self.epoch = None, False, None

    async def run(self):
        while self.tally["reconnects"] < self.tally["wanted"]:
            await self.answer()
        self.http.close()

    async def answer(self):
        status, made = await self.http.call("POST", "/v1/conversations", {})
        assert status == 200, made
        self.id, self.epoch = made["id"], None
        answer = Answer()
        self.request = {"type": "response.create", "conversation": self.id, "input": f"Tell {self.rng.random()}.",
                        "metadata": {"client_request_id": f"{self.rng.random()}"}, "max_output_tokens": ANSWER_TOKENS,
                        "seed": self.rng.randrange(2**31), "ignore_eos": True}
        self.socket, self.resumed = await Socket.open(self.port), False
        await self.socket.send(self.request)
        await self.listen(answer, 1)  # the answer may not have started before that
        while answer.final is None:
            await self.listen(answer, self.rng.randrange(MOST_EVENTS))
            if answer.final is None:
                changes, odds = (self.cut, self.take_over, self.stream, self.snapshot, self.repeat), (5, 2, 2, 1, 1)
                (change,) = self.rng.choices(changes, odds)
                await change(answer)
                self.tally[change.__name__] = self.tally.get(change.__name__, 0) + 1
        await self.socket.close()
        await self.compare(answer)

    async def listen(self, answer, events):
        for _ in range(events):
            if answer.hear(await self.socket.receive()):
                return

    async def resume(self, answer, socket):
        known = {} if self.epoch is None else {"epoch": self.epoch}
        resumed = await socket.resume(self.id, after=answer.seq, **known)
        assert resumed["session_present"] and resumed["replay"] in ("events", "none"), resumed
        self.epoch = resumed["epoch"]
        self.tally["reconnects"] += resumed["active_response_id"] is not None
        self.socket, self.resumed = socket, True

    async def cut(self, answer):
        """The socket disappears without a close."""
        self.socket.abort()
        await self.resume(answer, await Socket.open(self.port))

    async def take_over(self, answer):
        """A second socket resumes while the first still listens: the first is closed if it had resumed, too."""
        old, was_resumed = self.socket, self.resumed
        await self.resume(answer, await Socket.open(self.port))
        if was_resumed:
            code = await old.read_to_close()
            assert code == SUPERSEDED, code
        old.abort()

    async def stream(self, answer):
        """An HTTP-only client continues with server-sent events; sometimes it drops those too."""
        self.socket.abort()
        most = self.rng.choice((self.rng.randrange(MOST_EVENTS), 10**9))
        heard = 0
        async for event in self.http.stream(f"/v1/responses/{answer.id}?stream=true&starting_after={answer.number}"):
            self.tally["reconnects"] += heard == 0 and event["type"] not in TERMINAL
            heard += 1
            if answer.hear(event) or heard >= most:
                break
        if answer.final is None:
            await self.resume(answer, await Socket.open(self.port))

    async def snapshot(self, answer):
        """A client without state gets the text so far, then the rest."""
        self.socket.abort()
        self.socket, self.resumed = await Socket.open(self.port), True
        resumed = await self.socket.resume(self.id)
        self.epoch = resumed["epoch"]
        if resumed["active_response_id"] is None:
            return await self.refetch(answer)
        assert resumed["replay"] == "snapshot", resumed
        told = await self.socket.receive()
        assert told["type"] == "ringside:session.snapshot" and told["response_id"] == answer.id, told
        assert told["text"].startswith(answer.text), (answer.text, told)
        answer.text = told["text"]
        answer.number += told["next_seq"] - 1 - answer.seq
        answer.seq = told["next_seq"] - 1
        self.tally["reconnects"] += 1

    async def repeat(self, answer):
        """A client that does not know whether its request arrived repeats it and gets the same answer from the
        beginning."""
        self.socket.abort()
        self.socket, self.resumed = await Socket.open(self.port), False
        await self.socket.send(self.request)
        again = Answer()
        while again.number < answer.number and not again.hear(await self.socket.receive()):
            pass
        assert again.id == answer.id and again.text.startswith(answer.text), (answer.text, again.text)
        answer.__dict__.update(again.__dict__)
        self.tally["reconnects"] += answer.final is None

    async def refetch(self, answer):
        """The answer ended in the meantime: the client fetches it."""
        status, answer.final = await self.http.call("GET", f"/v1/responses/{answer.id}")
        assert status == 200, answer.final
        answer.text = answer.final["output"][0]["content"][0]["text"]

    async def compare(self, answer):
        items = await self.http.items(self.id)
        assert items == [("user", self.request["input"]), ("assistant", answer.text)], (self.id, items, answer.text)
        status, stored = await self.http.call("GET", f"/v1/responses/{answer.id}")
        assert status == 200 and stored["output"] == answer.final["output"], (stored, answer.final)
        assert stored["usage"]["output_tokens"] == ANSWER_TOKENS, stored
        status, _ = await self.http.call("DELETE", f"/v1/conversations/{self.id}")
        assert status == 200
        self.tally["answers"] = self.tally.get("answers", 0) + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    tally = {"reconnects": 0, "wanted": int(os.environ.get("RINGSIDE_RECONNECTS", 1000))}

    async def run(port):
        await asyncio.gather(*(Talker(port, options.seed + n, tally).run() for n in range(TALKERS)))

    with tempfile.TemporaryDirectory(prefix="ringside-reconnect-") as folder:
        model = tiny_model.make(f"{folder}/tiny.gguf")
        with ServerProcess(model, *FLAGS, "--store-path", f"{folder}/store", folder=folder) as server:
            server.wait_until_ready()
            asyncio.run(run(server.port))
            server.stop()
    print(tally)


if __name__ == "__main__":
    main()
