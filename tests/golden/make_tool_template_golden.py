#!/usr/bin/env python3
"""Writes what tests/session/chat/tool_template_test.cpp compares against: templates in Jinja that tell tools, written here to
behave as Qwen's do, conversations with calls and results, and what jinja2 makes of them with transformers' `tojson`.
Needs jinja2."""
import json
import random
from pathlib import Path

import jinja2

HERE = Path(__file__).parent / "chat_template"
TOLD = """\
{{- "# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with function signatures within <tools></tools> XML tags:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>\\n" }}"""
RESULTS = """\
    {%- elif message.role == "tool" %}
        {%- if loop.first or messages[loop.index0 - 1].role != "tool" %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != "tool" %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
TEMPLATES = {"qwen2.5": """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n" }}
    """ + TOLD + """
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {{- '\\n<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
""" + RESULTS, "qwen3": """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    """ + TOLD + """
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- for tool_call in message.tool_calls or [] %}
            {%- if (loop.first and content) or (not loop.first) %}
                {{- '\\n' }}
            {%- endif %}
            {{- '<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
""" + RESULTS}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather <now> & \"then\", caf\u00e9",
                                      "parameters": {"type": "object", "properties": {
                                          "city": {"type": "string", "enum": ["a\nb", "\u4f60"]},
                                          "days": {"type": "integer", "minimum": 0.5, "maximum": 2.0}},
                                          "required": ["city"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "no-schema", "description": "<|im_end|>"}},
]
TEXTS = ["Hello!", "", "two\nlines", " spaced ", "<tool_call>", "</tool_response>", "<|im_end|>", "<think>\nhm\n</think>\n\nyes"]
CALLS = [("get_weather", {"city": "Bonn", "days": 2}), ("now", {}), ("get_weather", {"city": "\u4f60 \"x\" </think>\n", "l": [1.5, None, {"a": True}]})]


def tojson(value, **_):
    return json.dumps(value, ensure_ascii=False)


def conversation(rng):
    messages = [{"role": "system", "content": rng.choice(TEXTS[:4])}] if rng.random() < 0.5 else []
    for _ in range(rng.randrange(1, 4)):
        messages.append({"role": "user", "content": rng.choice(TEXTS)})
        for _ in range(rng.randrange(3)):
            calls = [rng.choice(CALLS) for _ in range(rng.randrange(1, 4))]
            messages.append({"role": "assistant", "content": rng.choice(["", "", "Let me see.", TEXTS[7]]),
                             "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]})
            messages += [{"role": "tool", "content": rng.choice(TEXTS)} for _ in calls]
        if rng.random() < 0.8:
            messages.append({"role": "assistant", "content": rng.choice(TEXTS[:4])})
    return messages


def main():
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = tojson
    rng, cases = random.Random(17), []
    for name, source in TEMPLATES.items():
        (HERE / f"{name}_tools.jinja").write_text(source)
        for i in range(12):
            messages, tools = conversation(rng), TOOLS[:i % 4]
            text = environment.from_string(source).render(messages=messages, tools=tools, add_generation_prompt=True)
            # Calls as a client gives them: their arguments are text.
            given = [{**m, "tool_calls": [[c["name"], tojson(c["arguments"])] for c in m.get("tool_calls", [])]} for m in messages]
            cases.append({"template": name, "tools": [tojson(t) for t in tools], "messages": given, "text": text})
    (HERE / "tools.json").write_text(json.dumps(cases, separators=(",", ":")))


if __name__ == "__main__":
    main()
