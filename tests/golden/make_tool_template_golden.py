#!/usr/bin/env python3
"""Writes the references of tests/session/chat/tool_template_test.cpp: Jinja templates with tools, written here to
behave like those of Qwen, Llama 3.1 and Mistral, conversations with calls and results, and jinja2's rendering of them
with transformers' `tojson`. Needs jinja2."""
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
LLAMA = """\
{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\nToday Date: " + date_string + "\\n\\n" + system_message + "<|eot_id|>" }}
{%- if tools %}
    {{- "<|start_header_id|>user<|end_header_id|>\\n\\n" }}
    {{- "Given the following functions, please respond with a JSON for a function call with its proper arguments that best answers the given prompt.\\n\\n" }}
    {{- 'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.Do not use variables.\\n\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- messages[0]['content'] | trim + "<|eot_id|>" }}
    {%- set messages = messages[1:] %}
{%- endif %}
{%- for message in messages %}
    {%- if message.tool_calls %}
        {%- set call = message.tool_calls[0] %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
        {{- '{"name": "' + call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}<|eot_id|>" }}
    {%- elif message.role == "tool" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {{- message.content | tojson }}
        {{- "<|eot_id|>" }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
# SPACE is a space in the SentencePiece version, and empty in the Tekken one.
MISTRAL = """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools and message == user_messages[-1] %}
            {{- "[AVAILABLE_TOOLS]SPACE[" }}
            {%- for tool in tools %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, value in tool.function.items() %}
                    {{- '"' + key + '": ' + ('"' + value + '"' if value is string else value | tojson) }}
                    {{- "}}" if loop.last else ", " }}
                {%- endfor %}
                {{- "]" if loop.last else ", " }}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST]SPACE" + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST]SPACE" + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls %}
        {{- "[TOOL_CALLS]SPACE[" }}
        {%- for tool_call in message.tool_calls %}
            {{- ({"name": tool_call.name, "arguments": tool_call.arguments} | tojson)[:-1] }}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {{- "]" + eos_token if loop.last else ", " }}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- ANSWER }}
    {%- elif message["role"] == "tool" %}
        {{- '[TOOL_RESULTS]SPACE{"content": ' + message.content + ', "call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- endif %}
{%- endfor %}
"""
SENTENCE_PIECE = MISTRAL.replace("SPACE", " ").replace("ANSWER", '" " + message["content"] | trim + eos_token')
TEKKEN = MISTRAL.replace("SPACE", "").replace("ANSWER", 'message["content"] + eos_token')


def at_the_first(source):
    """Moves text before the last question to before the first, as an append-only cache requires."""
    return source.replace("user_messages[-1]", "user_messages[0]").replace("loop.last and system", "loop.first and system")


# file: the family, and its source
LATER = {"llama3.1": ("llama", LLAMA), "mistral_v3": ("mistral", SENTENCE_PIECE), "mistral_v3_first": ("mistral", at_the_first(SENTENCE_PIECE)),
         "mistral_tekken": ("mistral", TEKKEN), "mistral_tekken_first": ("mistral", at_the_first(TEKKEN))}
FACTS = {"llama": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}, "mistral": {"bos_token": "<s>", "eos_token": "</s>"}}
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


def tojson(value, indent=None):
    return json.dumps(value, ensure_ascii=False, indent=indent)


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


def later_conversation(rng, family, moves):
    """In the style of Llama and Mistral: one call at a time or several, each with an id. `moves`: the template puts
    text before the last question; then there is only one, and a system message only if nothing follows it. Questions
    differ, because the template identifies them by their text."""
    messages = [{**m, "content": f"{i} {m['content']}"} if m["role"] == "user" else m for i, m in enumerate(conversation(rng))]
    if moves:
        questions = [i for i, m in enumerate(messages) if m["role"] == "user"]
        messages = messages[:questions[1]] if len(questions) > 1 else messages
        if messages[0]["role"] == "system":
            messages = messages[:2] if rng.random() < 0.4 else messages[1:]
    kept, ids = [], []
    for message in messages:
        if message["role"] == "tool":
            if ids:
                kept.append({**message, "tool_call_id": ids.pop(0)})
            continue
        ids = []
        if message.get("tool_calls"):
            calls = message["tool_calls"][:1 if family == "llama" else None]
            ids = ["".join(rng.choice("abcXYZ0189") for _ in range(9)) for _ in calls]
            message = {**message, "tool_calls": [{**call, "id": i} for call, i in zip(calls, ids)]}
            ids = list(ids)
        kept.append(message)
    return kept


def plain_text(tool):
    """A tool whose description is valid inside JSON, because Mistral's template prints it verbatim."""
    function = dict(tool["function"])
    if "description" in function:
        function["description"] = function["description"].replace('"', "'")
    return {**tool, "function": function}


def main():
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = tojson
    rng, cases = random.Random(17), []

    def add(name, source, messages, tools, facts):
        text = environment.from_string(source).render(messages=messages, tools=tools, add_generation_prompt=True, **facts)
        # Calls as a client sends them: their arguments are text.
        given = [{**m, "tool_calls": [[c["name"], tojson(c["arguments"])] + ([c["id"]] if "id" in c else []) for c in m.get("tool_calls", [])]}
                 for m in messages]
        cases.append({"template": name, "tools": [tojson(t) for t in tools], "messages": given, "text": text})

    for name, source in TEMPLATES.items():
        (HERE / f"{name}_tools.jinja").write_text(source)
        for i in range(12):
            add(name, source, conversation(rng), TOOLS[:i % 4], {})
    for name, (family, source) in LATER.items():
        (HERE / f"{name}_tools.jinja").write_text(source)
        for i in range(12):
            messages = later_conversation(rng, family, "user_messages[-1]" in source)
            tools = [plain_text(tool) if family == "mistral" else tool for tool in TOOLS[:i % 4]]
            add(name, source, messages, tools, FACTS[family])
    (HERE / "tools.json").write_text(json.dumps(cases, separators=(",", ":")))


if __name__ == "__main__":
    main()
