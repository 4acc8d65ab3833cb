"""chat.completions and completions through the stock SDK; only base_url changes."""

import asyncio
import json

import openai
import pytest
from turns import model_of

GREEDY = {"temperature": 0, "max_tokens": 16}
QUESTION = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Name three colours."}]


def test_chat_with_history_computes_only_new_tokens(client):
    model = model_of(client)
    messages = list(QUESTION)
    before = 0
    for question in ("And three animals?", "And three towns?", "Thank you."):
        answer = client.chat.completions.create(model=model, messages=messages, **GREEDY)
        usage = answer.usage
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        assert usage.prompt_tokens_details.cached_tokens >= before
        before = usage.prompt_tokens
        messages += [answer.choices[0].message, {"role": "user", "content": question}]
    assert answer.choices[0].finish_reason in ("stop", "length")


def test_streams_whole_and_by_the_helper(client):
    model = model_of(client)
    whole = client.chat.completions.create(model=model, messages=QUESTION, **GREEDY)
    chunks = list(client.chat.completions.create(model=model, messages=QUESTION, stream=True,
                                                 stream_options={"include_usage": True}, **GREEDY))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert [chunk.choices[0].delta.role for chunk in chunks if chunk.choices].count("assistant") == 1
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert all(chunk.usage is None for chunk in chunks[:-1])

    with client.chat.completions.stream(model=model, messages=QUESTION, n=2, seed=1, temperature=1,
                                        stream_options={"include_usage": True}) as stream:
        deltas = [event for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert deltas and len(final.choices) == 2
    assert all(choice.message.role == "assistant" and choice.message.content for choice in final.choices)
    assert final.usage.prompt_tokens == whole.usage.prompt_tokens


def test_sampling_fields_and_logprobs(client):
    model = model_of(client)
    answer = client.chat.completions.create(model=model, messages=QUESTION, logprobs=True, top_logprobs=2, seed=5,
                                            presence_penalty=0.1, frequency_penalty=0.1, logit_bias={"5": -100}, stop=["\n\n"],
                                            extra_body={"top_k": 20, "min_p": 0.01, "repetition_penalty": 1.05}, **GREEDY)
    content = answer.choices[0].logprobs.content
    assert content and all(len(entry.top_logprobs) == 2 and entry.logprob <= 0 for entry in content)
    assert len(content) == answer.usage.completion_tokens
    three = client.chat.completions.create(model=model, messages=QUESTION, n=3, seed=5, temperature=1, max_tokens=12)
    assert [choice.index for choice in three.choices] == [0, 1, 2]
    again = client.chat.completions.create(model=model, messages=QUESTION, n=3, seed=5, temperature=1, max_tokens=12)
    assert [c.message.content for c in three.choices] == [c.message.content for c in again.choices]


def test_prompts_without_a_template(client):
    model = model_of(client)
    one = client.completions.create(model=model, prompt="Once upon a", echo=True, **GREEDY)
    assert one.choices[0].text.startswith("Once upon a") and len(one.choices[0].text) > len("Once upon a")
    story = "Once upon a time there was a king who had three daughters. " * 8
    before = client.completions.create(model=model, prompt=story, **GREEDY)
    longer = client.completions.create(model=model, prompt=story + "The first", **GREEDY)
    assert longer.usage.prompt_tokens_details.cached_tokens >= before.usage.prompt_tokens - 1
    two = client.completions.create(model=model, prompt=["One, two,", "Red, green,"], logprobs=2, **GREEDY)
    assert [choice.index for choice in two.choices] == [0, 1]
    logprobs = two.choices[1].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset) == len(logprobs.top_logprobs)
    tokens = client.completions.create(model=model, prompt=[5, 6, 7], **GREEDY)
    assert tokens.usage.prompt_tokens == 3
    streamed = client.completions.create(model=model, prompt="One, two,", stream=True, **GREEDY)
    assert "".join(chunk.choices[0].text for chunk in streamed) == two.choices[0].text


def test_the_asynchronous_client(server):
    async def talk():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="anything", max_retries=0) as client:
            model = (await client.models.list()).data[0].id

            async def streamed():
                stream = await client.chat.completions.create(model=model, messages=QUESTION, stream=True, **GREEDY)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            async def whole():
                answer = await client.chat.completions.create(model=model, messages=QUESTION, **GREEDY)
                return answer.choices[0].message.content

            texts = await asyncio.gather(streamed(), whole(), streamed(), whole())
            assert texts[0] and len(set(texts)) == 1

    asyncio.run(talk())


def test_answer_format(client):
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "green"]}, "size": {"type": "integer", "maximum": 9}},
              "required": ["colour", "size"], "additionalProperties": False}
    answer = client.chat.completions.create(
        model=model_of(client), messages=QUESTION, temperature=0, max_tokens=100,
        response_format={"type": "json_schema", "json_schema": {"name": "thing", "schema": schema, "strict": True}})
    assert answer.choices[0].finish_reason == "stop"
    thing = json.loads(answer.choices[0].message.content)
    assert thing["colour"] in ("red", "green") and thing["size"] <= 9 and len(thing) == 2


def test_errors_name_the_field(client):
    model = model_of(client)
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}
    cases = [({"messages": [image]}, "messages[0].content[0].type"),
             ({"response_format": {"type": "xml"}}, "response_format.type"),
             ({"functions": [{"name": "f", "parameters": {}}]}, "functions"),
             ({"extra_body": {"documents": [{"text": "x"}]}}, "documents")]
    for fields, param in cases:
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(**{"model": model, "messages": QUESTION, **fields})
        assert refused.value.param == param, refused.value
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=model, prompt="a", suffix="b")
    assert refused.value.param == "suffix"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="another", messages=QUESTION)
