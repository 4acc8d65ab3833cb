"""The stock OpenAI SDK over HTTP: models, conversations, finished responses and the server's own pages."""

import json

import openai
import pytest
from turns import ask, check_order, completed, events_equal, read_answer


def test_models(client):
    models = list(client.models.list())
    assert len(models) == 1
    model = client.models.retrieve(models[0].id)
    assert model.id == models[0].id and model.object == "model"
    with pytest.raises(openai.NotFoundError) as error:
        client.models.retrieve("no-such-model")
    assert error.value.code == "model_not_found"


def test_request_may_name_the_model(client, connection):
    name = next(iter(client.models.list())).id
    assert ask(connection, "Hello.", model=name).model == name


def test_conversation_lifecycle(client):
    conversation = client.conversations.create(metadata={"topic": "tests"})
    assert conversation.id.startswith("conv_") and conversation.object == "conversation"
    assert conversation.metadata == {"topic": "tests"}
    assert client.conversations.retrieve(conversation.id) == conversation
    assert client.conversations.update(conversation.id, metadata={"topic": "more"}).metadata == {"topic": "more"}
    deleted = client.conversations.delete(conversation.id)
    assert deleted.id == conversation.id and deleted.deleted is True
    for call in (client.conversations.retrieve, client.conversations.delete):
        with pytest.raises(openai.NotFoundError):
            call(conversation.id)


def test_ids_cannot_be_guessed(client):
    ids = {client.conversations.create().id for _ in range(50)}
    assert len(ids) == 50
    assert all(len(id) >= len("conv_") + 22 for id in ids), "128 random bits need 22 characters of base 62"


def test_conversation_items(client, connection):
    conversation = client.conversations.create(items=[
        {"type": "message", "role": "system", "content": "You are terse."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "My cat is called Tom."}]},
    ])
    added = client.conversations.items.create(
        conversation.id, items=[{"type": "message", "role": "user", "content": "What is my cat called?"}]
    )
    assert len(added.data) == 1
    answer = ask(connection, [], conversation=conversation.id)
    assert "Tom" in answer.output_text
    items = list(client.conversations.items.list(conversation.id, order="asc", limit=2))
    assert [item.role for item in items] == ["system", "user", "user", "assistant"], "the SDK pages by itself"
    newest = client.conversations.items.list(conversation.id, limit=1)
    assert newest.data[0].id == items[-1].id and newest.has_more is True
    one = client.conversations.items.retrieve(items[1].id, conversation_id=conversation.id)
    assert one.content[0].text == "My cat is called Tom."


def test_the_list_of_conversations(client, server):
    created = client.conversations.create().id
    status, body = server.get("/v1/conversations?limit=1")
    page = json.loads(body)
    assert status == 200 and page["object"] == "list"
    assert [entry["id"] for entry in page["data"]] == [created], "newest first"


def test_a_finished_response_can_be_read_and_deleted(client, connection):
    answer = ask(connection, "Say hello.")
    stored = client.responses.retrieve(answer.id)
    assert stored.output_text == answer.output_text and stored.usage == answer.usage
    items = list(client.responses.input_items.list(answer.id))
    assert items[-1].content[0].text == "Say hello."
    client.responses.delete(answer.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answer.id)


def test_response_is_streamed_during_and_after_its_turn(client, connection):
    connection.response.create(input="Tell me a story about a fox.", temperature=0, max_output_tokens=48)
    live = [connection.recv()]
    while live[-1].type != "response.output_text.delta":
        live.append(connection.recv())
    id, asked = live[0].response.id, len(live)
    at_once = list(client.responses.retrieve(id, stream=True, starting_after=live[-1].sequence_number))
    live += read_answer(connection)
    check_order(live)
    assert events_equal(at_once, live[asked:]) and at_once[0].sequence_number == asked
    for after in (0, 2, 5, len(live) - 2):
        again = list(client.responses.retrieve(id, stream=True, starting_after=after))
        assert events_equal(again, live[after + 1 :]), after
    # The helper requests all events and drops those it already has.
    with client.responses.stream(response_id=id, starting_after=3) as stream:
        helped = [event for event in stream]
    assert helped[0].sequence_number == 4 and helped[-1].type == live[-1].type


def test_leaving_reader_stops_nothing(client, connection):
    connection.response.create(input="Tell me a story about a cat.", temperature=0, max_output_tokens=48)
    first = connection.recv()
    with client.responses.retrieve(first.response.id, stream=True) as stream:
        assert next(iter(stream)).type == "response.created"
    events = [first, *read_answer(connection)]
    check_order(events)
    assert completed(events).usage.output_tokens == 48


@pytest.mark.parametrize("path, status", [
    ("/v1/models/none", 404), ("/v1/conversations/none", 404), ("/v1/responses/none", 404), ("/v1", 404), ("/none", 404),
    ("/v1/conversations/%00", 400), ("/v1/conversations/..%2f..", 404), ("/v1/conversations?limit=0", 400),
    ("/v1/conversations?limit=-1", 400), ("/v1/conversations?limit=x", 400),
])
def test_wrong_paths_are_typed_errors(server, path, status):
    got, body = server.get(path)
    assert got == status, body
    error = json.loads(body)["error"]
    assert error["message"] and error["type"] == "invalid_request_error"


@pytest.mark.parametrize("body", [
    {"metadata": "x"}, {"metadata": {"a": 1}}, {"items": "x"}, {"items": [{"role": "x", "content": "y"}]},
    {"items": [{"role": "user"}]}, [], 5, "x",
])
def test_bad_conversation_bodies_are_typed_errors(client, body):
    with pytest.raises(openai.BadRequestError):
        client.post("/conversations", body=body, cast_to=object, options={"headers": {"content-type": "application/json"}})


def test_health_pages(server):
    for path in ("/healthz", "/livez", "/readyz"):
        assert server.get(path)[0] == 200


def test_metrics_count_tokens(server, connection):
    ask(connection, "Say hello.")
    status, text = server.get("/metrics")
    assert status == 200
    values = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name.startswith(("ringside_", "process_")), line
            values[name.split("{")[0]] = float(value)
    assert any("generation_tokens" in name and value > 0 for name, value in values.items()), sorted(values)
