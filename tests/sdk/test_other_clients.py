"""Common third-party clients; only address and key change."""

import asyncio
from typing import Literal

import anthropic
import llm
import ollama
import pydantic
import pytest
from langchain_openai import ChatOpenAI
from llm.default_plugins.openai_models import Chat

QUESTION = "Name three colours."


@pytest.fixture
def model(client):
    return client.models.list().data[0].id


def test_langchain(server, model):
    chat = ChatOpenAI(base_url=server.url + "/v1", api_key="anything", model=model, temperature=0, max_tokens=16)
    answer = chat.invoke([("system", "You are brief."), ("human", QUESTION)])
    assert answer.content and answer.usage_metadata["output_tokens"] > 0
    again = chat.invoke([("system", "You are brief."), ("human", QUESTION), answer, ("human", "And three animals?")])
    assert again.usage_metadata["input_token_details"]["cache_read"] >= answer.usage_metadata["input_tokens"]
    pieces = list(chat.stream(QUESTION))
    assert "".join(piece.content for piece in pieces) == chat.invoke(QUESTION).content
    assert asyncio.run(chat.ainvoke(QUESTION)).content == chat.invoke(QUESTION).content


def test_llm(server, model):
    chat = Chat(model_id="ringside", model_name=model, api_base=server.url + "/v1")
    chat.key = "anything"
    conversation = llm.Conversation(model=chat)
    first = conversation.prompt(QUESTION, temperature=0, max_tokens=16, stream=True)
    assert first.text()
    second = conversation.prompt("And three animals?", temperature=0, max_tokens=16, stream=False)
    assert second.text() and second.usage().output > 0


def test_anthropic(server, model):
    with anthropic.Anthropic(base_url=server.url, api_key="anything", max_retries=0) as client:
        fields = {"model": model, "max_tokens": 16, "system": "You are brief.", "extra_body": {"temperature": 0}}
        messages = [{"role": "user", "content": QUESTION}]
        answer = client.messages.create(messages=messages, **fields)
        assert answer.content[0].text and answer.stop_reason in ("end_turn", "max_tokens")
        messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": "And three animals?"}]
        counted = client.messages.count_tokens(model=model, system="You are brief.", messages=messages).input_tokens
        second = client.messages.create(messages=messages, **fields)
        usage = second.usage
        assert usage.input_tokens + usage.cache_read_input_tokens == counted
        assert usage.cache_read_input_tokens >= answer.usage.input_tokens
        with client.messages.stream(messages=messages, **fields) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        assert text == final.content[0].text == second.content[0].text
        assert final.usage.output_tokens == second.usage.output_tokens
        with pytest.raises(anthropic.BadRequestError, match="tools.0..input_schema"):
            client.messages.create(messages=messages, tools=[{"name": "f"}], **fields)
        with pytest.raises(anthropic.NotFoundError):
            client.messages.create(**{**fields, "model": "another"}, messages=messages)
        with pytest.raises(anthropic.BadRequestError, match="batches of messages"):
            client.messages.batches.list()

    async def talk():
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="anything") as client:
            return await client.messages.create(messages=[{"role": "user", "content": QUESTION}], **fields)

    assert asyncio.run(talk()).content[0].text == answer.content[0].text


class Choice(pydantic.BaseModel):
    colour: Literal["red", "green", "blue"]
    sure: bool


def test_anthropic_parsed_answers_and_models(server, model):
    with anthropic.Anthropic(base_url=server.url, api_key="anything", max_retries=0) as client:
        parsed = client.messages.parse(model=model, max_tokens=300, messages=[{"role": "user", "content": QUESTION}], output_format=Choice)
        assert isinstance(parsed.parsed_output, Choice) and parsed.stop_reason == "end_turn"
        [only] = list(client.models.list())
        assert (only.id, only.type, only.display_name) == (model, "model", model) and only.created_at.year >= 2026
        assert client.models.retrieve(model) == only


def test_ollama(server, model):
    client = ollama.Client(host=server.url)
    options = {"temperature": 0, "num_predict": 16}
    messages = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": QUESTION}]
    answer = client.chat(model=model, messages=messages, options=options)
    assert answer.message.content and answer.done and answer.done_reason in ("stop", "length")
    assert answer.eval_count > 0 and answer.total_duration > answer.eval_duration > 0
    pieces = list(client.chat(model=model + ":latest", messages=messages, options=options, stream=True))
    assert "".join(piece.message.content for piece in pieces) == answer.message.content
    assert pieces[-1].done and not pieces[0].done
    generated = client.generate(model=model, system="You are brief.", prompt=QUESTION, options=options)
    assert generated.response == answer.message.content
    raw = client.generate(model=model, prompt="Once upon a", raw=True, options=options, stream=True)
    assert "".join(piece.response for piece in raw)
    assert client.list().models[0].model == model + ":latest"
    assert client.show(model).capabilities == ["completion", "tools", "embedding"]
    assert client.ps().models[0].model == model + ":latest"
    assert client.pull(model).status == "success"
    assert [step.status for step in client.pull(model, stream=True)] == ["success"]
    scored = client.chat(model=model, messages=messages, options=options, logprobs=True, top_logprobs=2)
    spelt = "".join(one.token for one in scored.logprobs)  # includes the stop token, if there was one
    assert spelt.removesuffix("<|im_end|>") == scored.message.content == answer.message.content
    assert len(scored.logprobs) == scored.eval_count
    for one in scored.logprobs:
        assert one.logprob <= 0 and len(one.top_logprobs) == 2 and one.top_logprobs[0].token == one.token
    streamed = client.generate(model=model, system="You are brief.", prompt=QUESTION, options=options, logprobs=True, stream=True)
    assert [one.token for piece in streamed for one in piece.logprobs or []] == [one.token for one in scored.logprobs]
    embedded = client.embed(model, [QUESTION, "Hi"])
    assert embedded.embeddings[0] == client.embeddings(model, QUESTION).embedding == client.embed(model, QUESTION).embeddings[0]
    assert len(embedded.embeddings) == 2 and embedded.prompt_eval_count > 2
    for refused in (lambda: client.create("mine", from_=model), lambda: client.copy(model, "mine"), lambda: client.delete(model),
                    lambda: client.push(model)):
        with pytest.raises(ollama.ResponseError, match="This server does not support changes"):
            refused()
    with pytest.raises(ollama.ResponseError) as refused:
        client.chat(model="another", messages=messages)
    assert refused.value.status_code == 404
    assert asyncio.run(ollama.AsyncClient(host=server.url).chat(model=model, messages=messages, options=options)).message
