"""LiteLLM with only address and key changed: three of the server's APIs under their provider names."""

import asyncio
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it downloads a newer list

import litellm  # noqa: E402
import pytest  # noqa: E402
from turns import model_of  # noqa: E402

MESSAGES = [{"role": "user", "content": "Name three colours."}]


@pytest.fixture
def model(client):
    return model_of(client)


@pytest.mark.parametrize("provider, path", [("openai", "/v1"), ("anthropic", ""), ("ollama_chat", "")])
def test_chat(server, model, provider, path):
    ask = {"model": f"{provider}/{model}", "messages": MESSAGES, "max_tokens": 16, "temperature": 0, "api_base": server.url + path,
           "api_key": "anything", "num_retries": 0}
    whole = litellm.completion(**ask)
    text = whole.choices[0].message.content
    assert text and 0 < whole.usage.completion_tokens <= 16
    assert "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**ask, stream=True)) == text
    assert asyncio.run(litellm.acompletion(**ask)).choices[0].message.content == text


def test_responses(server, model):
    ask = {"api_base": server.url + "/v1", "api_key": "anything"}
    create = {"model": "openai/" + model, "max_output_tokens": 16, "temperature": 0, **ask}
    first = litellm.responses(input="Name three colours.", **create)
    assert first.output[0].content[0].text and first.usage.output_tokens > 0
    second = litellm.responses(input="And three animals?", previous_response_id=first.id, **create)
    assert second.usage.input_tokens_details.cached_tokens > first.usage.input_tokens
    found = litellm.get_responses(response_id=second.id, custom_llm_provider="openai", **ask)
    assert found.output == second.output and found.created_at == second.created_at
    events = [event.type for event in litellm.responses(input="Name three colours.", stream=True, **create)]
    assert events[0] == "response.created" and events[-1] in ("response.completed", "response.incomplete")
