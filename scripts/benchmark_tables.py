#!/usr/bin/env python3
"""The tables of docs/BENCHMARKS.md, from the measurements in docs/benchmarks/*.json.

    scripts/benchmark_tables.py                    # lists the tables
    scripts/benchmark_tables.py cpu/decode ...     # prints these, with machine, command and notes
    scripts/benchmark_tables.py --write            # renders the page's tables, each between its two marks, and the list of all
    scripts/benchmark_tables.py --check            # fails if the page is out of date or a file is malformed
"""

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs/benchmarks"
PAGE = ROOT / "docs/BENCHMARKS.md"


def tables():
    """Name ("cpu/decode") to table: title, columns, rows; machine, command and notes where known."""
    found = {}
    for file in sorted(DATA.glob("*.json")):
        for name, table in json.loads(file.read_text()).items():
            if bad := [row for row in table["rows"] if len(row) != len(table["columns"])]:
                sys.exit(f"{file.name}: {name}: {len(table['columns'])} columns, but a row {bad[0]}")
            found[f"{file.stem}/{name}"] = table
    return found


def markdown(columns, rows):
    return "\n".join("| " + " | ".join(line) + " |" for line in [columns, ["---"] * len(columns), *rows])


def rendered(table):
    return markdown(table["columns"], table["rows"])


def list_of(all_tables):
    rows = []
    for name, table in all_tables.items():
        file = name.split("/")[0]
        rows.append([f"[{name}](benchmarks/{file}.json)", table["title"]])
    return markdown(["table", "measurement"], rows)


def with_tables(text, all_tables):
    """The page with its tables as the data have them."""
    def replaced(match):
        name = match[1]
        body = list_of(all_tables) if name == "list" else rendered(all_tables[name])
        return f"<!-- {name} -->\n{body}\n<!-- /{name} -->"

    return re.sub(r"<!-- ([\w/-]+) -->\n.*?<!-- /\1 -->", replaced, text, flags=re.DOTALL)


def show(name, table):
    print(f"{name}: {table['title']}")
    print(*(f"{key}: {table[key]}" for key in ("machine", "command") if key in table), sep="\n")
    print(f"\n{rendered(table)}\n")
    print(*(f"- {note}" for note in table.get("notes", [])), sep="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="tables to print, such as cpu/decode")
    parser.add_argument("--write", action="store_true", help="render the tables of the page")
    parser.add_argument("--check", action="store_true", help="fail if the page is out of date")
    options = parser.parse_args()
    all_tables, old = tables(), PAGE.read_text()
    new = with_tables(old, all_tables)
    if options.write:
        PAGE.write_text(new)
    elif options.check and new != old:
        sys.exit("docs/BENCHMARKS.md is out of date: scripts/benchmark_tables.py --write")
    elif not options.check:
        for name in options.names:
            show(name, all_tables[name])
        print(*([] if options.names else all_tables), sep="\n")


if __name__ == "__main__":
    main()
