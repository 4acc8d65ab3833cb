"""Manual pages, from the programs' descriptions of their command lines and the additional text here."""

import re
import textwrap
from collections import Counter
from dataclasses import dataclass

SERVER_WORDS = """\
.B ringside\\-server
serves a language model to many concurrent conversations, over WebSockets and HTTP. It stores each conversation: its text on disk, its
KV cache in the fastest available tier, so that a turn costs only its new tokens.
.PP
The port opens at once. After a warm-up turn the server prints one line with its address to standard output,
.I /readyz
answers 200, and the service manager is notified."""

SERVER_SIGNALS = """\
.TP
.BR SIGTERM ", " SIGINT
New turns are refused, running ones may finish within
.BR \\-\\-shutdown\\-timeout ,
sockets are closed, caches are saved. A second signal ends the process at once. Neither loses acknowledged data.
.TP
.B SIGHUP
Reloads keys and certificate."""

SERVER_FILES = """\
.TP
.I /etc/ringside/server.yaml
Settings of the service.
.TP
.I /var/lib/ringside
Its conversations."""

CLIENT_WORDS = """\
.B ringside
chats with a
.BR ringside\\-server (8),
manages its conversations, and benchmarks it. Conversations are stored on the server and can be continued from anywhere."""

CLIENT_ENVIRONMENT = """\
.TP
.BR RINGSIDE_URL ", " RINGSIDE_API_KEY ", " RINGSIDE_CACERT
Defaults of
.BR \\-\\-url ", " \\-\\-api\\-key " and " \\-\\-cacert .
.TP
.B RINGSIDE_KEYS_FILE
Default of
.B \\-\\-file
of
.BR "ringside keys" .
.TP
.BR HF_TOKEN ", " HF_ENDPOINT
Token for Hugging Face, and the address of a mirror, for
.BR "ringside pull" .
.TP
.B OLLAMA_REGISTRY
Address of a mirror of Ollama's registry.
.TP
.BR HF_HUB_CACHE ", " HF_HOME ", " OLLAMA_MODELS
Folders that
.B ringside models
searches.
.TP
.B NO_COLOR
If set, answers have no colour and Markdown is shown as written."""

BENCH_WORDS = """\
.B ringside\\-bench
measures a running server over the network.
.B ringside bench
runs it too."""

CONVERT_WORDS = """\
.B ringside\\-convert
writes a model's files in another format. Nothing is left after an error.
.B ringside convert
runs it too."""

BENCH_ENVIRONMENT = """\
.TP
.BR RINGSIDE_URL ", " RINGSIDE_API_KEY ", " RINGSIDE_CACERT
Defaults of
.BR \\-\\-url ", " \\-\\-api\\-key " and " \\-\\-cacert ."""

BENCH_STATUS = [(0, "done"), (1, "the server or a file failed"), (2, "the command line cannot be used")]

CONVERT_STATUS = [(0, "done"), (1, "the model or the target cannot be used"), (2, "the command line cannot be used")]

BENCH_EXAMPLES = [
    ("ringside-bench load --url http://127.0.0.1:8080 -n 64 --turns 4", "64 concurrent conversations of four turns"),
    ("ringside-bench append --history-tokens 8000", "time to first token after a long history"),
]

CONVERT_EXAMPLES = [
    ("ringside-convert ~/models/gpt2 gpt2.gguf --type bf16", "a folder of Hugging Face to a GGUF file"),
    ("ringside-convert gpt2.gguf fastertransformer/8-gpu --tensor-parallel 8", "a folder of FasterTransformer for 8 GPUs"),
]

CLIENT_STATUS = [
    (0, "done"),
    (1, "something failed: the server, a file, an answer"),
    (2, "the command line, an id or a file cannot be used"),
    (74, "a conversation on the server is damaged"),
]

CLIENT_EXAMPLES = [
    ("ringside run SmolLM2-135M-Instruct.Q4_1.gguf", "a chat with a private server"),
    ("ringside run hf:unsloth/Qwen3.5-4B-GGUF:Q4_K_M", "the same with a model that is downloaded first"),
    ("ringside models", "the models on this machine"),
    ("ringside chat --url https://chat.example.org -c", "continues the last conversation on a remote server"),
    ('git diff | ringside chat "What does this change?"', "one answer, whose conversation is then deleted"),
    ("ringside sessions export 1 backup.ringside", "exports the first conversation of the list to a file"),
]



@dataclass
class Page:
    """The text of a page that the program does not describe."""
    words: str
    statuses: list[tuple[int, str]]
    examples: list[tuple[str, str]]
    see: str
    environment: str = ""


CLIENT = Page(CLIENT_WORDS, CLIENT_STATUS, CLIENT_EXAMPLES,
              ".BR ringside\\-server (8),\n.BR ringside\\-bench (1),\n.BR ringside\\-convert (1)", CLIENT_ENVIRONMENT)
BENCH = Page(BENCH_WORDS, BENCH_STATUS, BENCH_EXAMPLES, ".BR ringside (1),\n.BR ringside\\-server (8)", BENCH_ENVIRONMENT)
CONVERT = Page(CONVERT_WORDS, CONVERT_STATUS, CONVERT_EXAMPLES, ".BR ringside (1),\n.BR ringside\\-server (8)")

SHARED_BY = 4  # an option shared by this number of commands is described once, before them


def text(words):
    """Escapes words that would be read as markup."""
    words = words.replace("\\", "\\e").replace("--", "\\-\\-")
    return re.sub(r"^([.'])", r"\\&\1", words, flags=re.MULTILINE)


def literal(words):
    """Text to be typed: with hyphens that can be copied."""
    return words.replace("\\", "\\e").replace("-", "\\-")


def entry(option):
    flags = ", ".join(f"\\fB{literal(flag)}\\fR" for flag in option.flags)
    return f".TP\n{flags}{' ' + value_of(option) if option.value else ''}\n{text(option.help)}"


def value_of(option):
    return f"\\f{'B' if option.choices else 'I'}{literal(option.value)}\\fR"


def synopsis(command):
    words = [f"\\fB{literal(command.name)}\\fR", "[\\fIOPTIONS\\fR]" if command.options else ""]
    for argument in command.arguments:
        word = f"\\fI{argument.name}\\fR{'...' if argument.many else ''}"
        words.append(word if argument.required else f"[{word}]")
    return " ".join(word for word in words if word)


def title(name, section, version, date):
    return f'.TH {name.upper()} {section} {date} "ringside {version}" "Ringside"'


def examples(rows):
    return "\n.PP\n".join(
        f"{text(what)[:1].upper() + text(what)[1:]}:\n.PP\n.nf\n.RS\n{text(command)}\n.RE\n.fi" for command, what in rows
    )


def statuses(rows):
    return "\n".join(f".TP\n.B {code}\n{text(meaning)}" for code, meaning in rows)


def page_of(parts):
    """Formats the page, with lines of less than 80 columns where they may be wrapped."""
    lines, filled = [], True
    for line in "\n".join(parts).splitlines():
        filled = line == ".fi" or filled and line != ".nf"
        # The line after .TP is the tag of the item: it must not be wrapped.
        if filled and not line.startswith(".") and lines[-1] != ".TP":
            # A full stop or a quotation mark at the start of a line would be a command.
            lines += [
                ("\\&" if part[0] in ".'" else "") + part
                for part in textwrap.wrap(line, 78, break_long_words=False, break_on_hyphens=False)
            ]
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def alone(command, shared):
    """Its options, except those described before all commands."""
    return [described for described in map(entry, command.options) if described not in shared]


def described(command, shared):
    """A command of the client: its summary and its own options."""
    parts = [f".SS {literal(command.name)}", synopsis(command), ".PP", text(command.summary) + "."]
    for argument in command.arguments:
        parts.append(f".TP\n\\fI{argument.name}\\fR\n{text(argument.help)}")
    parts += alone(command, shared)
    return parts + [".PP\n" + text(command.footer)] * bool(command.footer)


def server_page(server, date):
    told = server.described
    parts = [title("ringside-server", 8, told["version"], date), ".SH NAME", f"ringside\\-server \\- {text(server.summary)}"]
    parts += [
        ".SH SYNOPSIS",
        f"\\fBringside\\-server\\fR {text(told['usage'])}",
        ".br",
        "\\fBringside\\-server keys\\fR \\fIVERB\\fR ...",
        ".br",
        "\\fBringside\\-server inspect\\fR \\fIPATH\\fR ...",
        ".br",
        "\\fBringside\\-server migrate\\fR \\fIFROM\\fR \\fITO\\fR",
    ]
    parts += [".SH DESCRIPTION", SERVER_WORDS, ".SH OPTIONS", "Defaults are shown in [brackets]."]
    group = None
    for option in server.options:
        if option.group != group:
            group = option.group
            parts.append(f".SS {text(group)}")
        parts.append(entry(option))
    for commands in server.commands:
        parts.append(f".SH {commands.path[-1].upper()}")
        for command in commands.all():
            parts += described(command, shared=[])
    parts += [".SH ENVIRONMENT AND CONFIGURATION FILE", text(told["sources"].strip())]
    parts += [".SH SIGNALS", SERVER_SIGNALS, ".SH EXIT STATUS", statuses(told["exit_codes"])]
    parts += [".SH FILES", SERVER_FILES, ".SH EXAMPLES", examples(told["examples"])]
    parts += [".SH SEE ALSO", ".BR ringside (1),", ".BR ringside\\-convert (1)"]
    return page_of(parts)


def command_page(root, date, page):
    """A page of section 1, with the program's commands if it has any."""
    commands = root.all()
    count = Counter(entry(option) for command in commands for option in command.options)
    shared = [described for described, commands_with_it in count.items() if commands_with_it >= SHARED_BY]
    parts = [title(root.name, 1, root.described["version"], date), ".SH NAME"]
    parts += [f"{literal(root.name)} \\- {text(root.summary.split(': ')[-1])}", ".SH SYNOPSIS"]
    parts.append(f"\\fB{literal(root.name)}\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]" if root.commands else synopsis(root))
    parts += [".SH DESCRIPTION", page.words] + [".PP\n" + text(root.footer)] * bool(root.footer) + [".SH OPTIONS"]
    parts += ["Options of several commands:"] + shared + [".PP"] if shared else []
    for argument in root.arguments:
        parts.append(f".TP\n\\fI{argument.name}\\fR\n{text(argument.help)}")
    parts += ["Without a command:"] * bool(root.commands) + alone(root, shared) + [".SH COMMANDS"] * bool(root.commands)
    for command in commands[1:]:
        parts += described(command, shared)
    parts += [".SH ENVIRONMENT\n" + page.environment] * bool(page.environment)
    parts += [".SH EXIT STATUS", statuses(page.statuses)]
    return page_of([*parts, ".SH EXAMPLES", examples(page.examples), ".SH SEE ALSO", page.see])
