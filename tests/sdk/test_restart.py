"""The stock OpenAI SDK against a server that is killed and restarted: no delivered event is lost."""

import json

import openai
import pytest
from server import Server
from turns import ask, check_order, completed, events_equal, read_answer, send

# Longer than any test, even on a fast machine.
STORY = {"input": "Tell me a long story about a river.", "temperature": 0, "max_output_tokens": 30_000, "ignore_eos": True}


@pytest.fixture
def server(tmp_path):
    server = Server("--slots", "4", "--store-path", str(tmp_path / "store"))
    yield server
    server.stop()


def begin_story(connection, conversation, deltas=20):
    """The first events of the story, up to `deltas` text deltas."""
    connection.send({"type": "response.create", "conversation": conversation, **STORY})
    events = []
    while sum(event.type == "response.output_text.delta" for event in events) < deltas:
        events.append(connection.recv())
    return events


def text_of(events):
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def test_killed_server_keeps_sent_text_and_continues(client, server):
    conversation = client.conversations.create().id
    with client.responses.connect() as connection:
        ask(connection, "My name is Ada.", conversation=conversation)
        told = begin_story(connection, conversation)
        server.kill()
    server.restart()
    response = client.responses.retrieve(told[0].response.id)
    assert response.status == "incomplete" and response.incomplete_details.reason == "interrupted"
    assert response.output_text.startswith(text_of(told))
    rest = list(client.responses.retrieve(response.id, stream=True, starting_after=told[-1].sequence_number))
    check_order([*told, *rest])
    assert rest[-1].response.output_text == response.output_text

    with client.responses.connect() as connection:
        more = completed(send(connection, input=[], conversation=conversation, max_output_tokens=60, ignore_eos=True))
    # The text equals that of an uninterrupted conversation.
    again = client.conversations.create().id
    with client.responses.connect() as connection:
        ask(connection, "My name is Ada.", conversation=again)
        tokens = response.usage.output_tokens + more.usage.output_tokens
        whole = completed(send(connection, **STORY | {"conversation": again, "max_output_tokens": tokens}))
    assert more.output_text and response.output_text + more.output_text == whole.output_text


def test_sdk_reconnects_and_gets_the_rest(client, server):
    """Uses the SDK's own on_reconnecting hook; its query resumes the session at the upgrade."""
    conversation, last = client.conversations.create().id, None

    def on_reconnecting(event):
        server.restart()
        return {"extra_query": {"session": conversation, "after": str(last)}}

    with client.responses.connect(on_reconnecting=on_reconnecting, initial_delay=0.01) as connection:
        connection.send({"type": "response.create", "conversation": conversation, **STORY})
        events, ours = [], []
        for event in connection:
            if event.type.startswith("ringside:"):
                ours.append(event)
                continue
            events.append(event)
            last = event.ringside["seq"]
            if len(events) == 24:
                server.kill()
            if event.type in ("response.completed", "response.incomplete"):
                break
    check_order(events)
    assert [event.type for event in ours] == ["ringside:session.resumed"]
    assert events[-1].response.incomplete_details.reason == "interrupted"
    assert text_of(events) == events[-1].response.output_text


def test_orderly_stop_loses_nothing_and_the_chain_continues(client, server):
    with client.responses.connect() as connection:
        connection.response.create(input="The secret word is banana.", temperature=0, max_output_tokens=24)
        live = read_answer(connection)
        first = completed(live)
    server.stop()
    server.restart()
    assert client.responses.retrieve(first.id).to_dict() == first.to_dict()
    again = list(client.responses.retrieve(first.id, stream=True))
    assert events_equal(again, live)
    with client.responses.connect() as connection:
        second = ask(connection, "What is the secret word?", previous_response_id=first.id)
    assert "banana" in second.output_text.lower()
    assert second.usage.input_tokens > first.usage.total_tokens


def test_repeated_request_after_a_restart_returns_the_first_answer(client, server):
    conversation = client.conversations.create().id
    request = {"conversation": conversation, "input": "Say hello.", "metadata": {"client_request_id": "once"}}
    with client.responses.connect() as connection:
        connection.response.create(**request, temperature=0, max_output_tokens=12)
        live = read_answer(connection)
    server.kill()
    server.restart()
    with client.responses.connect() as connection:
        connection.response.create(**request, temperature=0, max_output_tokens=12)
        repeated = read_answer(connection)
    assert events_equal(repeated, live)
    assert len(list(client.conversations.items.list(conversation))) == 2


def test_an_unknown_session_is_refused_before_the_upgrade(client, server):
    import websockets.exceptions

    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        with client.responses.connect(extra_query={"session": "conv_none"}):
            pass
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body)["error"]["code"] == "conversation_not_found"


def test_a_deleted_conversation_stays_deleted(client, server):
    conversation = client.conversations.create().id
    with client.responses.connect() as connection:
        ask(connection, "Hello.", conversation=conversation)
    client.conversations.delete(conversation)
    server.kill()
    server.restart()
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(conversation)
