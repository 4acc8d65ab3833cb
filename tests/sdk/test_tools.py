"""Tool calls through stock clients: every call names an offered tool, its arguments are valid, and the returned history
is found in the cache."""

import json
import typing

import anthropic
import jsonschema
import ollama
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from turns import EVENT_TYPE, model_of

WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20},
                                            "unit": {"type": "string", "enum": ["celsius", "kelvin"]}},
           "required": ["city", "unit"], "additionalProperties": False}
CLOCK = {"type": "object", "properties": {"offset": {"type": "integer", "minimum": -12, "maximum": 12}},
         "required": ["offset"], "additionalProperties": False}
SCHEMAS = {"get_weather": WEATHER, "get_time": CLOCK}
TOOLS = [{"type": "function", "name": name, "description": f"Use {name}.", "parameters": schema, "strict": True}
         for name, schema in SCHEMAS.items()]
CHAT_TOOLS = [{"type": "function", "function": {k: v for k, v in t.items() if k != "type"}} for t in TOOLS]
QUESTION = "What is the weather in Paris, in celsius?"
LIMITS = {"temperature": 0, "max_output_tokens": 120}


def check(name, arguments):
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    jsonschema.validate(arguments, SCHEMAS[name])
    return arguments


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_time"},
                                    {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_time"}]}])
def test_a_choice_is_followed(client, choice):
    answer = client.responses.create(model=model_of(client), input=QUESTION, tools=TOOLS, tool_choice=choice,
                                     parallel_tool_calls=False, **LIMITS)
    assert answer.status == "completed" and [item.type for item in answer.output] == ["function_call"]
    check(answer.output[0].name, answer.output[0].arguments)
    assert choice == "required" or answer.output[0].name == "get_time"


def test_choice_none_gives_text_and_auto_either(client):
    for choice in ("none", "auto"):
        answer = client.responses.create(model=model_of(client), input=QUESTION, tools=TOOLS, tool_choice=choice, **LIMITS)
        calls = [item for item in answer.output if item.type == "function_call"]
        assert "<tool_call>" not in answer.output_text
        assert choice == "auto" or not calls
        for call in calls:
            if call.status == "completed":
                check(call.name, call.arguments)


def test_a_round_trip_over_responses(client):
    model = model_of(client)
    ask = {"model": model, "tools": TOOLS, "parallel_tool_calls": False, **LIMITS}
    first = client.responses.create(input=QUESTION, tool_choice="required", **ask)
    call = first.output[0]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": json.dumps({"degrees": 21})}
    chained = client.responses.create(input=[result], previous_response_id=first.id, tool_choice="none", **ask)
    assert chained.status in {"completed", "incomplete"} and chained.output_text
    assert chained.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens
    # A stateless client sends back all items that it received.
    whole = client.responses.create(input=[{"role": "user", "content": QUESTION}, *first.output, result], tool_choice="none", **ask)
    # Same text, but retokenizing it does not always give the sampled ids.
    assert abs(whole.usage.input_tokens - chained.usage.input_tokens) < 16
    items = client.responses.input_items.list(chained.id, order="asc").data
    assert [item.type for item in items] == ["message", "function_call", "function_call_output"]
    assert items[1].call_id == items[2].call_id == call.call_id


def test_stream_events_have_the_sdk_types(client):
    with client.responses.stream(model=model_of(client), input=QUESTION, tools=TOOLS, tool_choice="required", **LIMITS) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events if hasattr(event, "sequence_number")] == sorted(
        event.sequence_number for event in events if hasattr(event, "sequence_number"))
    done = [event for event in events if event.type == "response.function_call_arguments.done"]
    deltas = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    assert done and deltas == "".join(event.arguments for event in done)
    assert [item.arguments for item in final.output] == [event.arguments for event in done]
    for item in final.output:
        if item.status == "completed":
            check(item.name, item.arguments)


def test_websocket_sends_the_same_events(client, connection):
    connection.response.create(input=QUESTION, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, **LIMITS)
    types = []
    for event in connection:
        EVENT_TYPE.validate_python(event.to_dict())
        types.append(event.type)
        if event.type == "response.completed":
            break
    assert types[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert types[-3:] == ["response.function_call_arguments.done", "response.output_item.done", "response.completed"]
    check(event.response.output[0].name, event.response.output[0].arguments)


def test_chat_round_trip_reuses_the_cache(client):
    model, messages = model_of(client), [{"role": "user", "content": QUESTION}]
    ask = {"model": model, "tools": CHAT_TOOLS, "temperature": 0, "max_tokens": 120}
    first = client.chat.completions.create(messages=messages, tool_choice="required", **ask)
    choice = first.choices[0]
    assert choice.finish_reason in {"tool_calls", "length"} and choice.message.tool_calls
    whole = [call for call in choice.message.tool_calls if call.function.arguments.endswith("}")]
    for call in whole:
        check(call.function.name, call.function.arguments)
    named = client.chat.completions.create(
        messages=messages, tool_choice={"type": "function", "function": {"name": "get_time"}}, **ask).choices[0]
    assert named.finish_reason == "tool_calls" and len(named.message.tool_calls) == 1
    call = named.message.tool_calls[0]
    messages += [named.message.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": "12:00"}]
    second = client.chat.completions.create(messages=messages, tool_choice="none", **ask)
    assert second.choices[0].message.content
    # Everything but the tool result and the next answer's header was in the cache.
    assert second.usage.prompt_tokens - second.usage.prompt_tokens_details.cached_tokens < 40


def test_truncated_call_may_be_returned(client):
    """A cut call appears in the next request together with the tool's answer: agents' histories contain such calls."""
    model, messages = model_of(client), [{"role": "user", "content": QUESTION}]
    named = {"type": "function", "function": {"name": "get_weather"}}
    cut = client.chat.completions.create(model=model, messages=messages, tools=CHAT_TOOLS, tool_choice=named, temperature=0, max_tokens=24)
    call = cut.choices[0].message.tool_calls[0]
    assert cut.choices[0].finish_reason == "length" and not call.function.arguments.endswith("}")
    messages += [cut.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "These arguments are no JSON."}]
    second = client.chat.completions.create(model=model, messages=messages, tools=CHAT_TOOLS, tool_choice="none", temperature=0, max_tokens=8)
    assert second.choices[0].message.content
    assert second.usage.prompt_tokens_details.cached_tokens >= cut.usage.prompt_tokens  # the sampled call itself

    ask = {"model": model, "tools": TOOLS, "temperature": 0}
    first = client.responses.create(input=QUESTION, tool_choice={"type": "function", "name": "get_weather"}, max_output_tokens=24, **ask)
    [item] = first.output
    assert item.status == "incomplete"
    result = {"type": "function_call_output", "call_id": item.call_id, "output": "These arguments are no JSON."}
    again = client.responses.create(input=[{"role": "user", "content": QUESTION}, item, result], tool_choice="none", max_output_tokens=8, **ask)
    assert again.output_text


def test_a_chat_stream_accumulates(client):
    with client.chat.completions.stream(model=model_of(client), messages=[{"role": "user", "content": QUESTION}], tools=CHAT_TOOLS,
                                        tool_choice={"type": "function", "function": {"name": "get_weather"}},
                                        temperature=0, max_tokens=120) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert final.choices[0].finish_reason == "tool_calls"
    function = final.choices[0].message.tool_calls[0].function
    assert function.parsed_arguments == check(function.name, function.arguments)


def test_langchain_binds_tools(client, server):
    @tool
    def get_weather(city: str, unit: typing.Literal["celsius", "kelvin"]) -> str:
        """The weather in a city."""
        return f"21 degrees {unit} in {city}"

    llm = ChatOpenAI(base_url=server.url + "/v1", api_key="x", model=model_of(client), temperature=0, max_tokens=120, max_retries=0)
    asked = [HumanMessage(QUESTION)]
    answer = llm.bind_tools([get_weather], tool_choice="get_weather").invoke(asked)
    assert len(answer.tool_calls) == 1 and not answer.invalid_tool_calls
    result = get_weather.invoke(answer.tool_calls[0])
    assert isinstance(result, ToolMessage)
    final = llm.bind_tools([get_weather], tool_choice="none").invoke([*asked, answer, result])
    assert final.content and not final.tool_calls


def test_anthropic_uses_tools(client, server):
    with anthropic.Anthropic(base_url=server.url, api_key="x", max_retries=0) as other:
        ask = {"model": model_of(client), "max_tokens": 120, "extra_body": {"temperature": 0},
               "tools": [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]}
        messages = [{"role": "user", "content": QUESTION}]
        answer = other.messages.create(messages=messages, **ask,
                                       tool_choice={"type": "tool", "name": "get_time", "disable_parallel_tool_use": True})
        assert answer.stop_reason == "tool_use" and [block.type for block in answer.content] == ["tool_use"]
        call = answer.content[0]
        check(call.name, call.input)
        messages += [{"role": "assistant", "content": answer.content},
                     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "12:00"}]}]
        second = other.messages.create(messages=messages, tool_choice={"type": "none"}, **ask)
        assert second.content[0].text and second.usage.cache_read_input_tokens > 100
        with other.messages.stream(messages=messages[:1], tool_choice={"type": "any", "disable_parallel_tool_use": True}, **ask) as stream:
            block = stream.get_final_message().content[0]
        check(block.name, block.input)


def test_anthropic_tool_runner(client, server):
    """The runner asks for a thread first, and continues without one."""
    cities = []

    @anthropic.beta_tool(input_schema=WEATHER)
    def get_weather(city, unit):
        """The weather in a city."""
        cities.append(city)
        return "21 degrees"

    with anthropic.Anthropic(base_url=server.url, api_key="x", max_retries=0) as other:
        runner = other.beta.messages.tool_runner(model=model_of(client), max_tokens=120, max_iterations=2, tools=[get_weather],
                                                 extra_body={"temperature": 0},  # a sampled city name may never end
                                                 tool_choice={"type": "tool", "name": "get_weather"},
                                                 messages=[{"role": "user", "content": QUESTION}])
        assert [message.stop_reason for message in runner] == ["tool_use", "tool_use"]
    assert len(cities) >= 1


def test_ollama_calls_tools(client, server):
    other = ollama.Client(host=server.url)
    ask = {"model": model_of(client), "tools": CHAT_TOOLS, "options": {"temperature": 0, "num_predict": 80}}
    answer = other.chat(messages=[{"role": "user", "content": QUESTION}], **ask)
    for call in answer.message.tool_calls or []:
        check(call.function.name, dict(call.function.arguments))
    history = [{"role": "user", "content": QUESTION},
               {"role": "assistant", "tool_calls": [{"function": {"name": "get_time", "arguments": {"offset": 1}}}]},
               {"role": "tool", "tool_name": "get_time", "content": "12:00"}]
    parts = list(other.chat(messages=history, stream=True, **ask))
    assert parts[-1].done and "tools" in other.show(model_of(client)).capabilities
