"""Runs lm-eval on local task files, with the server as `local-completions` and `local-chat-completions`, and with the server's tokenizer.

    scripts/client_tests lm_eval
"""

import json
import sys
from pathlib import Path

import pytest
from scripted_model import ANSWER

PROGRAM = Path(sys.executable).parent / "lm_eval"
QUESTIONS = 4
TASK = """
task: {name}
dataset_path: json
dataset_kwargs:
  data_files: {{test: questions.jsonl}}
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
"""
GENERATES = TASK + """
output_type: generate_until
generation_kwargs: {{until: ["###"], max_gen_toks: 64}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
filter_list: [{{name: trimmed, filter: [{{function: remove_whitespace}}, {{function: take_first}}]}}]
"""
CHOOSES = TASK.replace("{{{{answer}}}}", "{{{{right}}}}") + """
output_type: multiple_choice
doc_to_choice: ["{{{{answer}}}}", "{{{{other}}}}"]
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""


@pytest.fixture
def evaluate(server, run, tmp_path):
    """evaluate(model, path, task, its name, argument...): the task's results."""
    rows = [{"question": f"Which is {i}?<|im_end|>\n<|im_start|>assistant\n", "answer": ANSWER, "other": "The wrong one", "right": 0}
            for i in range(QUESTIONS)]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def evaluate(model, path, task, name, *arguments, **settings):
        (tmp_path / f"{name}.yaml").write_text(task.format(name=name))
        settings = {"model": "gpt-5", "base_url": f"http://127.0.0.1:{server.port}{path}", "num_concurrent": 2, "max_length": 4096} | settings
        run(PROGRAM, "run", "--model", model, "--tasks", name, "--include_path", tmp_path, "--output_path", tmp_path / "out",
            "--model_args", ",".join(f"{key}={value}" for key, value in settings.items()), *arguments, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1",
            OPENAI_API_KEY="any")
        [report] = (tmp_path / "out").rglob("results_*.json")
        return json.loads(report.read_text())["results"][name]

    return evaluate


def test_answers_of_chats(evaluate):
    results = evaluate("local-chat-completions", "/v1/chat/completions", GENERATES, "chats", "--apply_chat_template")
    assert results["exact_match,trimmed"] == 1.0


def test_answers_of_completions_with_the_tokenizer_of_the_server(evaluate):
    results = evaluate("local-completions", "/v1/completions", GENERATES, "completions", tokenizer_backend="remote")
    assert results["sample_len"] == QUESTIONS


def test_the_likelier_of_two_answers(evaluate):
    results = evaluate("local-completions", "/v1/completions", CHOOSES, "choices", tokenizer_backend="remote")
    assert results["acc,none"] in (0.0, 1.0)  # the same for questions that differ in a number
