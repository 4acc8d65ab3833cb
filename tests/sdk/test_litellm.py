"""LiteLLM with only address and key changed: three of the server's APIs under their provider names."""

import asyncio
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it downloads a newer list

import litellm  # noqa: E402
import pytest  # noqa: E402
from scripted import ANSWER, REASONING  # noqa: E402
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


# LiteLLM removes the fields that it does not know for a provider and a model, and renames others; each provider leaves a different set.
@pytest.mark.parametrize("name, path", [
    ("openai/scripted", "/v1"), ("openai/gpt-5", "/v1"), ("hosted_vllm/scripted", "/v1"), ("openrouter/scripted", "/v1"),
    ("deepseek/scripted", "/v1"), ("lm_studio/scripted", "/v1"), ("anthropic/claude-sonnet-4-5", ""), ("ollama_chat/scripted", "")])
def test_drop_params(thinker, name, path):
    ask = {"model": name, "messages": MESSAGES, "reasoning_effort": "low", "verbosity": "low", "service_tier": "flex", "seed": 1,
           "parallel_tool_calls": True, "logit_bias": {"1": 1}, "drop_params": True, "api_base": thinker.url + path, "api_key": "anything",
           "num_retries": 0, "max_retries": 0}
    message = litellm.completion(**ask).choices[0].message
    assert (message.reasoning_content, message.content) == (REASONING, ANSWER)
    deltas = [chunk.choices[0].delta for chunk in litellm.completion(**ask, stream=True)]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == REASONING
    assert "".join(delta.content or "" for delta in deltas) == ANSWER
