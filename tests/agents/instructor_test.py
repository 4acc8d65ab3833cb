"""instructor: answers as objects, by calls of tools on three faces, whole and in parts.

    scripts/client_tests instructor
"""

import anthropic
import instructor
import openai
import pydantic
import pytest
import scripted_model

QUESTION = [{"role": "user", "content": "Which number?"}]


class Number(pydantic.BaseModel):
    value: int
    sure: bool


ARGUMENTS = '{"value": 42, "sure": true}'


@pytest.fixture(scope="module")
def caller(start):
    return start(scripted_model.calling("Number", ARGUMENTS))


@pytest.fixture(scope="module")
def partial_caller(start):
    """Its model calls the tool by the name that instructor gives it for an answer in parts."""
    return start(scripted_model.calling("PartialNumber", ARGUMENTS))


def client_of(server, mode):
    url = f"http://127.0.0.1:{server.port}"
    if mode.name.startswith("ANTHROPIC"):
        return instructor.from_anthropic(anthropic.Anthropic(base_url=url, api_key="any", max_retries=0), mode=mode)
    return instructor.from_openai(openai.OpenAI(base_url=url + "/v1", api_key="any", max_retries=0), mode=mode)


@pytest.mark.parametrize("mode", [instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.RESPONSES_TOOLS, instructor.Mode.ANTHROPIC_TOOLS],
                         ids=lambda mode: mode.name)
def test_an_object(caller, mode):
    more = {"max_tokens": 200} if mode is instructor.Mode.ANTHROPIC_TOOLS else {}
    number = client_of(caller, mode).create(model="gpt-5", messages=QUESTION, response_model=Number, max_retries=0, **more)
    assert (number.value, number.sure) == (42, True)


def test_an_object_in_parts(partial_caller):
    client = client_of(partial_caller, instructor.Mode.TOOLS)
    *_, last = client.create_partial(model="gpt-5", messages=QUESTION, response_model=Number, max_retries=0)
    assert (last.value, last.sure) == (42, True)


def test_an_object_with_reasoning(caller):
    client = client_of(caller, instructor.Mode.TOOLS)
    assert client.create(model="gpt-5", messages=QUESTION, response_model=Number, reasoning_effort="low", max_retries=0).value == 42
