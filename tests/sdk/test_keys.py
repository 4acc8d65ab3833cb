"""API keys: authentication, and isolation between owners."""

import openai
import pytest
import websockets.exceptions
from server import Server
from turns import GREEDY, ask


@pytest.fixture(scope="module")
def locked():
    server = Server("--api-key", "alpha-key", "--api-key", "beta-key", "--slots", "2")
    yield server
    server.stop()


def client_of(server, key):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)


def test_every_request_requires_the_key(locked):
    with client_of(locked, "wrong") as client:
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
        with pytest.raises(websockets.exceptions.InvalidStatus) as refused, client.responses.connect():
            pass
        assert refused.value.response.status_code == 401
    assert locked.get("/healthz")[0] == 200


def test_a_key_works_over_http_and_websocket(locked):
    with client_of(locked, "alpha-key") as client, client.responses.connect() as connection:
        assert list(client.models.list())
        assert ask(connection, "Hello.").output_text


def test_ids_of_other_keys_look_unknown(locked):
    with client_of(locked, "alpha-key") as alpha, client_of(locked, "beta-key") as beta:
        conversation = alpha.conversations.create()
        with alpha.responses.connect() as connection:
            answer = ask(connection, "My secret is 42.", conversation=conversation.id)
        for call in (
            lambda: beta.conversations.retrieve(conversation.id),
            lambda: beta.conversations.delete(conversation.id),
            lambda: beta.responses.retrieve(answer.id),
            lambda: beta.responses.delete(answer.id),
            lambda: beta.conversations.items.list(conversation.id),
        ):
            with pytest.raises(openai.NotFoundError):
                call()
        with beta.responses.connect() as connection:
            for fields in ({"conversation": conversation.id}, {"previous_response_id": answer.id}):
                connection.response.create(input="What is the secret?", **GREEDY, **fields)
                foreign = connection.recv()
                connection.response.create(input="What?", **GREEDY, **{name: "none" for name in fields})
                unknown = connection.recv()
                assert foreign.type == unknown.type == "error"
                assert (foreign.status, foreign.error.code) == (unknown.status, unknown.error.code)
        assert alpha.responses.retrieve(answer.id).output_text == answer.output_text
