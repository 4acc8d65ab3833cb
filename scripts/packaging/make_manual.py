#!/usr/bin/env python3
"""Generates the manual pages and shell completions of all programs from their --describe output.

    scripts/packaging/make_manual.py build/cpu/bin FOLDER

Writes FOLDER/man8, man1 (compressed), bash, zsh and fish. The pages are dated by SOURCE_DATE_EPOCH, if set.
"""

import gzip
import os
import sys
import time
from pathlib import Path

import completion
import man_page
from command_line import ask_all


def files(server, client, bench, convert, date):
    """Name to content."""
    pages = {
        "man8/ringside-server.8.gz": man_page.server_page(server, date),
        "man1/ringside.1.gz": man_page.command_page(client, date, man_page.CLIENT),
        "man1/ringside-bench.1.gz": man_page.command_page(bench, date, man_page.BENCH),
        "man1/ringside-convert.1.gz": man_page.command_page(convert, date, man_page.CONVERT),
    }
    for root in (server, client, bench, convert):
        pages[f"bash/{root.name}"] = completion.bash(root)
        pages[f"zsh/_{root.name}"] = completion.zsh(root)
        pages[f"fish/{root.name}.fish"] = completion.fish(root)
    return pages


def main(programs, folder):
    made_s = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    date = time.strftime("%Y-%m-%d", time.gmtime(made_s))
    for name, content in files(*ask_all(programs), date).items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode()
        path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)


if __name__ == "__main__":
    main(*sys.argv[1:])
