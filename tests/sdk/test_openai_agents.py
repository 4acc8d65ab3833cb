"""OpenAI's Agents SDK with its default settings, which are those of gpt-5, against a server that takes that name."""

import asyncio

import agents
import openai
import pytest
from agents.realtime import RealtimeAgent, RealtimeRunner
from scripted import ANSWER, CALL, NEXT, QUESTION, REASONING, look, looked

PATIENCE_S = 120


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE_S))


def use(server, api="responses"):
    agents.set_tracing_disabled(True)
    agents.set_default_openai_client(openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="anything", max_retries=0))
    agents.set_default_openai_api(api)


def usage_of(result):
    return result.context_wrapper.usage


@pytest.mark.parametrize("api", ["responses", "chat_completions"])
@pytest.mark.parametrize("model", [None, "gpt-5"])
def test_default_settings(thinker, api, model):
    use(thinker, api)
    agent = agents.Agent(name="a", instructions="Be brief.", model=model)
    session = agents.SQLiteSession("one")

    async def talk():
        return [await agents.Runner.run(agent, said, session=session) for said in (QUESTION, NEXT)]

    first, second = run(talk())
    assert first.final_output == second.final_output == ANSWER
    assert usage_of(second).input_tokens_details.cached_tokens >= usage_of(first).input_tokens
    if model == "gpt-5":  # with the effort "low"; the default model's is "none"
        assert any(isinstance(item, agents.ReasoningItem) for item in first.new_items) and REASONING in str(first.new_items)


def test_streamed(thinker):
    use(thinker)

    async def talk():
        result = agents.Runner.run_streamed(agents.Agent(name="a", model="gpt-5"), QUESTION)
        return [event.data async for event in result.stream_events() if event.type == "raw_response_event"]

    events = run(talk())
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == ANSWER


@pytest.mark.parametrize("api", ["responses", "chat_completions"])
def test_tools(caller, api):
    use(caller, api)
    looked.clear()
    agent = agents.Agent(name="a", instructions="Be brief.", model="gpt-5", tools=[agents.function_tool(look)])
    result = run(agents.Runner.run(agent, QUESTION))
    assert result.final_output == ANSWER and looked == [CALL[1]["what"]]
    first, second = (response.usage for response in result.raw_responses)
    assert second.input_tokens_details.cached_tokens >= first.input_tokens


def test_realtime(caller):
    """Text over the Realtime runner: its session.update names audio, voices and tracing."""
    looked.clear()
    agent = RealtimeAgent(name="a", instructions="Be brief.", tools=[agents.function_tool(look)])
    settings = {"url": caller.url.replace("http", "ws") + "/v1/realtime", "api_key": "anything",
                "initial_model_settings": {"modalities": ["text"]}}

    async def talk():
        texts = []
        async with await RealtimeRunner(agent).run(model_config=settings) as session:
            await session.send_message(QUESTION)
            async for event in session:
                assert event.type != "error", event
                if event.type == "history_updated":
                    texts = [part.text for item in event.history if item.type == "message" and item.role == "assistant"
                             for part in item.content if part.type == "text"]
                if event.type == "agent_end" and texts and texts[-1] == ANSWER:
                    return texts

    assert run(talk()) == [ANSWER]
    assert looked == [CALL[1]["what"]]
