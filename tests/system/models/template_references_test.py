"""1,000 random conversations: what the server makes of each, as text and as token ids, is what Jinja2 makes of it with the same chat template,
and what that template refuses is refused.

    scripts/python -m pytest tests/system/models/template_references_test.py

RINGSIDE_TEMPLATES names a folder with other templates, RINGSIDE_CONVERSATIONS the number of conversations for each, RINGSIDE_SEED another seed.
"""

import http.client
import json
import os
import re
from pathlib import Path

import pytest
import tiny_model
from random_conversations import TOOLS, Conversations
from reference_template import Failed, ReferenceTemplate, Refused
from server_process import PATIENCE_S, ServerProcess

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "chat_template"
FOLDER = Path(os.environ.get("RINGSIDE_TEMPLATES", GOLDEN))
NAMES = sorted(path.name for path in FOLDER.glob("*.jinja"))
COUNT = int(os.environ.get("RINGSIDE_CONVERSATIONS", -(-1000 // len(NAMES))))
SEED = int(os.environ.get("RINGSIDE_SEED", 1))
# Tokens that end answers, the likeliest first.
ENDS = ["<|im_end|>", "<|eot_id|>", "<|eot|>", "<|return|>", "<turn|>", "<end_of_turn>", "<|END_OF_TURN_TOKEN|>", "<seed:eos>", "[e~[",
        "<|end_of_text|>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|end|>", "<|user|>", "</s>"]
SPECIAL = re.compile(r"<[|\uff5c][^<>\s{}'\"]{1,40}[|\uff5c]>|</?[a-z]+_of_[a-z]+>|\[/?[A-Z_]{3,20}\]")


def end_of(source):
    return next((end for end in ENDS if end in source), ENDS[-1])


def model_of(path, source, begin, end):
    specials = list(dict.fromkeys([begin, end, *SPECIAL.findall(source)]))
    tokens = tiny_model.byte_tokens() + [merge.replace(" ", "") for merge in tiny_model.MERGES] + specials
    return tiny_model.make(path, more={
        "tokenizer.chat_template": source, "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [tiny_model.CONTROL if token in specials else tiny_model.NORMAL for token in tokens],
        "tokenizer.ggml.bos_token_id": tokens.index(begin), "tokenizer.ggml.eos_token_id": tokens.index(end)}), specials


def with_tools(_, tools):
    return tools is not None


def with_system(messages, _):
    return messages[0]["role"] == "system"


# What the server says of a template that it does not follow, and the conversations of which that is.
DECLARED = {"in Hermes' words": with_tools, "tool calls, which the template does not write": with_tools,
            "tools are told before the first user message": with_tools, "stand in front of the first question": with_system}


class Client:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def post(self, path, body):
        """Status and decoded body."""
        self.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())


def call_id_of(source):
    """Call ids in the form in which the template's model writes them, if it does."""
    if "functions." in source or "tool_calls_section_begin" in source:
        return lambda name, number: f"functions.{name}:{number}"
    return lambda _, number: f"abcdefgh{number}"


def check(client, reference, conversation, specials):
    """What is wrong; None if all is right."""
    messages, tools = conversation
    body = {"messages": messages} | ({"tools": tools} if tools else {})
    status, answer = client.post("/apply-template", body)
    try:
        wanted = reference.text(messages, tools)
    except Refused as refused:
        return None if status == 400 else f"not refused ({refused})"
    except Failed:
        return None
    if status != 200:
        return f"refused: {answer}"
    if answer["prompt"] != wanted:
        at = len(os.path.commonprefix([answer["prompt"], wanted]))
        return f"at {at}: {answer['prompt'][max(0, at - 40):at + 80]!r} in place of {wanted[max(0, at - 40):at + 80]!r}"
    said = json.dumps(conversation, ensure_ascii=False)
    if any(special in said for special in specials):
        return None
    ids = client.post("/tokenize", body)[1]["tokens"]
    return None if ids == client.post("/tokenize", {"content": wanted})[1]["tokens"] else "other token ids"


@pytest.mark.parametrize("name", NAMES)
def test_conversations_are_rendered_as_by_jinja(name, tmp_path):
    source = (FOLDER / name).read_text()
    begin, end = "<s>", end_of(source)
    model, specials = model_of(tmp_path / "tiny.gguf", source, begin, end)
    reference = ReferenceTemplate(source, begin, end)
    conversations = Conversations(f"{SEED} {name}", call_id_of(source))
    wrong = []
    with ServerProcess(model, "--threads", 1, folder=tmp_path) as server:
        client = Client(server.wait_until_ready().port)
        declared = [applies for words, applies in DECLARED.items() if words in server.tail()]
        tools = [{"type": "function", "function": TOOLS[0]}]
        if not reference.tells_tools(tools) or not reference.writes_calls(tools):
            declared.append(with_tools)  # the server writes them in a syntax of its own choice
        for _ in range(COUNT):
            conversation = conversations.next()
            if any(applies(*conversation) for applies in declared):
                continue
            if complaint := check(client, reference, conversation, specials):
                wrong.append((complaint, conversation))
    assert not wrong, f"{len(wrong)} of {COUNT}, the first: {wrong[0]}"
