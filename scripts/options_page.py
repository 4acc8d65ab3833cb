#!/usr/bin/env python3
"""The tables of docs/operating/options.md, generated from `ringside-server --describe`.

    scripts/options_page.py [--server PATH]            # prints the page
    scripts/options_page.py [--server PATH] --write    # writes it
    scripts/options_page.py [--server PATH] --check    # fails if the page is out of date or a cell is too long

The text before and after the marks of the tables is written by hand.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/packaging"))

from command_line import ask, read_command  # noqa: E402

PAGE = ROOT / "docs/operating/options.md"
BEGIN, END = "<!-- options -->\n", "<!-- /options -->"
MAX_CELL = 200


def cell(text):
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def row(option):
    """Flags and value, default, meaning. A default is in brackets at the end of the help."""
    meaning, default = re.fullmatch(r"(.*?)(?: \[([^][]*)\])?", option.help, re.DOTALL).groups()
    flags = ", ".join(f"`{flag}`" for flag in option.flags)
    value = f" `{option.value}`".replace("|", "\\|") if option.value else ""
    return [flags + value, cell(default or ""), cell(meaning)]


def tables(server):
    """Markdown: a heading and a table for each group of options, in the order of --help."""
    groups = {}
    for option in read_command(ask(server)).options:
        groups.setdefault(option.group, []).append(row(option))
    for rows in groups.values():
        for cells in rows:
            if long := [text for text in cells if len(text) > MAX_CELL]:
                sys.exit(f"a cell of {len(long[0])} characters; {MAX_CELL} are allowed: {long[0]}")
    return "\n".join(
        f"## {heading}\n\n| option | default | meaning |\n| --- | --- | --- |\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
        for heading, rows in groups.items()
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default=ROOT / "build/cpu/bin/ringside-server", help="the program to ask")
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--check", action="store_true", help="fail if the page is out of date")
    options = parser.parse_args()
    old = PAGE.read_text()
    before, rest = old.split(BEGIN)
    new = before + BEGIN + "\n" + tables(options.server) + "\n" + END + rest.split(END)[1]
    if options.write:
        PAGE.write_text(new)
    elif not options.check:
        print(new, end="")
    elif new != old:
        sys.exit(f"{PAGE.relative_to(ROOT)} is out of date: scripts/options_page.py --write")


if __name__ == "__main__":
    main()
