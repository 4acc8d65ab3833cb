"""A program's command line, parsed from its --describe output."""

import json
import os
import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("ringside-server", "ringside", "ringside-bench", "ringside-convert")


@dataclass
class Option:
    flags: list[str]
    value: str  # "PATH", "a|b"; "" = none
    choices: list[str]  # for the value; [] = anything
    help: str
    group: str

    @property
    def takes_file(self):
        return self.value == "PATH"


@dataclass
class Argument:
    name: str
    help: str
    required: bool
    many: bool
    takes_file: bool


@dataclass
class Command:
    path: list[str]  # ["ringside", "sessions", "show"]
    summary: str
    footer: str
    options: list[Option]
    arguments: list[Argument]
    commands: list["Command"] = field(default_factory=list)
    described: dict = field(default_factory=dict)  # the rest of the program's description

    @property
    def name(self):
        return " ".join(self.path)

    def all(self):
        """This command and all its subcommands."""
        return [self] + [below for command in self.commands for below in command.all()]


def read_value(text):
    """Display text and choices of a value, from our placeholder, or from the parser's type and check."""
    if words := re.search(r"\{(.*)\}", text):
        return words[1].replace(",", "|"), words[1].split(",")
    if re.match(r"(U?INT|FLOAT)\b", text):
        return "N", []
    text = text.split(":")[0] if text.startswith("TEXT") else text
    return text, [word for word in text.split("|") if not word.endswith(":N")] if "|" in text else []


def read_command(told, above=()):
    path = [*above, told["name"]]
    options = [Option(option["flags"], *read_value(option["value"]), option["help"], option["group"]) for option in told["options"]]
    arguments = [
        Argument(argument["name"], argument["help"], argument["required"], argument["many"], argument["value"] == "PATH")
        for argument in told["arguments"]
    ]
    commands = [read_command(command, path) for command in told["commands"]]
    return Command(path, told["summary"], told.get("footer", ""), options, arguments, commands, told)


def ask(program):
    """A program's description of its command line."""
    emulator = shlex.split(os.environ.get("EMULATOR", ""))  # for programs of another processor
    return json.loads(subprocess.run([*emulator, program, "--describe"], check=True, capture_output=True, text=True).stdout)


def ask_all(folder):
    """The commands of the programs in a folder: server, client, and the client's programs. The client describes the
    commands that another program runs by their names only."""
    server, client, *others = (ask(Path(folder) / name) for name in PROGRAMS)
    known = {command["name"]: command for command in server["commands"]}
    known |= {name: other | {"name": name} for other in others for name in [other["name"].removeprefix("ringside-")]}
    client["commands"] = [known.get(command["name"], command) for command in client["commands"]]
    return [read_command(program) for program in (server, client, *others)]
