"""One conversation with a server, turn by turn, for sequential tests."""

from wire import TERMINAL, Http, Socket, text_of


class Conversation:
    """`async with Conversation(port) as talk:` creates a conversation; with an id it continues that one."""

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
        """Runs a turn and returns the finished response."""
        events = await self.socket.ask(conversation=self.id, input=text, **fields)
        assert events[-1]["type"] in ("response.completed", "response.incomplete"), events[-1]
        return events[-1]["response"]

    async def refused(self, text, /, **fields):
        """Runs a turn that must be refused and returns its error."""
        events = await self.socket.ask(conversation=self.id, input=text, **fields)
        assert events[-1]["type"] == "error" and len(events) == 1, events
        return events[-1]

    async def begin(self, text, deltas=1, **fields):
        """Starts a turn and reads `deltas` text deltas; returns the response id and the text so far."""
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
    """Returns the source of the answer's cache, and the numbers of reused and computed tokens."""
    report = response["ringside"]
    return report["source"], report["tokens_reused"], report["tokens_computed"]
