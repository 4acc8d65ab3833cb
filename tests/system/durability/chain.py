"""Answers linked only by `previous_response_id`, for clients of the kill test.

A chain has no name: the id of its last answer identifies it. At most one of its requests is open when the server dies.
"""

from after_crash import ENDED
from record import Turn
from wire import Socket, text_of

LONGEST = 12


class Chain:
    def __init__(self):
        self.answers = []  # (response id, text), acknowledged
        self.open = None  # the Turn without a known outcome

    def request(self, turn):
        where = {"previous_response_id": self.answers[-1][0]} if self.answers else {}
        return {"type": "response.create", "input": turn.text, "metadata": {"client_request_id": turn.request_id}, **where,
                **turn.fields}

    async def turn(self, record, rng, socket):
        record.marks += 1
        fields = {"max_output_tokens": rng.randint(1, 12), "temperature": rng.choice((0, 1)), "seed": rng.randrange(2**31)}
        turn = self.open = Turn(f"request {record.marks}", f"chain: {rng.randrange(10**6)}", fields)
        record.note("chain turn?", after=self.answers[-1:], request=turn.request_id)
        await socket.send(self.request(turn))
        ended = False
        while not ended:
            event = await socket.receive()
            record.note("heard", request=turn.request_id, event=event)
            ended = turn.hear(event)
        response = event["response"]
        assert text_of(response) == turn.heard, (turn.heard, response)
        # The response continues the whole chain, whatever died in between.
        assert response["previous_response_id"] == (self.answers[-1][0] if self.answers else None), response
        assert (response["ringside"]["source"] == "new") == (not self.answers), (self.answers, response)
        self.answers.append((turn.response_id, turn.heard))
        self.open = None
        record.turns += 1
        record.counts["chained"] += 1

    async def settle(self, record, http):
        """Checks after a restart: every acknowledged answer is present; the open request ran once, or runs now."""
        turn, self.open = self.open, None
        for id, text in self.answers:
            status, response = await http.call("GET", f"/v1/responses/{id}")
            assert status == 200 and text_of(response) == text, (id, text, response)
        if turn is None:
            return
        record.counts["open chain"] += 1
        if turn.response_id is None:
            # A repeated request returns the first answer, if there was one.
            turn.response_id = await self.ask(http.port, turn)
            assert await self.ask(http.port, turn) == turn.response_id, f"generated twice: {turn.request_id}"
        status, response = await http.call("GET", f"/v1/responses/{turn.response_id}")
        assert status == 200 and response["status"] in ENDED, (turn.request_id, response)
        text = text_of(response)
        assert text.startswith(turn.heard), f"acknowledged text lost: {turn.request_id}, {turn.heard!r}, {response}"
        self.answers.append((turn.response_id, text))

    async def ask(self, port, turn):
        socket = await Socket.open(port)
        try:
            request = self.request(turn)
            del request["type"]
            events = await socket.ask(**request)
            assert events[0]["type"] == "response.created", (turn.request_id, events)
            return events[0]["response"]["id"]
        finally:
            await socket.close()
