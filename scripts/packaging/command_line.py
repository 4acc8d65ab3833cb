"""What a program takes on its command line, as it tells it itself with --describe."""

import json
import re
import subprocess
from dataclasses import dataclass, field


@dataclass
class Option:
    flags: list[str]
    value: str  # "PATH", "a|b"; "" = none
    choices: list[str]  # of the value; [] = anything
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
    described: dict = field(default_factory=dict)  # what else the program told

    @property
    def name(self):
        return " ".join(self.path)

    def all(self):
        """Itself and every command below it."""
        return [self] + [below for command in self.commands for below in command.all()]


def read_value(text):
    """How a value is shown, and what it may be. From a placeholder of ours, or from the parser's name of a type and a check."""
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
    """What a program tells of itself."""
    return json.loads(subprocess.run([program, "--describe"], check=True, capture_output=True, text=True).stdout)


def ask_both(server, client):
    """The commands of both. `ringside keys` and `convert` are run by the server, which knows what they take."""
    server, client = ask(server), ask(client)
    servers = {command["name"]: command for command in server["commands"]}
    client["commands"] = [servers.get(command["name"], command) for command in client["commands"]]
    return read_command(server), read_command(client)
