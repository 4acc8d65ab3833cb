"""The stock OpenAI SDK, sync and async: the text subset of the Realtime protocol."""

import asyncio

import openai
import pytest
import websockets
from openai.types.realtime.realtime_server_event import RealtimeServerEvent
from pydantic import TypeAdapter

EVENT_TYPE = TypeAdapter(RealtimeServerEvent)
ORDER = ["response.created", "response.output_item.added", "conversation.item.added", "response.content_part.added",
         "response.output_text.delta", "response.output_text.done", "response.content_part.done",
         "response.output_item.done", "conversation.item.done", "response.done"]


def message(text, role="user"):
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def check(event):
    """Validates the event against the SDK's own types."""
    EVENT_TYPE.validate_python(event.to_dict())
    return event


def read_to(connection, *types):
    events = [check(connection.recv())]
    while events[-1].type not in types:
        events.append(check(connection.recv()))
    return events


async def read_to_async(connection, *types):
    events = [check(await connection.recv())]
    while events[-1].type not in types:
        events.append(check(await connection.recv()))
    return events


def text_of(response):
    return "".join(part.text for item in response.output for part in item.content)


@pytest.fixture
def session(client):
    with client.realtime.connect(model=next(iter(client.models.list())).id) as connection:
        assert read_to(connection, "session.created")[0].session.output_modalities == ["text"]
        yield connection


def ask(session, text):
    session.conversation.item.create(item=message(text))
    session.response.create(response={"max_output_tokens": 24})
    events = read_to(session, "response.done", "error")
    assert events[-1].type == "response.done", events[-1]
    return events


def test_a_session_remembers(session):
    session.session.update(session={"type": "realtime", "instructions": "You are a helpful assistant."})
    assert read_to(session, "session.updated")[0].session.instructions == "You are a helpful assistant."
    events = ask(session, "My cat is called Tom.")
    assert list(dict.fromkeys(event.type for event in events[2:])) == ORDER
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    response = events[-1].response
    assert text_of(response) == deltas != "" and response.status in ("completed", "incomplete")
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    second = ask(session, "What is my cat called?")[-1].response
    assert second.usage.input_token_details.cached_tokens > 0
    assert second.conversation_id == response.conversation_id


def test_conversation_is_readable_over_http(session, client):
    conversation = ask(session, "Hello.")[-1].response.conversation_id
    items = list(client.conversations.items.list(conversation, order="asc"))
    assert [item.role for item in items] == ["user", "assistant"]
    again = client.responses.create(input="And now?", conversation=conversation, max_output_tokens=8)
    assert again.output_text


def test_items(session):
    session.conversation.item.create(item={**message("One."), "id": "mine"})
    assert read_to(session, "conversation.item.done")[-1].item.id == "mine"
    session.conversation.item.retrieve(item_id="mine")
    assert read_to(session, "conversation.item.retrieved")[-1].item.content[0].text == "One."
    session.conversation.item.truncate(item_id="mine", content_index=0, audio_end_ms=1, event_id="cut")
    assert read_to(session, "error")[-1].error.event_id == "cut"
    session.conversation.item.delete(item_id="mine")
    assert read_to(session, "conversation.item.deleted")[-1].item_id == "mine"
    session.conversation.item.retrieve(item_id="mine")
    assert read_to(session, "error")[-1].error.code == "item_not_found"


def test_out_of_band_response(session):
    session.conversation.item.create(item={**message("My cat is called Tom."), "id": "cat"})
    read_to(session, "conversation.item.done")
    session.response.create(response={
        "conversation": "none", "metadata": {"topic": "cats"}, "max_output_tokens": 8, "output_modalities": ["text"],
        "input": [{"type": "item_reference", "id": "cat"}, message("What is my cat called?")]})
    response = read_to(session, "response.done", "error")[-1].response
    assert response.metadata == {"topic": "cats"} and response.conversation_id is None and text_of(response)


def test_cancelling_and_errors(session):
    session.response.cancel()
    assert read_to(session, "error")[-1].error.code == "response_cancel_not_active"
    session.input_audio_buffer.append(audio="")
    assert read_to(session, "error")[-1].error.type == "invalid_request_error"
    session.conversation.item.create(item=message("Tell me a long story."))
    session.response.create(response={"max_output_tokens": "inf"})
    read_to(session, "response.output_text.delta")
    session.response.cancel()
    response = read_to(session, "response.done")[-1].response
    assert response.status == "cancelled" and response.status_details.reason == "client_cancelled"
    assert text_of(ask(session, "Thanks.")[-1].response)


def test_upgrades(client, server):
    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        with client.realtime.connect(model="gpt-realtime"):
            pass
    assert refused.value.response.status_code == 404
    with pytest.raises(websockets.exceptions.InvalidStatus):
        with client.realtime.connect(extra_headers={"OpenAI-Beta": "realtime=v1"}):
            pass

    async def as_a_browser():
        offers = ["realtime", "openai-insecure-api-key.anything"]
        url = f"ws://127.0.0.1:{server.port}/v1/realtime"
        async with websockets.connect(url, subprotocols=offers, proxy=None) as connection:
            assert connection.subprotocol == "realtime"
            assert "session.created" in await connection.recv()

    asyncio.run(asyncio.wait_for(as_a_browser(), 60))


def test_async(server):
    async def main():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="anything", max_retries=0) as client:
            async with client.realtime.connect() as connection:
                await read_to_async(connection, "session.created")
                await connection.session.update(session={"type": "realtime", "max_output_tokens": 16})
                await read_to_async(connection, "session.updated")
                for text in ("My dog is called Rex.", "What is my dog called?"):
                    await connection.conversation.item.create(item=message(text))
                    await connection.response.create()
                    events = await read_to_async(connection, "response.done", "error")
                    assert events[-1].type == "response.done" and text_of(events[-1].response)
                assert events[-1].response.usage.output_tokens <= 16

    asyncio.run(asyncio.wait_for(main(), 300))


def test_client_secret_opens_its_session(client, server):
    given = {"type": "realtime", "instructions": "You are brief.", "max_output_tokens": 12,
             "truncation": {"type": "retention_ratio", "retention_ratio": 0.8, "token_limits": {"post_instructions": 200}}}
    secret = client.realtime.client_secrets.create(expires_after={"anchor": "created_at", "seconds": 60}, session=given)
    assert secret.value.startswith("ek_") and secret.session.instructions == "You are brief."
    with openai.OpenAI(base_url=server.url + "/v1", api_key=secret.value) as page, page.realtime.connect() as connection:
        created = read_to(connection, "session.created")[0].session
        assert {name: value for name, value in created.to_dict().items() if name in given} == given
        conversation = client.conversations.retrieve(created.to_dict()["ringside"]["conversation"])
        assert conversation.to_dict()["ringside"]["memory_len"] == 200
        connection.conversation.item.create(item=message("Hello"))
        connection.response.create()
        assert read_to(connection, "response.done")[-1].response.usage.output_tokens <= 12
        connection.session.update(session={"type": "realtime", "truncation": {"type": "retention_ratio", "retention_ratio": 0.5}})
        assert read_to(connection, "error", "session.updated")[-1].error.param == "session.truncation"
