"""Settings that the server cannot start with: it exits with 78 and one sentence that names the problem.

    scripts/python -m pytest tests/system/operating/settings_test.py
"""

import pytest
import tiny_model

BAD_SETTINGS = 78


@pytest.fixture
def refusal(start):
    """Returns the error message that refuses these flags."""

    def refusal(*flags, **options):
        server = start(*flags, ready=False, **options)
        assert server.wait(30) == BAD_SETTINGS, server.tail()
        return server.tail().strip().splitlines()[-1]

    return refusal


def written(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


def test_queue_of_length_zero(refusal):
    said = refusal("--queue-limit", 0)
    assert said == 'ringside-server: --queue-limit: "0" is not a whole number from 1 to 1024'


def test_keys_file_without_a_key(refusal, tmp_path):
    settings = written(tmp_path / "settings.yaml", "api-key: []\n")
    assert refusal("--config", settings) == f"ringside-server: {settings}: api-key: the list is empty"


def test_unknown_environment_variable(refusal, start):
    said = refusal(environment={"RINGSIDE_SLOT": "3"})
    assert said == "ringside-server: environment: RINGSIDE_SLOT is no setting of the server; did you mean --slots?"
    client = {"RINGSIDE_URL": "ws://127.0.0.1:1", "RINGSIDE_CHAT_COMMAND": "chat"}
    start(environment=client).stop()


def test_folder_instead_of_a_settings_file(refusal, tmp_path):
    assert refusal("--config", tmp_path) == f'ringside-server: --config: "{tmp_path}" is a folder'


def test_store_path_that_cannot_be_created(refusal, tmp_path):
    file = written(tmp_path / "file", "")
    assert refusal("--store-path", file).endswith(f'--store-path: "{file}" cannot be made: Not a directory')
    below = file / "store"
    assert refusal("--store-path", below).endswith(f'--store-path: "{below}" cannot be made: Not a directory')
    nowhere = "/proc/store"
    assert refusal("--store-path", nowhere).endswith(f'--store-path: "{nowhere}" cannot be made: No such file or directory')


def test_draft_layer_that_the_model_lacks(start):
    server = start("--speculate", "mtp", ready=False)
    assert server.wait(30) != 0
    said = server.tail()
    assert "has no layer for multi-token prediction; set ngram" in said
    assert "loading" not in said, "refused by the headers"


def test_folder_of_models_instead_of_a_model(refusal, tmp_path):
    (tmp_path / "below").mkdir()
    first = tiny_model.make(tmp_path / "below" / "first.gguf")
    said = refusal(model=tmp_path)
    assert said.endswith(f"--model: the folder {tmp_path} has a model below it, but is none: choose one, --model {first}, "
                         f"or serve it with --models-dir {tmp_path}")
    tiny_model.make(tmp_path / "second.gguf")
    assert refusal(model=tmp_path).endswith(f"or serve all with --models-dir {tmp_path}")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_keys_file_readable_by_others(refusal, tmp_path, mode):
    keys = written(tmp_path / "keys", "secret\n", mode)
    assert refusal("--api-key-file", keys) == (
        f'ringside-server: --api-key-file: "{keys}" has mode {mode:04o}, so others can read it; run chmod 0400'
    )


def test_keys_in_the_credentials_directory_may_have_its_modes(start, refusal, tmp_path):
    """systemd grants the service's user access by an ACL, which shows up as a group-readable mode."""
    folder = tmp_path / "credentials"
    (folder / "below").mkdir(parents=True)
    environment = {"CREDENTIALS_DIRECTORY": str(folder)}
    start("--api-key-file", written(folder / "keys", "secret\n", 0o440), environment=environment).stop()
    for elsewhere in (folder / "below" / "keys", tmp_path / "keys"):
        assert "has mode 0440" in refusal("--api-key-file", written(elsewhere, "secret\n", 0o440), environment=environment)


def test_more_memory_than_available(refusal, tmp_path):
    said = refusal("--host-cache-mb", 16_000_000)
    assert "--host-cache-mb: 16000000 MiB are more than the " in said
    assert said.endswith(" MiB of memory that this machine has")
    # A quarter of a terabyte per slot: no machine has that, and the check does not depend on overcommit.
    model = tiny_model.make(tmp_path / "long.gguf", more={"llama.context_length": 1 << 31})
    said = refusal("--slots", 4096, "--memory-len", 1 << 30, "--host-cache-mb", 0, model=model)
    assert "--slots: 4096 slots of " in said and " MiB of memory that this machine has" in said
