"""Reasoning on every API, with models that give one fixed answer: the reasoning and the text are equal, whole and
streamed."""

import json
import os
import sys
import urllib.request
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it downloads a newer list

import anthropic  # noqa: E402
import litellm  # noqa: E402
import ollama  # noqa: E402
import openai  # noqa: E402
import pytest  # noqa: E402
from server import Server  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))
import scripted_model  # noqa: E402
from scripted_model import ANSWER, REASONING  # noqa: E402

MODELS = {"think": scripted_model.THINK, "harmony": scripted_model.HARMONY}
QUESTION = [{"role": "user", "content": "Which number?"}]
MODEL = "scripted"
GREEDY = {"temperature": 0}


def start(kind, folder):
    path = scripted_model.make(folder / f"{kind}.gguf", MODELS[kind])
    return Server("--slots", "2", "--served-model-name", MODEL, model=path)


@pytest.fixture(scope="module", params=MODELS)
def server(request, tmp_path_factory):
    server = start(request.param, tmp_path_factory.mktemp("model"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    """The model whose template can disable reasoning."""
    server = start("think", tmp_path_factory.mktemp("model"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def harmony(tmp_path_factory):
    """The model whose template reads no effort and has no switch."""
    server = start("harmony", tmp_path_factory.mktemp("model"))
    yield server
    server.stop()


def openai_client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="anything", max_retries=0)


def anthropic_client(server):
    return anthropic.Anthropic(base_url=server.url, api_key="anything", max_retries=0)


def post(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read()), response.headers


# ---- responses --------------------------------------------------------------------------------------------------------
def test_chat_completions(server):
    with openai_client(server) as client:
        whole = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0)
        message = whole.choices[0].message
        assert (message.reasoning_content, message.reasoning, message.content) == (REASONING, REASONING, ANSWER)
        assert whole.choices[0].finish_reason == "stop"
        assert 0 < whole.usage.completion_tokens_details.reasoning_tokens < whole.usage.completion_tokens
        chunks = list(client.chat.completions.create(
            model=MODEL, messages=QUESTION, temperature=0, stream=True, stream_options={"include_usage": True}))
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        thoughts = [getattr(delta, "reasoning_content", None) or "" for delta in deltas]
        assert "".join(thoughts) == REASONING == "".join(getattr(delta, "reasoning", None) or "" for delta in deltas)
        assert "".join(delta.content or "" for delta in deltas) == ANSWER
        # The reasoning ends before the text begins.
        assert max(i for i, text in enumerate(thoughts) if text) < min(i for i, delta in enumerate(deltas) if delta.content)
        assert chunks[-1].usage.completion_tokens_details == whole.usage.completion_tokens_details


def test_responses(server):
    with openai_client(server) as client:
        whole = client.responses.create(model=MODEL, input="Which number?", temperature=0)
        reasoning, message = whole.output
        assert (reasoning.type, reasoning.content[0].text, reasoning.summary) == ("reasoning", REASONING, [])
        assert reasoning.status == "completed" and reasoning.encrypted_content
        assert whole.output_text == ANSWER and message.type == "message"
        assert 0 < whole.usage.output_tokens_details.reasoning_tokens < whole.usage.output_tokens
        assert client.responses.retrieve(whole.id).output == whole.output
        events = list(client.responses.create(model=MODEL, input="Which number?", temperature=0, stream=True))
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert "".join(event.delta for event in events if event.type == "response.reasoning_text.delta") == REASONING
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == ANSWER
        items = [(event.type.split(".")[-1], event.output_index, event.item.type)
                 for event in events if event.type.startswith("response.output_item.")]
        assert items == [("added", 0, "reasoning"), ("done", 0, "reasoning"), ("added", 1, "message"), ("done", 1, "message")]
        assert [item.type for item in events[-1].response.output] == ["reasoning", "message"]


def test_responses_summary(server):
    with openai_client(server) as client:
        fields = {"model": MODEL, "input": "Which number?", "temperature": 0, "reasoning": {"summary": "auto"}}
        with client.responses.stream(**fields) as stream:
            events = list(stream)
            final = stream.get_final_response()
        parts = [event.type for event in events if "reasoning" in event.type and not event.type.endswith("delta")]
        assert parts == ["response.reasoning_summary_part.added", "response.reasoning_summary_text.done",
                         "response.reasoning_summary_part.done"]
        assert "".join(e.delta for e in events if e.type == "response.reasoning_summary_text.delta") == REASONING
        assert final.output[0].summary[0].text == REASONING and not final.output[0].content
        assert final.reasoning.summary == "auto" and final.output_text == ANSWER


def test_responses_over_a_websocket(server):
    with openai_client(server) as client, client.responses.connect() as connection:
        connection.response.create(model=MODEL, input="Which number?", temperature=0)
        thoughts, text = "", ""
        for event in connection:
            thoughts += event.delta if event.type == "response.reasoning_text.delta" else ""
            text += event.delta if event.type == "response.output_text.delta" else ""
            if event.type == "response.completed":
                break
        assert (thoughts, text) == (REASONING, ANSWER)


def test_conversation(server):
    with openai_client(server) as client:
        conversation = client.conversations.create()
        first = client.responses.create(model=MODEL, input="Which number?", conversation=conversation.id, temperature=0)
        items = client.conversations.items.list(conversation.id, order="asc").data
        assert [item.type for item in items] == ["message", "reasoning", "message"]
        assert items[1].content[0].text == REASONING and items[1].id == first.output[0].id
        assert client.conversations.items.retrieve(items[1].id, conversation_id=conversation.id) == items[1]
        second = client.responses.create(model=MODEL, input="And now?", conversation=conversation.id, temperature=0)
        assert second.output_text == ANSWER
        assert second.ringside["tokens_reused"] > 0


def test_anthropic(server):
    with anthropic_client(server) as client:
        fields = {"model": MODEL, "max_tokens": 100, "messages": QUESTION, "extra_body": GREEDY}
        whole = client.messages.create(**fields)
        thinking, text = whole.content
        assert (thinking.type, thinking.thinking, text.text) == ("thinking", REASONING, ANSWER)
        assert thinking.signature and whole.stop_reason == "end_turn"
        assert 0 < whole.usage.output_tokens_details.thinking_tokens < whole.usage.output_tokens
        with client.messages.stream(**fields) as stream:
            kinds = [event.type for event in stream if event.type in ("thinking", "signature", "text", "content_block_stop")]
            streamed = stream.get_final_message()
        assert (streamed.content[0].thinking, streamed.content[1].text) == (REASONING, ANSWER)
        assert streamed.content[0].signature and kinds[-1] == "content_block_stop"
        assert kinds.index("signature") < kinds.index("content_block_stop") < kinds.index("text")


def test_anthropic_omitted_thinking_is_read_from_the_signature(server):
    with anthropic_client(server) as client:
        fields = {"model": MODEL, "max_tokens": 100, "extra_body": GREEDY, "thinking": {"type": "adaptive", "display": "omitted"}}
        with client.messages.stream(messages=QUESTION, **fields) as stream:
            answer = stream.get_final_message()
        assert answer.content[0].thinking == "" and answer.content[0].signature and answer.content[1].text == ANSWER
        messages = [*QUESTION, {"role": "assistant", "content": answer.content}, {"role": "user", "content": "And now?"}]
        again = client.messages.create(messages=messages, **fields)
        assert again.content[1].text == ANSWER
        assert not getattr(again, "ringside", {}).get("ignored")


def test_ollama(server):
    client = ollama.Client(host=server.url)
    options = {"temperature": 0}
    whole = client.chat(model=MODEL, messages=QUESTION, options=options)
    assert (whole.message.thinking, whole.message.content, whole.done_reason) == (REASONING, ANSWER, "stop")
    lines = list(client.chat(model=MODEL, messages=QUESTION, options=options, stream=True))
    assert "".join(line.message.thinking or "" for line in lines) == REASONING
    assert "".join(line.message.content or "" for line in lines) == ANSWER
    generated = client.generate(model=MODEL, prompt="Which number?", options=options)
    assert (generated.thinking, generated.response) == (REASONING, ANSWER)
    again = client.generate(model=MODEL, prompt="And now?", context=generated.context, options=options)
    assert (again.thinking, again.response) == (REASONING, ANSWER)


def test_realtime_sends_only_the_answer(server):
    with openai_client(server) as client, client.realtime.connect(model=MODEL) as connection:
        connection.session.update(session={"type": "realtime", "output_modalities": ["text"], "temperature": 0})
        connection.conversation.item.create(item={
            "type": "message", "role": "user", "content": [{"type": "input_text", "text": "Which number?"}]})
        connection.response.create()
        text = ""
        for event in connection:
            text += event.delta if event.type == "response.output_text.delta" else ""
            if event.type == "response.done":
                break
        assert text == ANSWER
        assert [item.type for item in event.response.output] == ["message"]
        assert event.response.usage.output_token_details.reasoning_tokens > 0


@pytest.mark.parametrize("provider, path", [("openai", "/v1"), ("hosted_vllm", "/v1"), ("anthropic", ""), ("ollama_chat", "")])
def test_litellm(server, provider, path):
    ask = {"model": f"{provider}/{MODEL}", "messages": QUESTION, "max_tokens": 100, "temperature": 0,
           "api_base": server.url + path, "api_key": "anything", "num_retries": 0}
    message = litellm.completion(**ask).choices[0].message
    assert (message.reasoning_content, message.content) == (REASONING, ANSWER)
    deltas = [chunk.choices[0].delta for chunk in litellm.completion(**ask, stream=True)]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == REASONING
    assert "".join(delta.content or "" for delta in deltas) == ANSWER


# ---- truncation -------------------------------------------------------------------------------------------------------
def test_answer_truncated_in_reasoning_reports_it(thinker):
    with openai_client(thinker) as client:
        cut = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=3)
        choice = cut.choices[0]
        assert choice.finish_reason == "length" and choice.message.content == ""
        assert choice.message.reasoning_content and REASONING.startswith(choice.message.reasoning_content)
        response = client.responses.create(model=MODEL, input="Which number?", temperature=0, max_output_tokens=3)
        assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        assert [(item.type, item.status) for item in response.output] == [("reasoning", "incomplete")]
        rest = client.responses.create(model=MODEL, input=[], previous_response_id=response.id, temperature=0)
        assert rest.status == "completed" and rest.output_text == ANSWER
    with anthropic_client(thinker) as client:
        fields = {"model": MODEL, "max_tokens": 3, "messages": QUESTION, "extra_body": GREEDY}
        cut = client.messages.create(**fields)
        assert cut.stop_reason == "max_tokens" and [block.type for block in cut.content] == ["thinking"]
        with client.messages.stream(**fields) as stream:
            assert [block.type for block in stream.get_final_message().content] == ["thinking"]


def test_budget_ends_reasoning_and_the_answer_follows(server):
    with openai_client(server) as client:
        answer = client.chat.completions.create(
            model=MODEL, messages=QUESTION, temperature=0, extra_body={"reasoning_budget": 3})
        message = answer.choices[0].message
        assert message.content == ANSWER and answer.choices[0].finish_reason == "stop"
        assert len(getattr(message, "reasoning_content", "")) < len(REASONING)
    with anthropic_client(server) as client:
        answer = client.messages.create(model=MODEL, max_tokens=2000, messages=QUESTION, extra_body=GREEDY,
                                        thinking={"type": "enabled", "budget_tokens": 3})
        assert answer.content[-1].text == ANSWER


# ---- requests ---------------------------------------------------------------------------------------------------------
OFF = [
    ("/v1/chat/completions", {"reasoning_effort": "none"}),
    ("/v1/chat/completions", {"chat_template_kwargs": {"enable_thinking": False}}),
    ("/v1/chat/completions", {"reasoning": {"enabled": False}}),
    ("/v1/messages", {"thinking": {"type": "disabled"}, "max_tokens": 100}),
    ("/api/chat", {"think": False, "stream": False}),
    ("/v1/responses", {"reasoning": {"effort": "none"}, "input": "Which number?"}),
]


@pytest.mark.parametrize("path, fields", OFF)
def test_reasoning_is_disabled(thinker, path, fields):
    body = {"model": MODEL, "messages": QUESTION, "temperature": 0} | fields
    if path == "/v1/responses":
        del body["messages"]
    if path == "/api/chat":
        body["options"] = {"temperature": body.pop("temperature")}
    answer, headers = post(thinker, path, body)
    assert ANSWER in json.dumps(answer) and "Let me" not in json.dumps(answer)
    assert "X-Ringside-Ignored" not in headers and "ignored" not in answer.get("ringside", {})


EFFORTS = [
    ("/v1/chat/completions", lambda effort: {"reasoning_effort": effort}, "reasoning_effort"),
    ("/v1/messages", lambda effort: {"output_config": {"effort": effort}, "max_tokens": 100}, "output_config.effort"),
    ("/api/chat", lambda effort: {"think": effort, "stream": False}, "think"),
    ("/v1/responses", lambda effort: {"reasoning": {"effort": effort}}, "reasoning.effort"),
]


def ask_with(server, path, fields):
    question = {"input": "Which number?"} if path == "/v1/responses" else {"messages": QUESTION}
    return post(server, path, {"model": MODEL} | question | fields)


@pytest.mark.parametrize("path, fields, name", EFFORTS)
def test_an_effort_switches_reasoning_on(thinker, path, fields, name):
    for effort, reasons in [("low", True), ("max", True), ("none", False)]:
        answer, headers = ask_with(thinker, path, fields(effort))
        assert "X-Ringside-Ignored" not in headers and ("Let me" in json.dumps(answer)) == reasons, (effort, answer)


@pytest.mark.parametrize("path, fields, name", EFFORTS)
def test_an_effort_without_a_switch_is_reported(harmony, path, fields, name):
    answer, headers = ask_with(harmony, path, fields("high"))
    assert headers["X-Ringside-Ignored"] == name and answer["ringside"]["ignored"] == [name]


def test_settings_unknown_to_the_template_are_reported(thinker):
    answer, headers = ask_with(thinker, "/v1/chat/completions", {"chat_template_kwargs": {"mood": 1}})
    assert headers["X-Ringside-Ignored"] == "chat_template_kwargs.mood" == answer["ringside"]["ignored"][0]


def test_reasoning_can_be_omitted(thinker):
    answer, _ = post(thinker, "/v1/chat/completions",
                     {"model": MODEL, "messages": QUESTION, "temperature": 0, "include_reasoning": False})
    message = answer["choices"][0]["message"]
    assert message["content"] == ANSWER and "reasoning" not in message and "reasoning_content" not in message
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0


# ---- history ----------------------------------------------------------------------------------------------------------
def test_returned_reasoning_is_accepted(server):
    """The reasoning is returned in the next request, and its tokens are found in the cache."""
    with openai_client(server) as client:
        first = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0)
        told = first.choices[0].message
        for message in [told, {"role": "assistant", "content": told.content, "reasoning": told.reasoning},
                        {"role": "assistant", "content": told.content}]:
            messages = [*QUESTION, message, {"role": "user", "content": "And now?"}]
            second = client.chat.completions.create(model=MODEL, messages=messages, temperature=0)
            assert second.choices[0].message.content == ANSWER
            assert second.usage.prompt_tokens_details.cached_tokens > 0
            assert not getattr(second, "ringside", None)
        asked = client.responses.create(model=MODEL, input="Which number?", temperature=0, store=False)
        history = [{"role": "user", "content": "Which number?"}, *asked.output, {"role": "user", "content": "And now?"}]
        again = client.responses.create(model=MODEL, input=history, temperature=0, store=False)
        assert again.output_text == ANSWER and "ignored" not in again.ringside
    with anthropic_client(server) as client:
        answer = client.messages.create(model=MODEL, max_tokens=100, messages=QUESTION, extra_body=GREEDY)
        messages = [*QUESTION, {"role": "assistant", "content": answer.content}, {"role": "user", "content": "And now?"}]
        assert client.messages.create(model=MODEL, max_tokens=100, messages=messages, extra_body=GREEDY).content[1].text == ANSWER
    ollama_client = ollama.Client(host=server.url)
    message = {"role": "assistant", "content": ANSWER, "thinking": REASONING}
    again = ollama_client.chat(model=MODEL, messages=[*QUESTION, message, *QUESTION], options={"temperature": 0})
    assert again.message.content == ANSWER
