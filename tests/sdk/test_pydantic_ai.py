"""Pydantic AI with thinking and tools, over four of this server's faces."""

import asyncio

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ThinkingPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider
from scripted import ANSWER, CALL, MODEL, NEXT, QUESTION, REASONING, look, looked

FACES = {
    "chat": lambda url: OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url + "/v1", api_key="anything")),
    "responses": lambda url: OpenAIResponsesModel(MODEL, provider=OpenAIProvider(base_url=url + "/v1", api_key="anything")),
    "anthropic": lambda url: AnthropicModel(MODEL, provider=AnthropicProvider(base_url=url, api_key="anything")),
    "ollama": lambda url: OllamaModel(MODEL, provider=OllamaProvider(base_url=url + "/v1")),
}
THINKING = {
    "chat": {"openai_reasoning_effort": "low"}, "responses": {"openai_reasoning_effort": "low", "openai_reasoning_summary": "auto"},
    "anthropic": {"anthropic_thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096}, "ollama": {"openai_reasoning_effort": "low"},
}


@pytest.mark.parametrize("face", FACES)
def test_thinking(thinker, face):
    agent = Agent(FACES[face](thinker.url), instructions="Be brief.", model_settings=THINKING[face])
    first = agent.run_sync(QUESTION)
    second = agent.run_sync(NEXT, message_history=first.all_messages())
    for result in (first, second):
        assert result.output == ANSWER
        thoughts = [part.content for part in result.response.parts if isinstance(part, ThinkingPart)]
        assert "".join(thoughts).strip() == REASONING
    assert second.usage.cache_read_tokens >= first.usage.input_tokens


@pytest.mark.parametrize("setting", [True, "high", False])
def test_thinking_by_the_setting_of_all_models(thinker, setting):
    for face in FACES:
        result = Agent(FACES[face](thinker.url), model_settings={"thinking": setting}).run_sync(QUESTION)
        assert result.output == ANSWER, face


@pytest.mark.parametrize("face", FACES)
def test_tools(caller, face):
    looked.clear()
    result = Agent(FACES[face](caller.url), instructions="Be brief.", tools=[look]).run_sync(QUESTION)
    assert result.output == ANSWER and looked == [CALL[1]["what"]]
    assert result.usage.requests == 2 and result.usage.cache_read_tokens > 0


@pytest.mark.parametrize("face", FACES)
def test_streamed(thinker, face):
    async def talk():
        async with Agent(FACES[face](thinker.url), model_settings=THINKING[face]).run_stream(QUESTION) as result:
            return "".join([piece async for piece in result.stream_text(delta=True)])

    assert asyncio.run(talk()) == ANSWER
