"""Servers with models that give one fixed answer each (tests/system/scripted_model.py), and what clients of theirs say."""

import sys
from pathlib import Path

from server import Server

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))
import scripted_model  # noqa: E402
from scripted_model import ANSWER, HARMONY, REASONING, THINK  # noqa: E402, F401

MODEL = "scripted"
QUESTION, NEXT = "Which number?", "And now?"
CALL = ("look", {"what": "rings"})  # of the model of start_calling


def start(model, folder, *flags):
    """`model` as scripted_model.make takes it. It has the names of OpenAI's and Anthropic's models, too."""
    path = scripted_model.make(folder / "scripted.gguf", model)
    return Server("--slots", "2", "--served-model-name", MODEL, "--model-alias", "gpt-*", "--model-alias", "claude-*", *flags, model=path)


def start_calling(folder, *flags):
    """Its model answers a question with CALL, and the result with ANSWER."""
    return start(scripted_model.calling(CALL[0], '{"what": "rings"}'), folder, *flags)


def look(what: str) -> str:
    """Looks something up."""
    looked.append(what)
    return f"{what}: 42"


looked = []  # what was looked up
