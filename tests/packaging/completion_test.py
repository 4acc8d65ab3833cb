"""Completion in real shells: every command and option of all programs is offered, and known values.

scripts/python -m pytest tests/packaging/completion_test.py
"""

import os
import pty
import select
import shlex
import subprocess
import time

import pytest

FOLDERS = {"bash": "bash-completion/completions", "zsh": "zsh/vendor-completions", "fish": "fish/vendor_completions.d"}
PATIENCE_S = 60
# For each line of standard input, prints one line of completions separated by blanks.
BASH = """
source {file}
while IFS= read -r line; do
  eval "COMP_WORDS=($line)"
  COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMPREPLY=()
  _{function}
  echo "${{COMPREPLY[*]}}"
done
"""
# Replacements of the shell's functions that print their arguments; like the originals, they filter by the typed prefix.
ZSH = """
_describe() {{ local item; for item in "${{(@P)@[-1]}}"; do found+=("${{item%%:*}}"); done }}
compadd() {{ shift; found+=("$@") }}
_files() {{ found+=(*(N)) }}
_message() {{ : }}
while IFS= read -r line; do
  words=(${{(z)line}})
  [[ $line == *' ' ]] && words+=('')
  CURRENT=$#words PREFIX=$words[-1] found=()
  source {file}
  print -r -- ${{(M)found:#$PREFIX*}}
done
"""
FISH = """
source {file}
while read -l line
  set -l found (complete -C $line | string split -f 1 \\t)
  printf '%s\\n' "$found"
end
"""


def file_of(installed, shell, program):
    name = {"bash": program, "zsh": "_" + program, "fish": program + ".fish"}[shell]
    return installed / "share" / FOLDERS[shell] / name


def offers(installed, shell, program, lines, folder):
    """Returns the completions at the end of each line."""
    file = shlex.quote(str(file_of(installed, shell, program)))
    if shell == "bash":
        script = BASH.format(file=file, function=program.replace("-", "_"))
        lines = [line + "''" if line.endswith((" ", "=")) else line for line in lines]
        command = ["bash", "--norc", "-c", script]
    elif shell == "zsh":
        command = ["zsh", "-f", "-c", ZSH.format(file=file)]
    else:
        command = ["fish", "--no-config", "-c", FISH.format(file=file)]
    out = subprocess.run(
        command, input="".join(line + "\n" for line in lines), check=True, capture_output=True, text=True, cwd=folder
    )
    assert out.stderr == ""
    return dict(zip(lines, (line.split() for line in out.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("shell", FOLDERS)
def test_completes_every_option_and_command(installed, programs, shell, tmp_path):
    complete = 0
    for program in programs:
        expected = {}
        for command in program.all():
            expected[f"{command.name} --"] = {flag for option in command.options for flag in option.flags if flag.startswith("--")}
            if command.commands:
                expected[f"{command.name} "] = {below.path[-1] for below in command.commands}
        offered = offers(installed, shell, program.name, list(expected), tmp_path)
        for words, (line, wanted) in zip(offered.values(), expected.items()):
            assert wanted <= set(words), line
            assert line.endswith(" ") or wanted == set(words), line
        complete += sum(map(len, expected.values()))
    assert complete > 200


@pytest.mark.parametrize("shell", FOLDERS)
def test_completes_known_values(installed, shell, tmp_path):
    (tmp_path / "model file.gguf").touch()
    cases = {
        "ringside-server": {
            "ringside-server --eviction ": {"turn", "token"},
            "ringside-server --port 0 --log-format ": {"auto", "text", "json"},
            "ringside-server --device cu": {"cuda"},
            "ringside-server --slots ": set(),
            "ringside-server --model ": {"model", "file.gguf"},  # one file name, split at its blank
            "ringside-server -m ": {"model", "file.gguf"},
            "ringside-server keys rotate --ov": {"--overlap"},
        },
        "ringside": {
            "ringside chat --color ": {"auto", "always", "never"},
            "ringside run ": {"model", "file.gguf"},
            "ringside sessions exp": {"export"},
            "ringside bench load --protocol cha": {"chat"},
            "ringside keys rot": {"rotate"},
            "ringside convert --type b": {"bf16"},
        },
        "ringside-bench": {"ringside-bench load --protocol cha": {"chat"}, "ringside-bench app": {"append"}},
        "ringside-convert": {"ringside-convert --format gg": {"gguf"}, "ringside-convert ": {"model", "file.gguf"}},
    }
    for program, wanted in cases.items():
        offered = offers(installed, shell, program, list(wanted), tmp_path)
        for words, (line, expected) in zip(offered.values(), wanted.items()):
            assert {word.replace("\\", "") for word in words} == expected, line


def typed(command, environment, before, keys, wanted):
    """Runs a shell on a pseudo-terminal, enters the line `before`, then types `keys` until `wanted` is displayed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, os.environ | environment | {"TERM": "dumb"})
    shown, deadline = "", time.monotonic() + PATIENCE_S
    try:
        os.write(terminal, (before + "; echo be'gin'\n").encode())
        for text, send in (("begin\r", keys), (wanted, None)):
            while text not in shown:
                assert select.select([terminal], [], [], deadline - time.monotonic())[0], shown
                shown += os.read(terminal, 4096).decode(errors="replace")
            if send is not None:
                shown = ""
                os.write(terminal, send.encode())
    finally:
        os.close(terminal)
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_tab_completes_in_bash(installed):
    file = file_of(installed, "bash", "ringside-server")
    typed(
        ["bash", "--norc", "-i"],
        {"PS1": "$ "},
        f"source {shlex.quote(str(file))}",
        "ringside-server --served-m\t",
        "--served-model-name ",
    )


@pytest.mark.parametrize(
    "line, completed",
    [
        ("ringside-server --served-m", "ringside-server --served-model-name"),
        ("ringside-server --kv-cache-dtype bf", "ringside-server --kv-cache-dtype bf16"),
        ("ringside sess", "ringside sessions"),
        ("ringside sessions exp", "ringside sessions export"),
        ("ringside bench load --prot", "ringside bench load --protocol"),
    ],
)
def test_tab_completes_in_zsh(installed, tmp_path, line, completed):
    folder = installed / "share" / FOLDERS["zsh"]
    setup = f"fpath=({shlex.quote(str(folder))} $fpath); autoload -U compinit; compinit -u -D"
    # Prints the completed buffer whole, independently of the line editor's drawing.
    setup += "; show() { zle -I; print -r -- \"<$BUFFER>\" }; zle -N show; bindkey '^X' show"
    typed(["zsh", "-f", "-i"], {"PS1": "$ ", "ZDOTDIR": str(tmp_path)}, setup, line + "\t\x18", f"<{completed}")
