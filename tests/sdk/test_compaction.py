"""Edits of long histories with stock clients: compaction and clearing, stored and stateless, also across a restart."""

import sys
from pathlib import Path

import anthropic
import openai
import pytest
from server import Server

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))
import scripted_model  # noqa: E402
from scripted_model import ANSWER  # noqa: E402

MODEL = "scripted"
ASK = {"model": MODEL, "temperature": 0}
LONG = "Once more. " * 40
INSTRUCTIONS = "Be kind to everybody. " * 15  # long enough for its cache to be shared


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    model = scripted_model.make(folder / "think.gguf", scripted_model.THINK)
    server = Server("--slots", "4", "--served-model-name", MODEL, "--store-path", str(folder / "store"), model=model)
    yield server
    server.stop()


def above(tokens):
    return [{"type": "compaction", "compact_threshold": tokens}]


def client_of(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="anything", max_retries=0)


def test_a_stateless_history(server):
    with client_of(server) as client:
        history = [{"role": "user", "content": LONG}]
        first = client.responses.create(input=history, store=False, instructions=INSTRUCTIONS, **ASK)
        history += [*first.output, {"role": "user", "content": "And now?"}]
        ask = {"store": False, "instructions": INSTRUCTIONS, "context_management": above(700), **ASK}
        second = client.responses.create(input=history, **ask)
        assert [item.type for item in second.output] == ["compaction", "reasoning", "message"]
        report = second.ringside["compaction"]
        assert report["by_model"] and report["tokens_after"] == second.usage.input_tokens < report["tokens_before"]
        # The side turn found the conversation in the cache, and the answer its instructions.
        assert report["cached_tokens"] > 200 and second.usage.input_tokens_details.cached_tokens > 0
        history += [*second.output, {"role": "user", "content": "And then?"}]
        third = client.responses.create(input=history, **ask)
        assert third.output_text == ANSWER and third.output[0].type != "compaction"
        assert third.usage.input_tokens_details.cached_tokens >= second.usage.input_tokens


def test_a_chain_streams_and_survives_a_restart(server):
    with client_of(server) as client:
        first = client.responses.create(input=LONG, **ASK)
        events = list(client.responses.create(
            input="And now?", previous_response_id=first.id, context_management=above(300), stream=True, **ASK))
        assert [event.sequence_number for event in events] == list(range(len(events)))
        added = [event for event in events if event.type == "response.output_item.added"]
        assert [(event.output_index, event.item.type) for event in added] == [(0, "compaction"), (1, "reasoning"), (2, "message")]
        second = events[-1].response
        server.stop()
        server.restart()
        assert client.responses.retrieve(second.id).output == second.output
        third = client.responses.create(input="And then?", previous_response_id=second.id, **ASK)
        assert third.status == "completed"
        assert second.usage.input_tokens < third.usage.input_tokens < first.usage.input_tokens + second.usage.input_tokens
        assert third.usage.input_tokens_details.cached_tokens >= second.usage.input_tokens
        other = client.responses.create(input="Else?", previous_response_id=first.id, **ASK)
        assert other.usage.input_tokens > first.usage.input_tokens


def test_a_window_is_compacted(server):
    with client_of(server) as client:
        first = client.responses.create(input=LONG, **ASK)
        window = client.responses.compact(model=MODEL, previous_response_id=first.id)
        assert window.object == "response.compaction" and window.usage.output_tokens > 0
        assert [item.type for item in window.output] == ["message", "compaction"]
        items = [item.model_dump(exclude_none=True) for item in window.output]
        answer = client.responses.create(input=[*items, {"role": "user", "content": "And now?"}], **ASK)
        assert answer.output_text == ANSWER
        with pytest.raises(openai.BadRequestError) as error:
            client.responses.create(input=[{"type": "compaction", "encrypted_content": "gAAAA"}], **ASK)
        assert error.value.code == "invalid_value" and error.value.param == "input[0].encrypted_content"


def test_messages_are_cleared_and_compacted(server):
    with anthropic.Anthropic(base_url=server.url, api_key="anything", max_retries=0) as client:
        tools = [{"name": "look", "input_schema": {"type": "object"}}]
        messages = [{"role": "user", "content": "Find it."}]
        for i in range(4):
            messages += [{"role": "assistant", "content": [{"type": "tool_use", "id": f"t{i}", "name": "look", "input": {}}]},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{i}", "content": LONG}]}]
        edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 300},
                "keep": {"type": "tool_uses", "value": 1}}
        ask = {"model": MODEL, "max_tokens": 60, "tools": tools, "context_management": {"edits": [edit]}}
        counted = client.beta.messages.count_tokens(
            model=MODEL, tools=tools, messages=messages, context_management={"edits": [edit]})
        assert counted.input_tokens < counted.context_management.original_input_tokens
        first = client.beta.messages.create(messages=messages, **ask)
        applied, = first.context_management.applied_edits
        assert applied.cleared_tool_uses == 3
        assert applied.cleared_input_tokens == counted.context_management.original_input_tokens - counted.input_tokens
        messages += [{"role": "assistant", "content": [block.model_dump() for block in first.content]},
                     {"role": "user", "content": "And now?"}]
        with client.beta.messages.stream(messages=messages, **ask) as stream:
            second = stream.get_final_message()
        assert second.usage.cache_read_input_tokens >= counted.input_tokens
        assert second.context_management.applied_edits[0].cleared_tool_uses == 3
        compact = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 100}}
        with client.beta.messages.stream(messages=messages, **ask | {"context_management": {"edits": [compact]}}) as stream:
            third = stream.get_final_message()
        assert [block.type for block in third.content] == ["compaction", "thinking", "text"]
        assert third.content[0].content == ANSWER
