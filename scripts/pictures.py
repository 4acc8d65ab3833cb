"""Makes the README's pictures: the page (docs/images/page.png) and the REPL (docs/images/repl.svg), with the default model.

    RINGSIDE_SERVER=... RINGSIDE_CLIENT=... RINGSIDE_TEST_MODEL="$(scripts/model)" scripts/python scripts/pictures.py

Needs tmux and chromium-headless-shell (scripts/install chromium-headless-shell tmux).
"""

import os
import re
import sys
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("RINGSIDE_SERVER", str(ROOT / "build/cpu/bin/ringside-server"))
os.environ.setdefault("RINGSIDE_CLIENT", str(ROOT / "build/cpu/bin/ringside"))
sys.path += [str(ROOT / "tests/clients"), str(ROOT / "tests/page"), str(ROOT / "tests/system")]

from chromium import launch  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402
from terminal_pane import Pane, Server  # noqa: E402

IMAGES = ROOT / "docs/images"
COLUMNS, LINES = 92, 26
QUESTIONS = ["Write a Python function that reverses a string.", "Which built-in function does the same for a list?"]
CELL_W, CELL_H, PAD = 8.4, 19, 16
BACKGROUND, TEXT, DIM = "#1c1b19", "#e6e2da", "#98928a"
COLOURS = ["#1c1b19", "#e06c60", "#8fbf7f", "#d9b36c", "#7fa7d9", "#c08fd0", "#7fc4c4", "#e6e2da"]


def style_after(style, codes):
    """The style (set of words, colour) after the codes of an SGR sequence."""
    words, colour = set(style[0]), style[1]
    codes = [int(code or 0) for code in codes.split(";")]
    while codes:
        code = codes.pop(0)
        if code == 0:
            words, colour = set(), None
        elif code in (1, 2, 3, 4, 7):
            words.add({1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse"}[code])
        elif code == 22:
            words -= {"bold", "dim"}
        elif 30 <= code <= 37 or 90 <= code <= 97:
            colour = COLOURS[code % 10]
        elif code == 39:
            colour = None
        elif code in (38, 48):
            rest = codes[:2] if codes[:1] == [5] else codes[:4]
            codes = codes[len(rest):]
            if code == 38 and rest[0] == 5 and rest[1] < 16:
                colour = COLOURS[rest[1] % 8]
    return frozenset(words), colour


def span(text, column, style):
    words, colour = style
    attributes = [f'x="{PAD + column * CELL_W:.1f}"', f'textLength="{len(text) * CELL_W:.1f}"']
    if colour or "dim" in words:
        attributes.append(f'fill="{colour or DIM}"')
    attributes += ['font-weight="bold"'] * ("bold" in words) + ['font-style="italic"'] * ("italic" in words)
    return f"<tspan {' '.join(attributes)}>{escape(text)}</tspan>"


def line_of(text, style):
    """A line's spans, and the style after it."""
    spans, column = [], 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", text):
        if part.startswith("\x1b"):
            style = style_after(style, part[2:-1])
        elif part:
            spans += [span(run[0], column + run.start(), style) for run in re.finditer(r"\S+(?: \S+)*", part)]
            column += len(part)
    return "".join(spans), style


def svg(screen):
    lines, style = screen.rstrip("\n").split("\n"), (frozenset(), None)
    width, height = 2 * PAD + COLUMNS * CELL_W, 2 * PAD + len(lines) * CELL_H
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-size="14" '
           'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace">',
           f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>']
    for number, line in enumerate(lines):
        spans, style = line_of(line, style)
        if spans:
            out.append(f'<text y="{PAD + (number + 0.75) * CELL_H:.1f}" fill="{TEXT}" xml:space="preserve">{spans}</text>')
    return "\n".join([*out, "</svg>\n"])


def picture_of_repl(server, folder):
    pane = Pane(folder, ["--url", f"http://127.0.0.1:{server.port()}"], COLUMNS, LINES)
    try:
        for question in QUESTIONS:
            pane.say(question)
        (IMAGES / "repl.svg").write_text(svg(pane.screen(colours=True)))
    finally:
        pane.close()


def picture_of_page(server):
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1120, "height": 700})
        page.goto(f"http://127.0.0.1:{server.port()}/")
        page.locator("#sidebar .entry").first.click()
        page.get_by_role("article", name="Answer").nth(len(QUESTIONS) - 1).wait_for()
        # The speed depends on the machine that takes the picture.
        page.evaluate("document.querySelectorAll('.stats span:nth-child(-n+2)').forEach(part => part.remove())")
        page.screenshot(path=IMAGES / "page.png")
        browser.close()


def main():
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, "--temperature", "0", "--max-output-tokens", "110", "--store-path", f"{folder}/store")
        try:
            picture_of_repl(server, folder)
            picture_of_page(server)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
