"""`ringside eval` against real servers: its figures match the model, and failures are reported.

    RINGSIDE_TEST_MODEL=$(scripts/model) scripts/python -m pytest tests/system/models/eval_test.py

With RINGSIDE_TEST_MODEL it also compares the default model's figures with the reference implementation's
(tests/golden/make_eval_golden.py).
"""

import json
import math
import os
import subprocess
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from server_process import PATIENCE_S, ROOT

CLIENT = os.environ.get("RINGSIDE_CLIENT") or str(ROOT / "build/cpu/bin/ringside")
GOLDEN = ROOT / "tests/golden/eval"
TEXT = "the other inn is in the north. an owl and an otter found their thin hat there.\n" * 4
PASSAGES = ["then the other man", "in the end an owl", "the thin inn"]
QUESTIONS = [("the owl is in the", ["inn", "other thing", "hat"], 2), ("an otter found", ["their hat", "an inn"], 0)]


def evaluate(task, *flags, environment=None):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RINGSIDE_")}
    return subprocess.run([CLIENT, "eval", task, *map(str, flags)], capture_output=True, text=True, timeout=4 * PATIENCE_S,
                          env=inherited | (environment or {}))


def figures(port, task, *flags):
    done = evaluate(task, "--url", f"http://127.0.0.1:{port}", "--json", *flags)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def post(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())


def logprobs(port, ids):
    """Log probabilities of all ids but the first, from the server."""
    body = {"prompt": ids, "echo": True, "max_tokens": 0, "logprobs": 0}
    answer = post(port, "/v1/completions", body)
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0, "all of it is computed"
    told = answer["choices"][0]["logprobs"]["token_logprobs"]
    assert len(told) == len(ids) and told[0] is None
    return told[1:]


def tokens(port, text):
    return post(port, "/tokenize", {"prompt": text})["tokens"]


@pytest.fixture
def samples(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "passages.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in PASSAGES))
    (tmp_path / "questions.jsonl").write_text(
        "".join(json.dumps({"question": q, "choices": c, "answer": a}) + "\n" for q, c, a in QUESTIONS))
    return tmp_path


def test_log_probabilities_match_answers(start):
    """The log probability of a prompt token equals the one reported when the model generated it."""
    server = start("--slots", 2)
    prompt = tokens(server.port, "the otter is")
    said = post(server.port, "/v1/completions", {"prompt": prompt, "max_tokens": 40, "temperature": 1, "seed": 5, "logprobs": 3})
    choice = said["choices"][0]
    whole = post(server.port, "/v1/completions",
                 {"prompt": "the otter is" + choice["text"], "echo": True, "max_tokens": 0, "logprobs": 3})["choices"][0]["logprobs"]
    written = choice["logprobs"]
    assert len(written["tokens"]) == said["usage"]["completion_tokens"]
    # The text omits special tokens and has U+FFFD for invalid UTF-8; only tokens before these are compared.
    same = next((i for i, token in enumerate(written["tokens"]) if not token or not token.isascii()),
                len(written["tokens"]))
    assert same > 0
    for name in ("token_logprobs", "top_logprobs"):
        assert whole[name][len(prompt):len(prompt) + same] == written[name][:same]


def test_perplexity(start, samples):
    server = start("--slots", 4)
    ids = tokens(server.port, TEXT)
    context, stride, losses, counted = 40, 16, [], 0
    for begin in range(0, len(ids), stride):
        end = min(begin + context, len(ids))
        losses += [-value for value in logprobs(server.port, ids[begin:end])][max(counted - begin, 1) - 1:]
        counted = end
        if end == len(ids):
            break
    assert len(losses) == len(ids) - 1
    told = figures(server.port, "perplexity", samples / "text.txt", "--context", context, "--stride", stride, "--in-flight", 3)
    mean = sum(losses) / len(losses)
    error = math.sqrt(sum((loss - mean) ** 2 for loss in losses) / (len(losses) - 1) / len(losses))
    assert told["tokens"] == len(losses)
    assert told["perplexity"] == pytest.approx(math.exp(mean), rel=1e-6)
    assert told["perplexity_stderr"] == pytest.approx(math.exp(mean) * error, rel=1e-6)
    first = figures(server.port, "perplexity", samples / "text.txt", "--context", context, "--stride", stride, "--limit", 1)
    assert (first["samples"], first["tokens"]) == (1, context - 1)
    assert first["perplexity"] == pytest.approx(math.exp(sum(losses[:context - 1]) / (context - 1)), rel=1e-6)
    prefixed = figures(server.port, "perplexity", samples / "text.txt", "--prefix", "<|endoftext|>", "--context", len(ids) + 1)
    with_prefix = logprobs(server.port, tokens(server.port, "<|endoftext|>" + TEXT))
    assert prefixed["tokens"] == len(ids)
    assert prefixed["perplexity"] == pytest.approx(math.exp(-sum(with_prefix) / len(ids)), rel=1e-6)


def continuation(port, context, text):
    border = len(tokens(port, context))
    ids = tokens(port, context + text)
    assert ids[:border] == tokens(port, context)
    return logprobs(port, ids)[border - 1:]


def test_last_word_and_choices(start, samples):
    port = start("--slots", 4).port
    words = [continuation(port, *text.rsplit(" ", 1)[:1], " " + text.rsplit(" ", 1)[1]) for text in PASSAGES]
    told = figures(port, "last-word", samples / "passages.jsonl")
    assert (told["samples"], told["tokens"]) == (len(PASSAGES), sum(map(len, words)))
    assert told["perplexity"] == pytest.approx(math.exp(-sum(map(sum, words)) / len(words)), rel=1e-6)
    assert told["accuracy"] == 0, "random weights do not know any"
    right = right_by_length = 0
    for question, choices, answer in QUESTIONS:
        sums = [sum(continuation(port, question, " " + choice)) for choice in choices]
        right += sums.index(max(sums)) == answer
        by_length = [value / len(choice) for value, choice in zip(sums, choices)]
        right_by_length += by_length.index(max(by_length)) == answer
    told = figures(port, "choices", samples / "questions.jsonl")
    assert told["accuracy"] == right / len(QUESTIONS) and told["accuracy_normalised"] == right_by_length / len(QUESTIONS)
    done = evaluate("choices", "--url", f"http://127.0.0.1:{port}", samples / "questions.jsonl")
    assert done.returncode == 0 and "accuracy_normalised" in done.stdout and "+-" in done.stdout and done.stderr == "", done


def test_starts_its_own_server(model, samples):
    environment = {"XDG_STATE_HOME": str(samples / "state"), "XDG_DATA_HOME": str(samples / "data"), "RINGSIDE_THREADS": "1"}
    done = evaluate("perplexity", "--model", model, "--json", samples / "text.txt", environment=environment)
    assert done.returncode == 0 and json.loads(done.stdout)["perplexity"] > 1, done
    assert not (samples / "data").exists(), "nothing of it is kept"
    nobody = evaluate("perplexity", "--model", samples / "no.gguf", samples / "text.txt", environment=environment)
    assert nobody.returncode == 1 and "There is no file or folder" in nobody.stderr and "no.gguf" in nobody.stderr, nobody


class Mute(BaseHTTPRequestHandler):
    """A server that answers without log probabilities."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.say(404 if self.path == "/tokenize" else 200, {"choices": [{"index": 0, "text": "x", "logprobs": None}]})

    def do_GET(self):
        self.say(200, {"data": [{"id": "mute"}]})

    def say(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def test_errors_are_reported(start, samples):
    mute = ThreadingHTTPServer(("127.0.0.1", 0), Mute)
    threading.Thread(target=mute.serve_forever, daemon=True).start()
    url = ("--url", f"http://127.0.0.1:{mute.server_port}")
    (samples / "bad.jsonl").write_text('{"text": "a b"}\n{"text": 5}\n')
    real = ("--url", f"http://127.0.0.1:{start('--slots', 2, '--memory-len', 64, '--session-len', 500).port}")
    cases = [
        (1, "echo with logprobs", ("last-word", *url, samples / "passages.jsonl")),
        (1, "no /tokenize", ("perplexity", *url, samples / "text.txt")),
        (1, "Line 2", ("last-word", *url, samples / "bad.jsonl")),
        (1, "Cannot read", ("last-word", *url, samples / "none.jsonl")),
        (1, "Cannot read", ("last-word", *url, samples)),
        (1, "--memory-len", ("perplexity", *real, samples / "text.txt", "--context", 100)),
        (1, "stride and the prefix", ("perplexity", *real, samples / "text.txt", "--context", 9, "--stride", 8, "--prefix", "the otter")),
        (1, "Cannot reach", ("last-word", "--url", "http://127.0.0.1:9", samples / "passages.jsonl")),
        (2, "--stride", ("perplexity", *url, samples / "text.txt", "--context", 10, "--stride", 11)),
        (2, "excludes", ("last-word", *url, "--model", "m", samples / "passages.jsonl")),
        (2, "file", ("choices", *url)),
        (2, "--limit", ("choices", *url, "--limit", 0, samples / "questions.jsonl")),
    ]
    for code, word, command in cases:
        done = evaluate(*command)
        assert (done.returncode, done.stdout) == (code, "") and word in done.stderr, (command, done)
    mute.shutdown()


def near(margins, border):
    """Number of decisions that rounding may flip."""
    return sum(abs(margin) < border for margin in margins)


def check_against(golden, port, tolerance, unsure):
    """`tolerance`: relative, for perplexities. `unsure`: margin below which a decision may flip."""
    golden = json.loads((GOLDEN / golden).read_text())
    text, passages, questions = golden["text"], golden["passages"], golden["questions"]
    windows = figures(port, "perplexity", GOLDEN / "text.txt", "--context", text["context"], "--stride", text["stride"])
    words = figures(port, "last-word", GOLDEN / "passages.jsonl")
    choices = figures(port, "choices", GOLDEN / "questions.jsonl")
    print(windows, words, choices, sep="\n")
    for told, reference in ((windows, text), (words, passages), (choices, questions)):
        assert told["tokens"] == reference["tokens"], "the tokens are the same"
    for told, reference, name in ((windows, text, "perplexity"), (words, passages, "perplexity"), (words, passages, "token_perplexity")):
        assert told[name] == pytest.approx(reference[name]["value"], rel=tolerance), name
        assert told[name + "_stderr"] == pytest.approx(reference[name]["stderr"], rel=5 * tolerance), name
    for told, reference, name, margins, near_by in (
            (words, passages, "accuracy", "margins", unsure), (choices, questions, "accuracy", "margins", unsure),
            (choices, questions, "accuracy_normalised", "margins_normalised", unsure / 5)):  # normalised by characters
        turned = abs(told[name] - reference[name]["value"]) * told["samples"]
        assert turned <= near(reference[margins], near_by) + 1e-6, (name, told[name], reference)


def test_float_weights_against_the_reference_implementation(start):
    check_against("tiny.json", start("--slots", 4).port, tolerance=0.001, unsure=0.001)


def test_the_default_model_against_the_reference_implementation(start):
    """Its 4-bit weights meet 8-bit activations (engine/ENGINE.md); the reference dequantizes to float32."""
    path = os.environ.get("RINGSIDE_TEST_MODEL")
    if not path:
        pytest.skip("needs RINGSIDE_TEST_MODEL")
    check_against("smollm2.json", start("--slots", 4, model=path).port, tolerance=0.01, unsure=0.1)
