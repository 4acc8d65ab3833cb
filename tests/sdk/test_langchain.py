"""LangChain's chat models with reasoning and tools, one for each of this server's faces."""

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from scripted import ANSWER, CALL, MODEL, NEXT, QUESTION, REASONING, look, looked

MODELS = {
    "chat": lambda url, **more: ChatOpenAI(model=MODEL, base_url=url + "/v1", api_key="anything", max_retries=0, **more),
    "responses": lambda url, **more: ChatOpenAI(model=MODEL, base_url=url + "/v1", api_key="anything", max_retries=0,
                                                use_responses_api=True, **more),
    "anthropic": lambda url, **more: ChatAnthropic(model=MODEL, base_url=url, api_key="anything", max_retries=0, **more),
    "ollama": lambda url, **more: ChatOllama(model=MODEL, base_url=url, **more),
}
REASONS = {
    "chat": {"reasoning_effort": "low"}, "responses": {"reasoning": {"effort": "low", "summary": "auto"}},
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096}, "ollama": {"reasoning": True},
}


def reasoning_of(message):
    """ChatOpenAI drops what chat completions give of it."""
    blocks = [block for block in message.content_blocks if block["type"] == "reasoning"]
    return "".join(block.get("reasoning", "") for block in blocks).strip()


@pytest.mark.parametrize("face", MODELS)
def test_reasoning(thinker, face):
    chat = MODELS[face](thinker.url, **REASONS[face])
    history = [HumanMessage(QUESTION)]
    first = chat.invoke(history)
    second = chat.invoke([*history, first, HumanMessage(NEXT)])
    streamed = None
    for piece in chat.stream(history):
        streamed = piece if streamed is None else streamed + piece
    for answer in (first, second, streamed):
        assert answer.text == ANSWER
        assert face == "chat" or reasoning_of(answer) == REASONING
    if face != "ollama":  # whose API has no such figure
        assert second.usage_metadata["input_token_details"]["cache_read"] >= first.usage_metadata["input_tokens"]


@pytest.mark.parametrize("face", MODELS)
def test_tools(caller, face):
    looked.clear()
    given = tool(look)
    chat = MODELS[face](caller.url).bind_tools([given])
    history = [HumanMessage(QUESTION)]
    called = chat.invoke(history)
    [call] = called.tool_calls
    assert (call["name"], call["args"]) == CALL
    result = ToolMessage(given.invoke(call["args"]), tool_call_id=call["id"])
    assert looked == [CALL[1]["what"]]
    answer = chat.invoke([*history, called, result])
    assert answer.text == ANSWER and not answer.tool_calls
    if face != "ollama":
        assert answer.usage_metadata["input_token_details"]["cache_read"] >= called.usage_metadata["input_tokens"]
