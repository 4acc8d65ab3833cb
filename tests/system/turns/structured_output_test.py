"""Structured output: whole answers match the format, and cut answers are continued to match it. The model would not
produce it by itself.

    scripts/python -m pytest tests/system/turns/structured_output_test.py
"""

import asyncio
import json
import re

import jsonschema
from conversation import Conversation, answer_text
from server_process import PATIENCE_S

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3},
        "more": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
    },
    "required": ["name", "age", "tags", "more"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "name": "person", "schema": SCHEMA, "strict": True}


def run(talk):
    asyncio.run(asyncio.wait_for(talk, 2 * PATIENCE_S))


def test_answers_follow_their_format(start, store):
    server = start("--store-path", store)

    async def talk():
        async with Conversation(server.port) as talk:
            for seed in range(12):
                answer = await talk.ask("Who?", text={"format": FORMAT}, seed=seed, temperature=1.5, max_output_tokens=400)
                assert answer["status"] == "completed"
                assert answer["text"]["format"] == FORMAT
                jsonschema.validate(json.loads(answer_text(answer)), SCHEMA)
            for seed in range(4):
                answer = await talk.ask("When?", text={"format": {"type": "regex", "regex": "\\d{4}-(0[1-9]|1[0-2])"}}, seed=seed)
                assert re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", answer_text(answer)), answer_text(answer)
                grammar = 'root ::= "(" root ")" | [a-c]+ "."'
                answer = await talk.ask("How?", text={"format": {"type": "grammar", "grammar": grammar}}, seed=seed, temperature=1.5,
                                        max_output_tokens=300)
                if answer["status"] == "completed":
                    inner = answer_text(answer).lstrip("(")
                    assert re.fullmatch(r"[a-c]+\.\)*", inner) and answer_text(answer).count("(") == inner.count(")")
            # Unconstrained turns before, between and after are not affected.
            free = await talk.ask("And?", max_output_tokens=20, temperature=0)
            assert free["text"]["format"] == {"type": "text"}

    run(talk())


def test_truncated_answer_continues(start, store):
    server = start("--store-path", store)

    async def talk():
        async with Conversation(server.port) as talk:
            answer = await talk.ask("Who?", text={"format": FORMAT}, max_output_tokens=5, seed=3)
            for turn in range(200):
                if answer["status"] == "completed":
                    break
                said = {"text": {"format": FORMAT}} if turn % 2 else {}  # the conversation keeps its format
                answer = await talk.ask([], max_output_tokens=5, seed=3, **said)
                assert answer["text"]["format"] == FORMAT
            role, text = (await talk.items())[-1]
            assert role == "assistant"
            jsonschema.validate(json.loads(text), SCHEMA)
            await talk.ask("Who?", max_output_tokens=4, temperature=0)
            error = (await talk.refused([], text={"format": FORMAT}))["error"]
            assert error["param"] == "text.format.schema", error

    run(talk())


def test_truncated_call_resumes(start, store):
    """Cut inside its arguments, the call keeps the constraint of its first request; it is delivered whole, however
    often it was cut."""
    server = start("--store-path", store)
    tools = [{"type": "function", "name": name, "parameters": SCHEMA} for name in ("one", "two")]

    async def talk():
        async with Conversation(server.port) as talk:
            answer = await talk.ask("Who?", tools=tools, tool_choice={"type": "function", "name": "two"}, max_output_tokens=30, seed=3)
            for _ in range(100):
                before = [item["id"] for item in answer["output"] if item["type"] == "function_call"]
                if answer["status"] == "completed":
                    break
                answer = await talk.ask([], max_output_tokens=7, seed=3)
                assert [item["id"] for item in answer["output"]][:len(before)] == before
            assert answer["tool_choice"] == {"type": "function", "name": "two"}
            [call] = answer["output"]
            assert call["name"] == "two" and call["status"] == "completed"
            jsonschema.validate(json.loads(call["arguments"]), SCHEMA)
            _, page = await talk.http.call("GET", f"/v1/conversations/{talk.id}/items")
            assert [item for item in page["data"] if item["type"] == "function_call"] == [call]

    run(talk())


def test_unsupported_features_are_named(start):
    server = start()

    async def talk():
        async with Conversation(server.port) as talk:
            for format, param in (
                (FORMAT | {"schema": {"type": "object", "properties": {"x": {"type": "integer", "multipleOf": 2}}}},
                 "text.format.schema.properties.x.multipleOf"),
                (FORMAT | {"schema": {"not": {}}}, "text.format.schema.not"),
                ({"type": "regex", "regex": "a(?=b)"}, "text.format.regex"),
                ({"type": "grammar", "grammar": "root ::= root"}, "text.format.grammar"),
            ):
                error = (await talk.refused("Hi", text={"format": format}))["error"]
                assert error["type"] == "invalid_request_error" and error["param"] == param, error
            answer = await talk.ask("Hi", text={"format": FORMAT}, stop="x", max_output_tokens=4)
            assert answer["error"] is None, "a stop string may end an answer that has a form"

    run(talk())


def test_concurrent_unconstrained_turns(start):
    """Unconstrained turns give the same text when turns with a format run alongside."""
    server = start("--slots", 4)

    async def talk():
        async with Conversation(server.port) as alone:
            expected = answer_text(await alone.ask("Hello", max_output_tokens=60, temperature=0))

        async def free():
            async with Conversation(server.port) as talk:
                return answer_text(await talk.ask("Hello", max_output_tokens=60, temperature=0))

        async def bound(seed):
            async with Conversation(server.port) as talk:
                answer = await talk.ask("Who?", text={"format": FORMAT}, seed=seed, max_output_tokens=400)
                jsonschema.validate(json.loads(answer_text(answer)), SCHEMA)

        results = await asyncio.gather(free(), bound(1), bound(2), free())
        assert results[0] == results[3] == expected

    run(talk())
