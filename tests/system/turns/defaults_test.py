"""Default sampling settings and answer length of requests that do not set them.

    scripts/python -m pytest tests/system/turns/defaults_test.py
"""

import tiny_model
from conversation import Conversation
from server_process import run


def defaults(port):
    """The defaults in /v1/models, and the response to a request without them, which echoes some."""

    async def ask():
        async with Conversation(port) as talk:
            status, models = await talk.http.call("GET", "/v1/models")
            assert status == 200, models
            return models["data"][0]["defaults"], await talk.ask("Hello.", ignore_eos=True)

    told, echo = run(ask())
    assert (echo["temperature"], echo["top_p"]) == (told["temperature"], told["top_p"])
    return told, echo


def test_model_without_recommendations(start):
    told, echo = defaults(start("--memory-len", 1500, "--session-len", 4000).port)
    assert told == {"temperature": 0.7, "top_p": 0.9, "top_k": 0, "min_p": 0, "repetition_penalty": 1,
                    "max_output_tokens": 1500 + 256}
    assert echo["status"] == "incomplete" and echo["incomplete_details"]["reason"] == "max_output_tokens"
    # Input and answer fill the window; its first four tokens are pinned.
    assert echo["usage"]["total_tokens"] == 1500 + 4


def test_model_with_recommendations(start, tmp_path):
    recommended = {"general.sampling.temp": 0.6, "general.sampling.top_k": 20, "general.sampling.top_p": 0.95,
                   "general.sampling.min_p": 0.05, "general.sampling.penalty_repeat": 1.05}
    model = tiny_model.make(tmp_path / "recommends.gguf", more=recommended)
    told, _ = defaults(start("--max-output-tokens", 8, model=model).port)
    assert told == {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.05, "repetition_penalty": 1.05,
                    "max_output_tokens": 8}


def test_operator_settings_take_precedence(start):
    told, echo = defaults(start("--temperature", 0, "--top-p", 0.5, "--max-output-tokens", 3).port)
    assert (told["temperature"], told["top_p"], echo["usage"]["output_tokens"]) == (0, 0.5, 3)


def test_raw_prompts_start_with_the_models_prefix_tokens(start, tmp_path):
    async def prompt_tokens(port):
        async with Conversation(port) as talk:
            said = []
            for path, body in (("/v1/completions", {"prompt": "Hello."}), ("/v1/completions", {"prompt": "Hello.", "add_special_tokens": False}),
                               ("/v1/completions", {"prompt": f"{tiny_model.SPECIAL[0]}Hello."}), ("/v1/embeddings", {"input": "Hello."}),
                               ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello."}]})):
                status, answer = await talk.http.call("POST", path, {"model": "tiny"} | body | ({} if "input" in body else {"max_tokens": 1}))
                assert status == 200, answer
                said.append(answer["usage"]["prompt_tokens"])
            status, told = await talk.http.call("POST", "/tokenize", {"prompt": "Hello."})
            return said, told["tokens"]

    counts, ids = {}, {}
    for begins in (False, True):
        model = tiny_model.make(tmp_path / "tiny.gguf", more={"tokenizer.ggml.add_bos_token": begins})
        server = start("--chat-template", "plain", model=model)
        counts[begins], ids[begins] = run(prompt_tokens(server.port))
        server.stop()
    bare, told, written, embedded, chat = counts[False]
    assert counts[True] == [bare + 1, told, written, embedded + 1, chat + 1] and bare == told
    assert ids[True] == [tiny_model.END_OF_TURN - 2] + ids[False]
