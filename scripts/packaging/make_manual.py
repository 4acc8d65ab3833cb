#!/usr/bin/env python3
"""Generates the manual pages and shell completions of both programs from their --describe output.

    scripts/packaging/make_manual.py build/cpu/bin/ringside-server build/cpu/bin/ringside FOLDER

Writes FOLDER/man8, man1 (compressed), bash, zsh and fish. The pages are dated by SOURCE_DATE_EPOCH, if set.
"""

import gzip
import os
import sys
import time
from pathlib import Path

import completion
import man_page
from command_line import ask_both


def files(server, client, date):
    """Name to content."""
    pages = {
        "man8/ringside-server.8.gz": man_page.server_page(server, date),
        "man1/ringside.1.gz": man_page.client_page(client, date),
    }
    for root in (server, client):
        pages[f"bash/{root.name}"] = completion.bash(root)
        pages[f"zsh/_{root.name}"] = completion.zsh(root)
        pages[f"fish/{root.name}.fish"] = completion.fish(root)
    return pages


def main(server, client, folder):
    made_s = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    date = time.strftime("%Y-%m-%d", time.gmtime(made_s))
    for name, content in files(*ask_both(server, client), date).items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode()
        path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)


if __name__ == "__main__":
    main(*sys.argv[1:])
