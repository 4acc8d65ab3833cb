"""Base models without a chat template: completions work, chats use a plain format, and the log warns about it.

    scripts/python -m pytest tests/system/models/base_model_test.py
"""

import subprocess
from pathlib import Path

import tiny_model
from conversation import Conversation
from server_process import run, server_path


async def answers(port):
    async with Conversation(port) as talk:
        messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello."}]
        said = []
        for path, body in (("/v1/completions", {"prompt": "Be kind.\n\nUser: Hello.\nAssistant:"}),
                           ("/v1/chat/completions", {"messages": messages})):
            status, answer = await talk.http.call("POST", path, body | {"max_tokens": 5, "temperature": 0})
            assert status == 200, answer
            said.append((answer["usage"]["prompt_tokens"], answer["choices"][0]["finish_reason"]))
        return said


def check(server):
    completed, chatted = run(answers(server.port))
    assert completed[0] == chatted[0] and completed[0] > 0
    log = server.tail()
    server.stop()
    assert "chat template: the model has none" in log and "'plain'" in log


def test_models_without_a_chat_template(start, tmp_path):
    gguf = tiny_model.make(tmp_path / "base.gguf", more={"tokenizer.chat_template": None})
    check(start(model=gguf))

    folder = tmp_path / "base"
    subprocess.run([Path(server_path()).with_name("ringside-convert"), gguf, folder], check=True, timeout=120)
    assert "chat_template" not in (folder / "tokenizer_config.json").read_text()
    check(start(model=folder))
    check(start("--load-format", "dummy", model=folder))


def test_shape_without_weights(start, tmp_path):
    folder = tiny_model.make_shape(tmp_path / "shape")
    check(start("--load-format", "dummy", model=folder))


def test_chosen_template_gives_no_warning(start, tmp_path):
    gguf = tiny_model.make(tmp_path / "base.gguf", more={"tokenizer.chat_template": None})
    server = start("--chat-template", "plain", model=gguf)
    server.stop()
    assert "chat template" not in server.tail()
