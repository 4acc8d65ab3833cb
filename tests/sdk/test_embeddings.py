"""Embeddings through stock clients: the OpenAI SDK, LangChain and LiteLLM. Similar texts get similar vectors."""

import asyncio
import math
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it downloads a price list
import litellm  # noqa: E402
import openai  # noqa: E402
import pytest  # noqa: E402
from langchain_openai import OpenAIEmbeddings  # noqa: E402
from turns import model_of  # noqa: E402

TEXTS = [
    "The cat sat on the mat and purred.",
    "A kitten was lying on the rug, purring.",
    "The central bank raised interest rates by half a point.",
]


@pytest.fixture
def model(client):
    return model_of(client)


def likeness(one, other):
    return sum(x * y for x, y in zip(one, other, strict=True))


def test_openai(client, server, model):
    answer = client.embeddings.create(model=model, input=TEXTS)  # the SDK requests base64
    vectors = [datum.embedding for datum in answer.data]
    assert [datum.index for datum in answer.data] == [0, 1, 2] and answer.model == model
    for vector in vectors:
        assert len(vector) == len(vectors[0]) and abs(math.hypot(*vector) - 1) < 1e-5
    assert likeness(vectors[0], vectors[1]) > likeness(vectors[0], vectors[2])
    floats = client.embeddings.create(model=model, input=TEXTS[0], encoding_format="float", dimensions=len(vectors[0]))
    assert floats.data[0].embedding == pytest.approx(vectors[0], abs=1e-7)
    assert floats.usage.prompt_tokens == floats.usage.total_tokens > 5
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        client.embeddings.create(model=model, input=TEXTS[0], dimensions=7)

    async def alone():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="anything") as other:
            return await other.embeddings.create(model=model, input=TEXTS[1])

    # The result does not depend on the rest of the batch.
    assert asyncio.run(alone()).data[0].embedding == vectors[1]


def test_large_batch_of_texts(client, model):
    answer = client.embeddings.create(model=model, input=[f"Number {i}." for i in range(300)])
    assert len(answer.data) == 300 and len({tuple(datum.embedding) for datum in answer.data}) == 300


def test_langchain(server, model):
    embeddings = OpenAIEmbeddings(base_url=server.url + "/v1", api_key="anything", model=model, check_embedding_ctx_length=False)
    documents = embeddings.embed_documents(TEXTS)
    assert embeddings.embed_query(TEXTS[0]) == documents[0]
    assert asyncio.run(embeddings.aembed_documents(TEXTS)) == documents


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_litellm(server, model, provider):
    base = server.url + ("/v1" if provider == "openai" else "")
    answer = litellm.embedding(model=f"{provider}/{model}", input=TEXTS[:2], api_base=base, api_key="anything")
    assert len(answer.data) == 2 and len(answer.data[0]["embedding"]) > 8 and answer.usage.prompt_tokens > 5
