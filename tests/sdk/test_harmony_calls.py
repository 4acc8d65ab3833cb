"""Tool calls of a model with harmony's messages: one fixed call, which keeps to the tools and their schemas, on every face."""

import json
import sys
from pathlib import Path

import anthropic
import openai
import pytest
from server import Server

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))
import scripted_model  # noqa: E402
from scripted_model import ARGUMENTS  # noqa: E402

MODEL = "scripted"
ASK = {"model": MODEL, "temperature": 0}
QUESTION = [{"role": "user", "content": "Which number?"}]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    model = scripted_model.make(tmp_path_factory.mktemp("model") / "calls.gguf", scripted_model.HARMONY_CALLS)
    server = Server("--slots", "2", "--served-model-name", MODEL, model=model)
    yield server
    server.stop()


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="anything", max_retries=0) as client:
        yield client
    assert server.alive()


def tool(name="look", **what):
    schema = {"type": "object", "properties": {"what": {"type": "string", **what}}, "required": ["what"], "additionalProperties": False}
    return {"type": "function", "name": name, "parameters": schema, "strict": True}


def call_of(response):
    assert response.status == "completed", response
    call, = [item for item in response.output if item.type == "function_call"]
    return call.name, json.loads(call.arguments)


def test_a_call_is_read_out_of_its_message(client):
    response = client.responses.create(input="Which number?", tools=[tool()], **ASK)
    assert call_of(response) == ("look", json.loads(ARGUMENTS)) and response.output_text == ""
    events = list(client.responses.create(input="Which number?", tools=[tool()], stream=True, **ASK))
    deltas = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert "".join(deltas) == ARGUMENTS and len(deltas) > 1
    assert call_of(events[-1].response) == ("look", json.loads(ARGUMENTS))


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_call_keeps_to_the_tools(client, choice):
    """The model would call another tool with other arguments."""
    response = client.responses.create(
        input="Which number?", tools=[tool("find", enum=["yes"])], tool_choice=choice, max_output_tokens=60, **ASK)
    assert call_of(response) == ("find", {"what": "yes"})


def test_required_is_a_call_with_several_tools(client):
    response = client.responses.create(
        input="Which number?", tools=[tool("lookup"), tool(), tool("get")], tool_choice="required", max_output_tokens=60, **ASK)
    name, arguments = call_of(response)
    assert name in ("lookup", "look", "get") and set(arguments) == {"what"}


def test_a_chosen_tool_is_called(client):
    response = client.responses.create(
        input="Which number?", tools=[tool(), tool("find", enum=["yes"])], tool_choice={"type": "function", "name": "find"},
        max_output_tokens=60, **ASK)
    assert call_of(response) == ("find", {"what": "yes"})


def test_the_result_goes_back(client):
    ask = {"tools": [tool()], **ASK}
    first = client.responses.create(input="Which number?", **ask)
    call, = [item for item in first.output if item.type == "function_call"]
    second = client.responses.create(
        previous_response_id=first.id, input=[{"type": "function_call_output", "call_id": call.call_id, "output": "42"}], **ask)
    assert second.status == "completed" and second.usage.input_tokens_details.cached_tokens > 0


def test_chat_and_messages(client, server):
    function = {"type": "function", "function": {k: v for k, v in tool().items() if k != "type"}}
    chat = client.chat.completions.create(messages=QUESTION, tools=[function], **ASK)
    call, = chat.choices[0].message.tool_calls
    assert (chat.choices[0].finish_reason, call.function.name, call.function.arguments) == ("tool_calls", "look", ARGUMENTS)
    chunks = list(client.chat.completions.create(messages=QUESTION, tools=[function], stream=True, **ASK))
    pieces = [c.function.arguments or "" for chunk in chunks for c in chunk.choices[0].delta.tool_calls or []]
    assert "".join(pieces) == ARGUMENTS
    with anthropic.Anthropic(base_url=server.url, api_key="anything", max_retries=0) as other:
        tools = [{"name": "look", "input_schema": tool()["parameters"]}]
        message = other.messages.create(model=MODEL, max_tokens=60, messages=QUESTION, tools=tools)
        assert message.stop_reason == "tool_use" and message.content[-1].input == json.loads(ARGUMENTS)
