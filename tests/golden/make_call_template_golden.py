#!/usr/bin/env python3
"""Writes the templates that tests/session/chat/call_template_test.cpp learns: in Jinja, written here to render tools,
calls and results like those of the named families; and a conversation with jinja2's rendering. Needs jinja2."""
import json
from pathlib import Path

import jinja2

HERE = Path(__file__).parent / "chat_template"
CHATML_TURNS = """\
{%- for message in messages %}
    {%- if message.role == "assistant" and message.tool_calls %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}{{- '\\n' + message.content | trim + '\\n' }}{%- endif %}
        CALLS
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.previtem and loop.previtem.role != "tool" %}{{- '<|im_start|>user\\n' }}{%- endif %}
        {{- '<tool_response>\\n' + message.content + '\\n</tool_response>\\n' }}
        {%- if loop.last or loop.nextitem.role != "tool" %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- elif message.role != "system" or not loop.first %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
QWEN_HEAD = """\
{%- if messages[0].role == "system" or tools %}
    {{- '<|im_start|>system\\n' + (messages[0].content if messages[0].role == "system" else "You are Qwen.") }}
    {%- if tools %}
        {{- "\\n\\n# Tools\\n\\nYou have access to the following functions:\\n\\n<tools>" }}
        {%- for tool in tools %}
            {{- "\\n<function>\\n<name>" ~ tool.function.name ~ "</name>\\n<parameters>" }}
            {%- for name, fields in tool.function.parameters.properties | items %}
                {{- "\\n<parameter>\\n<name>" ~ name ~ "</name>\\n<type>" ~ fields.type ~ "</type>\\n</parameter>" }}
            {%- endfor %}
            {{- "\\n</parameters>\\n</function>" }}
        {%- endfor %}
        {{- "\\n</tools>\\n\\nReply with:\\n<tool_call>\\n<function=example>\\n<parameter=p>\\nvalue\\n</parameter>\\n</function>\\n</tool_call>" }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
"""
QWEN_CALLS = """\
{%- for tool_call in message.tool_calls %}
            {%- set call = tool_call.function if tool_call.function is defined else tool_call %}
            {{- '\\n<tool_call>\\n<function=' + call.name + '>\\n' }}
            {%- for name, value in call.arguments | items %}
                {{- '<parameter=' + name + '>\\n' }}
                {{- value if value is string else value | tojson }}
                {{- '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}"""
GLM = """\
[gMASK]<sop>
{%- if tools %}
    {{- '<|system|>\\n# Tools\\n\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools>\\n\\n<tool_call>{function-name}\\n<arg_key>{arg-key-1}</arg_key>\\n<arg_value>{arg-value-1}</arg_value>\\n...\\n</tool_call>' }}
{%- endif %}
{%- for m in messages %}
    {%- if m.role == 'user' %}{{- '<|user|>\\n' + m.content }}
    {%- elif m.role == 'assistant' %}
        {{- '<|assistant|>' }}
        {%- if m.content %}{{- '\\n' + m.content }}{%- endif %}
        {%- for call in m.tool_calls or [] %}
            {{- '\\n<tool_call>' + call.function.name }}
            {%- for k, v in call.function.arguments | items %}
                {{- '\\n<arg_key>' + k + '</arg_key>\\n<arg_value>' }}
                {{- v if v is string else v | tojson }}
                {{- '</arg_value>' }}
            {%- endfor %}
            {{- '\\n</tool_call>' }}
        {%- endfor %}
    {%- elif m.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|observation|>' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
    {%- elif m.role == 'system' %}{{- '<|system|>\\n' + m.content }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}
"""
KIMI = """\
{%- if tools %}{{- '<|im_system|>tool_declare<|im_middle|>' }}{{- tools | tojson }}{{- '<|im_end|>' }}{%- endif %}
{%- for message in messages %}
    {%- set role = message.role %}
    {%- if role == 'tool' %}
        {{- '<|im_system|>tool<|im_middle|>## Return of ' + message.tool_call_id + '\\n' + message.content }}
    {%- else %}
        {{- '<|im_' + role + '|>' + role + '<|im_middle|>' + message.content }}
        {%- if message.tool_calls %}
            {{- '<|tool_calls_section_begin|>' }}
            {%- for call in message.tool_calls %}
                {{- '<|tool_call_begin|>' + call.id + '<|tool_call_argument_begin|>' }}
                {{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
                {{- '<|tool_call_end|>' }}
            {%- endfor %}
            {{- '<|tool_calls_section_end|>' }}
        {%- endif %}
    {%- endif %}
    {{- '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_assistant|>assistant<|im_middle|>' }}{%- endif %}
"""
# CALL: one call's text.
DEEPSEEK = """\
{{- bos_token }}
{%- for message in messages if message.role == 'system' %}{{- message.content }}{%- endfor %}
{%- if tools %}
    {{- '\\n\\n## Tools\\n' }}
    {%- for tool in tools %}{{- '\\n### ' + tool.function.name + '\\n\\nParameters: ' }}{{- tool.function.parameters | tojson }}{%- endfor %}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{{- '<｜User｜>' + message.content }}
    {%- elif message.role == 'assistant' and message.tool_calls %}
        {{- '<｜Assistant｜>' + message.content + '<｜tool▁calls▁begin｜>' }}
        {%- for call in message.tool_calls %}
            CALL
        {%- endfor %}
        {{- '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>' }}
    {%- elif message.role == 'assistant' %}{{- '<｜Assistant｜>' + message.content + '<｜end▁of▁sentence｜>' }}
    {%- elif message.role == 'tool' %}{{- '<｜tool▁output▁begin｜>' + message.content + '<｜tool▁output▁end｜>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<｜Assistant｜>' }}{%- endif %}
"""
MINIMAX = """\
{{- ']~!b[]~b]system\\n' + (messages[0].content if messages[0].role == 'system' else 'You are a helpful assistant.') }}
{%- if tools %}
    {{- '\\n\\n# Tools\\n<tools>\\n' }}
    {%- for tool in tools %}{{- '<tool>' }}{{- tool.function | tojson }}{{- '</tool>\\n' }}{%- endfor %}
    {{- '</tools>' }}
{%- endif %}
{{- '[e~[\\n' }}
{%- for message in messages %}
    {%- if message.role == 'user' %}{{- ']~b]user\\n' + message.content + '[e~[\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- ']~b]ai\\n' + message.content }}
        {%- if message.tool_calls %}
            {{- '\\n<minimax:tool_call>\\n' }}
            {%- for call in message.tool_calls %}
                {{- '<invoke name="' + call.function.name + '">' }}
                {%- for k, v in call.function.arguments | items %}
                    {{- '\\n<parameter name="' + k + '">' }}
                    {{- v if v is string else v | tojson }}
                    {{- '</parameter>' }}
                {%- endfor %}
                {{- '\\n</invoke>\\n' }}
            {%- endfor %}
            {{- '</minimax:tool_call>' }}
        {%- endif %}
        {{- '[e~[\\n' }}
    {%- elif message.role == 'tool' %}{{- ']~b]tool\\n<response>' + message.content + '</response>[e~[\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- ']~b]ai\\n' }}{%- endif %}
"""
MISTRAL = """\
{{- bos_token }}
{%- for message in messages if message.role == 'system' %}{{- '[SYSTEM_PROMPT]' + message.content + '[/SYSTEM_PROMPT]' }}{%- endfor %}
{%- if tools %}{{- '[AVAILABLE_TOOLS]' }}{{- tools | tojson }}{{- '[/AVAILABLE_TOOLS]' }}{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{{- '[INST]' + message.content + '[/INST]' }}
    {%- elif message.role == 'assistant' %}
        {{- message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '[TOOL_CALLS]' + call.function.name + WHICH + '[ARGS]' }}{{- call.function.arguments | tojson }}
        {%- endfor %}
        {{- eos_token }}
    {%- elif message.role == 'tool' %}{{- '[TOOL_RESULTS]' + WHOSE + message.content + '[/TOOL_RESULTS]' }}
    {%- endif %}
{%- endfor %}
"""
GRANITE = """\
{%- if tools %}{{- '<|start_of_role|>tools<|end_of_role|>' }}{{- tools | tojson }}{{- '<|end_of_text|>\\n' }}{%- endif %}
{%- for message in messages %}
    {{- '<|start_of_role|>' + ('tool_response' if message.role == 'tool' else message.role) + '<|end_of_role|>' + message.content }}
    {%- if message.tool_calls %}
        {{- '<|tool_call|>[' }}
        {%- for call in message.tool_calls %}
            {{- '{"name": "' + call.function.name + '", "arguments": ' }}{{- call.function.arguments | tojson }}
            {{- '}' if loop.last else '}, ' }}
        {%- endfor %}
        {{- ']CLOSE' }}
    {%- endif %}
    {{- '<|end_of_text|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif %}
"""
# CALLS: those of a message. NAME: the end of turn's.
PLAIN = """\
{{- bos_token }}
{%- if tools %}{{- 'OPENtoolsROLEEND\\n' }}{%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}{%- endfor %}{{- 'NAME\\n' }}{%- endif %}
{%- for message in messages %}
    {{- 'OPEN' + message.role + 'ROLEEND\\n' + message.content }}
    {%- if message.tool_calls %}CALLS{%- endif %}
    {{- 'NAME\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- 'OPENassistantROLEEND\\n' }}{%- endif %}
"""
COMMAND = """
        {{- '<|START_ACTION|>[' }}
        {%- for call in message.tool_calls %}
            {{- '\\n    {"tool_call_id": "' ~ loop.index0 ~ '", "tool_name": "' + call.function.name + '", "parameters": ' }}
            {{- call.function.arguments | tojson }}{{- '}' if loop.last else '},' }}
        {%- endfor %}
        {{- '\\n]<|END_ACTION|>' }}"""
COMMAND_R = """
        {{- 'Action: ```json\\n[' }}
        {%- for call in message.tool_calls %}
            {{- '\\n    {\\n        "tool_name": "' + call.function.name + '",\\n        "parameters": ' }}
            {{- call.function.arguments | tojson }}{{- '\\n    }' if loop.last else '\\n    },' }}
        {%- endfor %}
        {{- '\\n]```' }}"""
PYTHONIC = """
        {{- 'BEGIN[' }}
        {%- for call in message.tool_calls %}
            {{- call.function.name + '(' }}
            {%- for k, v in call.function.arguments | items %}{{- k + '=' }}{{- v | tojson }}{%- if not loop.last %}{{- ', ' }}{%- endif %}{%- endfor %}
            {{- ')' if loop.last else '), ' }}
        {%- endfor %}
        {{- ']CLOSE' }}"""
GEMMA = """
        {%- for call in message.tool_calls %}
            {{- '<|tool_call>call:' + call.function.name + '{' }}
            {%- for k, v in call.function.arguments | items %}
                {{- k + ':' }}{{- '<|"|>' + v + '<|"|>' if v is string else v | tojson }}{%- if not loop.last %}{{- ',' }}{%- endif %}
            {%- endfor %}
            {{- '}<tool_call|>' }}
        {%- endfor %}"""
SEED = """
        {%- for call in message.tool_calls %}
            {{- '\\n<seed:tool_call>\\n<function=' + call.function.name + '>' }}
            {%- for k, v in call.function.arguments | items %}
                {{- '\\n<parameter=' + k + '>' }}{{- v if v is string else v | tojson }}{{- '</parameter>' }}
            {%- endfor %}
            {{- '\\n</function>\\n</seed:tool_call>' }}
        {%- endfor %}"""

DSML = """
        {{- '\\n\\n<｜DSML｜function_calls>\\n' }}
        {%- for call in message.tool_calls %}
            {{- '<｜DSML｜invoke name="' + call.function.name + '">\\n' }}
            {%- for k, v in call.function.arguments | items %}
                {{- '<｜DSML｜parameter name="' + k + '" string="' + ('true' if v is string else 'false') + '">' }}
                {{- v if v is string else v | tojson }}{{- '</｜DSML｜parameter>\\n' }}
            {%- endfor %}
            {{- '</｜DSML｜invoke>\\n' }}
        {%- endfor %}
        {{- '</｜DSML｜function_calls>' }}"""


def plain(calls, opening="<|header_start|>", role_end="<|header_end|>", end="<|eot|>"):
    return PLAIN.replace("CALLS", calls).replace("OPEN", opening).replace("ROLEEND", role_end).replace("NAME", end)


# file: its syntax (ToolSyntaxName), the end of turn, and the source
V31 = "{{- '<｜tool▁call▁begin｜>' + call.function.name + '<｜tool▁sep｜>' }}{{- call.function.arguments | tojson }}{{- '<｜tool▁call▁end｜>' }}"
R1 = ("{{- ('' if loop.first else '\\n') + '<｜tool▁call▁begin｜>' + call.type + '<｜tool▁sep｜>' + call.function.name"
      " + '\\n```json\\n' + call.function.arguments + '\\n```<｜tool▁call▁end｜>' }}")
END = "<｜end▁of▁sentence｜>"
TEMPLATES = {
    "mistral_v11": (4, "</s>", MISTRAL.replace("WHICH", "'[CALL_ID]' + call.id").replace("WHOSE", "message.tool_call_id + '[TOOL_CONTENT]'")),
    "mistral_v13": (5, "</s>", MISTRAL.replace("WHICH", "''").replace("WHOSE", "''")),
    "deepseek_r1": (6, END, DEEPSEEK.replace("CALL", R1)),
    "deepseek_v31": (7, END, DEEPSEEK.replace("CALL", V31)),
    "kimi": (8, "<|im_end|>", KIMI),
    "phi4_mini": (9, "<|end_of_text|>", GRANITE.replace("CLOSE", "<|/tool_call|>")),
    "granite": (10, "<|end_of_text|>", GRANITE.replace("CLOSE", "")),
    "command_a": (11, "<|END_OF_TURN_TOKEN|>", plain(COMMAND, "<|START_OF_TURN_TOKEN|>", "<|END_ROLE|>", "<|END_OF_TURN_TOKEN|>")),
    "command_r": (12, "<|END_OF_TURN_TOKEN|>", plain(COMMAND_R, "<|START_OF_TURN_TOKEN|>", "<|END_ROLE|>", "<|END_OF_TURN_TOKEN|>")),
    "qwen3_coder": (13, "<|im_end|>", QWEN_HEAD + CHATML_TURNS.replace("CALLS", QWEN_CALLS)),
    "glm45": (14, "<|user|>", GLM),
    "minimax": (15, "[e~[", MINIMAX),
    "seed": (16, "<seed:eos>", plain(SEED, "<seed:bos>", "", "<seed:eos>")),
    "llama4": (17, "<|eot|>", plain(PYTHONIC.replace("BEGIN", "").replace("CLOSE", ""))),
    "lfm2": (18, "<|im_end|>", plain(PYTHONIC.replace("BEGIN", "<|tool_call_start|>").replace("CLOSE", "<|tool_call_end|>"), "<|im_start|>", "", "<|im_end|>")),
    "deepseek_v32": (20, END, plain(DSML, "<｜", "｜>", END)),
    "deepseek_v4": (21, END, plain(DSML.replace("function_calls", "tool_calls"), "<｜", "｜>", END)),
    "gemma4": (19, "<turn|>", plain(GEMMA, "<|turn>", "", "<turn|>")),
}
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks <up>", "parameters": {
    "type": "object", "properties": {"what": {"type": "string", "description": "Words"}, "count": {"type": "integer", "description": "Results"}},
    "required": ["what"]}}}]
ARGUMENTS = [{"what": "caf\u00e9 \"x\"\ny", "count": 3}, {"what": "z"}]


def tojson(value, indent=None):
    return json.dumps(value, ensure_ascii=False, indent=indent)


def main():
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = tojson
    cases = []
    for name, (syntax, end, source) in TEMPLATES.items():
        (HERE / f"{name}_calls.jinja").write_text(source)
        ids = [f"functions.look:{i}" if name == "kimi" else f"abcdefgh{i}" for i in range(2)]
        calls = [{"type": "function", "id": i, "function": {"name": "look", "arguments": tojson(a) if name == "deepseek_r1" else a}}
                 for i, a in zip(ids, ARGUMENTS)]
        messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Which?"},
                    {"role": "assistant", "content": "I look.", "tool_calls": calls},
                    *({"role": "tool", "content": f"Found {i}", "tool_call_id": i} for i in ids), {"role": "assistant", "content": "That."},
                    {"role": "user", "content": "And?"}]
        text = environment.from_string(source).render(messages=messages, tools=TOOLS, add_generation_prompt=True, bos_token="<s>", eos_token=end)
        cases.append({"template": name, "syntax": syntax, "eos": end, "ids": ids, "tools": [tojson(t) for t in TOOLS],
                      "arguments": [tojson(a) for a in ARGUMENTS], "text": text})
    (HERE / "calls.json").write_text(json.dumps(cases, separators=(",", ":")))


if __name__ == "__main__":
    main()
