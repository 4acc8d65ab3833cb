"""Structured output through the stock SDK: its own types accept the answers."""

from typing import Literal, Optional

from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel, Field
from turns import check_order, completed, read_answer


class Step(BaseModel):
    explanation: str
    output: str


class Person(BaseModel):
    name: str
    age: int = Field(ge=0, le=150)
    colour: Literal["red", "green", "blue"]
    nickname: Optional[str]
    steps: list[Step] = Field(max_length=2)


def ask(connection, text, format, **fields):
    connection.response.create(input=text, text={"format": format}, **{"temperature": 0, "max_output_tokens": 500, **fields})
    events = read_answer(connection)
    check_order(events)
    return completed(events)


def test_a_pydantic_model(connection):
    format = {"type": "json_schema", "name": "person", "schema": to_strict_json_schema(Person), "strict": True}
    answer = ask(connection, "Ada Lovelace is 36 and likes green. Describe her as JSON.", format)
    assert answer.status == "completed"
    person = Person.model_validate_json(answer.output_text)
    assert "Ada" in person.name
    assert answer.text.format.type == "json_schema" and answer.text.format.schema_ == format["schema"]


def test_any_object_and_a_regular_expression(connection):
    answer = ask(connection, "Give me a JSON object with one colour.", {"type": "json_object"}, max_output_tokens=120)
    assert answer.output_text.startswith("{")
    yes = ask(connection, "Is the sky blue?", {"type": "regex", "regex": "Yes|No"})
    assert yes.status == "completed" and yes.output_text in {"Yes", "No"}


def test_chat_parses_into_the_model(client):
    answer = client.chat.completions.parse(
        model=client.models.list().data[0].id, response_format=Person, temperature=0, max_tokens=500,
        messages=[{"role": "user", "content": "Ada Lovelace is 36 and likes green. Describe her as JSON."}])
    assert answer.choices[0].finish_reason == "stop"
    assert "Ada" in answer.choices[0].message.parsed.name
