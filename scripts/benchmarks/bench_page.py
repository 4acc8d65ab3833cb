"""Measures the frame rate of the chat page while a long answer streams; see scripts/bench_page."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/system"), str(ROOT / "tests/page")]
import tiny_model  # noqa: E402
from chat_page import ChatPage  # noqa: E402
from chromium import launch  # noqa: E402
from page_wire import Wire  # noqa: E402
from paused_server import PausedServer  # noqa: E402
from server_process import PATIENCE_S  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

SENTENCE = "The ring keeps what was said last, and **what leaves it** is `kept` on the disk all the same. "
SHAPES = {
    "prose": "## A heading\n\n" + SENTENCE * 3 + "\n\n- one item\n- another, with `code`\n\n```python\ndef turn(x):\n    return x + 1\n```\n\n",
    "one block of code": "    value = ring.push(position, 12)  # the oldest one goes\n",
    "one paragraph": SENTENCE,
    "one table": "| push | O(1) | the oldest one goes |\n",
}
BEGINNINGS = {"one block of code": "\n\n```python\n", "one paragraph": "\n\n", "one table": "\n\n| what | cost | note |\n|---|---|---|\n", "prose": "\n\n"}
# Writes a given number of characters per second, in token-sized pieces, and records each frame's time.
WRITE = """async ([beginning, text, perSecond]) => {
  wire.write(beginning, 1);
  const begun = performance.now();
  const frames = [begun];
  for (let told = 0; told < text.length || document.querySelector(".live .body").textContent.length === 0; ) {
    const now = await new Promise(requestAnimationFrame);
    frames.push(now);
    const due = Math.min(text.length, Math.round(((now - begun) * perSecond) / 1000));
    for (; told < due; told += 4) wire.write(text.slice(told, Math.min(told + 4, text.length)), 1);
  }
  for (let i = 0; i < 10; ++i) frames.push(await new Promise(requestAnimationFrame));
  return frames;
}"""


def measure(browser, server, shape, options):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_S * 1000)
    page = context.new_page()
    wire = Wire(page)
    page.goto(f"http://127.0.0.1:{server.port}/")
    ChatPage(page, server, wire).begin(characters=1)
    text = (SHAPES[shape] * (options.characters // len(SHAPES[shape]) + 1))[: options.characters]
    frames = page.evaluate(WRITE, [BEGINNINGS[shape], text, options.per_second])
    context.close()
    server.go_on()
    return frames


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--characters", type=int, default=100_000)
    parser.add_argument("--per-second", type=int, default=4_000)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ringside-bench-page-"))
    model = tiny_model.make(folder / "tiny.gguf", endless=True)
    print(f"{options.characters} characters, {options.per_second} a second")
    with PausedServer(model, folder=folder) as server, sync_playwright() as playwright:
        server.wait_until_ready()
        browser = launch(playwright)
        for shape in SHAPES:
            frames = measure(browser, server, shape, options)
            gaps = sorted(after - before for before, after in zip(frames, frames[1:]))
            seconds = (frames[-1] - frames[0]) / 1000
            late = [gap for gap in gaps if gap > 50]
            print(f"{shape:18} {len(gaps) / seconds:5.1f} frames/s   median {gaps[len(gaps) // 2]:5.1f} ms   "
                  f"99 % {gaps[len(gaps) * 99 // 100]:6.1f} ms   longest {gaps[-1]:6.1f} ms   over 50 ms: {len(late)} of {len(gaps)}")
        browser.close()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
