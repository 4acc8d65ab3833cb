"""A server with --encryption-key-file: its store contains no plaintext, and the key recovers everything.

    scripts/python -m pytest tests/system/durability/encryption_test.py
"""

import os

from conversation import Conversation, reused
from server_process import run

BAD_CONFIG = 78
CANARY = "Xylophonquarzkanarienvogel"
SHORT = {"max_output_tokens": 8, "temperature": 0}


def make_key(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(os.urandom(32))
    path.chmod(0o400)
    return path


def files_with(store, text):
    return [path for path in store.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


async def ask(port, id, text):
    async with Conversation(port, id) as talk:
        return talk.id, await talk.ask(text, **SHORT), await talk.items()


def test_store_has_no_plaintext_and_restores_everything(start, store, tmp_path):
    flags = ("--store-path", store, "--encryption-key-file", make_key(tmp_path, "key"))
    server = start(*flags)
    id, _, items = run(ask(server.port, None, f"Say {CANARY}."))
    assert any(CANARY in text for _, text in items)
    assert not files_with(store, CANARY), "while it runs"
    server.kill()
    assert not files_with(store, CANARY), "after kill -9"
    server = start(*flags)
    _, _, again = run(ask(server.port, id, "And again."))
    assert again[: len(items)] == items
    server.stop()  # saves the cache
    assert not files_with(store, CANARY), "after an orderly end"
    assert list((store / "kv").glob("*.sst")), "a cache was saved"
    server = start(*flags)
    _, response, _ = run(ask(server.port, id, "Once more."))
    source, tokens_reused, _ = reused(response)
    assert source in ("host", "disk") and tokens_reused > 0, response["ringside"]
    server.stop()


def test_start_requires_the_right_key(start, store, tmp_path):
    key, other = make_key(tmp_path, "key"), make_key(tmp_path, "other")
    server = start("--store-path", store, "--encryption-key-file", key)
    id, _, items = run(ask(server.port, None, "Hello."))
    server.stop()
    for flags, cause in (((), "no encryption key"), (("--encryption-key-file", other), "does not match")):
        server = start("--store-path", store, *flags, ready=False)
        assert server.wait() == BAD_CONFIG
        assert cause in server.tail()
    server = start("--store-path", store, "--encryption-key-file", key)
    _, _, again = run(ask(server.port, id, "Still there?"))
    assert again[: len(items)] == items
    server.stop()


def test_key_for_an_unencrypted_store_is_refused(start, store, tmp_path):
    server = start("--store-path", store)
    run(ask(server.port, None, f"Say {CANARY}."))
    assert files_with(store, CANARY), "the search finds what is there"
    server.stop()
    server = start("--store-path", store, "--encryption-key-file", make_key(tmp_path, "key"), ready=False)
    assert server.wait() == BAD_CONFIG
    assert "not encrypted" in server.tail()
