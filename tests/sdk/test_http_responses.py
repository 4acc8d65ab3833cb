"""The stock OpenAI SDK, sync and async: responses over HTTP, whole and streamed."""

import asyncio
import socket
import threading

import openai
import pytest
from turns import GREEDY, ask, check_order


@pytest.fixture
def run(server):
    """Runs a coroutine function with an asynchronous client."""

    def run(scenario):
        async def main():
            async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="anything", max_retries=0) as client:
                return await asyncio.wait_for(scenario(client), 300)

        return asyncio.run(main())

    return run


def test_http_answer_equals_the_websocket_answer(client, connection):
    answer = client.responses.create(input="Say hello.", **GREEDY)
    assert answer.output_text == ask(connection, "Say hello.").output_text != ""
    assert answer.status in ("completed", "incomplete") and answer.usage.output_tokens > 0
    assert client.responses.retrieve(answer.id).output_text == answer.output_text


def test_a_streamed_answer_has_every_event(client):
    with client.responses.create(input="Say hello.", stream=True, **GREEDY) as stream:
        assert stream.response.headers["content-type"] == "text/event-stream"
        events = list(stream)
    check_order(events)
    assert events[-1].response.output_text == client.responses.create(input="Say hello.", **GREEDY).output_text


def test_the_stream_helper(client):
    with client.responses.stream(input="Say hello.", model="", temperature=0, max_output_tokens=200) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert final.output_text == text != ""


def test_chains_and_conversations(client):
    first = client.responses.create(input="My cat is called Tom.", **GREEDY)
    second = client.responses.create(input="What is my cat called?", previous_response_id=first.id, **GREEDY)
    assert "Tom" in second.output_text
    assert second.usage.input_tokens_details.cached_tokens > 0
    conversation = client.conversations.create()
    for text in ("My dog is called Rex.", "What is my dog called?"):
        answer = client.responses.create(input=text, conversation=conversation.id, **GREEDY)
    assert "Rex" in answer.output_text and answer.conversation.id == conversation.id
    assert [item.role for item in client.conversations.items.list(conversation.id, order="asc")] == [
        "user", "assistant", "user", "assistant"]
    again = client.responses.create(input=[*answer.output, {"role": "user", "content": "Thanks."}], **GREEDY)
    assert again.output_text


def test_background_poll_and_cancel(client):
    begun = client.responses.create(input="Say hello.", background=True, **GREEDY)
    assert begun.status in ("queued", "in_progress") and begun.background is True
    while (response := client.responses.retrieve(begun.id)).status in ("queued", "in_progress"):
        pass
    assert response.output_text == client.responses.create(input="Say hello.", **GREEDY).output_text
    endless = client.responses.create(input="Tell me a story.", background=True, max_output_tokens=1024,
                                      extra_body={"ignore_eos": True})
    assert client.responses.cancel(endless.id).status == "cancelled"
    assert client.responses.retrieve(endless.id).status == "cancelled"


def test_unstored_response_is_not_found(client):
    answer = client.responses.create(input="Say hello.", store=False, **GREEDY)
    assert answer.output_text
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answer.id)


def test_counts_input_tokens(client):
    first = client.responses.create(input="Say hello.", instructions="Be brief.", **GREEDY)
    counted = client.responses.input_tokens.count(
        input="And now?", previous_response_id=first.id, instructions="Be brief.")
    assert counted.object == "response.input_tokens"
    second = client.responses.create(input="And now?", previous_response_id=first.id, instructions="Be brief.", **GREEDY)
    assert counted.input_tokens == second.usage.input_tokens > first.usage.input_tokens


@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_status_codes(client, stream):
    with pytest.raises(openai.BadRequestError) as error:
        client.responses.create(input="x", previous_response_id="resp_none", stream=stream)
    assert error.value.code == "previous_response_not_found" and error.value.param == "previous_response_id"
    with pytest.raises(openai.NotFoundError) as error:
        client.responses.create(input="x", model="no-such-model", stream=stream)
    assert error.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as error:
        client.responses.create(input="x", stream=stream, extra_body={"grammar": "root ::= [0-9]"})
    assert error.value.param == "grammar"


def test_retry_header_returns_the_first_response(client):
    first = client.responses.create(input="Say hello.", **GREEDY)
    again = client.responses.create(input="Say hello.", extra_headers={"x-stainless-retry-count": "1"}, **GREEDY)
    assert again == first
    assert client.responses.create(input="Say hello.", **GREEDY).id != first.id


class LosesAnswers:
    """A proxy that forwards each request and drops the answers to the first ones."""

    def __init__(self, server, losses):
        self.server, self.losses, self.requests = server, losses, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.requests += 1
            threading.Thread(target=self.serve, args=(client, self.requests <= self.losses), daemon=True).start()

    def serve(self, client, lose):
        server = socket.create_connection(("127.0.0.1", self.server.port))
        threading.Thread(target=self.pump, args=(client, server, False), daemon=True).start()
        self.pump(server, client, lose)

    @staticmethod
    def pump(source, target, lose):
        """Forwards data, or closes both connections instead."""
        try:
            while (data := source.recv(1 << 16)) and not lose:
                target.sendall(data)
        except OSError:
            pass  # the other direction has closed
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)  # close() alone does not notify the peer while the other direction reads
            except OSError:
                pass


def test_sdk_retries_generate_once(client, server):
    proxy = LosesAnswers(server, losses=2)
    conversation = client.conversations.create()
    with openai.OpenAI(base_url=proxy.url, api_key="anything", max_retries=2) as retrying:
        answer = retrying.responses.create(input="Say hello.", conversation=conversation.id, **GREEDY)
    assert proxy.requests == 3 and answer.output_text
    items = list(client.conversations.items.list(conversation.id, order="asc"))
    assert [item.role for item in items] == ["user", "assistant"]
    assert items[1].content[0].text == answer.output_text
    proxy.listener.close()


def test_async(run):
    async def scenario(client):
        answer = await client.responses.create(input="Say hello.", **GREEDY)
        stream = await client.responses.create(input="Say hello.", stream=True, **GREEDY)
        check_order(events := [event async for event in stream])
        assert events[-1].response.output_text == answer.output_text
        async with client.responses.stream(input="Say hello.", model="", temperature=0, max_output_tokens=200) as helper:
            final = await helper.get_final_response()
        assert final.output_text
        next_one = await client.responses.create(input="Again.", previous_response_id=answer.id, **GREEDY)
        assert next_one.previous_response_id == answer.id
        begun = await client.responses.create(input="Tell me.", background=True, max_output_tokens=1024,
                                              extra_body={"ignore_eos": True})
        assert (await client.responses.cancel(begun.id)).status == "cancelled"
        counted = await client.responses.input_tokens.count(input="Say hello.")
        assert counted.input_tokens == answer.usage.input_tokens
        several = await asyncio.gather(*(client.responses.create(input=f"Say {i}.", **GREEDY) for i in range(6)))
        assert len({response.id for response in several}) == 6

    run(scenario)
