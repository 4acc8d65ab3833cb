"""One conversation with a server, turn by turn, for tests that run straight through."""

from wire import TERMINAL, Http, Socket, text_of


class Conversation:
    """`async with Conversation(port) as talk:` makes a new one; with an id it goes on with that one."""

    def __init__(self, port, id=None):
        self.port, self.id = port, id

    async def __aenter__(self):
        self.http, self.socket = Http(self.port), await Socket.open(self.port)
        if self.id is None:
            status, made = await self.http.call("POST", "/v1/conversations", {})
            assert status == 200, made
            self.id = made["id"]
        return self

    async def __aexit__(self, *_):
        self.http.close()
        self.socket.abort()

    async def ask(self, text, /, **fields):
        """The finished response."""
        events = await self.socket.ask(conversation=self.id, input=text, **fields)
        assert events[-1]["type"] in ("response.completed", "response.incomplete"), events[-1]
        return events[-1]["response"]

    async def refused(self, text, /, **fields):
        """The error that a turn is refused with."""
        events = await self.socket.ask(conversation=self.id, input=text, **fields)
        assert events[-1]["type"] == "error" and len(events) == 1, events
        return events[-1]

    async def begin(self, text, deltas=1, **fields):
        """Starts a turn and reads so many deltas: the response's id and the text so far."""
        await self.socket.send({"type": "response.create", "conversation": self.id, "input": text, **fields})
        id, heard = None, ""
        while deltas:
            event = await self.socket.receive()
            assert event["type"] not in TERMINAL, event
            if event["type"] == "response.created":
                id = event["response"]["id"]
            elif event["type"] == "response.output_text.delta":
                heard += event["delta"]
                deltas -= 1
        return id, heard

    async def items(self):
        return await self.http.items(self.id)

    async def response(self, id):
        status, response = await self.http.call("GET", f"/v1/responses/{id}")
        assert status == 200, response
        return response


def answer_text(response):
    return text_of(response)


def reused(response):
    """Where the answer's cache came from, and the tokens that were found and computed."""
    report = response["ringside"]
    return report["source"], report["tokens_reused"], report["tokens_computed"]
